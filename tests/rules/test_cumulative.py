from __future__ import annotations

import math

import numpy as np
import pytest

from tapegrad.autodiff.gradient_tape import GradientTape
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.ops.creation import constant
from tapegrad.ops.indexing import along_axis
from tapegrad.ops.reduction import cumulative, primitives as reduction


def gradient_of(function, values):
    x = constant(values)
    with GradientTape() as tape:
        tape.watch(x)
        y = function(x)
    return tape.gradient(y, x).numpy()


@pytest.mark.parametrize("function", [reduction.prod, cumulative.cumprod])
def test_products_with_zeros_have_their_third_derivative(function):
    x = constant([0.0, 0.0, 0.0])
    with GradientTape() as third:
        third.watch(x)
        with GradientTape() as second:
            second.watch(x)
            with GradientTape() as first:
                first.watch(x)
                y = function(x)
            one = first.gradient(y, x)
        two = second.jacobian(one, x)
    three = third.jacobian(two, x).numpy()

    expected = np.zeros((3, 3, 3))
    for i, j, k in [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)]:
        expected[i, j, k] = 1
    np.testing.assert_array_equal(three, expected)


def test_a_long_running_product_is_as_exact_as_a_short_one():
    x = np.random.default_rng(0).uniform(0.95, 1.05, 5000)

    gradient = gradient_of(cumulative.cumprod, x)

    expected = np.cumsum(np.cumprod(x)[::-1])[::-1] / x
    np.testing.assert_allclose(gradient, expected, rtol=1e-10)


def test_exclusive_log_sums_begin_with_minus_infinity():
    x = constant([1.0, 2.0, 3.0])

    forward = cumulative.cumulative_logsumexp(x, exclusive=True).numpy()
    backward = cumulative.cumulative_logsumexp(x, exclusive=True, reverse=True).numpy()

    assert forward[0] == -math.inf
    assert forward[1] == 1.0
    assert backward[2] == -math.inf


def test_running_log_sums_of_minus_infinity_have_the_gradient_zero():
    gradient = gradient_of(cumulative.cumulative_logsumexp, [-math.inf, -math.inf, 0.0])

    assert gradient.tolist() == [0.0, 0.0, 1.0]


def test_of_tied_running_maxima_the_first_has_the_gradient_and_nan_stays():
    assert gradient_of(cumulative.cummax, [1.0, 2.0, 2.0, 0.0]).tolist() == [1.0, 3.0, 0.0, 0.0]
    running = cumulative.cummax(constant([1.0, math.nan, 5.0])).numpy()
    np.testing.assert_array_equal(running, [1.0, math.nan, math.nan])


def test_cumulative_sum_of_several_axes_needs_one_named():
    with pytest.raises(ArgumentError, match="cumulative_sum needs an axis"):
        cumulative.cumulative_sum(constant([[1.0]]))


def test_repeated_indices_add_up_in_the_gradient():
    gradient = gradient_of(lambda x: along_axis.take_along_axis(x, [1, 1, -1], 0), [1.0, 2.0, 3.0])

    assert gradient.tolist() == [0.0, 2.0, 1.0]


def test_take_along_axis_names_the_shapes_that_do_not_match():
    with pytest.raises(ShapeError, match=r"\(3, 1\) against x of shape \(2, 4\)"):
        along_axis.take_along_axis(constant(np.ones((2, 4))), np.zeros((3, 1), int), 1)
    with pytest.raises(TypeError, match="integer indices"):
        along_axis.take_along_axis(constant([1.0]), [0.5], 0)
