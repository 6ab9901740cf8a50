"""Record one round of a loop."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tapegrad.core.primitive.operand import as_operand
from tapegrad.core.recorder import EMPTY, Stack, common_tokens, using_stack
from tapegrad.core.values.convert import NUMBERS
from tapegrad.core.values.tensor import Tensor, wrap
from tapegrad.core.values.variable import Variable
from tapegrad.ops.casting import cast
from tapegrad.program.graph.graph import Call, Graph, Value
from tapegrad.program.loops.body import Body, Layout
from tapegrad.program.loops.body_recording import BodyRecording, NotOneLoop
from tapegrad.program.record.effects import without_effects
from tapegrad.program.record.isolation import recorded_by
from tapegrad.program.record.recording import Recorded, Recording

Tensors = list[Tensor]
Step = Callable[[Tensors, Tensors], tuple[Sequence[Any], Sequence[Any]]]
"""One round: carried values and one entry of each stack, to new carried values and entries."""


@dataclass
class Round:
    """A recorded round: its values in the body's recording, and what it takes from outside."""

    recording: BodyRecording
    carried: list[Value]
    entries: list[Value]
    new: list[Value]
    made: list[Value]
    states: list[tuple[Variable, Value, Value]]
    """Variables that the round assigns, with their values before and after it."""

    @property
    def carried_in(self) -> list[Value]:
        return [*self.carried, *[before for _, before, _ in self.states]]

    @property
    def carried_out(self) -> list[Value]:
        return [*self.new, *[after for _, _, after in self.states]]

    @property
    def has_effects(self) -> bool:
        """Whether the round prints values or checks assertions."""
        return any(call.effects for call in self.recording.calls)

    @property
    def shared(self) -> list[tuple[Value, Recorded]]:
        """What the round reads from outside of the loop, the same in all rounds."""
        states = {before.number for _, before, _ in self.states}
        found = self.recording.captured.values()
        return [(value, array) for value, array in found if value.number not in states]


@dataclass(frozen=True)
class Sources:
    """What the outer tapes follow and a round reads."""

    carried: list[bool]
    entries: list[bool]
    tensors: Tensors
    variables: list[Variable]

    @property
    def are_any(self) -> bool:
        return any(self.carried) or any(self.entries) or bool(self.tensors or self.variables)


def trace(
    step: Step,
    carried: Sequence[Any],
    entries: Sequence[Any],
    around: Recording,
    may_print: bool = False,
) -> Round:
    """Record one round on the given arrays; its effects happen when the loop runs."""
    recording = BodyRecording(around)
    with using_stack(EMPTY), recorded_by(recording), without_effects():
        first, second, given = placed(recording, carried, entries)
        new, made = results_of(step(given[: len(first)], given[len(first) :]), given[: len(first)])
        found = finished_round(recording, first, second, new, made, may_print)
    recording.closed = True
    return found


def placed(
    recording: BodyRecording, carried: Sequence[Any], entries: Sequence[Any]
) -> tuple[list[Value], list[Value], Tensors]:
    """Return the values of carried values and entries in a recording, and all as tensors."""
    inputs = [recording.take_input(array) for array in (*carried, *entries)]
    values = [recorded.value for recorded in inputs]
    return values[: len(carried)], values[len(carried) :], [wrap(x) for x in inputs]


def results_of(
    found: tuple[Sequence[Any], Sequence[Any]], before: Tensors
) -> tuple[Tensors, Tensors]:
    """Return the results of a round as tensors; raise if what is carried changes its kind."""
    new = []
    for value, old in zip(found[0], before, strict=True):
        if type(value) in NUMBERS:
            value = cast.cast(as_operand(value), old.dtype)
        value = _as_tensor(value)
        if tuple(value.shape) != tuple(old.shape) or value.dtype != old.dtype:
            raise NotOneLoop(
                f"a carried value changes from {old.dtype}{list(old.shape)} to "
                f"{value.dtype}{list(value.shape)}"
            )
        new.append(value)
    return new, [_as_tensor(value) for value in found[1]]


def _as_tensor(value: Any) -> Tensor:
    found = as_operand(value)
    if type(found) is not Tensor:
        if not isinstance(found, Tensor):
            raise NotOneLoop(f"it returns a value of type {type(value).__name__}")
        return wrap(found.array, found.node)
    return found


def apart(tensors: Tensors) -> Tensors:
    """Return other tensors with the same values, which a recorder may follow alone."""
    return [tensor * 1 if tensor.dtype.is_differentiable else tensor for tensor in tensors]


def finished_round(
    recording: BodyRecording,
    carried: list[Value],
    entries: list[Value],
    new: Tensors,
    made: Tensors,
    may_print: bool = False,
) -> Round:
    """Return a round whose operations have been recorded."""
    if not may_print and any(call.effects for call in recording.calls):
        raise NotOneLoop("it has effects such as print")
    return Round(
        recording,
        carried,
        entries,
        [recording.value_in(tensor.array) for tensor in new],
        [recording.value_in(tensor.array) for tensor in made],
        recording.assigned(),
    )


def sources_of(found: Round, carried: Tensors, stacks: Tensors, stack: Stack) -> Sources:
    """Return what the recorders of a stack follow, of what a round reads."""

    def follows(tensor: Any) -> bool:
        is_known = tensor.node is not None and tensor.dtype.is_differentiable
        return is_known and bool(common_tokens(stack, (tensor.node,)))

    # Tapes inside vmap read variables per example, which the rounds do not.
    is_framed = any(recorder.frame is not None for recorder in stack.recorders)
    variables = []
    assigned = {variable.number for variable, _, _ in found.states}
    with using_stack(stack):
        for variable in found.recording.variables.values():
            if is_framed and variable.number not in assigned:
                raise NotOneLoop("it reads a variable under a tape inside vmap")
            if follows(variable.shared_value()):
                if variable.number in assigned:
                    raise NotOneLoop("it assigns to a variable that a tape follows")
                variables.append(variable)
    # What is carried depends on all that is followed, from the second round on.
    tensors = [tensor for tensor in found.recording.outer_tensors.values() if follows(tensor)]
    return Sources(
        [follows(tensor) for tensor in carried],
        [follows(tensor) for tensor in stacks],
        tensors,
        variables,
    )


def body_of(found: Round, more: Sequence[Value] = (), calls: Sequence[Call] | None = None) -> Body:
    """Return the round as a body; `more` are further entries that the loop stacks."""
    recording = found.recording
    shared = [value for value, _ in found.shared]
    outputs = (*found.carried_out, *found.made, *more)
    graph = Graph(
        (*found.carried_in, *found.entries, *shared),
        {},
        recording.constants,
        tuple(recording.calls if calls is None else calls),
        outputs,
    )
    made = len(found.made) + len(more)
    layout = Layout(len(found.carried_in), len(found.entries), len(shared), made)
    return Body(graph, layout)
