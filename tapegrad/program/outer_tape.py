"""Record a call of a function on the outer tapes as one operation.

The forward and the backward program come from one recording (forward_backward.py). If another
recorder tracks the gradient computation, or only some results have a cotangent, the backward
computation is a second recorded function that runs the Python code again under a new tape. It is an
ordinary function, so outer tapes record it in the same way, to any order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from tapegrad.autodiff.custom_gradient import VariableLog
from tapegrad.autodiff.gradient_tape import GradientTape
from tapegrad.core.backend.registry import backend_of
from tapegrad.core.call_site import call_site
from tapegrad.core.commit import call_with_arrays
from tapegrad.core.number_checks import is_checking_numbers, note_operation
from tapegrad.core.primitive.primitive import INTERPRETERS, record_many
from tapegrad.core.recorder import Node, Stack, active_stack, common_tokens
from tapegrad.core.values import nest
from tapegrad.core.values.indexed_slices import IndexedSlices
from tapegrad.core.values.tensor import Tensor, wrap
from tapegrad.core.values.variable import Variable
from tapegrad.ops.control.stop_gradient import identity
from tapegrad.ops.indexing.gather import RowGradient
from tapegrad.program.forward_backward import ForwardBackward
from tapegrad.program.record.effects import silence
from tapegrad.program.record.recording import current_recording
from tapegrad.program.result_structure import Entry

Python = Callable[..., Any]


def only_tapes(stack: Stack) -> bool:
    """Whether all active recorders are tapes outside `vmap`, or logs of variables."""
    return all(
        isinstance(recorder, GradientTape | VariableLog) and recorder.frame is None
        for recorder in stack.recorders
    )


def tracked_flags(stack: Stack, leaves: list[Any]) -> tuple[bool, ...]:
    """Return, for each tensor among the leaves, whether the recorders track it."""
    tensors = [leaf for leaf in leaves if type(leaf) is Tensor]
    return tuple(bool(common_tokens(stack, (tensor.node,))) for tensor in tensors)


class TrackedOperands:
    """The operands of one call with their nodes: tensors, then the variables that are read."""

    def __init__(self, entry: Entry, leaves: list[Any]) -> None:
        self.entry = entry
        self.tensors = [leaf for leaf in leaves if type(leaf) is Tensor]
        values = [variable.shared_value() for variable in entry.variables]
        self.nodes = tuple(x.node for x in (*self.tensors, *values))
        numbers = {variable.number for variable in entry.written}
        arrays = [variable.array for variable in entry.variables]
        # Copy the arrays of variables that the program may overwrite in place.
        self.arrays = [x.array for x in self.tensors] + [
            _copy(array) if variable.number in numbers else array
            for variable, array in zip(entry.variables, arrays)
        ]

    @property
    def needs_eager_run(self) -> bool:
        """Whether a tape tracks a variable that the program assigns to, or the result is sparse.

        The old value of such a variable is lost after the call, and the order of its reads and
        writes inside the call is unknown here.
        """
        written = {variable.number for variable in self.entry.written}
        nodes = self.nodes[len(self.tensors) :]
        tracked = zip(self.entry.variables, nodes)
        return not self.entry.is_plain or any(
            node is not None and variable.number in written for variable, node in tracked
        )

    def record(self, call: OneCall, result: Any, rest: list[Any]) -> Any:
        """Attach nodes to the tensors of the result; the tapes save the arrays of `rest`."""
        if is_checking_numbers():
            note_operation(call_site(), call.name)
        made = tuple(leaf for leaf in nest.flatten(result) if type(leaf) is Tensor)
        arrays = [tensor.array for tensor in made]
        operation: Any = call
        operands, nodes = [*self.arrays, *rest], (*self.nodes, *[None] * len(rest))
        record_many(active_stack(), operation, {}, operands, nodes, arrays, made)
        return result

    @property
    def is_needed(self) -> bool:
        return bool(common_tokens(active_stack(), self.nodes))


def _copy(array: Any) -> Any:
    return backend_of(array).xp.asarray(array, copy=True)


class OneCall:
    """One call of a function, which replaces a primitive on the tape."""

    differentiable = many = needs_tensors = takes_none = True
    broadcasts = conjugates = effects = False
    selects = True
    plain_rules = add_part = vjp_rules = jvp_rules = joint_jvp = sparse_vjp = None

    def __init__(self, name: str, backward: Backward) -> None:
        self.name = name
        self.joint_vjp = backward


class Backward:
    """The VJP rule of a call, from the cotangents of the results to those of the operands."""

    reads = wants = ()

    def __init__(
        self,
        pullback: Callable[[], Python],
        programs: ForwardBackward,
        leaves: list[Any],
        tracked: TrackedOperands,
        owner: Any = None,
    ) -> None:
        self._owner = owner  # kept alive, because the Python code may run again
        self._pullback = pullback
        self._back = programs.backward
        self._leaves = [_PLACE if type(leaf) is Tensor else leaf for leaf in leaves]
        self._structure = programs.structure
        self._wanted = tuple([node is not None for node in tracked.nodes])
        self._count = len(tracked.tensors)
        self._entry = programs.entry

    def pick(self, operands: Sequence[Any], result: Any) -> tuple[Any, ...]:
        return tuple(operands)

    def rewrap(self, saved: Sequence[Any], node: Node) -> tuple[Any, ...]:
        return tuple(wrap(array, source) for array, source in zip(saved, node.inputs))

    def __call__(self, t: Sequence[Any], saved: Sequence[Any], params: Any) -> list[Any]:
        t, saved = [_as_tensor(x) for x in t], [_as_tensor(x) for x in saved]
        is_unobserved = not active_stack().tokens and current_recording() is None
        if is_unobserved and self._back is not None and self._back.can_take(t, self._wanted):
            grads = iter(self._back(t, saved, self._wanted))
        else:
            grads = iter(self._again(t, saved))
        shares = [_as_cotangent(next(grads)) if wanted else None for wanted in self._wanted]
        return shares + [None] * (len(saved) - len(shares))

    def _again(self, t: Sequence[Any], saved: Sequence[Any]) -> list[Any]:
        """Compute the gradients by the function that runs the Python code again."""
        tensors, values = iter(saved[: self._count]), saved[self._count :]
        leaves = [next(tensors) if leaf is _PLACE else leaf for leaf in self._leaves]
        args, kwargs = nest.pack_sequence_as(self._structure, leaves)
        variables = self._entry.variables
        written = {variable.number for variable in self._entry.written}
        held = list(zip(variables, values))
        states = [(variable, value) for variable, value in held if variable.number in written]
        read = [(variable, value) for variable, value in held if variable.number not in written]
        pairs = zip(variables, self._wanted[self._count :])
        sources = [variable for variable, wanted in pairs if wanted]
        found: list[Any] = call_with_arrays(
            [variable for variable, _ in read],
            [value.array for _, value in read],
            self._pullback(),
            args,
            kwargs,
            list(t),
            self._wanted[: self._count],
            sources,
            [variable for variable, _ in states],
            [wrap(value.array) for _, value in states],
        )
        return found


_PLACE = object()


def _as_tensor(value: Any) -> Any:
    """Wrap an array, including NumPy scalars, which elsewhere count as numbers."""
    known = value is None or type(value) is Tensor or type(value) in INTERPRETERS
    return value if known else wrap(value)


def _as_cotangent(grad: Any) -> Any:
    """Convert a gradient to the form that the backward pass expects."""
    if not isinstance(grad, IndexedSlices):
        return grad
    rows, indices = grad.values, grad.indices
    if active_stack().tokens:
        return RowGradient(rows, indices, tuple(grad.dense_shape))
    return RowGradient(rows.array, indices.array, tuple(grad.dense_shape))


class Pullback:
    """The gradient of a function as a Python callable, which can be recorded."""

    def __init__(self, python_function: Python, name: str) -> None:
        self._function = python_function
        self.__name__ = f"gradient of {name}"

    def __call__(
        self,
        args: Any,
        kwargs: Any,
        seeds: list[Any],
        wanted: Sequence[bool],
        variables: list[Variable],
        states: list[Variable],
        held: list[Tensor],
    ) -> list[Any]:
        """Return the gradients of the wanted tensors among the arguments and of the variables.

        `seeds` are the cotangents of the results, None for zero. `states` are the variables that
        the function assigns to and `held` their values before; they are restored at the end.
        """
        leaves = nest.flatten((args, kwargs))
        flags = iter(wanted)
        sources = [(type(leaf) is Tensor and next(flags)) for leaf in leaves]
        arrays = [tensor.array for tensor in held]
        return call_with_arrays(  # type: ignore[no-any-return]
            states, arrays, self._gradients, (args, kwargs), leaves, sources, variables, seeds
        )

    def _gradients(
        self,
        structure: Any,
        leaves: list[Any],
        sources: Sequence[bool],
        variables: list[Variable],
        seeds: list[Any],
    ) -> list[Any]:
        """Run the function under a tape, and return the gradients of the sources."""
        with silence():
            with GradientTape(watch_accessed_variables=False) as tape:
                own = [_own(leaf) if flag else leaf for leaf, flag in zip(leaves, sources)]
                watched = [leaf for leaf, flag in zip(own, sources) if flag] + variables
                tape.watch(watched)
                args, kwargs = nest.pack_sequence_as(structure, own)
                result = nest.flatten(self._function(*args, **kwargs))
            made = [leaf for leaf in result if type(leaf) is Tensor]
            pairs = [(y, seed) for y, seed in zip(made, seeds, strict=True) if seed is not None]
            grads: list[Any] = tape.gradient(
                [y for y, _ in pairs], watched, [seed for _, seed in pairs]
            )
            return grads


def _own(x: Tensor) -> Tensor:
    """Return the same value with a new node that is connected to the given one."""
    return wrap(x.array) if x.node is None else identity(x)
