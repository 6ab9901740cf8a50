"""The operator for `while` statements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tapegrad.core.values.tensor import wrap
from tapegrad.errors import RecordingError
from tapegrad.ops.control.condition_hook import is_undecided
from tapegrad.ops.control.control_flow import while_loop
from tapegrad.ops.elementwise.comparison import logical_and
from tapegrad.program.autograph.branches import if_, nothing
from tapegrad.program.autograph.carried import Plan, plan_of
from tapegrad.program.autograph.decided import BranchRaised, note_decision
from tapegrad.program.autograph.source import NotConvertible
from tapegrad.program.autograph.state import State
from tapegrad.program.autograph.trial import Block, tried
from tapegrad.program.loops.body_recording import CreatesVariables
from tapegrad.program.record.branches import as_truth
from tapegrad.program.record.recording import current_recording

MOST_PLANS = 4
"""How often a round is tried out until the kinds of what it carries are known."""

MOST_UNROLLED = 100_000
"""The rounds after which a loop that is recorded one by one counts as endless."""

MOST_PEELED = 2
"""How many rounds are recorded before a loop because they create variables or change kinds."""


def while_(test: Callable[[], Any], body: Block, state: State) -> None:
    """Run a block while a test is true; record it once if the recording computes the test."""
    rounds = peeled = 0
    while True:
        condition = test()
        if is_undecided(condition):
            try:
                _recorded(condition, test, body, state)
                return
            except CreatesVariables as error:
                peeled += 1
                if peeled > MOST_PEELED:
                    raise NotConvertible("a loop creates variables") from error
            if_(condition, body, nothing, state)
            continue
        if not condition:
            return
        body()
        rounds += 1
        if rounds == MOST_UNROLLED and current_recording() is not None:
            raise NotConvertible(f"a loop has not ended after {MOST_UNROLLED:,} rounds")


def _recorded(condition: Any, test: Callable[[], Any], body: Block, state: State) -> None:
    """Record a loop once."""
    note_decision()
    start = state.read()
    plan = planned(body, state, condition)

    def goes_on(*values: Any) -> Any:
        state.write(plan.packed(values))
        recording, found = current_recording(), test()
        if recording is None or recording.condition is None or not is_undecided(found):
            return found
        # In a branch that is not taken the loop might never end.
        return logical_and(wrap(recording.condition.array), as_truth(found))

    def next_values(*values: Any) -> tuple[Any, ...]:
        state.write(plan.packed(values))
        body()
        return plan.carried_in(state.read())

    try:
        last = while_loop(goes_on, next_values, plan.initial)
    except (RecordingError, BranchRaised) as error:
        state.write(start)
        raise NotConvertible(f"a loop cannot be recorded: {error}") from error
    state.write(plan.after(last))


def planned(body: Block, state: State, condition: Any = None) -> Plan:
    """Return what a loop carries; the state is as it was before.

    The kind of a value may depend on that of another one, so the rounds are tried out several
    times.
    """
    plan = plan_of(state, state.read())
    for _ in range(MOST_PLANS):
        if plan.update(tried(body, state, plan.start, condition)[0]):
            return plan
    raise NotConvertible("what a loop carries keeps changing its kind")
