"""Programs that are built in the background: calls run unfused until the compiled form is ready."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
import warnings
import weakref
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.core import background
from tapegrad.core.background import Job
from tapegrad.core.gc_pause import gc_paused
from tapegrad.program import building
from tapegrad.program.passes import pipeline
from tapegrad.program.program import Program
from tests.program.held_builds import (
    PATIENCE,
    HeldBuilds,
    drawing_body,
    program_that_runs,
    state,
)


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> Iterator[HeldBuilds]:
    """Functions do not wait, and their programs are built when the test allows it."""
    held = HeldBuilds()
    monkeypatch.setattr(building, "program_of", held)
    monkeypatch.setattr(building, "SECONDS", 0.0)
    before = building.set_waiting(False)
    try:
        yield held
    finally:
        held.error = None
        held.finish()
        building.set_waiting(before)


@pytest.fixture
def quick(builds: HeldBuilds, monkeypatch: pytest.MonkeyPatch) -> HeldBuilds:
    """Functions do not wait in general, but each program is ready in time."""
    builds.allow(100)
    monkeypatch.setattr(building, "SECONDS", PATIENCE)
    return builds


X = np.linspace(-1.0, 1.0, 12).reshape(4, 3)


def test_a_call_does_not_wait_for_a_long_program(
    builds: HeldBuilds, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[Any] = []
    wait = Job.wait
    monkeypatch.setattr(Job, "wait", lambda job, seconds=None: waited.append(seconds))
    monkeypatch.setattr(building, "SECONDS", PATIENCE)
    monkeypatch.setattr(building, "MOST_CALLS", 2)
    for function in (lambda x: tf.sin(tf.sin(x)), lambda x: tf.sin(tf.sin(tf.sin(x)))):
        tf.function(function)(tf.constant(X))
    monkeypatch.setattr(Job, "wait", wait)

    assert 0.0 < waited[0] < PATIENCE
    assert waited[1] == 0.0


def test_a_call_waits_less_the_longer_its_recording_has_taken(
    builds: HeldBuilds, monkeypatch: pytest.MonkeyPatch
) -> None:
    waited: list[Any] = []
    wait = Job.wait
    monkeypatch.setattr(Job, "wait", lambda job, seconds=None: waited.append(seconds))
    monkeypatch.setattr(building, "SECONDS", PATIENCE)

    def slow(x: Any) -> Any:
        time.sleep(0.2)
        return tf.sin(x)

    tf.function(slow)(tf.constant(X))
    monkeypatch.setattr(building, "SECONDS", 0.1)
    tf.function(slow)(tf.constant(X))
    monkeypatch.setattr(Job, "wait", wait)

    assert waited[0] < PATIENCE - 0.2
    assert waited[1] == 0.0


def test_fusion_has_checkpoints_in_proportion_to_the_calls(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reached: list[int] = []
    monkeypatch.setattr(background, "checkpoint", lambda: reached.append(1))
    monkeypatch.setattr(background, "is_background", lambda: True)

    def chain(length: int) -> int:
        def function(x: Any) -> Any:
            for _ in range(length):
                x = tf.tanh(x @ x)
            return x

        tf.function(function, wait=True)(tf.constant(np.eye(3)))
        found = len(reached)
        reached.clear()
        return found

    short, long = chain(20), chain(320)

    assert long - short >= 300 // 8


def test_a_call_runs_unfused_until_the_program_is_compiled(builds: HeldBuilds) -> None:
    f = tf.function(lambda x: {"y": tf.tanh(x) * 2.0 + tf.reduce_sum(x, axis=0), "n": 3})
    expected = np.tanh(X) * 2.0 + X.sum(axis=0)

    for _ in range(3):
        found = f(tf.constant(X))
        np.testing.assert_allclose(found["y"].numpy(), expected, rtol=1e-12)
        assert found["n"] == 3
    assert state(f) == "being compiled"
    assert not isinstance(program_that_runs(f), Program)

    builds.finish()
    np.testing.assert_allclose(f(tf.constant(X))["y"].numpy(), expected, rtol=1e-12)
    assert state(f) == "compiled"
    assert isinstance(program_that_runs(f), Program)
    assert builds.threads[0] is not threading.main_thread()


def test_a_program_that_is_ready_in_time_serves_the_first_call(quick: HeldBuilds) -> None:
    f = tf.function(lambda x: tf.exp(x) + 1.0)

    f(tf.constant(X))

    assert isinstance(program_that_runs(f), Program)
    assert quick.threads[0] is not threading.main_thread()


def training() -> tuple[Any, Any, list[Any]]:
    w = tf.Variable(np.linspace(-1.0, 1.0, 6).reshape(3, 2), name="w")
    steps = tf.Variable(0)
    optimizer = tf.optimizers.Adam(0.05)

    def step(x: Any) -> Any:
        steps.assign_add(1)
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(tf.tanh(x @ w) - 0.3))
        optimizer.apply_gradients([(tape.gradient(loss, w), w)])
        return loss

    return step, w, [steps]


def test_training_goes_on_across_the_swap(builds: HeldBuilds) -> None:
    eager, expected_w, _ = training()
    plain, w, (steps,) = training()
    recorded = tf.function(plain)

    for number in range(8):
        x = tf.constant(X + number)
        np.testing.assert_allclose(recorded(x).numpy(), eager(x).numpy(), rtol=1e-10)
        np.testing.assert_allclose(w.numpy(), expected_w.numpy(), rtol=1e-10)
        if number == 4:
            assert state(recorded) == "being compiled"
            builds.finish()
    assert isinstance(program_that_runs(recorded), Program)
    assert int(steps) == 8


def gradient_of(f: Any, v: Any) -> tuple[Any, Any]:
    x = tf.constant(X)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    return tape, (y, [x, v])


@pytest.mark.parametrize("forward_is_compiled", [False, True])
def test_forward_and_backward_of_both_forms_fit_together(
    builds: HeldBuilds, forward_is_compiled: bool
) -> None:
    v = tf.Variable(np.arange(3.0) + 0.5)
    function = lambda x: tf.sin(x * v) * tf.exp(x)  # noqa: E731
    f = tf.function(function)
    tape, (y, sources) = gradient_of(function, v)
    expected = tape.gradient(y, sources)

    tape, (y, sources) = gradient_of(f, v)  # recorded
    first = tape.gradient(y, sources)
    (programs,) = f._forward_backward.values()
    if forward_is_compiled:
        builds.allow()
        programs.entry.building.program()
    tape, (y, sources) = gradient_of(f, v)
    assert isinstance(programs.entry._program, Program) == forward_is_compiled
    if not forward_is_compiled:
        builds.finish()
    second = tape.gradient(y, sources)

    assert isinstance(programs.backward._program, Program) != forward_is_compiled
    for found in (first, second):
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-12)


def test_effects_happen_once_per_call_in_both_forms(
    builds: HeldBuilds, capsys: pytest.CaptureFixture[str]
) -> None:
    def body(x: Any) -> Any:
        tf.print("x is", x, output_stream=sys.stdout)
        return x + 1.0

    f = tf.function(body)
    for number in range(4):
        f(tf.constant(float(number)))
        if number == 1:
            builds.finish()

    assert capsys.readouterr().out == "x is 0.0\nx is 1.0\nx is 2.0\nx is 3.0\n"


def test_an_argument_is_written_by_both_forms(builds: HeldBuilds) -> None:
    def body(x: Any) -> Any:
        x[0] = 7.0
        return x * 2.0

    f = tf.function(body)
    for number in range(4):
        x = tf.constant(np.zeros(2))
        assert f(x).numpy().tolist() == [14.0, 0.0]
        assert x.numpy().tolist() == [7.0, 0.0]
        if number == 1:
            builds.finish()


def test_initial_values_are_drawn_once(builds: HeldBuilds) -> None:
    tf.random.set_seed(5)
    eager = drawing_body()
    expected = [eager().numpy() for _ in range(4)]
    tf.random.set_seed(5)
    f = tf.function(drawing_body())
    found = [f().numpy(), f().numpy()]
    builds.finish()
    found += [f().numpy(), f().numpy()]

    np.testing.assert_array_equal(found, expected)


def test_another_thread_may_assign_while_a_call_is_recorded(builds: HeldBuilds) -> None:
    v = tf.Variable([1.0, 2.0])

    def body() -> Any:
        v.assign(v * 10.0)
        thread = threading.Thread(target=lambda: v.assign_add([1.0, 1.0]))
        thread.start()
        thread.join()
        return v.value()

    assert tf.function(body)().numpy().tolist() == v.numpy().tolist() == [20.0, 30.0]


def test_a_constant_result_of_the_first_call_is_a_copy(builds: HeldBuilds) -> None:
    table = np.arange(3.0)
    f = tf.function(lambda x: (tf.constant(table), x))

    f(tf.constant(1.0))[0].array[...] = -1.0

    assert f(tf.constant(1.0))[0].numpy().tolist() == [0.0, 1.0, 2.0]


def test_an_error_of_the_builder_is_a_warning_and_the_program_runs_unfused(
    builds: HeldBuilds,
) -> None:
    v = tf.Variable(0.0)
    builds.error = OSError("no compiler")
    f = tf.function(lambda x: v.assign_add(x).value())
    assert float(f(tf.constant(1.0))) == 1.0
    builds.finish()

    with pytest.warns(UserWarning, match="runs unfused: OSError") as seen:
        results = [float(f(tf.constant(1.0))) for _ in range(3)]

    assert results == [2.0, 3.0, 4.0]
    assert len(seen) == 1
    assert state(f) == "runs unfused: OSError('no compiler')"
    with pytest.raises(OSError, match="no compiler"):
        f.program(tf.constant(1.0))


def test_an_error_in_time_lets_the_function_run_eagerly(quick: HeldBuilds) -> None:
    quick.error = OSError("no compiler")
    f = tf.function(lambda x: x + 1.0)

    with pytest.warns(UserWarning, match="runs eagerly: OSError"):
        assert float(f(tf.constant(1.0))) == 2.0
    assert float(f(tf.constant(1.0))) == 2.0

    (reason,) = f.explain().eager_calls
    assert "no compiler" in reason


def test_an_error_of_an_unfused_call_names_the_line(builds: HeldBuilds) -> None:
    f = tf.function(lambda x, k: tf.gather(x, k))
    f(tf.constant(X), tf.constant(1))

    with pytest.raises(Exception, match=r"test_background_builds\.py"):
        f(tf.constant(X), tf.constant(9))


@pytest.mark.parametrize("options", [{"wait": True}, {"memory_budget": 10**9}])
def test_options_wait_for_the_compiled_form(builds: HeldBuilds, options: dict[str, Any]) -> None:
    f = tf.function(lambda x: tf.exp(x) + 1.0, **options)

    f(tf.constant(X))

    assert state(f) == "compiled"
    assert builds.threads == [threading.main_thread()]


def test_program_waits_for_the_compiled_form(builds: HeldBuilds) -> None:
    f = tf.function(lambda x: tf.exp(x) + 1.0)
    f(tf.constant(X))
    builds.allow()

    assert isinstance(f.program(tf.constant(X)), Program)


def test_the_environment_lets_all_functions_wait() -> None:
    text = "import tapegrad.program.building as b; print(b.is_waiting())"
    found = []
    for value in ("1", "0", ""):
        environment = {**os.environ, "TAPEGRAD_WAIT": value}
        done = subprocess.run(
            [sys.executable, "-c", text], env=environment, capture_output=True, check=True
        )
        found.append(done.stdout.strip())

    assert found == [b"True", b"False", b"False"]


def test_two_threads_call_a_function_that_is_being_built(builds: HeldBuilds) -> None:
    count = tf.Variable(0)
    f = tf.function(lambda x: count.assign_add(1) * 0 + x * x)
    together = threading.Barrier(2, timeout=PATIENCE)
    found: list[int] = []

    def call() -> None:
        for number in range(20):
            together.wait()
            found.append(int(f(tf.constant(3))))
            if number == 10:
                builds.allow()

    threads = [threading.Thread(target=call) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert found == [9] * 40
    assert int(count) == 40
    assert len(f.explain().recordings) == 1


def test_the_collector_works_while_a_program_is_built(
    builds: HeldBuilds, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, found, is_noted = pipeline.optimized, [], threading.Event()

    def noting(*given: Any) -> Any:
        found.append(gc.isenabled())
        is_noted.set()
        return real(*given)

    monkeypatch.setattr("tapegrad.program.program.optimized", noting)
    f = tf.function(lambda x: tf.exp(x) + 1.0)
    f(tf.constant(X))
    builds.allow()

    assert is_noted.wait(PATIENCE)
    builds.finish()
    assert found == [True]
    assert gc.isenabled()


def test_a_pause_that_an_interrupt_kept_from_ending_is_over_with_the_next_one() -> None:
    def interrupted() -> None:
        gc_paused.__enter__()  # the interrupt comes before the block

    assert gc.isenabled()
    interrupted()
    assert not gc.isenabled()
    with gc_paused:
        assert not gc.isenabled()
        with gc_paused:
            pass
        assert not gc.isenabled()
    assert gc.isenabled()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_the_collector_works_in_a_process_that_was_forked_while_another_thread_had_paused_it() -> (
    None
):
    is_paused, may_end = threading.Event(), threading.Event()

    def pause() -> None:
        with gc_paused:
            is_paused.set()
            may_end.wait(PATIENCE)

    thread = threading.Thread(target=pause)
    thread.start()
    assert is_paused.wait(PATIENCE)
    assert not gc.isenabled()
    child = forked()
    if not child:
        os._exit(0 if gc.isenabled() else 1)
    may_end.set()
    thread.join()
    assert os.waitpid(child, 0)[1] == 0
    assert gc.isenabled()


def forked() -> int:
    """Fork; return the number of the child, and 0 in the child, which ends if it hangs."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # forking with threads
        child = os.fork()
    if not child:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(int(PATIENCE))
    return child


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_forked_process_builds_anew(builds: HeldBuilds) -> None:
    f = tf.function(lambda x: tf.exp(x) + 1.0)
    f(tf.constant(X))
    child = forked()
    if not child:
        code = 1
        try:
            building.program_of = builds._real
            unfused = f(tf.constant(X)).numpy()
            program = f.program(tf.constant(X))
            compiled = f(tf.constant(X)).numpy()
            is_right = np.allclose(unfused, np.exp(X) + 1.0) and np.allclose(unfused, compiled)
            code = 0 if is_right and isinstance(program, Program) and gc.isenabled() else 2
        finally:
            os._exit(code)
    assert os.waitpid(child, 0)[1] == 0
    assert state(f) == "being compiled"


