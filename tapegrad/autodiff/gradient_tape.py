"""GradientTape: TensorFlow's interface to the recording and the sweep."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, overload

from tapegrad.autodiff import batching
from tapegrad.autodiff.arguments import (
    UnconnectedGradients,
    as_unconnected,
    check_tensors,
    may_have_zeros,
    seeds_for,
)
from tapegrad.autodiff.plan import Plan
from tapegrad.autodiff.recording import Recording
from tapegrad.autodiff.reported import note_losses, note_lost
from tapegrad.autodiff.results import finished, is_finished, total
from tapegrad.autodiff.sweep import Sweep
from tapegrad.core import exits
from tapegrad.core.event_log import LOGS
from tapegrad.core.recorder import Node
from tapegrad.core.uninterrupted import starts_uninterrupted
from tapegrad.core.values import nest
from tapegrad.core.values.convert import to_tensor
from tapegrad.core.values.tensor import Tensor
from tapegrad.core.values.variable import Variable
from tapegrad.errors import ArgumentError, ArgumentTypeError, ShapeError, TapeError
from tapegrad.ops import creation
from tapegrad.ops.casting import cast

if TYPE_CHECKING:
    from tapegrad.autodiff import per_example


class GradientTape(Recording):
    """Record operations for automatic differentiation.

    The tape watches trainable variables that are read inside its block. Use `watch` for other
    tensors.

    >>> import tapegrad
    >>> x = tapegrad.constant(3.0)
    >>> with GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = x * x
    >>> float(tape.gradient(y, x))
    6.0

    If a gradient is None, `on_none="warn"` warns and `on_none="raise"` raises with the reason that
    `explain` gives.
    """

    def __init__(
        self,
        persistent: bool = False,
        watch_accessed_variables: bool = True,
        on_none: str | None = None,
    ) -> None:
        if on_none not in (None, "warn", "raise"):
            raise ArgumentError(f"on_none must be None, 'warn' or 'raise'. Got {on_none!r}.")
        super().__init__(persistent, watch_accessed_variables)
        self._on_none = on_none

    @overload
    def gradient(
        self,
        target: Any,
        sources: Tensor | Variable,
        output_gradients: Any = ...,
        unconnected_gradients: Any = ...,
    ) -> Tensor: ...
    @overload
    def gradient(
        self,
        target: Any,
        sources: list[Tensor] | list[Variable],
        output_gradients: Any = ...,
        unconnected_gradients: Any = ...,
    ) -> list[Tensor]: ...
    @overload
    def gradient(
        self,
        target: Any,
        sources: Any,
        output_gradients: Any = ...,
        unconnected_gradients: Any = ...,
    ) -> Any: ...
    def gradient(
        self,
        target: Any,
        sources: Any,
        output_gradients: Any = None,
        unconnected_gradients: Any = UnconnectedGradients.NONE,
    ) -> Any:
        """Return the gradient of the (summed) target with respect to each source.

        The result has the structure of `sources`. `output_gradients` are the cotangents of the
        targets, ones by default. `unconnected_gradients` is "none" or "zero": the gradient of a
        source that the target does not depend on.
        """
        self._check_usable("gradient")
        unconnected = as_unconnected(unconnected_gradients)
        if target is None:
            raise ArgumentTypeError("target must be a tensor or a structure of them. Got None.")
        targets = check_tensors(nest.flatten(target), "target", self._in_sight, self)
        flat = check_tensors(nest.flatten(sources), "sources")
        seeds = seeds_for(targets, output_gradients)
        reasons = None if self._on_none is None else [self.explain(targets, s) for s in flat]
        self._begin()
        any_seed = output_gradients is not None and may_have_zeros(seeds)
        grads = self._gradients(targets, seeds, flat, any_seed)
        results = [
            grad
            if self.frame is None and is_finished(source, grad)
            else finished(source, grad, unconnected)
            for source, grad in zip(flat, grads, strict=True)
        ]
        self._end()
        lost = [source for source, grad in zip(flat, grads) if grad is None]
        if LOGS:
            note_losses(targets)
            note_lost(partial(self.explain, targets), lost)
        if reasons is not None:
            self._report_none(reasons, results)
        elif lost:
            self._report_lost(lost, unconnected)
        return nest.pack_sequence_as(sources, results)

    def jacobian(
        self,
        target: Any,
        sources: Any,
        unconnected_gradients: Any = UnconnectedGradients.NONE,
        parallel_iterations: int | None = None,
        experimental_use_pfor: bool = True,
        chunk_size: int | None = None,
    ) -> Any:
        """Return d target / d source with shape target.shape + source.shape, per source.

        All rows are computed in one sweep. `chunk_size` (or `parallel_iterations`) limits the
        number of rows per sweep, which limits the memory.
        """
        from tapegrad.autodiff.jacobian import check_chunk  # slow to import

        self._check_usable("jacobian")
        unconnected = as_unconnected(unconnected_gradients)
        flat = check_tensors(nest.flatten(sources), "sources")
        targets = check_tensors(nest.flatten(target), "target", self._in_sight, self)
        chunk = check_chunk(chunk_size, parallel_iterations)
        if not experimental_use_pfor and not self._persistent:
            raise TapeError(
                "jacobian(experimental_use_pfor=False) needs GradientTape(persistent=True)."
            )
        self._begin()
        results = [self._jacobian_of(one, flat, unconnected, chunk) for one in targets]
        known = set(self._found)
        lost = [x for x in flat if known.isdisjoint(map(id, self._source_nodes(x)))]
        self._end()
        self._release_history_of(targets)
        if lost:
            self._report_lost(lost, unconnected)
        packed = [nest.pack_sequence_as(sources, result) for result in results]
        return nest.pack_sequence_as(target, packed)

    def _jacobian_of(self, target: Any, flat: list[Any], unconnected: Any, chunk: Any) -> Any:
        from tapegrad.autodiff import jacobian, per_example  # slow to import

        node = self._target_node(target, flat)
        sources = self._sources(flat)
        shape = tuple(target.shape)
        inside, sizes = per_example.examples_of(target, self.frame)
        rows = jacobian.by_rows(
            inside,
            shape,
            lambda seed: per_example.rows(
                self._sweep, [(node, seed)] if node else [], sizes, sources
            ),
            len(flat),
            chunk,
        )
        return [
            jacobian.finished_rows(source, grad, shape, tuple(sizes), unconnected)
            for source, grad in zip(flat, rows, strict=True)
        ]

    def batch_jacobian(
        self,
        target: Any,
        source: Any,
        unconnected_gradients: Any = UnconnectedGradients.NONE,
        parallel_iterations: int | None = None,
        experimental_use_pfor: bool = True,
        chunk_size: int | None = None,
        check_independence: bool = False,
    ) -> Any:
        """Return the Jacobian of each example, shape [batch, target rest..., source rest...].

        Examples must be independent. `check_independence=True` checks that, at the cost of a full
        Jacobian.
        """
        from tapegrad.autodiff import jacobian  # slow to import

        self._check_usable("batch_jacobian")
        as_unconnected(unconnected_gradients)
        check_tensors([target], "target", log=self)
        check_tensors([source], "source")
        jacobian.check_batch(target, source)
        if self._levels:
            raise TapeError("batch_jacobian() is for use outside vmap. Use jacobian() inside it.")
        chunk = jacobian.check_chunk(chunk_size, parallel_iterations)
        self._begin()
        node = self._target_node(target, [source])
        wanted = [self._source_nodes(source)]

        def sweep(seed: Any) -> Any:
            grad = self._sweep([(node, seed)] if node else [], wanted, keep=True)[0]
            return None if grad is None else cast.gradient_in_dtype(grad, source.dtype)

        result = jacobian.by_examples(to_tensor(target), source, sweep, chunk, check_independence)
        self._end()
        self._release_history_of([target])
        return result

    def hessian(self, target: Any, source: Any, chunk_size: int | None = None) -> Any:
        """Return the Hessian of a scalar target, shape source.shape + source.shape.

        The tape must be persistent. The method may be called inside or outside its block.

        >>> import tapegrad
        >>> x = tapegrad.constant([1.0, 2.0])
        >>> with GradientTape(persistent=True) as tape:
        ...     tape.watch(x)
        ...     y = x[0] ** 2 * x[1]
        >>> tape.hessian(y, x).tolist()
        [[4.0, 2.0], [2.0, 0.0]]
        """
        outer, grad = self._recorded_gradient(target, source, "hessian")
        zero = UnconnectedGradients.ZERO
        if grad is None:
            size = (*source.shape, *source.shape)
            return creation.zeros_for(to_tensor(source), size, source.dtype.dtype)
        return outer.jacobian(grad, source, zero, chunk_size=chunk_size)

    def hvp(self, target: Any, source: Any, vector: Any) -> Any:
        """Return the Hessian of a scalar target times `vector`. The tape must be persistent.

        >>> import tapegrad
        >>> x = tapegrad.constant([1.0, 2.0])
        >>> with GradientTape(persistent=True) as tape:
        ...     tape.watch(x)
        ...     y = x[0] ** 2 * x[1]
        >>> tape.hvp(y, x, tapegrad.constant([1.0, 0.0])).tolist()
        [4.0, 2.0]
        """
        outer, grad = self._recorded_gradient(target, source, "hvp")
        if grad is None:
            return creation.zeros_like(source)
        return outer.gradient(grad, source, vector, UnconnectedGradients.ZERO)

    def _recorded_gradient(self, target: Any, source: Any, method: str) -> tuple[Any, Any]:
        """Return the tape that recorded the sweep (this one, entered again) and the gradient."""
        self._check_usable(method)
        if not self._persistent:
            raise TapeError(f"{method}() needs GradientTape(persistent=True).")
        check_tensors([target], "target", log=self)
        check_tensors([source], "source")
        if tuple(target.shape):
            raise ShapeError(f"{method}() needs a scalar target. Got shape {target.shape}.")
        if self._recording:
            return self, self.gradient(target, source)
        with self:
            grad = self._quiet_gradient(target, source)
        return self, grad

    def _quiet_gradient(self, target: Any, source: Any) -> Any:
        grad = self._gradients([target], [creation.ones_like(target)], [source], False)[0]
        return finished(source, grad, UnconnectedGradients.NONE)

    def _gradients(
        self, targets: list[Any], seeds: list[Any], sources: list[Any], any_seed: bool
    ) -> list[Any]:
        starts, given = [], []
        has_examples = bool(self._levels)
        for one, seed in zip(targets, seeds, strict=True):
            node = self._target_node(one, sources)
            if node is not None:
                starts.append((node, seed))
                given.append(one)
                has_examples = has_examples or type(one) is batching.Batched
        if has_examples:
            from tapegrad.autodiff import per_example  # slow to import

            return per_example.gradients(
                self._sweep, given, starts, self._sources(sources), self.frame
            )
        nodes = [self._source_nodes(source) for source in sources]
        return self._sweep(starts, nodes, any_seed=any_seed)

    def _sources(self, flat: list[Any]) -> list[per_example.Source]:
        from tapegrad.autodiff import per_example  # slow to import

        levels = tuple(self._levels)
        return [per_example.source_of(one, self._source_nodes(one), levels) for one in flat]

    def _sweep(
        self,
        starts: list[tuple[Node, Any]],
        wanted: list[list[Node]],
        keep: bool = False,
        any_seed: bool = True,
        level: int | None = None,
    ) -> list[Any]:
        """Sweep and return per source the sum over its nodes, or None.

        `keep` leaves the history for another sweep. `any_seed`: the seeds may contain zeros. With a
        `level`, gradients by values that examples share are batches of that level.
        """
        everything = [node for nodes in wanted for node in nodes]
        ends = [node for node, _ in starts]
        plan = Plan(ends, everything, self.token, any_seed)
        sweep = Sweep(plan, self.token, not (self._persistent or keep), level)
        if batching.current_frame() is None:
            found = sweep.run(starts)
        else:  # nodes belong to whole arrays, not to single examples
            with batching.in_frame(None):
                found = sweep.run(starts)
        self._swept += (*map(id, ends),)
        self._asked += (*map(id, everything),)
        self._found += (*map(id, found),)
        return [
            found.get(nodes[0])
            if len(nodes) == 1
            else total([found[node] for node in nodes if node in found])
            for nodes in wanted
        ]

    def _report_none(self, reasons: list[str], results: list[Any]) -> None:
        from tapegrad.autodiff import explain  # slow to import

        for reason, result in zip(reasons, results, strict=True):
            if result is None and self._on_none is not None:
                explain.report(reason, self._on_none)

    def _report_lost(self, lost: list[Any], unconnected: UnconnectedGradients) -> None:
        """Name the lines where values left the tape if sources have no gradient because of that."""
        from tapegrad.autodiff import explain  # slow to import

        is_zero = unconnected is UnconnectedGradients.ZERO
        if self.warns_of_numbers or not is_zero:  # zeros were requested
            explain.report_lost(self, lost, is_zero)

    def explain(self, target: Any, source: Any) -> str:
        """Return a sentence that says why the gradient is None, or that it is not.

        It names the line where a value left the tape. It may be called before and after `gradient`.
        """
        from tapegrad.autodiff import explain  # slow to import

        source = check_tensors([source], "source")[0]
        try:
            targets = check_tensors(nest.flatten(target), "target", self._in_sight, self)
        except ArgumentTypeError as error:  # the target is a number or an array
            return str(error)
        return explain.explain(self, targets, source)


class TransformTape(GradientTape):
    """The tape of a transform such as `grad`, which users do not see.

    They cannot ask it for an explanation, so it warns of every value that leaves it.
    """

    warns_of_numbers = True

    @starts_uninterrupted
    def __exit__(self, kind: Any = None, error: Any = None, traceback: Any = None) -> None:
        GradientTape.__exit__(self)
        exits.raise_cause(error)
