from __future__ import annotations

import math

import numpy as np
import pytest

from tapegrad.autodiff.gradient_tape import GradientTape
from tapegrad.core.values.variable import Variable
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.ops.creation import constant
from tapegrad.ops.reduction import (
    functions as reduce,
    logsumexp,
    nan_reduction,
    primitives as reduction,
    quantile,
    squares,
    statistics,
)


def gradient_of(function, values):
    x = constant(values)
    with GradientTape() as tape:
        tape.watch(x)
        y = function(x)
    return tape.gradient(y, x).numpy()


@pytest.mark.parametrize("function", [reduction.max, reduction.min])
def test_ties_share_the_gradient_equally(function):
    gradient = gradient_of(lambda x: function(x, 1), [[2.0, 2.0, 2.0], [1.0, 1.0, 1.0]])

    np.testing.assert_allclose(gradient, np.full((2, 3), 1 / 3), rtol=1e-6)


def test_where_nan_is_the_maximum_it_gets_the_gradient():
    gradient = gradient_of(reduction.max, [1.0, math.nan, 3.0])

    assert gradient.tolist() == [0.0, 1.0, 0.0]


def test_a_row_of_minus_infinity_has_the_gradient_zero_not_nan():
    rows = [[-math.inf, -math.inf], [0.0, -math.inf]]

    result = logsumexp.logsumexp(constant(rows), 1)
    gradient = gradient_of(lambda x: logsumexp.logsumexp(x, 1), rows)

    assert result.numpy().tolist() == [-math.inf, 0.0]
    assert gradient.tolist() == [[0.0, 0.0], [1.0, 0.0]]


def test_logsumexp_does_not_overflow():
    assert float(logsumexp.logsumexp(constant([1e4, 1e4]))) == pytest.approx(1e4 + math.log(2))
    assert float(logsumexp.logsumexp(constant([math.inf, 0.0]))) == math.inf
    assert gradient_of(logsumexp.logsumexp, [math.inf, 0.0]).tolist() == [1.0, 0.0]


@pytest.mark.parametrize("function", [squares.euclidean_norm, statistics.std])
def test_a_norm_of_zero_has_the_gradient_zero(function):
    assert gradient_of(function, [0.0, 0.0]).tolist() == [0.0, 0.0]


def test_the_variance_of_equal_elements_has_its_second_derivative():
    x = constant([2.0, 2.0])
    with GradientTape() as outer:
        outer.watch(x)
        with GradientTape() as inner:
            inner.watch(x)
            y = statistics.var(x)
        first = inner.gradient(y, x)

    np.testing.assert_allclose(outer.jacobian(first, x).numpy(), [[0.5, -0.5], [-0.5, 0.5]])


def test_the_mean_of_nothing_is_nan_and_its_gradient_is_empty():
    assert math.isnan(float(reduction.mean(constant(np.zeros(0)))))
    assert gradient_of(reduction.mean, np.zeros((0, 2))).shape == (0, 2)


def test_sums_of_integers_keep_their_dtype_and_truth_values_are_counted():
    assert reduce.reduce_sum(constant([1, 2])).dtype == "int32"
    assert reduce.reduce_prod(constant([2, 3])).dtype == "int32"
    assert int(reduce.reduce_sum(constant([True, True, False]))) == 2
    assert float(reduce.reduce_mean(constant([1, 2]))) == 1.5


def test_half_precision_is_summed_in_single():
    ones = constant(np.ones(4096, np.float16))

    assert float(reduction.sum(ones)) == 4096.0
    assert float(reduction.mean(ones * 60.0)) == 60.0
    assert reduction.sum(ones).dtype == "float16"


def test_reductions_take_variables_lists_and_numbers():
    assert float(reduce.reduce_sum(Variable([1.0, 2.0]))) == 3.0
    assert float(reduce.reduce_max([[1.0, 5.0], [2.0, 3.0]])) == 5.0
    assert float(reduce.reduce_mean(3.0)) == 3.0


def test_argmax_counts_along_axis_zero_as_tensorflow_does():
    x = constant([[1.0, 9.0], [8.0, 2.0]])

    assert reduce.argmax(x).numpy().tolist() == [1, 0]
    assert reduce.argmax(x, output_type="int32").dtype == "int32"
    assert int(reduction.argmax(x)) == 1


@pytest.mark.parametrize(
    ("axis", "words"), [(2, "got axis 2 for a tensor of 2"), ((0, -2), "an axis twice")]
)
def test_a_wrong_axis_is_named(axis, words):
    with pytest.raises(ShapeError, match=words):
        reduction.sum(constant([[1.0]]), axis)


def test_the_maximum_of_nothing_is_refused():
    with pytest.raises(ShapeError, match=r"max cannot take float64\[0\]"):
        reduction.max(constant(np.zeros(0)))


def test_moments_of_half_precision_are_computed_in_single():
    mean, variance = statistics.moments(constant(np.full(1000, 300.0, np.float16)), [0])

    assert (float(mean), float(variance)) == (300.0, 0.0)
    assert mean.dtype == variance.dtype == "float16"


def test_nothing_flows_back_to_nan():
    gradient = gradient_of(
        lambda x: nan_reduction.nanstd(x) + nan_reduction.nanmax(x), [1.0, math.nan, 3.0]
    )

    assert gradient[1] == 0
    assert np.isfinite(gradient).all()


def test_a_row_of_nan_alone_stays_nan():
    x = constant([[math.nan, math.nan], [1.0, math.nan]])

    assert math.isnan(nan_reduction.nanmax(x, 1).numpy()[0])
    assert math.isnan(nan_reduction.nanmean(x, 1).numpy()[0])
    assert nan_reduction.nansum(x, 1).numpy().tolist() == [0.0, 1.0]


def test_quantile_says_what_q_may_be():
    with pytest.raises(ArgumentError, match="q between 0 and 1"):
        quantile.quantile(constant([1.0]), 1.5)
    with pytest.raises(ArgumentError, match="median needs at least one element"):
        quantile.median(constant(np.zeros((0,))))


def test_average_says_which_weights_fit():
    with pytest.raises(ShapeError, match=r"weights of shape \(2, 3\)"):
        statistics.average(constant(np.ones((2, 3))), 0, [1.0, 2.0, 3.0])
