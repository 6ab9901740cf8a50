"""Explanations after gradient() has used a tape up, and tapes that were never entered."""

from __future__ import annotations

import inspect
import math

import numpy as np
import pytest

import tapegrad as tf


def here(offset):
    """File and line of the caller, `offset` lines further up."""
    frame = inspect.currentframe().f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno - offset}"


def test_explain_after_gradient_says_that_the_target_is_connected():
    x, w = tf.constant(2.0), tf.Variable(3.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * w
    tape.gradient(y, [x, w])

    assert "this gradient is not None" in tape.explain(y, x)
    assert "this gradient is not None" in tape.explain(y, w)


def test_explain_after_gradient_names_the_line():
    v, w = tf.Variable(2.0), tf.Variable(3.0)
    with tf.GradientTape() as tape:
        y = w * float(v * v)
        place = here(1)
    with tf.debug.tape_exits("ignore"):
        assert tape.gradient(y, [v, w])[0] is None

    assert f"left the tape through float() ({place})" in tape.explain(y, v)
    assert "this gradient is not None" in tape.explain(y, w)


def test_explain_after_gradient_gives_the_other_reasons_too():
    x, v = tf.constant(2.0), tf.Variable(3.0, name="v")
    frozen = tf.Variable(1.0, trainable=False, name="frozen")
    with tf.GradientTape() as tape:
        tape.watch(x)
        cut = tf.stop_gradient(x) * frozen
        place = here(1)
    assert tape.gradient(cut, [x, v, frozen]) == [None, None, None]

    assert f"stop_gradient has no derivative ({place})" in tape.explain(cut, x)
    assert "'v:0' was never read" in tape.explain(cut, v)
    assert "'frozen:0' is not trainable" in tape.explain(cut, frozen)
    assert "made outside" not in tape.explain(cut, x)


def test_explain_after_gradient_of_another_target():
    a, b = tf.Variable(2.0), tf.Variable(3.0)
    with tf.GradientTape() as tape:
        first, second = a * a, b * b
        total = first + second
    tape.gradient(total, [a, b])

    assert "The tape is used up" in tape.explain(first, b)
    assert "persistent=True" in tape.explain(first, b)


def test_explain_after_gradient_of_another_source():
    a, b = tf.Variable(2.0), tf.Variable(3.0)
    with tf.GradientTape() as tape:
        y = a * b
    tape.gradient(y, a)

    assert "The tape is used up" in tape.explain(y, b)
    assert "this gradient is not None" in tape.explain(y, a)


def test_explain_after_jacobian():
    v, w = tf.Variable([1.0, 2.0]), tf.Variable(3.0)
    with tf.GradientTape() as tape:
        y = v * float(w)
    with tf.debug.tape_exits("ignore"):
        tape.jacobian(y, [v, w])

    assert "not None" in tape.explain(y, v)
    assert "left the tape through float()" in tape.explain(y, w)


def test_explain_after_a_gradient_that_failed():
    @tf.custom_gradient
    def broken(x):
        def backward(upstream):
            raise KeyError("no")

        return x * 1.0, backward

    v = tf.Variable(1.0)
    with tf.GradientTape() as tape:
        y = broken(v)
    with pytest.raises(KeyError):
        tape.gradient(y, v)

    assert "failed half-way" in tape.explain(y, v)


def test_explain_after_gradient_frees_what_the_gradient_frees():
    x = tf.constant(np.ones(4))
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.exp(x)
    node = y.node
    tape.gradient(y, x)

    assert node.saved is None
    assert node.inputs == ()


def test_explain_of_a_number_names_the_line():
    x = tf.constant(2.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = math.sin(x)
        place = here(1)
    with pytest.raises(TypeError, match="target must hold tensors"):
        tape.gradient(y, x)

    assert "Entry 0 is float; " in tape.explain(y, x)
    assert f"left the tape through float() in math.sin() ({place})" in tape.explain(y, x)


# A tape that was never entered


@pytest.mark.parametrize("persistent", [False, True])
@pytest.mark.parametrize("method", ["gradient", "jacobian", "batch_jacobian"])
def test_a_tape_that_was_never_entered_refuses(persistent, method):
    x = tf.constant([[1.0, 2.0]])

    with pytest.raises(RuntimeError, match=rf"{method}\(\) needs .* enter the tape first"):
        getattr(tf.GradientTape(persistent), method)(x * x, x)


@pytest.mark.parametrize("method", ["hessian", "hvp"])
def test_second_derivatives_of_a_tape_that_was_never_entered_are_refused(method):
    x = tf.constant(1.0)
    arguments = (x,) if method == "hvp" else ()

    with pytest.raises(RuntimeError, match="enter the tape first"):
        getattr(tf.GradientTape(persistent=True), method)(x * x, x, *arguments)


def test_a_tape_that_was_never_entered_explains_itself():
    x = tf.constant(1.0)

    assert "never entered" in tf.GradientTape().explain(x * x, x)
    assert tf.GradientTape().watched_variables() == ()
