"""GradientTape: TensorFlow's class, thin over the recorder stack and the sweep."""

from __future__ import annotations

import warnings
import weakref
from collections import deque
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from tapegrad.autodiff import batching, explain, jacobian, per_example
from tapegrad.autodiff.arguments import (
    UnconnectedGradients,
    as_unconnected,
    check_tensors,
    check_watchable,
    seeds_for,
    warn_few_times,
    warn_once,
)
from tapegrad.autodiff.follow import follow
from tapegrad.autodiff.plan import Plan
from tapegrad.autodiff.results import is_finished, total
from tapegrad.autodiff.sweep import Sweep, release
from tapegrad.core import nest
from tapegrad.core.convert import to_tensor
from tapegrad.core.indexed_slices import IndexedSlices
from tapegrad.core.recorder import (
    Node,
    Operation,
    Stack,
    Token,
    active_stack,
    enter_recorder,
    leave_recorder,
    make_leaf,
    replace_recorder,
    using_stack,
)
from tapegrad.core.tensor import Tensor
from tapegrad.core.variable import Variable
from tapegrad.errors import ArgumentError, ArgumentTypeError, ShapeError, TapeError
from tapegrad.ops import cast, creation


class GradientTape:
    """Record operations for automatic differentiation.

    Trainable variables that are read inside the block are watched; other tensors by `watch`.

    >>> import tapegrad
    >>> x = tapegrad.constant(3.0)
    >>> with GradientTape() as tape:
    ...     tape.watch(x)
    ...     y = x * x
    >>> float(tape.gradient(y, x))
    6.0

    `on_none` says what happens when a gradient is None: nothing (None), "warn" or "raise", the
    latter two with the reason that `explain` gives.
    """

    notes_cuts = True

    def __init__(
        self,
        persistent: bool = False,
        watch_accessed_variables: bool = True,
        on_none: str | None = None,
    ) -> None:
        if on_none not in (None, "warn", "raise"):
            raise ArgumentError(f"on_none must be None, 'warn' or 'raise'. Got {on_none!r}.")
        self.token = Token(keeps_history=True)
        self.listens = persistent
        self.watches_variables = watch_accessed_variables
        self.frame = batching.current_frame()
        around = () if self.frame is None else batching.frames_around(self.frame)
        self._levels = [frame.level for frame in around]
        self._persistent = persistent
        self._on_none = on_none
        self._recording = False
        self._entered = False
        self._used_up = ""
        self._variables: dict[int, tuple[Variable, list[Node]]] = {}
        self._per_example: dict[Any, Tensor] = {}
        self.cuts: deque[explain.Cut] = deque(maxlen=256)
        if persistent:
            self._history: weakref.WeakSet[Node] = weakref.WeakSet()

    # Life cycle

    def __enter__(self) -> GradientTape:
        if self._recording:
            raise ArgumentError("Tape is still recording: it cannot be entered twice at a time.")
        if self._used_up:
            self._start_anew()
        self._recording = self._entered = True
        enter_recorder(self)
        return self

    def __exit__(self, *_: object) -> None:
        if self._recording:
            self._stop()

    def _stop(self) -> None:
        leave_recorder(self)
        self._recording = False

    def _start_anew(self) -> None:
        """Forget everything recorded: a new token makes all old nodes foreign."""
        self.token.open = False
        self.token = Token(keeps_history=True)
        self._used_up = ""
        self._variables.clear()
        self._per_example.clear()
        self.cuts.clear()

    @contextmanager
    def stop_recording(self) -> Iterator[None]:
        """Silence this tape (and only this one) inside the block."""
        if not self._recording:
            raise TapeError("stop_recording() needs a tape that is recording: enter it first.")
        try:
            with using_stack(active_stack().without(self)):
                yield
        finally:
            self._leave_if_stopped()

    def _leave_if_stopped(self) -> None:
        """A gradient() inside stop_recording() ends the recording for good."""
        if not self._recording:
            leave_recorder(self)

    def reset(self) -> None:
        """Throw away everything recorded and watched, and go on recording."""
        if not self._recording:
            raise ArgumentError("reset() needs a tape that is recording. Call it in its block.")
        self._start_anew()
        replace_recorder(self)

    def clear(self) -> None:
        """Release everything this tape has kept alive; it can be entered anew."""
        if self._recording:
            raise TapeError("clear() needs a tape that is not recording. Leave its block first.")
        self._release_history()
        self._start_anew()

    def _release_history(self) -> None:
        self.token.open = False
        if not self._persistent:
            return
        for node in self._history:
            if not any(token.open and token.keeps_history for token in node.tokens):
                release(node)
        self._history.clear()

    def __del__(self) -> None:
        token = getattr(self, "token", None)  # absent when __init__ raised
        if token is not None:
            token.open = False
            self._release_history()

    def __reduce__(self) -> Any:
        raise ArgumentTypeError(
            "A GradientTape cannot be pickled: it belongs to the computation it recorded. "
            "Pickle the variables or the gradients instead."
        )

    # What the recorder stack asks of a recorder

    def hear(self, operation: Operation) -> None:
        """Remember weakly what a persistent tape must release when it ends."""
        for node in operation.outputs:
            if node is not None:
                self._history.add(node)
                self._history.update(source for source in node.inputs if source is not None)

    def follows_variable(self, variable: Variable, node: Node) -> bool:
        """Say whether reads of the variable are followed, and remember the leaf."""
        known = self._variables.get(variable.number)
        if known is not None:
            known[1].append(node)
        elif self.watches_variables and variable.trainable:
            self._variables[variable.number] = (variable, [node])
        else:
            return False
        return variable.dtype.is_differentiable

    def read_per_example(self, variable: Variable) -> Any:
        """Read a variable for a tape made inside vmap: one copy (a view) per example."""
        stack = active_stack()
        key = (variable.number, id(variable.array), stack.tokens)
        known = self._per_example.get(key)
        if known is None:
            inside = [r for r in stack.recorders if r.frame is self.frame]
            with using_stack(Stack(tuple(r for r in stack.recorders if r not in inside))):
                known = batching.per_example(variable.value(), self.frame)
            for recorder in inside:
                node = follow(batching.peel(known)[0], recorder.token)
                recorder.follows_variable(variable, node)
            self._per_example[key] = known
        return known

    def note_cut(self, reason: str, node: Node, where: str) -> None:
        """Remember where followed values ended, for `explain`."""
        self.cuts.append(explain.Cut(reason, weakref.ref(node), where))

    # Watching

    def watch(self, tensor: Any) -> None:
        """Follow a tensor, a variable, or every one in a nested structure."""
        leaves = nest.flatten(tensor)
        for position, leaf in enumerate(leaves):
            check_watchable(leaf, position)
        if not self._recording:
            raise TapeError("watch() works while the tape records: enter the tape first.")
        if not leaves:
            warnings.warn("watch() got an empty structure: nothing is watched.", stacklevel=2)
        for leaf in leaves:
            self._watch_leaf(leaf)

    def _watch_leaf(self, leaf: Any) -> None:
        if not leaf.dtype.is_differentiable:
            warn_few_times(
                f"The dtype of the watched tensor must be floating (e.g. float32). "
                f"Got {leaf.dtype}: its gradient will be None."
            )
            if isinstance(leaf, Variable):
                self._variables.setdefault(leaf.number, (leaf, []))
        elif isinstance(leaf, Variable):
            self._variables.setdefault(leaf.number, (leaf, []))
            leaf.forget_leaf()
        else:
            follow(self._inside(leaf), self.token)

    def _inside(self, value: Any) -> Tensor:
        """The tensor that this tape really records: with all examples of the vmaps around it."""
        if type(value) is Tensor:
            return value
        inside, levels = batching.peel(value)
        others = [level for level in levels if level not in self._levels]
        # Others may be the rows of a jacobian that calls a custom gradient's function.
        if others and batching.is_running(others):
            raise TapeError(
                "A tape made outside vmap cannot differentiate one example inside it. Make the "
                "tape inside the mapped function, or differentiate what vmap returns."
            )
        return inside  # type: ignore[no-any-return]

    def watched_variables(self) -> tuple[Variable, ...]:
        """Return the variables this tape has seen, in the order of their creation."""
        return tuple(self._variables[number][0] for number in sorted(self._variables))

    # Differentiation

    def gradient(
        self,
        target: Any,
        sources: Any,
        output_gradients: Any = None,
        unconnected_gradients: Any = UnconnectedGradients.NONE,
    ) -> Any:
        """Return the gradient of the (summed) target with respect to each source.

        The result has the structure of `sources`. `output_gradients` weighs the targets;
        `unconnected_gradients` ("none" or "zero") says what stands for no connection.
        """
        self._check_usable()
        unconnected = as_unconnected(unconnected_gradients)
        if target is None:
            raise ArgumentTypeError("target must be a tensor or a structure of them. Got None.")
        targets = check_tensors(nest.flatten(target), "target", self._in_sight)
        flat = check_tensors(nest.flatten(sources), "sources")
        seeds = seeds_for(targets, output_gradients)
        reasons = None if self._on_none is None else [self.explain(targets, s) for s in flat]
        self._begin()
        grads = self._gradients(targets, seeds, flat)
        results = [
            grad
            if self.frame is None and is_finished(source, grad)
            else self._finish(source, grad, unconnected)
            for source, grad in zip(flat, grads, strict=True)
        ]
        self._end()
        if reasons is not None:
            self._report_none(reasons, results)
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

        All rows are swept together; `chunk_size` (or `parallel_iterations`) bounds how many at a
        time, and so the memory.
        """
        self._check_usable()
        unconnected = as_unconnected(unconnected_gradients)
        flat = check_tensors(nest.flatten(sources), "sources")
        targets = check_tensors(nest.flatten(target), "target", self._in_sight)
        chunk = jacobian.check_chunk(chunk_size, parallel_iterations)
        if not experimental_use_pfor and not self._persistent:
            raise TapeError(
                "jacobian(experimental_use_pfor=False) needs GradientTape(persistent=True)."
            )
        self._begin()
        results = [self._jacobian_of(one, flat, unconnected, chunk) for one in targets]
        self._end()
        self._release_history_of(targets)
        packed = [nest.pack_sequence_as(sources, result) for result in results]
        return nest.pack_sequence_as(target, packed)

    def _jacobian_of(self, target: Any, flat: list[Any], unconnected: Any, chunk: Any) -> Any:
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
            self._finish_rows(source, grad, shape, tuple(sizes), unconnected)
            for source, grad in zip(flat, rows, strict=True)
        ]

    def _finish_rows(
        self, source: Any, rows: Any, shape: tuple[int, ...], levels: tuple[int, ...], mode: Any
    ) -> Any:
        full = (*shape, *source.shape)
        if rows is not None:
            rows = cast.in_dtype(rows, source.dtype)
            return batching.dress(jacobian.shaped(rows, full, len(levels)), levels)
        if mode is UnconnectedGradients.NONE:
            return None
        example = source.value() if isinstance(source, Variable) else source
        return creation.zeros_for(example, full, source.dtype.dtype)

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
        """Return the per-example jacobian, shape [batch, target rest..., source rest...].

        Examples must not influence each other; `check_independence=True` proves it (at the cost
        of a full jacobian) or raises.
        """
        self._check_usable()
        as_unconnected(unconnected_gradients)
        check_tensors([target], "target")
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
            return None if grad is None else cast.in_dtype(grad, source.dtype)

        result = jacobian.by_examples(to_tensor(target), source, sweep, chunk, check_independence)
        self._end()
        self._release_history_of([target])
        return result

    def hessian(self, target: Any, source: Any, chunk_size: int | None = None) -> Any:
        """Return the second derivatives of a scalar target: shape source.shape twice.

        Needs a persistent tape, and may be called inside or outside its block.

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
        """Return the Hessian of a scalar target times `vector`. Needs a persistent tape.

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
        """The gradient as a function on a tape: this one, entered again to record the sweep."""
        if not self._persistent:
            raise TapeError(f"{method}() needs GradientTape(persistent=True).")
        check_tensors([target], "target")
        check_tensors([source], "source")
        if tuple(target.shape):
            raise ShapeError(f"{method}() needs a scalar target. Got shape {target.shape}.")
        if self._recording:
            return self, self.gradient(target, source)
        with self:
            grad = self._quiet_gradient(target, source)
        return self, grad

    def _quiet_gradient(self, target: Any, source: Any) -> Any:
        grad = self._gradients([target], [creation.ones_like(target)], [source])[0]
        return self._finish(source, grad, UnconnectedGradients.NONE)

    # Steps of a differentiation

    def _check_usable(self) -> None:
        if self._used_up:
            raise TapeError(
                "A non-persistent GradientTape can only be used to compute one set of gradients "
                f"(or jacobians). {self._used_up} Create it with GradientTape(persistent=True) to "
                "differentiate more than once, or record the computation again."
            )

    def _begin(self) -> None:
        """Stop or warn as the kind of tape demands, before a differentiation."""
        if not self._persistent:
            if self._recording:
                self._stop()
            self._used_up = "An earlier call failed half-way."
        elif self._recording:
            warn_once(
                "Calling gradient() on a persistent tape inside its block records the backward "
                "pass too, which costs time and memory. Do it only for higher-order derivatives."
            )

    def _end(self) -> None:
        """Mark a one-shot tape as used up."""
        if not self._persistent:
            self._used_up = "It was used up by an earlier call."
            self.token.open = False

    def _release_history_of(self, targets: list[Any]) -> None:
        """Free what a one-shot tape kept for the targets; a gradient's sweep does so on its way."""
        if self._persistent:
            return
        ends = [node for target in targets for node in self._source_nodes(target)]
        for node in Plan(ends, (), self.token).nodes:
            if not any(token.open and token.keeps_history for token in node.tokens):
                release(node)

    def _in_sight(self) -> AbstractContextManager[None]:
        """Let this tape see what happens in the block, even after its own was left."""
        stack = active_stack()
        return using_stack(stack if self in stack.recorders else stack.with_recorder(self))

    def _source_nodes(self, source: Any) -> list[Node]:
        if isinstance(source, Variable):
            return self._variables.get(source.number, (source, []))[1]
        node = (source if type(source) is Tensor else self._inside(source)).node
        return [node] if node is not None and self.token in node.tokens else []

    def _target_node(self, target: Any, sources: list[Any]) -> Node | None:
        """The node to start from; a target that is itself a source is one even unwatched."""
        if not target.dtype.is_differentiable:
            return None
        nodes = self._source_nodes(target)
        if isinstance(target, Variable):
            nodes = [leaf for leaf in nodes if leaf.fit is None]  # not those of its casts
        if nodes:
            return nodes[0]
        if not any(target is source for source in sources):
            return None
        if isinstance(target, Variable):
            leaf = make_leaf((self.token,))
            self._variables.setdefault(target.number, (target, []))[1].append(leaf)
            return leaf
        return follow(self._inside(target), self.token)

    def _gradients(self, targets: list[Any], seeds: list[Any], sources: list[Any]) -> list[Any]:
        starts = []
        has_examples = bool(self._levels)
        given = []
        for one, seed in zip(targets, seeds, strict=True):
            node = self._target_node(one, sources)
            if node is not None:
                starts.append((node, seed))
                given.append(one)
                has_examples = has_examples or type(one) is batching.Batched
        if has_examples:
            return per_example.gradients(
                self._sweep, given, starts, self._sources(sources), self.frame
            )
        return self._sweep(starts, [self._source_nodes(source) for source in sources])

    def _sources(self, flat: list[Any]) -> list[per_example.Source]:
        levels = tuple(self._levels)
        return [per_example.source_of(one, self._source_nodes(one), levels) for one in flat]

    def _sweep(
        self, starts: list[tuple[Node, Any]], wanted: list[list[Node]], keep: bool = False
    ) -> list[Any]:
        """Run the sweep and return per source the sum over its nodes, or None."""
        everything = [node for nodes in wanted for node in nodes]
        plan = Plan([node for node, _ in starts], everything, self.token)
        sweep = Sweep(plan, self.token, release=not (self._persistent or keep))
        if batching.current_frame() is None:
            found = sweep.run(starts)
        else:  # nodes are of whole arrays, not of examples
            with batching.in_frame(None):
                found = sweep.run(starts)
        return [
            found.get(nodes[0])
            if len(nodes) == 1
            else total([found[node] for node in nodes if node in found])
            for nodes in wanted
        ]

    def _finish(self, source: Any, grad: Any, unconnected: UnconnectedGradients) -> Any:
        if grad is None:
            if not source.dtype.is_differentiable:
                warn_few_times(f"A source has dtype {source.dtype}: its gradient is None.")
            if unconnected is UnconnectedGradients.NONE:
                return None
            return creation.zeros_like(source)
        if not isinstance(grad, IndexedSlices) and grad.dtype is not source.dtype:
            grad = cast.cast(grad, source.dtype)
        return grad

    def _report_none(self, reasons: list[str], results: list[Any]) -> None:
        for reason, result in zip(reasons, results, strict=True):
            if result is None and self._on_none is not None:
                explain.report(reason, self._on_none)

    def explain(self, target: Any, source: Any) -> str:
        """Say in one sentence why the gradient of target by source is None, or that it is not."""
        targets = check_tensors(nest.flatten(target), "target", self._in_sight)
        return explain.explain(self, targets, check_tensors([source], "source")[0])
