"""Truncated normal distributions, and dropout with a given source of chance."""

from __future__ import annotations

import math

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.errors import DTypeError, ShapeError

_draw = tf.random.stateless_parameterized_truncated_normal


@pytest.mark.parametrize("bounds", [(-0.5, 1.0), (8.0, 9.0), (-9.0, -8.0), (-2.0, np.inf)])
def test_draws_have_the_distribution_between_the_bounds(bounds):
    low, high = bounds

    draws = np.sort(_draw([4000], [1, 2], tf.constant(0.5, "float64"), 2.0, low, high).numpy())
    above, start, end = (
        np.array([math.erfc((x - 0.5) / 2.0 / math.sqrt(2.0)) for x in values])
        for values in (draws, [low], [high])
    )
    chance = (start - above) / (start - end)

    assert low <= draws[0]
    assert draws[-1] <= high
    # The distance of Kolmogorov and Smirnov for a chance of 1 in 1,000.
    assert np.abs(chance - (np.arange(4000) + 0.5) / 4000).max() < 1.95 / math.sqrt(4000)


def test_each_parameter_has_gradients():
    values = [tf.constant(x, "float64") for x in (0.3, 1.2, -1.0, 2.0)]
    with tf.GradientTape() as tape:
        tape.watch(values)
        y = tf.reduce_sum(_draw([3], [1, 2], *values))
    gradients = tape.gradient(y, values)

    for k, gradient in enumerate(gradients):
        ends = [
            float(
                tf.reduce_sum(_draw([3], [1, 2], *[v + s * (j == k) for j, v in enumerate(values)]))
            )
            for s in (1e-6, -1e-6)
        ]
        np.testing.assert_allclose(float(gradient), (ends[0] - ends[1]) / 2e-6, rtol=1e-5)


def test_wrong_parameters_are_refused():
    with pytest.raises(DTypeError):
        _draw([2], [1, 2], tf.constant([1, 2]))
    with pytest.raises(ShapeError):
        _draw([2], [1, 2], [0.0, 1.0, 2.0])


def test_dropout_takes_a_sampler():
    x = tf.constant([1.0, 2.0, 3.0, 4.0])

    def sampler(shape, dtype):
        return tf.cast(tf.linspace(0.0, 0.9, shape[0]), dtype)

    assert tf.nn.experimental.general_dropout(x, 0.5, sampler).tolist() == [0.0, 0.0, 6.0, 8.0]
    with pytest.raises(ShapeError):
        tf.nn.experimental.general_dropout(x, 0.5, lambda shape, dtype: tf.zeros([1]))


def test_random_names_of_experimental_are_those_of_random():
    names = tf.random.experimental

    assert names.stateless_split([1, 2], 2).tolist() == tf.random.split([1, 2], 2).tolist()
    assert names.stateless_fold_in([1, 2], 3).tolist() == tf.random.fold_in([1, 2], 3).tolist()
    assert names.Generator is tf.random.Generator
