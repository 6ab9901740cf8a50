"""Explanations of None gradients: each reason that a tape gives, and `on_none`."""

from __future__ import annotations

import inspect

import numpy as np
import pytest

import tapegrad as tf


@pytest.fixture
def x():
    return tf.constant([1.0, 2.0])


def here(offset):
    """File and line of the caller, `offset` lines further up."""
    frame = inspect.currentframe().f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno - offset}"


def test_a_gradient_that_exists_is_told(x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x

    assert "this gradient is not None" in tape.explain(y, x)


def test_never_watched(x):
    with tf.GradientTape() as tape:
        y = x * x

    assert "never watched: call tape.watch(x)" in tape.explain(y, x)


def test_a_target_made_outside(x):
    with tf.GradientTape() as tape:
        tape.watch(x)
    y = x * x

    assert "made outside the tape's block" in tape.explain(y, x)


def test_a_target_made_from_other_values(x):
    other = tf.constant(1.0)
    with tf.GradientTape() as tape:
        tape.watch([x, other])
        y = other * 2.0

    assert "the source does not enter it" in tape.explain(y, x)


def test_an_integer_source():
    n = tf.constant(1)
    with tf.GradientTape() as tape:
        y = n * 2

    assert "The source has dtype int32" in tape.explain(y, n)


def test_an_integer_target_and_where_it_became_one(x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.cast(x, "int32")
        place = here(1)
    reason = tape.explain(y, x)

    assert "The target has dtype int32" in reason
    assert place in reason


def test_an_integer_on_the_path_with_file_and_line(x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        n = tf.cast(x * 2.0, "int32")
        place = here(1)
        y = tf.cast(n, "float32") * 2.0
    reason = tape.explain(y, x)

    assert "cast" in reason
    assert "has no derivative" in reason
    assert place in reason


def test_an_operation_without_derivative_with_file_and_line(x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.floor(x)
        place = here(1)
    reason = tape.explain(y, x)

    assert f"floor has no derivative ({place})" in reason


EXITS = {
    "numpy()": lambda x: x.numpy(),
    "__array__ or memoryview()": np.asarray,
    "tolist()": lambda x: x.tolist(),
    "float()": lambda x: float(x[0]),
    "item()": lambda x: x[0].item(),
}


@pytest.mark.parametrize(("how", "leave"), EXITS.items(), ids=EXITS)
@pytest.mark.filterwarnings("ignore:A tensor that a tape follows")
def test_passed_through_numpy_with_file_and_line(x, how, leave):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.constant(leave(x)) * 2.0
    reason = tape.explain(y, x)

    assert f"left the tape through {how}" in reason
    assert __file__ in reason


def test_a_value_that_is_gone_is_still_mentioned(x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.constant((x * 2.0).numpy())

    assert "left the tape through numpy()" in tape.explain(y, x)


def test_stop_gradient(x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.stop_gradient(x) * 2.0
        place = here(1)
    reason = tape.explain(y, x)

    assert "stop_gradient" in reason
    assert place in reason


def test_the_state_of_a_variable(x):
    v = tf.Variable([0.0, 0.0], name="state")
    with tf.GradientTape() as tape:
        tape.watch(x)
        v.assign(x * x)
        place = here(1)
        y = v * 2.0
    reason = tape.explain(y, x)

    assert f"became the state of 'state:0' by assign ({place})" in reason


def test_a_variable_that_was_only_assigned_to():
    v = tf.Variable(1.0, name="w")
    with tf.GradientTape() as tape:
        v.assign(2.0, read_value=False)
        y = tf.constant(1.0)

    assert "'w:0' was never read inside the tape's block" in tape.explain(y, v)


def test_a_variable_that_is_not_trainable():
    v = tf.Variable(1.0, name="w", trainable=False)
    with tf.GradientTape() as tape:
        y = v * 2.0

    assert "'w:0' is not trainable" in tape.explain(y, v)


def test_a_variable_on_a_tape_that_does_not_watch_reads():
    v = tf.Variable(1.0, name="w")
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        y = v * 2.0

    assert "watch_accessed_variables=False" in tape.explain(y, v)


def test_a_tape_that_is_used_up_still_explains(x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    tape.gradient(y, x)

    assert "this gradient is not None" in tape.explain(y, x)


def test_explaining_does_not_use_the_tape_up(x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    tape.explain(y, x)

    assert tape.gradient(y, x).numpy().tolist() == [2.0, 4.0]


def test_several_targets_are_looked_at(x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = [tf.constant(1.0), x * x]

    assert "not None" in tape.explain(y, x)


@pytest.mark.parametrize("source", [3.0, None], ids=["float", "None"])
def test_other_sources_are_refused_by_type(x, source):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x

    with pytest.raises(TypeError, match=rf"source.*{type(source).__name__}"):
        tape.explain(y, source)


@pytest.mark.parametrize("persistent", [False, True])
def test_on_none_warn_gives_the_reason(x, persistent):
    with tf.GradientTape(persistent, on_none="warn") as tape:
        tape.watch(x)
        y = tf.stop_gradient(x) * 2.0

    with pytest.warns(UserWarning, match="A gradient is None.*stop_gradient") as seen:
        assert tape.gradient(y, x) is None
    assert seen[0].filename == __file__


@pytest.mark.parametrize("persistent", [False, True])
def test_on_none_raise_gives_the_reason(x, persistent):
    with tf.GradientTape(persistent, on_none="raise") as tape:
        y = x * 2.0

    with pytest.raises(tf.errors.UnconnectedGradientError, match=r"never watched"):
        tape.gradient(y, x)


def test_on_none_is_quiet_about_gradients_that_exist(x):
    with tf.GradientTape(on_none="raise") as tape:
        tape.watch(x)
        y = x * x

    assert tape.gradient(y, x).numpy().tolist() == [2.0, 4.0]


def test_on_none_is_quiet_about_zeros_on_request(x):
    with tf.GradientTape(on_none="raise") as tape:
        y = x * 2.0

    assert tape.gradient(y, x, unconnected_gradients="zero").numpy().tolist() == [0.0, 0.0]


def test_on_none_tells_when_a_rule_gave_none(x):
    @tf.custom_gradient
    def forgetful(x):
        return x * x, lambda upstream: None

    with tf.GradientTape(on_none="raise") as tape:
        tape.watch(x)
        y = forgetful(x)

    with pytest.raises(ValueError, match="rule in between gave none"):
        tape.gradient(y, x)


def test_other_values_of_on_none_are_refused():
    with pytest.raises(ValueError, match=r"None, 'warn' or 'raise'. Got 'shout'"):
        tf.GradientTape(on_none="shout")
