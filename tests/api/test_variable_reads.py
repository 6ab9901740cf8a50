"""Tensors read from a variable are sources of their own; the variable's gradient counts all."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad as tf
import tapegrad.numpy as tnp
from tapegrad.errors import ArgumentError

READS = {
    "value": lambda v: v.value(),
    "read_value": lambda v: v.read_value(),
    "convert_to_tensor": tf.convert_to_tensor,
    "constant": tf.constant,
    "identity": tf.identity,
    "tapegrad.numpy.asarray": tnp.asarray,
    "tapegrad.numpy.array": tnp.array,
}
by_read = pytest.mark.parametrize("read", READS.values(), ids=READS)


@pytest.fixture
def v():
    return tf.Variable([3.0, 4.0])


def lists(gradients):
    return [None if g is None else g.numpy().tolist() for g in gradients]


@by_read
@pytest.mark.parametrize("persistent", [False, True])
def test_each_read_is_a_source_of_its_own(v, read, persistent):
    with tf.GradientTape(persistent) as tape:
        first, second = read(v), read(v)
        y = first * first * second + v * 5.0

    expected = [[18.0, 32.0], [9.0, 16.0], [32.0, 53.0]]
    assert lists(tape.gradient(y, [first, second, v])) == expected


@by_read
def test_reads_depend_on_the_variable_and_not_on_each_other(v, read):
    with tf.GradientTape(persistent=True) as tape:
        first, second = read(v), read(v)

    ones = [1.0, 1.0]
    assert lists([tape.gradient(first, v), tape.gradient(first, first)]) == [ones, ones]
    assert lists([tape.gradient(first, second), tape.gradient(v, first)]) == [None, None]
    assert lists(tape.gradient(v, [v, first])) == [ones, None]


@by_read
def test_a_read_can_be_watched_alone(v, read):
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        t = read(v)
        tape.watch(t)
        y = t * v

    assert lists(tape.gradient(y, [t, v])) == [[3.0, 4.0], None]


@by_read
def test_reads_in_a_function_and_in_vmap(v, read):
    def gradients(x):
        with tf.GradientTape() as tape:
            t = read(v)
            y = tf.reduce_sum(t * t * x + v * x)
        return tape.gradient(y, [t, v])

    xs = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    expected = [[6.0, 16.0], [7.0, 18.0]]
    compiled = tf.function(gradients)
    assert lists(gradients(xs[0])) == expected
    assert lists(compiled(xs[0])) == expected
    assert lists(compiled(xs[0])) == expected
    each = tf.vectorized_map(gradients, xs)
    assert [g.numpy()[0].tolist() for g in each] == expected
    assert [g.numpy()[1].tolist() for g in each] == [[18.0, 32.0], [21.0, 36.0]]


@by_read
def test_a_function_around_reads_is_differentiated_by_the_variable(v, read):
    @tf.function
    def f(x):
        return tf.reduce_sum(read(v) * read(v) * x + v * x)

    for _ in range(2):
        with tf.GradientTape() as tape:
            y = f(tf.constant([1.0, 2.0]))
        assert lists([tape.gradient(y, v)]) == [[7.0, 18.0]]


@by_read
def test_forward_mode_counts_reads(v, read):
    with tf.autodiff.ForwardAccumulator(v, tf.ones(2)) as accumulator:
        y = read(v) * v

    assert lists([accumulator.jvp(y)]) == [[6.0, 8.0]]


@by_read
def test_second_derivatives_through_reads(v, read):
    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            y = read(v) ** 3
        gradient = inner.gradient(y, v)

    assert lists([outer.gradient(gradient, v)]) == [[18.0, 24.0]]


def test_rows_of_a_read_have_a_sparse_gradient():
    table = tf.Variable(np.ones((4, 2), "float32"))
    with tf.GradientTape() as tape:
        rows = tf.gather(table.value(), [1, 1]), tf.gather(table, [0])
        y = tf.reduce_sum(rows[0]) + tf.reduce_sum(rows[1])
    gradient = tape.gradient(y, table)

    assert isinstance(gradient, tf.IndexedSlices)
    assert gradient.numpy()[:, 0].tolist() == [1.0, 2.0, 0.0, 0.0]


def test_operators_share_one_source(v):
    with tf.GradientTape() as tape:
        y = v * v + tf.sin(v) + v[0]
        assert y is not None

    assert len(tape._variables[v.number][1]) == 1


def test_the_value_is_a_tensor_and_can_be_called(v):
    """`v.value` is a property in Keras and a method in TensorFlow."""
    with tf.GradientTape(persistent=True) as tape:
        own = v.value()
        y = tf.reduce_sum(v.value**2 + 3.0 * own)

    assert lists(tape.gradient(y, [v, own])) == [[9.0, 11.0], [3.0, 3.0]]
    before = v.value
    v.assign([5.0, 6.0])
    assert before.numpy().tolist() == [3.0, 4.0]
    assert v.value.numpy().tolist() == v.value().numpy().tolist() == [5.0, 6.0]
    assert (v.value.shape, v.value.dtype, isinstance(v.value, tf.Tensor)) == ((2,), v.dtype, True)
    assert np.asarray(v.value).tolist() == np.add(v.value, 0).numpy().tolist() == [5.0, 6.0]
    with pytest.raises(ArgumentError, match=r"Write `v\[0\] = x` instead of `v.value\[0\] = x`"):
        v.value[0] = 1.0


def test_the_value_in_functions_and_in_vmap(v):
    add = tf.function(lambda x: x + 2.0 * v.value + v.value())

    assert add(v.value).numpy().tolist() == [12.0, 16.0]
    v.assign([1.0, 1.0])
    assert add(tf.zeros([2])).numpy().tolist() == [3.0, 3.0]
    rows = tf.vectorized_map(lambda x: x * v.value + v.value(), tf.ones([3, 2]))
    assert rows.numpy().tolist() == [[2.0, 2.0]] * 3
