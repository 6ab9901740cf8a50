"""Quotients and square roots on CUDA: exact where they are floats, else almost so."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf

cupy = pytest.importorskip("cupy")

MANY = 1 << 20
EXTREME = np.array(
    [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 2.0**-126, -(2.0**-126), 3e38, -3e38, 1e38],
    "float32",
)


def on_cuda(function: Any, *arrays: Any) -> Any:
    with tf.device("cuda"):
        given = [tf.constant(array) for array in arrays]
        eager, compiled = function(*given).numpy(), tf.function(function)(*given).numpy()
    np.testing.assert_array_equal(eager, compiled)
    return eager


def units(found: Any, exact: Any) -> Any:
    """The error in units in the last place of the exact result."""
    return np.abs(found.astype("float64") - exact) / np.spacing(np.abs(exact).astype("float32"))


def drawn(low: float, high: float, seed: int) -> Any:
    rng = np.random.default_rng(seed)
    sign = rng.choice([-1.0, 1.0], MANY)
    return (sign * np.exp2(rng.uniform(low, high, MANY))).astype("float32")


@pytest.mark.parametrize("ends", [(-1.0, 1.0), (-40.0, 40.0), (60.0, 127.9), (-62.0, 0.0)])
def test_quotients_are_off_by_half_a_unit(ends: tuple[float, float]) -> None:
    a, b = drawn(*ends, seed=1), drawn(*ends, seed=2)

    found = on_cuda(lambda a, b: a / b, a, b)

    assert units(found, a.astype("float64") / b).max() <= 0.502
    assert np.mean(found == a / b) > 0.9999


def test_quotients_that_are_floats_are_exact() -> None:
    rng = np.random.default_rng(3)
    b, q = rng.integers(1, 4096, MANY), rng.integers(-2048, 2048, MANY)

    found = on_cuda(lambda a, b: a / b, (b * q).astype("float32"), b.astype("float32"))

    np.testing.assert_array_equal(found, q.astype("float32"))


def test_quotients_of_extreme_numbers() -> None:
    a, b = (x.ravel() for x in np.meshgrid(EXTREME, EXTREME))
    with np.errstate(all="ignore"):
        expected = a / b
    is_tiny = np.abs(expected) < 2.0**-126
    expected[is_tiny] = np.copysign(0.0, expected[is_tiny])

    found = on_cuda(lambda a, b: a / b, a, b)

    np.testing.assert_allclose(found, expected, rtol=1e-6)
    np.testing.assert_array_equal(np.signbit(found[found == 0]), np.signbit(expected[found == 0]))


@pytest.mark.parametrize("ends", [(-1.0, 1.0), (-100.0, 127.9)])
def test_square_roots_are_off_by_half_a_unit(ends: tuple[float, float]) -> None:
    x = np.abs(drawn(*ends, seed=4))

    found = on_cuda(tf.sqrt, x)

    assert units(found, np.sqrt(x.astype("float64"))).max() <= 0.502
    assert units(on_cuda(tf.math.rsqrt, x), x.astype("float64") ** -0.5).max() <= 1.51


def test_square_roots_of_squares_and_extreme_numbers() -> None:
    whole = np.arange(4096, dtype="float32")

    np.testing.assert_array_equal(on_cuda(tf.sqrt, whole * whole), whole)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(on_cuda(tf.sqrt, EXTREME), np.sqrt(EXTREME))
