"""The life of a tape: rows L1 to L21 of the semantics table (memory rows: test_memory.py)."""

from __future__ import annotations

import asyncio
import copy
import inspect
import pickle
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


def test_L1_constructor_takes_persistent_then_watch_accessed_variables():
    parameters = list(inspect.signature(tf.GradientTape).parameters.values())[:2]

    assert [(p.name, p.default) for p in parameters] == [
        ("persistent", False),
        ("watch_accessed_variables", True),
    ]


def test_L1_both_names_are_one_class():
    assert tf.autodiff.GradientTape is tf.GradientTape


def test_L1_arguments_may_be_positional():
    v = tf.Variable(2.0)
    with tf.GradientTape(True, False) as tape:
        y = v * v

    assert [tape.gradient(y, v), tape.gradient(y, v)] == [None, None]


def test_L2_constructing_does_not_record():
    v = tf.Variable(2.0)
    tape = tf.GradientTape()

    assert active_recorders() == ()
    assert tape.gradient(v * v, v) is None


def test_L2_enter_returns_the_tape():
    tape = tf.GradientTape()
    with tape as entered:
        assert entered is tape


def test_L2_watch_before_entering_says_so(x):
    with pytest.raises(RuntimeError, match="enter the tape first"):
        tf.GradientTape().watch(x)


def test_L2_the_type_is_checked_before_the_state():
    with pytest.raises(ValueError, match=r"ndarray|float"):
        tf.GradientTape().watch(3.0)


def test_L3_leaving_stops_the_recording(x):
    with tf.GradientTape() as tape:
        tape.watch(x)
    y = x * x

    assert active_recorders() == ()
    assert tape.gradient(y, x) is None


def test_L3_exceptions_pass_and_leave_no_active_tape():
    with pytest.raises(ZeroDivisionError), tf.GradientTape():
        1 / 0  # noqa: B018

    assert active_recorders() == ()


def test_L4_entering_an_active_tape_is_refused():
    with tf.GradientTape() as tape, pytest.raises(ValueError, match="still recording"):
        tape.__enter__()

    assert active_recorders() == ()


def test_L5_a_tape_entered_again_continues_its_recording(x):
    tape = tf.GradientTape()
    with tape:
        y = square_on(tape, x)
    with tape:
        z = y * x

    assert float(tape.gradient(z, x)) == 27.0


def test_L5_values_made_between_the_blocks_are_not_recorded(x):
    tape = tf.GradientTape()
    with tape:
        y = square_on(tape, x)
    between = y * x
    with tape:
        z = between * y

    assert float(tape.gradient(z, x)) == 27.0 * 6.0


def test_L6_a_used_tape_entered_again_starts_empty(x):
    tape = tf.GradientTape()
    with tape:
        y = square_on(tape, x)
    tape.gradient(y, x)
    with tape:
        z = square_on(tape, x) * x

    assert float(tape.gradient(z, x)) == 27.0


def test_L6_the_new_recording_forgets_the_old_watches(x):
    tape = tf.GradientTape()
    with tape:
        y = square_on(tape, x)
    tape.gradient(y, x)
    with tape:
        z = x * x

    assert tape.gradient(z, x) is None


def test_L7_stop_recording_silences_this_tape(x):
    with tf.GradientTape() as tape:
        y = square_on(tape, x)
        with tape.stop_recording():
            z = y * x

    assert tape.gradient(z, x) is None


def test_L7_other_tapes_go_on(x):
    with tf.GradientTape() as other, tf.GradientTape() as tape:
        other.watch(x)
        with tape.stop_recording():
            y = x * x

    assert float(other.gradient(y, x)) == 6.0


def test_L7_accumulators_go_on(x):
    with (
        tf.GradientTape() as tape,
        tf.autodiff.ForwardAccumulator(x, tf.constant(1.0)) as accumulator,
    ):
        tape.watch(x)
        with tape.stop_recording():
            y = x * x

    assert float(accumulator.jvp(y)) == 6.0


