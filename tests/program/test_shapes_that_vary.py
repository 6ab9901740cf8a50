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
