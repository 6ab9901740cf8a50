"""The lifecycle of a tape: entering, leaving, stop_recording, reset, watched_variables."""

from __future__ import annotations

import inspect
import sys

import pytest

import tapegrad as tf
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
    with pytest.raises(RuntimeError, match="enter the tape first"):
        tape.gradient(v * v, v)


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


def test_an_interrupted_constructor_leaves_nothing_to_complain_about(monkeypatch):
    complaints = []
    monkeypatch.setattr(sys, "unraisablehook", complaints.append)

    def interrupted(*args, **options):
        raise KeyboardInterrupt

    for name in ("Token", "weakref.WeakSet"):
        with monkeypatch.context() as patch:
            patch.setattr(f"tapegrad.autodiff.recording.{name}", interrupted)
            with pytest.raises(KeyboardInterrupt):
                tf.GradientTape(persistent=True)

    assert complaints == []
