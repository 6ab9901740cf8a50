"""Writes of a function to its arguments reach the caller's tensors, as in eager mode."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad as tf
import tapegrad.numpy as tnp


def write_first(x, value):
    x[0] = value * 2.0
    return tf.reduce_sum(x)


def test_a_write_reaches_the_caller():
    f = tf.function(write_first)
    for value in (5.0, 6.0, 7.0):
        x = tf.constant([1.0, 2.0])
        total = f(x, tf.constant(value))

        assert x.numpy().tolist() == [2.0 * value, 2.0]
        assert total.numpy() == 2.0 * value + 2.0


def test_a_write_through_a_view_inside_reaches_the_caller():
    @tf.function
    def f(x):
        row = x[1]
        row += 1.0
        return row * 2.0

    x = tf.constant([[1.0], [2.0]])
    for count in (1, 2, 3):
        assert f(x).numpy().tolist() == [2.0 * (2.0 + count)]
        assert x.numpy().tolist() == [[1.0], [2.0 + count]]


def test_an_argument_that_is_a_view_passes_the_write_on():
    f = tf.function(write_first)
    x = tf.constant(np.zeros((2, 2), "float32"))
    for value in (1.0, 2.0):
        f(x[1], tf.constant(value))
        assert x.numpy().tolist() == [[0.0, 0.0], [2.0 * value, 0.0]]


def test_arguments_in_structures_and_by_name():
    @tf.function
    def f(state, *, other):
        state["a"][0][...] = other * 2.0
        other[...] += 1.0

    a, b = tf.constant([1.0]), tf.constant([3.0])
    for _ in range(2):
        f({"a": [a]}, other=b)

    assert a.numpy().tolist() == [8.0]
    assert b.numpy().tolist() == [5.0]


def test_tapes_record_the_write():
    f = tf.function(write_first)
    for _ in range(3):
        x, value = tf.constant([1.0, 2.0]), tf.constant(5.0)
        with tf.GradientTape(persistent=True) as tape:
            tape.watch([x, value])
            y = x * 1.0
            total = f(y, value)
            square = y * y
        assert y.numpy().tolist() == [10.0, 2.0]
        assert tape.gradient(total, value).numpy() == 2.0
        assert tape.gradient(square, value).numpy() == 40.0
        assert tape.gradient(square, x).numpy().tolist() == [0.0, 4.0]


def test_an_argument_that_is_no_tensor_is_refused():
    f = tf.function(write_first)
    array = np.array([1.0, 2.0], "float32")

    with pytest.raises(
        RuntimeError, match=r"argument 0, which is a ndarray outside. Pass a tensor"
    ):
        f(array, tf.constant(1.0))
    f(tf.constant(array), tf.constant(1.0))
    with pytest.raises(RuntimeError, match="ndarray outside"):
        f(array, tf.constant(1.0))
    assert array.tolist() == [1.0, 2.0]


def test_two_arguments_that_share_elements_are_refused():
    @tf.function
    def f(x, y):
        x[0] = 1.0
        return y * 2.0

    x = tf.constant([[0.0, 2.0], [3.0, 4.0]])
    for y in (x, x[1]):
        with pytest.raises(RuntimeError, match=r"Pass a copy of one of them"):
            f(x, y)
    assert x.numpy().tolist() == [[0.0, 2.0], [3.0, 4.0]]
    assert f(x, tnp.copy(x)).numpy().tolist() == [[0.0, 4.0], [6.0, 8.0]]
    assert x.numpy().tolist() == [[1.0, 1.0], [3.0, 4.0]]


@pytest.mark.parametrize("value", [5.0, None], ids=["number", "argument"])
def test_a_write_to_a_tensor_from_outside_is_refused(value):
    outside = tf.constant([1.0, 2.0])
    part = outside[1:]

    @tf.function
    def f(x):
        outside[0] = x if value is None else value
        return outside * x

    for _ in range(2):
        with pytest.raises(RuntimeError, match="from outside"):
            f(tf.constant(3.0))
    assert outside.numpy().tolist() == [1.0, 2.0]
    assert part.numpy().tolist() == [2.0]
    with pytest.raises(RuntimeError, match="from outside"):
        tf.function(lambda x: part.__setitem__(0, x))(tf.constant(3.0))
    assert outside.numpy().tolist() == [1.0, 2.0]


def test_tensors_made_inside_can_be_written():
    @tf.function
    def f(x):
        y = tnp.zeros(3)
        y[1] = x
        y[2:] += 2.0
        for row in tnp.reshape(y, (3, 1)):
            row *= 2.0
        return y

    for value in (1.0, 4.0):
        assert f(tf.constant(value)).numpy().tolist() == [0.0, 2.0 * value, 4.0]


def test_a_write_reaches_the_caller_if_the_call_cannot_be_recorded():
    @tf.function
    def f(x):
        x[x > 0.0] *= 2.0  # the number of elements depends on values
        return tf.reduce_sum(x)

    x = tf.constant([1.0, -1.0, 2.0])
    with pytest.warns(UserWarning, match="runs eagerly"):
        total = f(x)
    assert total.numpy() == 5.0
    assert x.numpy().tolist() == [2.0, -1.0, 4.0]
    assert f(x).numpy() == 11.0
    assert x.numpy().tolist() == [4.0, -1.0, 8.0]


def test_overlapping_arguments_are_refused_if_the_call_cannot_be_recorded():
    @tf.function
    def f(x, y):
        x[x > 0.0] *= 2.0
        return tf.reduce_sum(y)

    x = tf.constant([1.0, -1.0, 2.0])
    with (
        pytest.warns(UserWarning, match="runs eagerly"),
        pytest.raises(tf.errors.RecordingError, match="same tensor"),
    ):
        f(x, x)
    assert x.numpy().tolist() == [1.0, -1.0, 2.0]