def test_L7_variables_first_read_inside_are_not_watched():
    v = tf.Variable(2.0)
    with tf.GradientTape() as tape, tape.stop_recording():
        v.read_value()

    assert tape.watched_variables() == ()


def test_L7_recording_resumes_with_all_earlier_history(x):
    with tf.GradientTape() as tape:
        y = square_on(tape, x)
        with tape.stop_recording():
            _ = y * y
        z = y * x

    assert float(tape.gradient(z, x)) == 27.0


def entered_and_left():
    with tf.GradientTape() as tape:
        pass
    return tape


def consumed():
    x = tf.constant(1.0)
    with tf.GradientTape() as tape:
        y = square_on(tape, x)
    tape.gradient(y, x)
    return tape


@pytest.mark.parametrize("make", [tf.GradientTape, entered_and_left, consumed])
def test_L7_stop_recording_needs_a_recording_tape(make):
    with pytest.raises(RuntimeError, match="recording"), make().stop_recording():
        pass


def test_L7_a_gradient_inside_stop_recording_leaves_no_active_tape(x):
    with tf.GradientTape() as tape:
        y = square_on(tape, x)
        with tape.stop_recording():
            tape.gradient(y, x)

    assert active_recorders() == ()


def test_L7_an_exception_inside_stop_recording_restores_the_recording(x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        with pytest.raises(KeyError), tape.stop_recording():
            raise KeyError
        y = x * x

    assert float(tape.gradient(y, x)) == 6.0


def test_L8_reset_throws_history_and_watches_away(x):
    with tf.GradientTape() as tape:
        y = square_on(tape, x)
        tape.reset()
        z = y * x

    assert tape.gradient(z, x) is None


def test_L8_the_tape_goes_on_recording_after_reset(x):
    with tf.GradientTape() as tape:
        square_on(tape, x)
        tape.reset()
        y = square_on(tape, x)

    assert float(tape.gradient(y, x)) == 6.0


def test_L8_variables_register_anew_after_reset():
    v, w = tf.Variable(2.0), tf.Variable(3.0)
    with tf.GradientTape() as tape:
        _ = v * w
        tape.reset()
        emptied = tape.watched_variables()
        y = w * w

    assert emptied == ()
    assert float(tape.gradient(y, w)) == 6.0
    assert [variable.name for variable in tape.watched_variables()] == [w.name]


def test_L8_reset_outside_the_block_is_refused():
    with pytest.raises(ValueError, match="recording"):
        tf.GradientTape().reset()


def test_L9_watched_variables_are_ordered_by_creation_each_once():
    first, second = tf.Variable(1.0), tf.Variable(2.0)
    with tf.GradientTape() as tape:
        _ = second * first + second

    assert isinstance(tape.watched_variables(), tuple)
    assert [v.ref() for v in tape.watched_variables()] == [first.ref(), second.ref()]


def test_L9_watched_variables_are_empty_before_use():
    assert tf.GradientTape().watched_variables() == ()


def test_L9_watched_variables_answer_after_consumption():
    v = tf.Variable(1.0)
    with tf.GradientTape() as tape:
        y = v * v
    tape.gradient(y, v)

    assert [w.ref() for w in tape.watched_variables()] == [v.ref()]


def test_L10_tapes_side_by_side_have_their_own_watches_and_histories(x):
    y = tf.constant(2.0)
    with tf.GradientTape() as first, tf.GradientTape() as second:
        first.watch(x)
        second.watch(y)
        z = x * y

    assert float(first.gradient(z, x)) == 2.0
    assert second.gradient(z, x) is None


def test_L10_the_second_tape_is_not_used_up_by_the_first(x):
    v = tf.Variable(3.0)
    with tf.GradientTape() as first, tf.GradientTape() as second:
        y = v * v

    assert [float(first.gradient(y, v)), float(second.gradient(y, v))] == [6.0, 6.0]


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
