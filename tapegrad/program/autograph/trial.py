"""Run a block of a statement outside of the recording, to see what it does."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

from tapegrad.core.primitive.operand import as_operand
from tapegrad.core.recorder import EMPTY, using_stack
from tapegrad.core.values.tensor import wrap
from tapegrad.program.autograph.decided import BranchRaised
from tapegrad.program.autograph.source import NotConvertible
from tapegrad.program.autograph.state import Snapshot, State
from tapegrad.program.graph.graph import Call
from tapegrad.program.loops.body_recording import BodyRecording, CreatesVariables, NotOneLoop
from tapegrad.program.record.branches import as_truth
from tapegrad.program.record.effects import without_effects
from tapegrad.program.record.isolation import recorded_by
from tapegrad.program.record.recording import current_recording

Block = Callable[[], None]


class _Depth(threading.local):
    trials = 0


_depth = _Depth()


def is_trying() -> bool:
    """Whether a trial is under way, inside which statements need no trials of their branches."""
    return _depth.trials > 0


def tried(
    block: Block, state: State, start: Snapshot, condition: Any = None
) -> tuple[Snapshot, Sequence[Call]]:
    """Run a block; return the state at its end, and the calls that it has made.

    The variables of the statement are as before afterwards, and prints do not happen.
    """
    around = current_recording()
    assert around is not None
    before = state.read()
    recording = BodyRecording(around)
    _depth.trials += 1
    try:
        with using_stack(EMPTY), recorded_by(recording), without_effects():
            if condition is not None:
                recording.condition = wrap(as_truth(as_operand(condition)).array)
            state.write(start)
            block()
            return state.read(), recording.calls
    except CreatesVariables:
        raise
    except (NotOneLoop, BranchRaised) as error:
        raise NotConvertible(f"a round of a loop cannot be recorded once: {error}") from error
    finally:
        _depth.trials -= 1
        recording.closed = True
        state.write(before)
