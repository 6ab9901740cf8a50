"""Means of more elements than the largest float16 number, which is 65504."""

import numpy as np
import pytest

import tapegrad as tf
import tapegrad.numpy as tnp

FUNCTIONS = {
    "mean": (tf.reduce_mean, np.mean),
    "mean-axis": (lambda x: tf.reduce_mean(x, 0), lambda x: x.mean(0)),
    "var": (tf.math.reduce_variance, np.var),
    "std": (tf.math.reduce_std, np.std),
    "numpy-var": (lambda x: tnp.var(x, ddof=1), lambda x: np.var(x, ddof=1)),
    "moments": (lambda x: tf.nn.moments(x, [0, 1])[1], np.var),
}


def samples(size):
    """Values, as float16, of a size whose gradients are not all subnormal."""
    return np.random.default_rng(size).normal(size=(size, 2)).astype("float16")


@pytest.mark.parametrize("size", [40_000, 1 << 19])
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "function"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_values_and_gradients(name, compiled, size):
    function, expected = FUNCTIONS[name]
    x = samples(size)
    scale = 1024.0  # so that gradients are large enough for float16, as with loss scaling

    def step(value):
        with tf.GradientTape() as tape:
            tape.watch(value)
            y = function(value)
            loss = tf.reduce_sum(y) * scale
        return y, tape.gradient(loss, value)

    step = tf.function(step) if compiled else step
    for _ in range(2):
        y, gradient = step(tf.constant(x))
    wide = x.astype("float64")
    # In float64 the same rules are checked by the table of samples.
    _, wide_gradient = step(tf.constant(wide))

    assert y.dtype == "float16"
    assert gradient.dtype == "float16"
    np.testing.assert_allclose(y.numpy(), expected(wide), rtol=2e-3, atol=2e-4)
    np.testing.assert_allclose(gradient.numpy(), wide_gradient.numpy(), rtol=0.02, atol=1.5e-7)
    assert np.count_nonzero(gradient.numpy()) > 0.9 * x.size
