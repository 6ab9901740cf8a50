"""Binomial coefficients in every region of the plane, against SciPy and closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.special

import tapegrad as tf
from tapegrad.scipy import special

RNG = np.random.default_rng(5)
COUNT = 60


def uniform(low: float, high: float) -> np.ndarray:
    return RNG.uniform(low, high, COUNT)


N = {
    "small": uniform(-0.99, 3.0),
    "medium": uniform(3.0, 60.0),
    "large": 10 ** uniform(2.5, 3.0),
    "negative": -1.0 - uniform(0.01, 0.99) - np.arange(COUNT) % 7,
}
# k as a function of n: inside 0 to n, within 1 of its ends, within 2 and farther.
K = {
    "inside": lambda n: uniform(0.0, 1.0) * np.maximum(n, 0.0),
    "just above": lambda n: n + uniform(0.01, 0.99),
    "above by one": lambda n: n + uniform(1.0, 2.0),
    "above by more": lambda n: n + uniform(2.0, 9.0),
    "just below": lambda n: -uniform(0.01, 0.99),
    "below": lambda n: -uniform(1.01, 6.0),
    "positive": lambda n: uniform(0.0, 12.0),
}


@pytest.mark.parametrize("region", K)
@pytest.mark.parametrize("size", N)
def test_real_arguments(size, region):
    n = N[size]
    k = K[region](n)

    found = special.binom(tf.constant(n), tf.constant(k)).numpy()

    np.testing.assert_allclose(found, scipy.special.binom(n, k), rtol=2e-11, atol=1e-300)


@pytest.mark.parametrize("n", [1, 7, 40, 300, 1029])
def test_whole_arguments(n):
    k = np.arange(-3, n + 4)

    found = special.binom(tf.constant(np.full(k.shape, float(n))), tf.constant(k * 1.0)).numpy()

    expected = [float(math.comb(n, m)) if m >= 0 else 0.0 for m in k.tolist()]
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-300)


@pytest.mark.parametrize(("n", "k"), [(1e3, 1.5), (1e5, 2.25), (1e8, 0.5), (1e8, 1.25)])
def test_the_coefficient_just_above_a_large_number(n, k):
    # By Stirling's series, gamma(n + 1) / gamma(n + 1 + k) is n^-k (1 - k (k + 1) / (2 n) + ...).
    ratio = n**-k * (1 - k * (k + 1) / (2 * n))

    found = float(special.binom(tf.constant(n, "float64"), tf.constant(n + k, "float64")))

    assert found == pytest.approx(ratio / math.gamma(1 - k), rel=10 / n**2 + 1e-9)


@pytest.mark.parametrize("region", ["inside", "above by one", "below", "positive"])
@pytest.mark.parametrize("size", ["small", "medium", "negative"])
def test_slopes(size, region):
    n = N[size]
    k = K[region](n)
    x = [tf.constant(n), tf.constant(k)]
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = special.binom(*x)

    by_n, by_k = (slope.numpy() for slope in tape.gradient(y, x))

    # d log |binom| / dn = digamma(n + 1) - digamma(n - k + 1), and likewise for k.
    digamma, value = scipy.special.digamma, scipy.special.binom(n, k)
    inner = digamma(n - k + 1)
    np.testing.assert_allclose(by_n, value * (digamma(n + 1) - inner), rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(by_k, value * (inner - digamma(k + 1)), rtol=1e-7, atol=1e-9)
