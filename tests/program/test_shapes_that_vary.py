"""Functions in which the shape of a value depends on other values run eagerly."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad as tf
import tapegrad.numpy as tnp

FUNCTIONS = {
    "mask": lambda x: x[x > 0],
    "boolean_mask": lambda x: tf.reduce_sum(tf.boolean_mask(x, x > 0) * 2.0),
    "nonzero": lambda x: tnp.nonzero(x > 0)[0],
    "where": lambda x: tf.where(x > 0),
    "unique": lambda x: tf.unique(x).y,
    "masked update": lambda x: tnp.copy(x) + masked_update(x),
}
VALUES = [[1.0, -1.0, 2.0], [1.0, 1.0, 2.0], [-1.0, -1.0, -1.0], [-3.0, 2.0, 1.0]]


def masked_update(x):
    y = tnp.copy(x)
    y[y > 0] *= 3.0
    return y


@pytest.mark.parametrize("name", FUNCTIONS)
def test_each_call_gives_the_eager_result(name):
    eager = FUNCTIONS[name]
    compiled = tf.function(eager)
    with pytest.warns(UserWarning, match="depends on values"):
        compiled(tf.constant(VALUES[0]))

    for values in VALUES:
        x = tf.constant(values)
        np.testing.assert_array_equal(compiled(x).numpy(), eager(x).numpy())


IDS = tf.constant([0, 0, 2])
COUNTS = tf.constant([1, 0, 2])
NEXT = (tf.constant([3.0, 5.0, 7.0]), tf.constant([1, 1, 4]), tf.constant([2, 3, 1]))
READERS = {
    "segment_sum": lambda x, ids, n: tf.math.segment_sum(x, ids),
    "segment_mean": lambda x, ids, n: tf.math.segment_mean(x, ids),
    "segment_max": lambda x, ids, n: tf.math.segment_max(x, ids),
    "keras.ops.segment_max": lambda x, ids, n: tf.keras.ops.segment_max(x, ids),
    "bincount": lambda x, ids, n: tf.math.bincount(ids),
    "numpy.bincount": lambda x, ids, n: tnp.bincount(ids, weights=x),
    "repeat": lambda x, ids, n: tf.repeat(x, n),
    "compress": lambda x, ids, n: tnp.compress(ids > 0, x),
    "extract": lambda x, ids, n: tnp.extract(ids > 0, x),
    "dynamic_partition": lambda x, ids, n: tf.dynamic_partition(x, ids, 5)[1],
    "dynamic_stitch": lambda x, ids, n: tf.dynamic_stitch([ids], [x]),
    "sequence_mask": lambda x, ids, n: tf.sequence_mask(n),
    "confusion_matrix": lambda x, ids, n: tf.math.confusion_matrix(ids, n),
    "histogram": lambda x, ids, n: tnp.histogram(x, bins=3)[1],
    "trim_zeros": lambda x, ids, n: tnp.trim_zeros(ids),
    "delete": lambda x, ids, n: tnp.delete(x, n[:1] - 1),
    # Sizes that are tensors
    "zeros": lambda x, ids, n: tf.zeros([n[2]]),
    "range": lambda x, ids, n: tf.range(n[2]),
    "one_hot": lambda x, ids, n: tf.one_hot(ids, n[2]),
    "tile": lambda x, ids, n: tf.tile(x, [n[2]]),
    "split": lambda x, ids, n: tf.split(x, tf.stack([n[2], 3 - n[2]]))[0],
    "a slice": lambda x, ids, n: x[: n[2]],
    "top_k": lambda x, ids, n: tf.math.top_k(x, n[2])[0],
    "eye": lambda x, ids, n: tf.eye(n[2]),
}


@pytest.mark.parametrize("name", READERS)
def test_functions_that_read_values_to_find_a_shape_run_eagerly(name):
    eager = READERS[name]
    compiled = tf.function(eager)

    with pytest.warns(UserWarning, match=r"runs eagerly.*test_shapes_that_vary\.py:\d+ reads"):
        compiled(tf.constant([1.0, 2.0, 4.0]), IDS, COUNTS)

    for arguments in ((tf.constant([1.0, 2.0, 4.0]), IDS, COUNTS), NEXT):
        found, expected = compiled(*arguments), eager(*arguments)
        np.testing.assert_array_equal(found.numpy(), expected.numpy())


@pytest.mark.filterwarnings("ignore:function")
def test_they_keep_assignments_and_gradients():
    v = tf.Variable(2.0)

    @tf.function
    def means(x, ids):
        v.assign_add(1.0)
        return v * tf.math.segment_mean(x, ids)

    for call in range(1, 4):
        x = tf.constant([1.0, 2.0, 4.0])
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = means(x, IDS)
        scale = 2.0 + call
        assert float(v) == scale
        assert y.numpy().tolist() == [1.5 * scale, 0.0, 4.0 * scale]
        assert tape.gradient(y, x).numpy().tolist() == [scale / 2, scale / 2, scale]
        means(x, IDS)
        v.assign_sub(1.0)


@pytest.mark.filterwarnings("ignore:function")
def test_a_read_of_the_users_own_is_still_an_error():
    for read in (int, lambda n: range(n), lambda n: np.zeros(n), lambda n: n.numpy()):
        with pytest.raises(tf.errors.RecordingError, match="reads the value of a tensor at"):
            tf.function(lambda n, read=read: tf.zeros([2]) if read(n) else None)(tf.constant(3))


def test_a_constant_that_is_read_leaves_a_program():
    f = tf.function(lambda x: tf.math.segment_sum(x, np.array([0, 0, 1])) * 2.0)

    assert f(tf.constant([1.0, 2.0, 4.0])).numpy().tolist() == [6.0, 8.0]
    assert f.program(tf.constant([1.0, 2.0, 4.0])).steps


@pytest.mark.filterwarnings("ignore:function")
def test_gradients_of_selected_elements():
    compiled = tf.function(FUNCTIONS["boolean_mask"])
    for values in VALUES:
        x = tf.constant(values)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = compiled(x)
        assert tape.gradient(y, x).numpy().tolist() == [2.0 * (v > 0) for v in values]


def test_a_mask_with_one_value_keeps_the_shape():
    @tf.function
    def f(x):
        y = x * 1.0
        y[y > 0] = 7.0
        return y

    for values in VALUES:
        assert f(tf.constant(values)).numpy().tolist() == [7.0 if v > 0 else v for v in values]
    assert "where" in str(f.program(tf.constant(VALUES[0])))


def test_a_constant_mask_has_a_fixed_shape():
    mask = np.array([True, False, True])
    f = tf.function(lambda x: x[mask] * 2.0)

    for values in VALUES:
        assert f(tf.constant(values)).numpy().tolist() == [2 * values[0], 2 * values[2]]
    assert f.program(tf.constant(VALUES[0])).steps
