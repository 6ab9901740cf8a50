"""Recordings and the worker threads of datasets take turns."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import pytest

from tapegrad.program.record import recording_lock
from tapegrad.program.record.recording_lock import without_workers, working

Turn = Callable[[], AbstractContextManager[None]]

MOMENT = 0.05
"""Seconds in which a thread that does not wait would have gone on."""


class Visitor:
    """A thread that enters a block and stays there until it is told to leave."""

    def __init__(self, turn: Turn) -> None:
        self.has_entered, self._leave = threading.Event(), threading.Event()
        self._turn = turn
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        with self._turn():
            self.has_entered.set()
            self._leave.wait(10)

    def leave(self) -> None:
        self._leave.set()
        self._thread.join(10)


@pytest.mark.parametrize(
    ("first", "second"), [(without_workers, working), (working, without_workers)]
)
@pytest.mark.parametrize("is_nested", [False, True])
def test_each_waits_until_the_other_has_left(first: Turn, second: Turn, is_nested: bool) -> None:
    with first():
        with first() if is_nested else nullcontext():
            visitor = Visitor(second)
            assert not visitor.has_entered.wait(MOMENT)
        assert not visitor.has_entered.wait(MOMENT)
    assert visitor.has_entered.wait(10)
    visitor.leave()


def test_workers_do_not_wait_for_each_other() -> None:
    with working():
        visitor = Visitor(working)
        assert visitor.has_entered.wait(10)
        visitor.leave()


def test_a_worker_that_records_waits_for_the_others_and_not_for_itself(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(recording_lock, "PATIENCE", 1000.0)

    with working(), without_workers(), working():
        visitor = Visitor(working)
        assert not visitor.has_entered.wait(MOMENT)
    assert visitor.has_entered.wait(10)
    visitor.leave()


def test_a_recording_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recording_lock, "PATIENCE", MOMENT)

    with working():
        visitor = Visitor(without_workers)
        assert visitor.has_entered.wait(10)
        visitor.leave()


def test_a_recording_that_was_interrupted_while_it_waited_blocks_no_worker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    condition = recording_lock._condition
    monkeypatch.setattr(recording_lock, "LOOK_AGAIN", MOMENT)
    monkeypatch.setattr(condition, "wait_for", interrupt)
    with pytest.raises(KeyboardInterrupt), without_workers():
        pass
    monkeypatch.undo()

    visitor = Visitor(working)
    has_entered = visitor.has_entered.wait(10)
    visitor.leave()

    assert has_entered
