"""Zero cotangents stay zero on CUDA, in eager mode and in functions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tests.api.test_zero_cotangents import BRANCHES, SECOND, WAYS, reverse_twice, scaled


@pytest.fixture(autouse=True)
def on_the_gpu() -> Iterator[None]:
    with tf.device("cuda:0"):
        yield


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", BRANCHES)
def test_the_branch_that_is_not_taken_has_no_gradient(name: str, way: str) -> None:
    function, points, expected = BRANCHES[name]

    found = WAYS[way](function, [tf.constant(point) for point in points])

    for gradient, right in zip(found, expected, strict=True):
        np.testing.assert_allclose(gradient.numpy(), right, rtol=1e-4)


@pytest.mark.parametrize("way", WAYS)
def test_a_scaler_of_constant_columns(way: str) -> None:
    x = tf.constant([[1.0, 5.0], [3.0, 5.0], [8.0, 5.0]], "float64")
    weights = tf.constant([[1.0, 2.0], [-1.0, 4.0], [0.5, 6.0]], "float64")

    (gradient,) = WAYS[way](lambda x: tf.reduce_sum(weights * scaled(x)), [x])

    np.testing.assert_allclose(gradient.numpy()[:, 1], [-2.0, 0.0, 2.0], atol=1e-12)
    assert np.isfinite(gradient.numpy()).all()


@pytest.mark.parametrize("name", SECOND)
def test_second_derivatives(name: str) -> None:
    function, right = SECOND[name]
    f: Callable[[Any], Any] = lambda x: tf.where(x > 0, function(x), 0.0)  # noqa: E731

    found = reverse_twice(f, tf.constant([0.0, 2.0], "float64"))

    np.testing.assert_allclose(found.numpy(), [0.0, right], rtol=1e-9, atol=0)
