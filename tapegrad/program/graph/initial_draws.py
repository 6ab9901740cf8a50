"""Random draws for the initial values of variables, which belong to the first call only.

A variable that a call creates and that outlives it exists in later calls. They must not draw for it
again: the random numbers that follow would differ from those of eager calls.
"""

from __future__ import annotations

from collections.abc import Sequence, Set as AbstractSet
from dataclasses import replace
from typing import Any

from tapegrad.program.graph.graph import Call, Graph, Value, without_dead_calls

STATE_SHAPE = (2,)
"""The shape of a generator's state: seed and offset."""


def without_initial_draws(graph: Graph, initial: Sequence[Value]) -> Graph:
    """Return the graph of later calls; `initial` are the initial values of created variables.

    If nothing was drawn for them, it is the given graph.
    """
    instead = _states_instead(graph, initial)
    return _reading_instead(graph, instead) if instead else graph


def draws_only_once(graph: Graph, initial: Sequence[Value], made: AbstractSet[int]) -> bool:
    """Return whether a call that created variables drew random numbers that later calls may not.

    Initial values are understood: `without_initial_draws` removes their draws. Beside them, code
    that runs in the first call only can draw a value that the call uses otherwise, one that it
    drops, or one that it assigns to a new variable, whose number is in `made`. Nothing in the graph
    tells such draws from those that every call makes.
    """
    if not made:
        return False
    if any(_is_state(new) and new.number in graph.constants for new in graph.written.values()):
        return True  # after `set_seed`, all states and draws are constants
    drawing = _drawing_calls(graph)
    if not drawing:
        return False
    makers = {value.number: call for call in graph.calls for value in call.results}
    draws = {id(call) for call in drawing if _state_of(call, makers) is not None}
    if not draws:
        return False
    needed = {id(call) for call in without_dead_calls(graph).calls}
    before = {id(call) for call in _calls_before(initial, makers)}
    if any((draw in needed) == (draw in before) for draw in draws):
        return True
    for number in made & graph.written.keys():
        calls = _calls_before([graph.written[number]], makers)
        reads = {value.number for call in calls for value in call.reads}
        is_update = graph.variables[number].number in reads
        if not is_update and any(id(call) in draws for call in calls):
            return True
    return False


def skipped_draws(graph: Graph, initial: Sequence[Value]) -> dict[int, list[int]]:
    """Return where the call drew for initial values, by the numbers of generators' states.

    The list says how many such draws came before the first other draw, after it, after the second
    one, and so on.
    """
    instead = _states_instead(graph, initial)
    if not instead:
        return {}
    steps = _steps_by_state(graph)
    drawn = {call.operands[0].number for call in _drawing_calls(graph)}
    found: dict[int, list[int]] = {}
    for number, state in graph.variables.items():
        counts = [0]
        while state.number in steps:
            after = steps[state.number][1]
            if after.number in instead:
                counts[-1] += 1
            elif state.number in drawn:
                counts.append(0)
            state = after
        if any(counts):
            found[number] = counts
    return found


def _states_instead(graph: Graph, initial: Sequence[Value]) -> dict[int, Value]:
    """Return the states before draws for initial values by the numbers of the states after them."""
    if not initial or not _drawing_calls(graph):
        return {}
    makers = {value.number: call for call in graph.calls for value in call.results}
    needed = {id(call) for call in without_dead_calls(graph).calls}
    steps = _steps_by_state(graph)
    instead: dict[int, Value] = {}
    for call in _calls_before(initial, makers):
        state = None if id(call) in needed else _state_of(call, makers)
        if state is not None and state.number in steps:
            instead[steps[state.number][1].number] = state
    return instead


def _drawing_calls(graph: Graph) -> list[Call]:
    """Return the calls that draw random numbers."""
    return [call for call in graph.calls if call.primitive.name.startswith("random_")]


def _steps_by_state(graph: Graph) -> dict[int, tuple[Value, Value]]:
    """Return the states before and after a draw by the numbers of the former."""
    return {
        call.operands[0].number: (call.operands[0], call.results[0])
        for call in graph.calls
        if call.primitive.name == "add" and call.reads and _is_state(call.operands[0])
    }


def _is_state(value: Any) -> bool:
    return isinstance(value, Value) and value.shape == STATE_SHAPE and value.dtype.name == "uint64"


def _calls_before(values: Sequence[Value], makers: dict[int, Call]) -> list[Call]:
    """Return the calls on which the values depend."""
    found: dict[int, Call] = {}
    waiting = list(values)
    while waiting:
        call = makers.get(waiting.pop().number)
        if call is not None and id(call) not in found:
            found[id(call)] = call
            waiting += call.reads
    return list(found.values())


def _state_of(call: Call, makers: dict[int, Call]) -> Value | None:
    """Return the generator's state from which a call draws, None if it does not draw."""
    if not call.primitive.name.startswith("random_") or not _is_state(call.operands[0]):
        return None
    state: Value = call.operands[0]
    while True:  # a state may have been copied to another device
        maker = makers.get(state.number)
        if maker is None or maker.primitive.name == "add" or len(maker.reads) != 1:
            return state
        if not _is_state(maker.reads[0]):
            return state
        state = maker.reads[0]


def _reading_instead(graph: Graph, instead: dict[int, Value]) -> Graph:
    """Return the graph with values replaced by others, and without writes that change nothing."""

    def now(operand: Any) -> Any:
        while isinstance(operand, Value) and operand.number in instead:
            operand = instead[operand.number]
        return operand

    written = {number: now(value) for number, value in graph.written.items()}
    return replace(
        graph,
        calls=tuple(
            replace(call, operands=tuple(now(operand) for operand in call.operands))
            for call in graph.calls
        ),
        outputs=tuple(now(value) for value in graph.outputs),
        written={
            number: value
            for number, value in written.items()
            if number not in graph.variables or value.number != graph.variables[number].number
        },
    )
