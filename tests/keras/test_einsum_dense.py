"""EinsumDense against NumPy einsum: values, gradients and shapes."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad as tf
from tapegrad import keras
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.keras.layers import EinsumDense, Input
from tests.keras.layer_checks import check_function_equals_eager, slope_and_rise

RNG = np.random.default_rng(4)

# Equation, output_shape, bias_axes, inputs, and the shapes of kernel, bias and outputs.
CASES = [
    ("ab,bc->ac", 5, "c", (2, 3), (3, 5), (5,), (2, 5)),
    ("ab,bc->ac", 5, None, (2, 3), (3, 5), None, (2, 5)),
    ("abc,cd->abd", (None, 5), "d", (2, 4, 3), (3, 5), (5,), (2, 4, 5)),
    ("...x,xy->...y", 5, "y", (2, 6, 4, 3), (3, 5), (5,), (2, 6, 4, 5)),
    ("ab...,bc->ac...", 5, "c", (2, 3, 4, 6), (3, 5), (5, 1, 1), (2, 5, 4, 6)),
    ("abc,cde->abde", (None, 4, 5), "de", (2, 6, 3), (3, 4, 5), (4, 5), (2, 6, 4, 5)),
    ("abc,bde->acde", (3, 4, 5), "ce", (2, 6, 3), (6, 4, 5), (3, 1, 5), (2, 3, 4, 5)),
    ("abcd,cde->abe", (None, 7), "e", (2, 5, 3, 4), (3, 4, 7), (7,), (2, 5, 7)),
]


@pytest.mark.parametrize(("equation", "output", "bias_axes", "shape", *"kbo"), CASES)
def test_it_is_a_sum_a_bias_and_an_activation(equation, output, bias_axes, shape, k, b, o):
    layer = EinsumDense(
        equation, output, "tanh", bias_axes, bias_initializer="ones", dtype="float64"
    )
    x = RNG.normal(size=shape)
    y = layer(x)

    assert (layer.kernel.shape, getattr(layer.bias, "shape", None), y.shape) == (k, b, o)
    summed = np.einsum(equation, x, layer.kernel.numpy())
    np.testing.assert_allclose(y.numpy(), np.tanh(summed + (b is not None)), rtol=1e-12)
    assert layer.compute_output_shape((None, *shape[1:])) == (None, *o[1:])
    slope, rise = slope_and_rise(layer, x, 1e-5 * RNG.normal(size=shape))
    assert slope == pytest.approx(rise, rel=1e-6)
    check_function_equals_eager(layer, tf.constant(x))


def test_sizes_can_be_told_by_the_outputs_alone():
    layer = EinsumDense("abc,cd->abd", (6, 5))

    assert layer.compute_output_shape((None, None, 3)) == (None, 6, 5)


def test_weights_have_the_gradients_of_the_formula():
    layer = EinsumDense("abc,cd->abd", (None, 5), bias_axes="d", dtype="float64")
    x, g = RNG.normal(size=(2, 4, 3)), RNG.normal(size=(2, 4, 5))
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(layer(x) * g)

    of_kernel, of_bias = tape.gradient(loss, [layer.kernel, layer.bias])

    np.testing.assert_allclose(of_kernel.numpy(), np.einsum("abc,abd->cd", x, g), rtol=1e-12)
    np.testing.assert_allclose(of_bias.numpy(), g.sum((0, 1)), rtol=1e-12)


def test_it_is_saved_and_read_again(tmp_path):
    head = EinsumDense("...x,xy->...y", 2, "relu", "y", kernel_regularizer="l2")
    model = keras.Sequential([Input((4, 3)), head])
    x = RNG.normal(size=(2, 4, 3)).astype(np.float32)
    model.save(tmp_path / "model.keras")

    again = keras.models.load_model(tmp_path / "model.keras")

    np.testing.assert_array_equal(again(x).numpy(), model(x).numpy())
    assert again.layers[-1].get_config()["equation"] == "...x,xy->...y"
    assert len(again.losses) == 1


@pytest.mark.parametrize("equation", ["ab,bc", "ab->ab", "ab,b..->a..", "ab,b...->a...", ""])
def test_other_equations_are_refused(equation):
    with pytest.raises(ArgumentError, match=r'of the form "abc,cd->abd"'):
        EinsumDense(equation, 3)


def test_sizes_that_do_not_fit_are_refused():
    with pytest.raises(ArgumentError, match="bias_axes among the output axes, 'ac'"):
        EinsumDense("ab,bc->ac", 3, bias_axes="b")
    with pytest.raises(ShapeError, match=r"'ab,bc->ac', which does not fit .* \(2, 3, 4\)"):
        EinsumDense("ab,bc->ac", 3)(np.ones((2, 3, 4), np.float32))
    with pytest.raises(
        ShapeError, match=r"output_shape \(7, 4\)\. For .* or another one, for axes b"
    ):
        EinsumDense("abc,cd->abd", (7, 4))(np.ones((2, 3, 4), np.float32))
    with pytest.raises(ShapeError, match="another one, for axes d"):
        EinsumDense("abc,cd->abd", (3, None))(np.ones((2, 3, 4), np.float32))
