"""Gradients of one-shot and persistent tapes, inside blocks and threads."""

from __future__ import annotations

import asyncio
import copy
import pickle
import sys
import threading
import warnings

import pytest

import tapegrad as tf
from tapegrad.autodiff import arguments
from tapegrad.core.recorder import active_stack


@pytest.fixture
def x():
    return tf.constant(3.0)


def square_on(tape, x):
    """Record x * x on an entered tape."""
    tape.watch(x)
    return x * x


def active_recorders():
    return active_stack().recorders


def entered_and_left():
    with tf.GradientTape() as tape:
        pass
    return tape


def test_L11_gradient_inside_the_block_stops_the_recording(x):
    with tf.GradientTape() as tape:
        y = square_on(tape, x)
        inside = tape.gradient(y, x)
        assert active_recorders() == ()
        _ = y * x

    assert float(inside) == 6.0
    assert active_recorders() == ()


def test_L12_gradient_inside_a_persistent_block_is_recorded(x, monkeypatch):
    monkeypatch.setattr(arguments, "_warned", set())
    with tf.GradientTape(persistent=True) as tape:
        y = square_on(tape, x) * x
        with pytest.warns(UserWarning, match="inside its block"):
            first = tape.gradient(y, x)

    assert float(tape.gradient(first, x)) == 18.0


def test_L12_the_warning_comes_once(x, monkeypatch):
    monkeypatch.setattr(arguments, "_warned", set())
    with warnings.catch_warnings(record=True) as seen, tf.GradientTape(True) as tape:
        warnings.simplefilter("always")
        y = square_on(tape, x)
        tape.gradient(y, x)
        tape.gradient(y, x)

    assert len(seen) == 1


def test_L13_an_inner_gradient_inside_the_outer_block_is_recorded(x):
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            y = square_on(inner, x) * x
        first = inner.gradient(y, x)

    assert float(first) == 27.0
    assert float(outer.gradient(first, x)) == 18.0


def test_L13_an_inner_gradient_outside_the_outer_block_is_not(x):
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            y = square_on(inner, x) * x
    first = inner.gradient(y, x)

    assert outer.gradient(first, x) is None


def test_L13_five_tapes_give_the_fifth_derivative():
    x = tf.constant(2.0, dtype="float64")

    def derivative(order):
        if order == 0:
            return x * x * x * x * x
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = derivative(order - 1)
        return tape.gradient(y, x)

    assert float(derivative(5)) == 120.0


@pytest.mark.parametrize("second", ["gradient", "jacobian", "batch_jacobian"])
def test_L14_second_call_on_a_used_tape_explains_persistence(second):
    x = tf.constant([[1.0, 2.0]])
    with tf.GradientTape() as tape:
        y = square_on(tape, x)
    tape.gradient(y, x)

    with pytest.raises(RuntimeError, match=r"^A non-persistent GradientTape can only.*persistent"):
        getattr(tape, second)(y, x)


def test_L15_a_persistent_tape_answers_any_number_of_calls(x):
    with tf.GradientTape(persistent=True) as tape:
        y = square_on(tape, x)
        z = y * y

    assert [float(tape.gradient(t, x)) for t in (y, z, z)] == [6.0, 108.0, 108.0]


def test_L15_clear_releases_what_was_recorded(x):
    with tf.GradientTape(persistent=True) as tape:
        y = square_on(tape, x)
    tape.clear()

    assert tape.gradient(y, x) is None


def test_L15_a_cleared_tape_can_be_entered_again(x):
    with tf.GradientTape(persistent=True) as tape:
        square_on(tape, x)
    tape.clear()
    with tape:
        y = square_on(tape, x)

    assert float(tape.gradient(y, x)) == 6.0


def test_L15_clear_inside_the_block_is_refused():
    with tf.GradientTape() as tape, pytest.raises(RuntimeError, match="Leave its block"):
        tape.clear()


@pytest.mark.parametrize(
    "arguments",
    [
        {"unconnected_gradients": "nought"},
        {"target": None},
        {"sources": [3.0]},
        {"output_gradients": tf.constant([1.0, 2.0])},
    ],
    ids=lambda arguments: next(iter(arguments)),
)
def test_L16_bad_arguments_do_not_use_the_tape_up(x, arguments):
    with tf.GradientTape() as tape:
        y = square_on(tape, x)
    with pytest.raises((ValueError, TypeError)):
        tape.gradient(**{"target": y, "sources": x, **arguments})

    assert float(tape.gradient(y, x)) == 6.0


def test_L16_after_a_failed_sweep_a_retry_says_so(x):
    @tf.custom_gradient
    def broken(x):
        def grad(upstream):
            raise KeyError("broken rule")

        return x * 1.0, grad

    with tf.GradientTape() as tape:
        tape.watch(x)
        y = broken(x)
    with pytest.raises(KeyError, match="broken rule"):
        tape.gradient(y, x)

    with pytest.raises(RuntimeError, match="failed half-way"):
        tape.gradient(y, x)


def test_L20_operations_in_another_thread_are_not_recorded(x):
    results = []
    with tf.GradientTape() as tape:
        tape.watch(x)
        thread = threading.Thread(target=lambda: results.append(x * x))
        thread.start()
        thread.join()

    assert tape.gradient(results[0], x) is None


def test_L20_threads_record_on_their_own_tapes():
    results = {}

    def work(number):
        x = tf.constant(float(number))
        with tf.GradientTape() as tape:
            y = square_on(tape, x)
        results[number] = float(tape.gradient(y, x))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert results == {n: 2.0 * n for n in range(8)}


def test_L20_threads_may_watch_the_same_tensor(x):
    wrong = []

    def work():
        for _ in range(300):
            with tf.GradientTape() as tape:
                y = square_on(tape, x)
            gradient = tape.gradient(y, x)
            if gradient is None or float(gradient) != 6.0:
                wrong.append(gradient)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    sys.setswitchinterval(interval)

    assert wrong == []


def test_L20_asyncio_tasks_record_on_their_own_tapes():
    async def work(number):
        x = tf.constant(float(number))
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x * x
            await asyncio.sleep(0)
            y = y * x
        return float(tape.gradient(y, x))

    async def both():
        return await asyncio.gather(work(1), work(2))

    assert asyncio.run(both()) == [3.0, 12.0]


def test_L21_a_tape_cannot_be_pickled():
    with pytest.raises(TypeError, match=r"cannot be pickled.*recorded"):
        pickle.dumps(entered_and_left())


def test_L21_nor_copied():
    with pytest.raises(TypeError, match="recorded"):
        copy.copy(entered_and_left())
