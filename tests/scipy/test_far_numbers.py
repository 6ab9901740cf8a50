"""Numbers that SciPy computes and simple formulas lose: overflow, integers, single precision."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.scipy import linalg, stats

scipy_linalg = pytest.importorskip("scipy.linalg")
scipy_stats = pytest.importorskip("scipy.stats")


@pytest.mark.parametrize(("dtype", "large"), [("float32", 1e25), ("float64", 1e200)])
def test_norms_of_vectors_do_not_overflow(dtype: str, large: float) -> None:
    for scale in (large, 1.0 / large):
        vector = np.array([3.0, -4.0, 0.0], dtype) * np.asarray(scale, dtype)
        for order in (None, 2):
            found = linalg.norm(vector, order)
            np.testing.assert_allclose(found, 5.0 * scale, rtol=1e-6)


def test_norms_of_special_vectors() -> None:
    assert float(linalg.norm([0.0, 0.0])) == 0.0
    assert float(linalg.norm([np.inf, 1.0])) == np.inf
    assert np.isnan(float(linalg.norm([np.nan, 1.0])))
    assert linalg.norm([3.0, 4.0], keepdims=True).tolist() == [5.0]


def test_the_slope_of_a_scaled_norm() -> None:
    x = tf.constant([3.0, -4.0, 1e-3], "float64")
    with tf.GradientTape() as tape:
        tape.watch(x)
        size = linalg.norm(x)
    np.testing.assert_allclose(tape.gradient(size, x), x.numpy() / float(size), rtol=1e-14)


@pytest.mark.parametrize("method", ["average", "min", "max", "dense", "ordinal"])
@pytest.mark.parametrize("dtype", ["int64", "uint64"])
def test_ranks_of_large_integers(method: str, dtype: str) -> None:
    near = np.array([[2**60, 2**60 + 1, 2**60, 7], [0, 2**62, 2**62 + 3, 2**62 - 1]], dtype)
    for axis in (0, 1, None):
        expected = scipy_stats.rankdata(near, method, axis=axis)
        np.testing.assert_array_equal(stats.rankdata(near, method, axis=axis), expected)


def test_ranks_of_nothing_are_integers_where_scipys_are() -> None:
    nothing = np.zeros((0, 3))
    assert stats.rankdata(nothing, "dense", axis=1).dtype.name == "int64"
    assert stats.rankdata(nothing, axis=1).dtype.name == "float64"


@pytest.mark.parametrize("axis", [0, 1, None])
def test_deviations_from_a_center_without_nan(axis: int | None) -> None:
    x = np.array([[1.0, 2.0, np.nan, 8.0], [3.0, 4.0, 5.0, np.nan], [np.nan] * 3 + [2.0]])
    options = {"axis": axis, "center": np.mean, "nan_policy": "omit"}
    found = stats.median_abs_deviation(x, **options)
    np.testing.assert_allclose(found, scipy_stats.median_abs_deviation(x, **options))


@pytest.mark.parametrize("dtype", ["float32", "complex64"])
def test_signs_of_matrices_in_single_precision(dtype: str) -> None:
    rng = np.random.default_rng(0)
    a = rng.normal(size=(4, 4)) + (1j * rng.normal(size=(4, 4)) if dtype == "complex64" else 0.0)
    a = (a @ a.conj().T + 0.1 * np.eye(4)).astype(dtype)
    a[:2] *= -1.0
    expected = scipy_linalg.signm(a.astype("complex128"))
    np.testing.assert_allclose(linalg.signm(a), expected, atol=2e-4)
    square = linalg.signm(a).numpy()
    np.testing.assert_allclose(square @ square, np.eye(4), atol=1e-5)
