"""Operators for `if` statements, conditional expressions, and statements that raise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tapegrad.core.values.tensor import Tensor
from tapegrad.ops.control.condition_hook import is_undecided
from tapegrad.program.autograph.decided import BranchRaised, note_decision
from tapegrad.program.autograph.source import NotConvertible
from tapegrad.program.autograph.state import Snapshot, State, chosen, chosen_state
from tapegrad.program.autograph.taken_branch import Mark, is_worth_it, run_taken
from tapegrad.program.autograph.trial import Block
from tapegrad.program.record.branches import as_truth, run_both
from tapegrad.program.record.checks import Assertion
from tapegrad.program.record.effects import act
from tapegrad.program.record.recording import current_recording


def nothing() -> None:
    """Do nothing, as an `if` without `else` does."""


def if_(condition: Any, body: Block, orelse: Block, state: State) -> None:
    """Run one of two blocks; record both if the recording computes the condition."""
    if not is_undecided(condition):
        (body if condition else orelse)()
        return
    note_decision()
    recording = current_recording()
    assert recording is not None
    before, mark = state.read(), Mark(recording)

    def run(block: Block) -> Snapshot | None:
        state.write(before)
        try:
            block()
        except BranchRaised:
            return None
        return state.read()

    truth, first, second = run_both(condition, lambda: run(body), lambda: run(orelse))
    if first is None and second is None:
        raise NotConvertible("both branches raise an exception")
    if first is None or second is None:
        state.write(first or second)
        return
    if is_worth_it(mark, truth):
        blocks, after = (body, orelse), (first, second)
        if run_taken(mark, truth, blocks, state, before, after):
            return
    state.write(chosen_state(truth, first, second, state))


def if_expression(condition: Any, first: Callable[[], Any], second: Callable[[], Any]) -> Any:
    """Return `first() if condition else second()`."""
    if not is_undecided(condition):
        return first() if condition else second()
    note_decision()
    truth, one, other = run_both(condition, first, second)
    return chosen(truth, "an expression", one, other)


def raised(error: Any) -> Any:
    """Return what `raise error` has to raise.

    In a branch of which it is not known whether it is taken, each call that takes it raises.
    """
    recording = current_recording()
    if recording is None or recording.condition is None:
        return error
    note_decision()
    act(_Raise(error), [], "raise")
    return BranchRaised()


def assert_(test: Callable[[], Any], message: Callable[[], Any] | None) -> None:
    """Check an assertion, at each call if the recording computes its condition."""
    if not __debug__:
        return
    value = test()
    if not is_undecided(value):
        if not value:
            raise AssertionError(*([] if message is None else [message()]))
        return
    note_decision()
    text = None if message is None else message()
    shown = [text] if isinstance(text, Tensor) else []
    act(Assertion([] if message is None or shown else [text]), [as_truth(value), *shown], "assert")


class _Raise:
    """An action that raises an exception."""

    def __init__(self, error: Any) -> None:
        self._error = error

    def __repr__(self) -> str:
        return "raise"

    def __call__(self, values: Any) -> None:
        error = self._error
        raise error if isinstance(error, type) else error.with_traceback(None)
