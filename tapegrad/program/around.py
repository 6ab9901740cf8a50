"""A function called while a tape records: one operation on that tape, with a program each way.

The programs for both ways come from one recording (two_ways.py). Where somebody looks on while
gradients are computed, or only some of the results have any, the way back is another recorded
function, which runs the Python code again under a tape of its own. Because it is a function too, a
tape around it is served in the same manner, and so on to any order.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tapegrad.autodiff.custom_gradient import VariableLog
from tapegrad.autodiff.gradient_tape import GradientTape
from tapegrad.core import nest
from tapegrad.core.backend import backend_of
from tapegrad.core.indexed_slices import IndexedSlices
from tapegrad.core.primitive import INTERPRETERS, record_many
from tapegrad.core.recorder import Node, Stack, active_stack, common_tokens
from tapegrad.core.tensor import Tensor, wrap
from tapegrad.core.variable import Variable, live_variables
from tapegrad.ops.gather import RowGradient
from tapegrad.ops.stop_gradient import identity
from tapegrad.program.effects import silence
from tapegrad.program.entry import Entry
from tapegrad.program.recording import Recorded, current_recording
from tapegrad.program.two_ways import TwoWays

Python = Callable[..., Any]


def can_follow(stack: Stack) -> bool:
    """Whether all active recorders go backwards: tapes outside of `vmap`, logs of variables."""
    return all(
        isinstance(recorder, GradientTape | VariableLog) and recorder.frame is None
        for recorder in stack.recorders
    )


def followed_by(stack: Stack, leaves: list[Any]) -> tuple[bool, ...]:
    """Which tensors among the leaves the recorders follow."""
    tensors = [leaf for leaf in leaves if type(leaf) is Tensor]
    return tuple(bool(common_tokens(stack, (tensor.node,))) for tensor in tensors)


class Followed:
    """The operands of one call as the active tapes know them: tensors, then variables read."""

    def __init__(self, entry: Entry, leaves: list[Any], held: dict[int, Any] | None = None) -> None:
        self.entry = entry
        self.tensors = [leaf for leaf in leaves if type(leaf) is Tensor]
        values = [variable.value() for variable in entry.variables]
        self.nodes = tuple(x.node for x in (*self.tensors, *values))
        numbers = {variable.number for variable in entry.written}
        arrays = [v.array if held is None else held[v.number] for v in entry.variables]
        # A program may change a variable in its place, so what it held has to be kept apart.
        self.arrays = [x.array for x in self.tensors] + [
            _copy(array) if variable.number in numbers else array
            for variable, array in zip(entry.variables, arrays)
        ]

    @property
    def changes_what_is_followed(self) -> bool:
        """Whether a tape follows a variable that the program assigns to, or the result is sparse.

        What such a variable held is gone after the call, and its place in the order of reads and
        writes inside the call is not known here.
        """
        written = {variable.number for variable in self.entry.written}
        nodes = self.nodes[len(self.tensors) :]
        followed = zip(self.entry.variables, nodes)
        return not self.entry.is_plain or any(
            node is not None and variable.number in written for variable, node in followed
        )

    def record(self, call: OneCall, result: Any, rest: list[Any]) -> Any:
        """Give the tensors of the result their place on the tapes, which keep the rest."""
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
    """One call of a function, in the role of a primitive on the tape."""

    differentiable = many = needs_tensors = takes_none = True
    broadcasts = conjugates = effects = False
    plain_rules = add_part = vjp_rules = jvp_rules = joint_jvp = sparse_vjp = None

    def __init__(self, name: str, backward: Backward) -> None:
        self.name = name
        self.joint_vjp = backward


class Backward:
    """The rule of a call: cotangents of the results in, cotangents of the operands out."""

    reads = wants = ()

    def __init__(
        self, pullback: Callable[[], Python], ways: TwoWays, leaves: list[Any], followed: Followed
    ) -> None:
        self._pullback = pullback
        self._back = ways.back
        self._leaves = [_PLACE if type(leaf) is Tensor else leaf for leaf in leaves]
        self._structure = ways.structure
        self._wanted = tuple([node is not None for node in followed.nodes])
        self._count = len(followed.tensors)
        self._entry = ways.entry

    def pick(self, operands: Sequence[Any], result: Any) -> tuple[Any, ...]:
        return tuple(operands)

    def rewrap(self, saved: Sequence[Any], node: Node) -> tuple[Any, ...]:
        return tuple(wrap(array, source) for array, source in zip(saved, node.inputs))

    def __call__(self, t: Sequence[Any], saved: Sequence[Any], params: Any) -> list[Any]:
        t, saved = [_as_tensor(x) for x in t], [_as_tensor(x) for x in saved]
        nobody_looks = not active_stack().tokens and current_recording() is None
        if nobody_looks and self._back is not None and self._back.can_take(t, self._wanted):
            grads = iter(self._back(t, saved, self._wanted))
        else:
            grads = iter(self._again(t, saved))
        shares = [_share(next(grads)) if wanted else None for wanted in self._wanted]
        return shares + [None] * (len(saved) - len(shares))

    def _again(self, t: Sequence[Any], saved: Sequence[Any]) -> list[Any]:
        """Run the function again inside another one that returns its gradients."""
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
        with _holding(read):
            found: list[Any] = self._pullback()(
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
    """NumPy's scalars pass as numbers elsewhere; here all arrays are tensors."""
    known = value is None or type(value) is Tensor or type(value) in INTERPRETERS
    return value if known else wrap(value)


