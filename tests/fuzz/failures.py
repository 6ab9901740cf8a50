"""Failures at any line: a call that fails has changed nothing, and everything goes on.

    python -m tests.fuzz.failures --seconds 600 --seed 1

KeyboardInterrupt or MemoryError is raised at a random line of the package inside of a training
step, a recording, a replay, a save, a load or a pipeline. Afterwards variables and files are as
before the call or as after it, the next call works, and no lock, recorder or thread is left.
"""

from __future__ import annotations

import os
import sys
import tempfile
import threading
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

os.environ.setdefault("TAPEGRAD_WAIT", "1")
os.environ.setdefault("TAPEGRAD_CFLAGS", "-O0")

from tapegrad.core.recorder import active_stack
from tapegrad.core.update_lock import updating
from tapegrad.program.record.recording import current_recording
from tapegrad.program.record.recording_lock import recording_alone
from tests.fuzz.command import FaultError, main
from tests.fuzz.failure_cases import CASES, Case
from tests.interrupts import count_events, interrupted

ERRORS = (KeyboardInterrupt, MemoryError)
_counts: dict[str, tuple[int, list[list[Any]]]] = {}


def _same(one: list[Any], other: list[Any]) -> bool:
    # A function that fails while it records runs eagerly, which rounds at other places.
    return len(one) == len(other) and all(
        np.allclose(a, b, rtol=1e-12, atol=1e-14) for a, b in zip(one, other)
    )


def _prepared(make: Callable[[Path], Case]) -> tuple[int, list[list[Any]]]:
    """Return the number of events of a call, and the states before, after, and after a second."""
    name = make.__name__
    if name not in _counts:
        with tempfile.TemporaryDirectory() as folder:
            case = make(Path(folder))
            states = [case.state()]
            for _ in range(2):
                case.call()
                states.append(case.state())
        with tempfile.TemporaryDirectory() as folder:
            _counts[name] = count_events(make(Path(folder)).call), states
    return _counts[name]


def _left_over() -> str | None:
    """Return what a failure has left to the code after it, or None."""
    if current_recording() is not None:
        return "a recording is still active"
    if active_stack().recorders:
        return "a recorder is still active"
    found: list[bool] = []

    def take() -> None:
        is_free = updating.acquire(timeout=10)
        if is_free:
            updating.release()
            with recording_alone():
                found.append(True)

    thread = threading.Thread(target=take, daemon=True)
    thread.start()
    thread.join(20)
    return None if found else "a lock is still held"


def fault_of(case: Case, states: list[list[Any]], event: int, error: Any) -> str | None:
    """Let a call fail; return a sentence about what is wrong then, or None."""
    interrupted(case.call, event, error)
    left = _left_over()
    if left:
        return left
    now = case.state()
    places = [k for k, state in enumerate(states[:2]) if _same(now, state)]
    if not places:
        return "it is neither as before the call nor as after it"
    case.call()
    if not _same(case.state(), states[places[0] + 1]):
        return "the next call gives another result"
    return None


def check(seed: int) -> Counter[str]:
    """Let one call fail at one place."""
    rng = np.random.default_rng(seed)
    make = CASES[seed % len(CASES)]
    error = ERRORS[int(rng.integers(2))]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        events, states = _prepared(make)
        event = int(rng.integers(events))
        with tempfile.TemporaryDirectory() as folder:
            try:
                text = fault_of(make(Path(folder)), states, event, error)
            except Exception as other:
                text = f"{type(other).__name__}: {other}"
    if text:
        where = f"{make.__name__}, {error.__name__} at event {event} of {events}"
        raise FaultError(f"{where}: {text}")
    return Counter({"failures": 1, error.__name__: 1})


if __name__ == "__main__":
    sys.exit(main(check, __doc__.partition("\n")[0]))
