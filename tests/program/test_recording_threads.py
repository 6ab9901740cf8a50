"""A recording sees its own thread only; random draws of a first call are not repeated."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.errors import RecordingError


def in_thread(work: Callable[[], Any]) -> Any:
    """Return the result of `work` in another thread."""
    found: list[Any] = []

    def run() -> None:
        try:
            found.append(work())
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(30)
    return found[0]


# Threads


def test_writes_of_another_thread_are_not_recorded() -> None:
    v, other = tf.Variable(1.0), tf.Variable(0.0)

    def body(x: Any) -> Any:
        in_thread(lambda: other.assign_add(1.0))
        v.assign_add(x)
        return v * 2.0

    f = tf.function(body)
    f(tf.constant(1.0))
    f(tf.constant(1.0))
    f(tf.constant(1.0))

    assert float(other) == 1.0
    assert float(v) == 4.0


def test_a_thread_reads_and_writes_the_variable_of_a_recording() -> None:
    v = tf.Variable([1.0, 2.0])
    seen: list[Any] = []

    def body(x: Any) -> Any:
        v.assign(v * 10.0)
        seen.append(in_thread(lambda: v.numpy().tolist()))
        seen.append(in_thread(lambda: v.assign_add([1.0, 1.0]).numpy().tolist()))
        return v + x

    result = tf.function(body)(tf.constant(0.0))

    assert seen == [[1.0, 2.0], [2.0, 3.0]]
    assert result.numpy().tolist() == v.numpy().tolist() == [20.0, 30.0]


def test_a_thread_replays_while_another_records() -> None:
    v = tf.Variable(0.0)
    count = tf.function(lambda: v.assign_add(1.0))
    count()

    def body(x: Any) -> Any:
        assert not isinstance(in_thread(lambda: [count() for _ in range(5)]), BaseException)
        return x + v

    assert float(tf.function(body)(tf.constant(1.0))) == 7.0
    assert float(v) == 6.0


def test_a_new_variable_of_a_recording_is_seen_by_other_threads() -> None:
    kept: list[Any] = []
    seen: list[Any] = []

    def body(x: Any) -> Any:
        if not kept:
            kept.append(tf.Variable(tf.ones([2]) * 3.0))
        kept[0].assign_add(tf.ones([2]))
        seen.append(in_thread(lambda: kept[0].numpy().tolist()))
        return kept[0] * x

    f = tf.function(body)

    assert f(tf.constant(1.0)).numpy().tolist() == [4.0, 4.0]
    assert seen == [[3.0, 3.0]]
    assert f(tf.constant(1.0)).numpy().tolist() == [5.0, 5.0]


def test_recorded_tensors_are_refused_in_another_thread() -> None:
    def body(x: Any) -> Any:
        error = in_thread(lambda: x * 2.0)
        assert isinstance(error, RecordingError)
        raise error

    with pytest.raises(RecordingError, match="in another thread"):
        tf.function(body)(tf.constant(1.0))


def test_a_failed_recording_leaves_the_writes_of_other_threads() -> None:
    v = tf.Variable(1.0)

    def body(x: Any) -> Any:
        v.assign(5.0)
        in_thread(lambda: v.assign(2.0))
        return float(x)

    with pytest.raises(RecordingError):
        tf.function(body)(tf.constant(1.0))
    assert float(v) == 2.0


def test_a_recording_under_a_tape_sees_its_own_thread_only() -> None:
    v, other = tf.Variable(3.0), tf.Variable(0.0)

    def body(x: Any) -> Any:
        in_thread(lambda: other.assign_add(1.0))
        return v * v * x

    f = tf.function(body)
    for _ in range(3):
        with tf.GradientTape() as tape:
            y = f(tf.constant(2.0))
        assert float(tape.gradient(y, v)) == 12.0
    assert float(other) == 1.0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_a_child_that_is_forked_during_a_recording_can_record() -> None:
    inside, done = threading.Event(), threading.Event()

    def body(x: Any) -> Any:
        inside.set()
        done.wait(30)
        return x + 1.0

    thread = threading.Thread(target=lambda: tf.function(body)(tf.constant(1.0)))
    thread.start()
    inside.wait(30)
    child = os.fork()
    if not child:
        v = tf.Variable(1.0)
        f = tf.function(lambda x: v.assign_add(x) * 2.0)
        good = float(f(tf.constant(1.0))) == 4.0 and float(f(tf.constant(1.0))) == 6.0
        os._exit(0 if good and type(v.array) is not property else 1)
    ended, status = 0, 1
    for _ in range(200):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        time.sleep(0.1)
    else:
        os.kill(child, 9)
        os.waitpid(child, 0)
    done.set()
    thread.join()
    assert (bool(ended), status) == (True, 0)


# Random numbers


class Noisy(tf.Module):
    """A model that creates variables at its first call, between random draws."""

    def __init__(self) -> None:
        super().__init__()
        self.layers: list[Any] = []

    def __call__(self, x: Any) -> Any:
        y = x + tf.random.normal([3])
        if not self.layers:
            self.layers.append(tf.Variable(tf.random.normal([3])))
        y = y * tf.random.uniform([3])
        if len(self.layers) == 1:
            self.layers.append(tf.Variable(2.0 * tf.random.uniform([3]) - 1.0))
        tf.random.normal([1])  # nobody reads it, but eager calls draw it
        return y + self.layers[0] * self.layers[1]


def stream(wrapper: Callable[[Any], Any], under_tape: bool) -> list[Any]:
    """The results of some calls, and the numbers that are drawn after them."""
    tf.random.set_seed(3)
    f = wrapper(Noisy())
    found = []
    for _ in range(3):
        if under_tape:
            with tf.GradientTape() as tape:
                y = f(tf.ones([3]))
            tape.gradient(y, tape.watched_variables())
        else:
            y = f(tf.ones([3]))
        found.append(y.numpy())
    return [*found, tf.random.normal([3]).numpy()]


@pytest.mark.parametrize("under_tape", [False, True])
def test_replays_do_not_draw_initial_values_again(under_tape: bool) -> None:
    recorded = stream(tf.function, under_tape)
    eager = stream(lambda f: f, under_tape)

    np.testing.assert_allclose(recorded, eager, rtol=1e-6)


def test_dropout_continues_as_in_eager_mode_after_layers_are_built() -> None:
    def run(wrapper: Callable[[Any], Any]) -> list[Any]:
        tf.random.set_seed(5)
        model = tf.keras.Sequential([
            tf.keras.layers.Dense(4),
            tf.keras.layers.Dropout(0.5),
            tf.keras.layers.Dense(4, kernel_initializer="orthogonal"),
            tf.keras.layers.Dropout(0.5),
        ])  # fmt: skip
        step = wrapper(lambda x: model(x, training=True))
        return [step(tf.ones([2, 3])).numpy() for _ in range(4)]

    np.testing.assert_allclose(run(tf.function), run(lambda f: f), rtol=1e-5, atol=1e-6)


def test_variables_that_end_with_the_call_are_drawn_at_each_call() -> None:
    def body() -> Any:
        return tf.Variable(tf.random.normal([2])) * 1.0

    def run(wrapper: Callable[[Any], Any]) -> list[Any]:
        tf.random.set_seed(7)
        f = wrapper(body)
        return [f().numpy() for _ in range(3)]

    np.testing.assert_allclose(run(tf.function), run(lambda f: f), rtol=1e-6)


def test_a_first_call_that_ends_in_eager_code_draws_initial_values_once() -> None:
    """The tape follows a captured tensor, so that the programs of the recording are not used."""

    def run(wrapper: Callable[[Any], Any]) -> list[Any]:
        tf.random.set_seed(11)
        made: list[Any] = []
        w = tf.Variable(2.0)
        held: dict[str, Any] = {}

        def body(x: Any) -> Any:
            y = x * tf.random.uniform([2])
            if not made:
                made.append(tf.Variable(tf.random.normal([2])))
                made.append(tf.Variable(tf.random.normal([2])))
            return y * made[0] * held["c"] + tf.random.normal([2]) * made[1]

        f, found = wrapper(body), []
        for _ in range(3):
            with tf.GradientTape() as tape:
                held["c"] = w * w
                y = f(tf.ones([2]))
            found += [y.numpy(), tape.gradient(y, made[0]).numpy()]
        return found

    np.testing.assert_allclose(run(tf.function), run(lambda f: f), rtol=1e-5)


def test_attributes_are_plain_again_after_recordings_that_fail() -> None:
    plain = vars(tf.Variable)["array"]
    v = tf.Variable(1.0)

    def body(x: Any) -> Any:
        assert vars(tf.Variable)["array"] is not plain
        v.assign(5.0)
        raise KeyboardInterrupt

    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            tf.function(body)(tf.constant(1.0))
        assert vars(tf.Variable)["array"] is plain
        assert "__getattribute__" not in vars(tf.Module.__mro__[1])
        assert float(v) == 1.0
