"""Floats that are rounded to the values of few bits; numbers of TensorFlow's documentation."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad as tf
from tapegrad import quantization
from tapegrad.errors import ArgumentError, DTypeError, ShapeError

_X = tf.constant(np.linspace(-8, 8, 33), dtype="float32")


def _gradients(function, *values):
    values = [tf.constant(value, dtype="float32") for value in values]
    with tf.GradientTape() as tape:
        tape.watch(values)
        y = tf.reduce_sum(function(*values))
    return [gradient.numpy() for gradient in tape.gradient(y, values)]


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize("ends", [(-1.3, 5.2), (1.0, 5.0), (-5.0, -1.0)])
def test_fake_quantization_has_equal_steps_through_zero(ends, narrow):
    y = quantization.fake_quant_with_min_max_vars(_X, *ends, num_bits=3, narrow_range=narrow)
    values, step = np.unique(y), (ends[1] - ends[0]) / (6 if narrow else 7)

    assert 0.0 in values
    assert len(values) <= (7 if narrow else 8)
    np.testing.assert_allclose(values / step, np.round(values / step), atol=1e-5)
    inside = (_X.numpy() >= values[0]) & (_X.numpy() <= values[-1])
    assert np.abs(y.numpy() - _X.numpy())[inside].max() <= step / 2 + 1e-6


def test_gradients_of_fake_quantization_go_inside_or_to_an_end():
    found = _gradients(quantization.fake_quant_with_min_max_vars, _X, -2.0, 3.0)
    direct = quantization.fake_quant_with_min_max_vars_gradient(tf.ones([33]), _X, -2.0, 3.0)
    inside = (_X.numpy() >= -2.01) & (_X.numpy() <= 3.0)

    np.testing.assert_array_equal(found[0], inside)
    assert (float(found[1]), float(found[2])) == (12.0, 10.0)
    for one, other in zip(found, direct, strict=True):
        np.testing.assert_array_equal(one, other)


def test_each_channel_has_its_own_range():
    x, low, high = [[-9.0, 0.2], [9.0, 0.4]], [-1.0, -1.0], [1.0, 2.0]
    together = quantization.fake_quant_with_min_max_vars_per_channel(x, low, high)
    for k in range(2):
        alone = quantization.fake_quant_with_min_max_args([row[k] for row in x], low[k], high[k])
        np.testing.assert_allclose(together[:, k], alone, rtol=1e-6)

    function = quantization.fake_quant_with_min_max_vars_per_channel
    assert [g.tolist() for g in _gradients(function, x, low, high)] == [
        [[0.0, 1.0], [0.0, 1.0]], [1.0, 0.0], [1.0, 0.0]
    ]  # fmt: skip


def test_an_empty_range_gives_zeros_and_all_gradients():
    found = _gradients(quantization.fake_quant_with_min_max_vars, [1.0, -2.0], 0.0, 0.0)

    assert quantization.fake_quant_with_min_max_vars([1.0, -2.0], 0.0, 0.0).tolist() == [0.0, 0.0]
    assert [part.tolist() for part in found] == [[1.0, 1.0], 0.0, 0.0]


def test_values_are_multiples_of_the_step_that_the_range_gives():
    x = np.array([-5.0, -1.0, 0.3, 4.0])
    for signed, most in ((True, 127), (False, 255)):
        y = quantization.quantize_and_dequantize(x, -4.0, 5.0, signed, range_given=True)
        step = 5.0 / most if signed else 5.0 / 255
        floor = -128 * step if signed else 0.0
        wanted = np.round(np.clip(x, floor, 5.0) / step) * step
        np.testing.assert_allclose(y, wanted, rtol=1e-6, atol=1e-7)


def test_without_a_range_that_of_the_values_counts():
    x = np.array([[-3.0, 1.0], [0.5, 2.0]])
    # The steps are 3 / 4 and 2 / 3: the integers are -4 to 3.
    whole = quantization.quantize_and_dequantize_v2(x, -9.0, 9.0, num_bits=3)
    rows = quantization.quantize_and_dequantize_v2(x, [-9.0] * 2, [9.0] * 2, num_bits=3, axis=0)

    np.testing.assert_allclose(whole, [[-3.0, 0.75], [0.75, 2.25]], rtol=1e-6)
    np.testing.assert_allclose(rows, [[-3.0, 0.75], [2 / 3, 2.0]], rtol=1e-6)
    gradient = _gradients(lambda x: quantization.quantize_and_dequantize(x, -1.0, 1.0), x)
    assert gradient[0].tolist() == [[0.0, 1.0], [1.0, 0.0]]


def test_recorded_quantization_equals_eager():
    function = tf.function(lambda x, a: quantization.fake_quant_with_min_max_vars(x, a, 3.0))

    wanted = quantization.fake_quant_with_min_max_vars(_X, -2.0, 3.0)
    np.testing.assert_allclose(function(_X, tf.constant(-2.0)), wanted, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: quantization.fake_quant_with_min_max_args(_X, 2.0, 1.0), ArgumentError),
        (lambda: quantization.fake_quant_with_min_max_args(_X, num_bits=1), ArgumentError),
        (lambda: quantization.fake_quant_with_min_max_args([1, 2]), DTypeError),
        (lambda: quantization.fake_quant_with_min_max_vars(_X, [0.0], 1.0), ShapeError),
        (lambda: quantization.quantize_and_dequantize(_X, 0.0, 1.0, axis=0), ShapeError),
        (lambda: quantization.quantize_and_dequantize(_X, 0.0, 1.0, num_bits=1), ArgumentError),
        (
            lambda: quantization.quantize_and_dequantize(_X, 0.0, 1.0, round_mode="DOWN"),
            ArgumentError,
        ),
    ],
)
def test_wrong_arguments_are_refused(call, error):
    with pytest.raises(error):
        call()
