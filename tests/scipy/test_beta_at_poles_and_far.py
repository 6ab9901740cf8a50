"""The beta functions at the poles of Γ, and for parameters beyond 1e10."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.special

import tapegrad as tf
from tapegrad.scipy import special


def value_and_slopes(function, a, b):
    x = tf.constant([a, b], "float64")
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x[0], x[1])
    return float(y), tape.gradient(y, x).numpy()


@pytest.mark.parametrize(("a", "b"), [(-3.0, 2.0), (-1.0, 1.0), (-7.0, 5.0), (-2.0, 2.0)])
@pytest.mark.parametrize("name", ["beta", "betaln"])
def test_only_the_argument_at_the_pole_has_a_slope(name, a, b):
    scipys = getattr(scipy.special, name)
    step = 1e-5
    slope = (scipys(a + step, b) - scipys(a - step, b)) / (2 * step)

    value, slopes = value_and_slopes(getattr(special, name), a, b)
    swapped, others = value_and_slopes(getattr(special, name), b, a)

    np.testing.assert_allclose([value, swapped], scipys(a, b), rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose([slopes[0], others[1]], slope, rtol=1e-8)
    assert np.isnan([slopes[1], others[0]]).all()


@pytest.mark.parametrize(("a", "b"), [(0.0, 1.0), (-1.0, 2.0), (-2.0, 1.5), (0.0, 3.0)])
def test_an_infinite_logarithm_has_the_slope_of_the_other_argument(a, b):
    value, slopes = value_and_slopes(special.betaln, a, b)

    assert value == math.inf
    assert np.isnan(slopes[0])
    expected = scipy.special.psi(b) - scipy.special.psi(a + b)
    np.testing.assert_allclose(slopes[1], expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("a", "b"), [(0.0, 0.0), (-1.0, -2.0), (-1.0, 0.0), (-2.0, math.inf), (0.0, math.inf)]
)
def test_poles_of_both_arguments_and_infinity_give_infinity(a, b):
    assert value_and_slopes(special.betaln, a, b)[0] == math.inf
    assert np.isnan(value_and_slopes(special.beta, a, b)[1]).all()


def betainc(a, b, x):
    return special.betainc(*(tf.constant(part, "float64") for part in (a, b, x))).numpy()


@pytest.mark.parametrize("size", [1.1e10, 1e16, 1e30, 1e300])
def test_equal_parameters_give_one_half_at_the_mean(size):
    assert float(betainc(size, size, 0.5)) == 0.5


def by_quadrature(a, b, x):
    """Integrate the density around its mean; SciPy's own function is off by 3e-5 here."""
    mean = a / (a + b)
    spread = np.sqrt(mean * (1 - mean) / (a + b))
    nodes, weights = np.polynomial.legendre.leggauss(300)

    def excess(u):  # log(1 + u) - u, of which the first terms suffice
        return -(u**2) / 2 + u**3 / 3 - u**4 / 4

    def integral(end):
        t = (end + 12) / 2 * nodes + (end - 12) / 2
        u, v = t * spread / mean, -t * spread / (1 - mean)
        log_density = a * excess(u) + b * excess(v) - np.log1p(u) - np.log1p(v)
        return (end + 12) / 2 * np.sum(weights * np.exp(log_density))

    return np.array([integral(end) for end in (x - mean) / spread]) / integral(12.0)


@pytest.mark.parametrize("size", [2e10, 1e11, 1e12])
@pytest.mark.parametrize("ratio", [1.0, 3.0, 40.0])
def test_large_parameters_agree_with_a_quadrature(size, ratio):
    a, b = size, size * ratio
    mean = a / (a + b)
    x = mean + np.sqrt(mean * (1 - mean) / (a + b)) * np.linspace(-6, 6, 13)

    found, mirrored = betainc(a, b, x), betainc(b, a, 1 - x)

    np.testing.assert_allclose(found, by_quadrature(a, b, x), rtol=3e-9)
    np.testing.assert_allclose(mirrored, 1 - found, atol=1e-9)


def test_the_limit_is_a_normal_distribution():
    x = np.nextafter(0.5, 1.0, dtype=np.float64)
    deviation = (x - 0.5) / np.sqrt(0.25 / 2e30)

    found = float(betainc(1e30, 1e30, x))

    np.testing.assert_allclose(found, scipy.special.ndtr(deviation), rtol=1e-13)


def test_the_uniform_expansion_continues_the_fraction():
    x = 0.25 + np.linspace(-5, 5, 11) * np.sqrt(0.25 * 0.75 / 4e10)

    below, above = (betainc(a, 3 * a, x) for a in (0.9999e10, 1.0001e10))

    # Between them the parameters differ by 0.02 percent, and so do the deviations.
    deviation = (x - 0.25) / np.sqrt(0.25 * 0.75 / 4e10)
    density = np.exp(-0.5 * deviation**2) / np.sqrt(2 * np.pi)
    np.testing.assert_allclose(above - below, density * deviation * 1e-4, rtol=3e-3, atol=1e-9)
