"""Threads work ahead, hand errors on, and end with their reader."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import traceback
from contextlib import suppress
from time import monotonic

import pytest

import tapegrad as tf
from tapegrad.data import AUTOTUNE, Dataset

WAIT = 10.0
"""Seconds after which a test gives up on a thread; none of them needs a hundredth of it."""


def values(dataset):
    return [leaf.numpy().tolist() for leaf in dataset]


def our_threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("tapegrad-")]


@pytest.fixture(autouse=True)
def no_thread_is_left():
    before = set(our_threads())
    yield
    gc.collect()
    latest = monotonic() + WAIT
    while (left := set(our_threads()) - before) and monotonic() < latest:
        with suppress(RuntimeError):  # one that is only just starting cannot be joined
            left.pop().join(0.1)
    assert set(our_threads()) - before == set()


# Working ahead


@pytest.mark.parametrize("size", [0, 1, 5, AUTOTUNE])
def test_prefetch_changes_nothing_about_the_elements(size):
    assert values(Dataset.range(20).prefetch(size)) == list(range(20))


def test_prefetch_prepares_the_next_elements_while_the_reader_is_busy():
    third = threading.Event()

    def note(n):
        if int(n) == 2:
            third.set()
        return n

    iterator = Dataset.range(10).map(note).prefetch(2).iterator()
    next(iterator)

    assert third.wait(WAIT)  # nobody has asked for it yet
    iterator.close()


def test_prefetch_prepares_no_more_than_it_has_room_for():
    made = []
    iterator = Dataset.range(100).map(lambda n: made.append(int(n)) or n).prefetch(3).iterator()

    for _ in range(10):
        next(iterator)
    iterator.close()

    assert len(made) <= 10 + 3 + 1


def test_parallel_calls_run_side_by_side():
    meeting = threading.Barrier(3, timeout=WAIT)

    dataset = Dataset.range(6).map(lambda n: (meeting.wait() and n) or n, num_parallel_calls=3)

    assert values(dataset) == list(range(6))


def test_results_come_as_they_are_ready_if_their_order_does_not_matter():
    later = threading.Event()

    def slow_first(n):
        if int(n) == 0:
            assert later.wait(WAIT)
        return n

    dataset = Dataset.range(4).map(slow_first, num_parallel_calls=2, deterministic=False)
    found = []
    for n in dataset:
        found.append(int(n))
        later.set()

    assert found[0] != 0
    assert sorted(found) == [0, 1, 2, 3]


# Errors


def fail_at_two(n):
    if int(n) == 2:
        raise KeyError("two")
    return n


PIPELINES = {
    "map": lambda: Dataset.range(5).map(fail_at_two),
    "parallel map": lambda: Dataset.range(5).map(fail_at_two, num_parallel_calls=2),
    "before a parallel map": lambda: (
        Dataset.range(5).map(fail_at_two).map(lambda n: n, num_parallel_calls=2)
    ),
    "before a batch": lambda: Dataset.range(5).map(fail_at_two).batch(1).unbatch(),
    "prefetch": lambda: Dataset.range(5).map(fail_at_two).prefetch(2),
    "parallel map, prefetch": lambda: (
        Dataset.range(5).map(fail_at_two, num_parallel_calls=2).prefetch(2)
    ),
}


@pytest.mark.parametrize("name", PIPELINES)
def test_an_error_arrives_where_its_element_is_asked_for(name):
    iterator = PIPELINES[name]().iterator()

    assert [int(next(iterator)), int(next(iterator))] == [0, 1]
    with pytest.raises(KeyError, match="two") as caught:
        next(iterator)

    assert caught.value.__notes__ == [
        "This happened in the step map(fail_at_two) of a tapegrad dataset."
    ]
    assert "fail_at_two" in [entry.name for entry in traceback.extract_tb(caught.tb)]
    assert values(iterator) == [3, 4]


def test_stop_iteration_in_a_function_does_not_end_the_dataset_in_silence():
    def stop(n):
        raise StopIteration

    with pytest.raises(RuntimeError, match=r"step map\(stop\) of a tapegrad dataset"):
        list(Dataset.range(3).map(stop).prefetch(1))


def test_a_function_that_exits_does_not_leave_its_reader_waiting():
    def leave(n):
        raise SystemExit(3)

    with pytest.raises(SystemExit):
        list(Dataset.range(3).map(leave).prefetch(1))


def test_an_error_of_a_generator_names_its_step():
    def numbers():
        yield 1
        raise OSError("the disk is gone")

    iterator = Dataset.from_generator(numbers).prefetch(1).iterator()
    next(iterator)

    with pytest.raises(OSError, match="the disk is gone") as caught:
        next(iterator)
    assert "from_generator" in caught.value.__notes__[0]


# The end of threads


THREADED = {
    "prefetch": lambda: Dataset.range(10**6).prefetch(2),
    "parallel map": lambda: Dataset.range(10**6).map(lambda n: n, num_parallel_calls=2),
    "interleave": lambda: Dataset.range(5).interleave(
        lambda n: Dataset.range(10**6), num_parallel_calls=2
    ),
    "all": lambda: (
        Dataset.range(10**6)
        .prefetch(2)
        .map(lambda n: n, num_parallel_calls=2)
        .repeat()
        .batch(2)
        .prefetch(2)
    ),
}


@pytest.mark.parametrize("name", THREADED)
def test_a_reader_that_stops_early_leaves_no_thread(name):
    for _ in THREADED[name]():
        break


@pytest.mark.parametrize("name", THREADED)
def test_close_ends_the_threads_at_once(name):
    iterator = THREADED[name]().iterator()
    next(iterator)

    iterator.close()

    assert [thread for thread in our_threads() if "prefetch" in thread.name] == []
    assert list(iterator) == []


@pytest.mark.parametrize("name", THREADED)
def test_an_iterator_that_is_never_read_leaves_no_thread(name):
    iterator = THREADED[name]().iterator()

    del iterator


def test_a_reader_that_fails_leaves_no_thread():
    def read():
        for _ in THREADED["all"]():
            raise ValueError("enough")

    with pytest.raises(ValueError, match="enough"):
        read()


def test_a_dataset_that_ends_leaves_no_thread():
    assert values(Dataset.range(3).prefetch(1).take(2)) == [0, 1]


SLEEPER = """
import signal
import threading
from tapegrad.data import Dataset
forever = threading.Event()
# What a shell starts in the background ignores it, and so does what that starts.
signal.signal(signal.SIGINT, signal.default_int_handler)
has_first = threading.Event()
calls = []
def wait(n):
    calls.append(n)
    if len(calls) > 1:
        has_first.wait()  # or what is imported at the first element would be interrupted
        print("waiting", flush=True)
        forever.wait()
    return n
try:
    reader = iter(Dataset.range(3).map(wait).prefetch(1))
    next(reader)
    has_first.set()
    next(reader)
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_ctrl_c_interrupts_a_waiting_reader_and_the_program_ends():
    path = os.pathsep.join(sys.path)
    program = subprocess.Popen(
        [sys.executable, "-c", SLEEPER],
        stdout=subprocess.PIPE,
        env=os.environ | {"PYTHONPATH": path},
        text=True,
    )
    assert program.stdout is not None
    assert program.stdout.readline() == "waiting\n"

    program.send_signal(signal.SIGINT)
    out, _ = program.communicate(timeout=60)

    assert (out, program.returncode) == ("interrupted\n", 0)


def test_a_function_that_reads_a_dataset_runs_eagerly():
    @tf.function
    def total():
        return sum(Dataset.range(3))

    with pytest.warns(UserWarning, match=r"it runs eagerly: it reads a dataset at .*test_threads"):
        assert int(total()) == 3
    assert int(total()) == 3
