"""The background thread: its jobs, its turns with other threads, its end."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

import tapegrad as tf
from tapegrad.core import background
from tapegrad.core.background import Job, checkpoint, foreground, is_background, outside_python
from tapegrad.program import building
from tapegrad_numpy.loops import compile as loops

PATIENCE = 60.0


def test_jobs_run_in_order_in_one_thread_that_ends() -> None:
    found: list[int] = []
    threads: list[threading.Thread] = []

    def work(number: int) -> int:
        found.append(number)
        threads.append(threading.current_thread())
        assert is_background()
        return number

    may_begin = threading.Event()
    jobs: list[Job[Any]] = [Job(lambda: may_begin.wait(PATIENCE))]
    jobs += [Job(lambda number=number: work(number)) for number in range(3)]
    for job in jobs:
        job.start()
    assert not jobs[-1].wait(0.0)
    may_begin.set()
    background.wait_for_jobs()

    assert [job.result for job in jobs[1:]] == found == [0, 1, 2]
    assert len({*threads}) == 1
    threads[0].join(PATIENCE)
    assert not threads[0].is_alive()
    assert not is_background()


def test_an_error_is_kept() -> None:
    job: Job[Any] = Job(lambda: 1 / 0)
    job.start()

    assert job.wait(PATIENCE)
    assert isinstance(job.error, ZeroDivisionError)


def test_work_pauses_at_a_checkpoint_while_another_thread_is_in_the_foreground(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(background, "PATIENCE", PATIENCE)
    may_go, has_passed = threading.Event(), threading.Event()

    def work() -> None:
        may_go.wait(PATIENCE)
        checkpoint()
        has_passed.set()

    job = Job(work)
    job.start()
    with foreground(job):
        may_go.set()
        assert not has_passed.wait(0.05)
    assert job.wait(PATIENCE)
    assert has_passed.is_set()


def test_work_does_not_pause_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "PATIENCE", 0.0)
    job = Job(checkpoint)
    with foreground(job):
        job.start()
        assert job.wait(PATIENCE)


def test_a_checkpoint_does_nothing_elsewhere() -> None:
    with foreground(Job(checkpoint)), outside_python():
        checkpoint()


def test_an_interrupt_ends_work_in_the_calling_thread() -> None:
    def work() -> None:
        raise KeyboardInterrupt

    job = Job(work)
    with pytest.raises(KeyboardInterrupt):
        job.run_here()
    assert not job.is_done


def test_a_process_without_threads_does_the_work_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    job = Job(threading.current_thread)
    job.start()

    assert job.result is threading.current_thread()
    assert job.is_done


def test_a_build_takes_turns_until_the_compiler_runs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    outside: dict[str, set[bool]] = {"written": set(), "compiled": set()}
    write, compile_together = loops._written, loops._compile_together

    def written(*given: Any) -> Any:
        outside["written"].add(background._state.is_outside)
        return write(*given)

    def compiled(*given: Any) -> None:
        outside["compiled"].add(background._state.is_outside)
        compile_together(*given)

    monkeypatch.setattr(loops, "_written", written)
    monkeypatch.setattr(loops, "_compile_together", compiled)
    monkeypatch.setenv("TAPEGRAD_CACHE", str(tmp_path))
    monkeypatch.setitem(building._settings, "wait", False)
    step = tf.function(lambda x: tf.reduce_sum(tf.tanh(x) * tf.exp(x), -1))
    step(tf.ones((3, 100)))
    tf.wait_for_programs()

    assert outside == {"written": {False}, "compiled": {True}}