def _share(grad: Any) -> Any:
    """A gradient as a sweep passes it on."""
    if not isinstance(grad, IndexedSlices):
        return grad
    rows, indices = grad.values, grad.indices
    if active_stack().tokens:
        return RowGradient(rows, indices, tuple(grad.dense_shape))
    return RowGradient(rows.array, indices.array, tuple(grad.dense_shape))


@contextmanager
def _holding(pairs: Sequence[tuple[Variable, Tensor]]) -> Iterator[None]:
    """Let variables hold what they held when the function ran, where they were assigned since."""
    changed = [(v, v.array, x.array) for v, x in pairs if v.array is not x.array]
    for variable, _, array in changed:
        variable.array = array
    try:
        yield
    finally:
        for variable, array, _ in changed:
            variable.array = array


class Pullback:
    """The gradient of a function as Python code, to be recorded itself."""

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
        """Return the gradients by the wanted tensors among the arguments and by the variables.

        `seeds` are the cotangents of the results, None where nothing came. `states` are the
        variables that the function changes, `held` what they held before; nothing stays changed.
        """
        leaves = nest.flatten((args, kwargs))
        flags = iter(wanted)
        sources = [(type(leaf) is Tensor and next(flags)) for leaf in leaves]
        with _changing_nothing(states, held), silence():
            with GradientTape(watch_accessed_variables=False) as tape:
                own = [_own(leaf) if flag else leaf for leaf, flag in zip(leaves, sources)]
                watched = [leaf for leaf, flag in zip(own, sources) if flag] + variables
                tape.watch(watched)
                args, kwargs = nest.pack_sequence_as((args, kwargs), own)
                result = nest.flatten(self._function(*args, **kwargs))
            made = [leaf for leaf in result if type(leaf) is Tensor]
            pairs = [(y, seed) for y, seed in zip(made, seeds, strict=True) if seed is not None]
            grads: list[Any] = tape.gradient(
                [y for y, _ in pairs], watched, [seed for _, seed in pairs]
            )
            return grads


def _own(x: Tensor) -> Tensor:
    """The same value with a place of its own on the tapes, connected to the given one's."""
    return wrap(x.array) if x.node is None else identity(x)


@contextmanager
def _changing_nothing(states: Sequence[Variable], held: Sequence[Tensor]) -> Iterator[None]:
    """Let variables begin with given values, and with what they held again in the end."""
    before = [(variable, variable.array) for variable in live_variables()]
    for variable, array in before:
        if type(array) is Recorded:  # which in-place operators would change
            variable.array = Recorded(array.array, array.value, array.recording)
    for variable, tensor in zip(states, held):
        variable.array = tensor.array
    try:
        yield
    finally:
        for variable, array in before:
            if variable.array is not array:
                variable.array = array