ENDING = """
import threading
import tapegrad as tf
from tapegrad.core import background
from tapegrad.program import building

begun = threading.Event()

def build(*given):
    begun.set()
    {work}

building.program_of = build
f = tf.function(lambda x: x * 2.0)
print(float(f(tf.constant(2.0))))
assert begun.wait(60)
"""


@pytest.mark.parametrize(
    "work", ["threading.Event().wait()", "while True: background.checkpoint()", "while True: pass"]
)
def test_the_interpreter_ends_while_a_program_is_built(work: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ENDING.format(work=work)],
        env={**os.environ, "TAPEGRAD_WAIT": "0"},
        capture_output=True,
        timeout=PATIENCE,
        text=True,
    )

    assert (done.returncode, done.stdout, done.stderr) == (0, "4.0\n", "")


class Terminal:
    """A standard error that is a terminal or not, and says when something was written."""

    def __init__(self, is_terminal: bool) -> None:
        self._is_terminal = is_terminal
        self.text = ""
        self.was_written = threading.Event()

    def isatty(self) -> bool:
        return self._is_terminal

    def write(self, text: str) -> None:
        self.text += text
        self.was_written.set()

    def flush(self) -> None:
        pass


@pytest.mark.parametrize("wait", [False, True])
def test_a_long_compilation_shows_a_line_on_a_terminal(
    builds: HeldBuilds, monkeypatch: pytest.MonkeyPatch, wait: bool
) -> None:
    terminal = Terminal(True)
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr("tapegrad.program.progress.SECONDS", 0.0)

    def build(*given: Any) -> Program:
        assert terminal.was_written.wait(PATIENCE)
        return builds._real(*given)

    monkeypatch.setattr(building, "program_of", build)

    def train_step(x: Any) -> Any:
        return tf.exp(x) + 1.0

    tf.function(train_step, wait=wait)(tf.constant(X))
    tf.wait_for_programs()

    how = "the call waits for it" if wait else "runs unfused meanwhile"
    begin, _, end = terminal.text.partition(" ended after ")
    assert begin == f"tapegrad: compiling 2 operations of 'train_step' ({how})"
    assert end.endswith(" s\n")


def test_nothing_is_shown_without_a_terminal(
    builds: HeldBuilds, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal(False)
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr("tapegrad.program.progress.SECONDS", 0.0)

    tf.function(lambda x: tf.exp(x) + 1.0)(tf.constant(X))
    builds.finish()

    assert terminal.text == ""


def test_a_program_that_was_dropped_is_not_built(builds: HeldBuilds) -> None:
    kept, dropped = tf.function(lambda x: x + 1.0), tf.function(lambda x: x + 2.0)
    kept(tf.constant(1.0))
    dropped(tf.constant(1.0))

    del dropped
    gc.collect()
    builds.finish()

    assert len(builds.threads) == 1
    assert state(kept) == "compiled"


def test_a_compiled_program_keeps_only_the_variables_that_it_uses(builds: HeldBuilds) -> None:
    held = [tf.Variable(2.0)]
    unused = weakref.ref(held[0])

    def body(x: Any) -> Any:
        held[0] * x  # a result that nothing needs
        return x + 1.0

    f = tf.function(body)
    f(tf.constant(1.0))
    builds.finish()
    f(tf.constant(1.0))
    held.clear()
    gc.collect()

    assert unused() is None
