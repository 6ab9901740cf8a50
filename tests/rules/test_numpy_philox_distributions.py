from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import special, stats

from tapegrad_numpy.kernels import philox_rejection
from tapegrad_numpy.kernels.philox import KERNELS, random_bits

# A fair sample falls below this p-value once in a thousand seeds; the seeds here are fixed.
UNLIKELY = 1e-3


def draw(kind: str, *arrays: Any, **params: Any) -> np.ndarray:
    return KERNELS[kind](np.array([42, 7], np.uint64), *arrays, **params)


def test_categorical_frequencies_follow_the_softmax():
    logits = np.log(np.array([[1, 2, 3, 4, 0.01], [5, 1, 1, 1, 1]], np.float32)) + 80

    y = draw("random_categorical", logits, num_samples=50_000)

    assert (y.shape, y.dtype) == ((2, 50_000), np.int64)
    for row, p in zip(y, special.softmax(logits.astype(float), axis=-1)):
        assert stats.chisquare(np.bincount(row, minlength=5), 50_000 * p).pvalue > UNLIKELY


def test_categorical_is_the_gumbel_maximum():
    logits = np.random.default_rng(1).normal(size=(2, 3, 7))

    y = draw("random_categorical", logits, num_samples=100, dtype="int32")

    u = (random_bits(42, 7, 6 * 100 * 7) + 0.5) * 2.0**-32
    gumbel = -np.log(-np.log(u)).reshape(2, 3, 100, 7)
    assert y.dtype == np.int32
    np.testing.assert_array_equal(y, np.argmax(logits[..., None, :] + gumbel, axis=-1))


def test_categorical_never_takes_an_excluded_class():
    logits = np.array([[-np.inf, 0.0, -np.inf, -800.0], [0.0, -np.inf, np.inf, 1.0]])

    y = draw("random_categorical", logits, num_samples=1000)

    assert np.unique(y[0]).tolist() == [1]
    assert np.unique(y[1]).tolist() == [2]


@pytest.mark.parametrize("classes", [1, 3, 20_000])
def test_categorical_counts_on_across_its_blocks(classes):
    few = draw("random_categorical", np.zeros(classes), num_samples=9)
    u = random_bits(42, 7, 9 * classes).reshape(9, classes)

    np.testing.assert_array_equal(few, u.argmax(axis=-1))


@pytest.mark.parametrize("alpha", [0.2, 0.5, 1.0, 1.5, 10.0, 1e6])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gamma_distribution(alpha, dtype):
    y = draw("random_gamma", np.array(alpha, dtype), shape=(50_000,), dtype=dtype)

    assert y.dtype == dtype
    assert np.all(y > 0)
    assert stats.kstest(y.astype(float), stats.gamma(np.array(alpha, dtype)).cdf).pvalue > UNLIKELY


def test_gamma_of_a_huge_alpha_is_nearly_normal():
    alpha = 1e14

    y = draw("random_gamma", np.array(alpha), shape=(50_000,), dtype="float64")

    assert stats.kstest((y - alpha) / math.sqrt(alpha), "norm").pvalue > UNLIKELY


def test_gamma_takes_one_alpha_per_element():
    alpha = np.array([0.5, 3.0, 100.0])

    y = draw("random_gamma", alpha, shape=(20_000, 3), dtype="float64")

    np.testing.assert_allclose(y.mean(axis=0), alpha, rtol=5e-2)
    alone = draw("random_gamma", np.array(3.0), shape=(20_000, 3), dtype="float64")
    np.testing.assert_array_equal(y[:, 1], alone[:, 1])


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_gamma_at_the_edges(dtype):
    alpha = np.array([0.0, 1e-6, np.inf, -1.0, np.nan])

    y = draw("random_gamma", alpha, shape=(5,), dtype=dtype)

    tiny = np.finfo(dtype).tiny
    np.testing.assert_array_equal(y, np.array([tiny, tiny, np.inf, np.nan, np.nan], dtype))


@pytest.mark.parametrize("rate", [1e-3, 0.7, 3.0, 9.99, 10.0, 12.5, 80.0, 1e4])
def test_poisson_distribution(rate):
    y = draw("random_poisson", np.array(rate), shape=(50_000,), dtype="int64")

    edges = np.unique(stats.poisson(rate).ppf(np.linspace(0.02, 0.98, 25)))
    expected = np.diff(stats.poisson(rate).cdf(edges), prepend=0, append=1)
    observed = np.bincount(np.searchsorted(edges, y), minlength=edges.size + 1)
    assert stats.chisquare(observed, 50_000 * expected).pvalue > UNLIKELY


@pytest.mark.parametrize("rate", [1e8, 1e14])
def test_poisson_of_a_huge_rate_is_nearly_normal(rate):
    y = draw("random_poisson", np.array(rate), shape=(50_000,), dtype="float64")

    assert stats.kstest((y - rate) / math.sqrt(rate), "norm").pvalue > UNLIKELY


def test_poisson_probability_is_accurate():
    k = np.concatenate([np.arange(40.0), [99, 1e3, 1e6]])
    for rate in (10.0, 33.3, 1e3):
        actual = philox_rejection._log_poisson(k, np.full(k.size, rate))
        np.testing.assert_allclose(actual, stats.poisson(rate).logpmf(k), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("dtype", ["float32", "int32", "int64"])
def test_poisson_at_the_edges(dtype):
    rate = np.array([0.0, 1e30, -1.0, np.nan])

    y = draw("random_poisson", rate, shape=(4,), dtype=dtype)

    assert y.dtype == dtype
    assert y[0] == 0
    if dtype == "float32":
        assert y[1] == pytest.approx(1e30)
        assert np.all(np.isnan(y[2:]))
    else:
        assert y[1] == pytest.approx(np.iinfo(dtype).max)
        assert np.all(y[2:] == 0)
