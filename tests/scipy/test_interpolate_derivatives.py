"""Derivatives of interpolators, in values, points and places, on the CPU and on a device."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.scipy import interpolate
from tapegrad.scipy.interpolate.common import bisect
from tapegrad.testing.sample import Sample, fixed, normal, uniform
from tests.scipy.on_devices import check_on_cpu, check_on_strict_device

KNOTS = fixed([0.0, 0.7, 1.9, 2.8, 4.1])
PLACES = fixed([[-0.3, 0.31, 0.9], [2.2, 3.3, 4.4]])


def spline(name, *more, **options):
    """A function of points, values and places that makes an interpolator and asks it."""
    return lambda x, y, q: getattr(interpolate, name)(x, y, *more, **options)(q)


SAMPLES = [
    Sample("cubic", spline("CubicSpline"), [KNOTS, normal(5, 2), PLACES]),
    Sample("cubic-natural", spline("CubicSpline", 0, "natural"), [KNOTS, normal(5), PLACES]),
    Sample(
        "cubic-periodic",
        lambda x, y, q: interpolate.CubicSpline(x, tf.concat([y, y[:1]], 0), bc_type="periodic")(q),
        [KNOTS, normal(4), PLACES],
    ),
    Sample(
        "cubic-ends",
        lambda x, y, v, q: interpolate.CubicSpline(x, y, bc_type=((1, v), (2, v)))(q),
        [KNOTS, normal(5), normal(), PLACES],
    ),
    Sample("pchip", spline("PchipInterpolator"), [KNOTS, normal(5, 2), PLACES]),
    Sample("akima", spline("Akima1DInterpolator", extrapolate=True), [KNOTS, normal(5), PLACES]),
    Sample(
        "hermite",
        lambda x, y, s, q: interpolate.CubicHermiteSpline(x, y, s)(q),
        [KNOTS, normal(5), normal(5), PLACES],
    ),
    Sample(
        "ppoly-integral",
        lambda c, x, a, b: interpolate.PPoly(c, x).integrate(a, b),
        [normal(3, 4), KNOTS, fixed(0.3), fixed(3.4)],
    ),
    Sample(
        "ppoly-periodic-integral",
        lambda c, x, a, b: interpolate.PPoly(c, x, "periodic").integrate(a, b),
        [normal(3, 4), KNOTS, fixed(-1.55), fixed(7.4)],
    ),
    Sample(
        "akima-within",
        lambda x, y, q: interpolate.Akima1DInterpolator(x, y)(q),
        [KNOTS, normal(5), uniform(0.1, 4.0, 3)],
    ),
    Sample(
        "bspline-integral",
        lambda t, c, a, b: interpolate.BSpline(t, c, 2).integrate(a, b),
        [fixed([0.0, 0.2, 0.4, 0.7, 1.9, 2.8, 4.1, 4.5]), normal(5), fixed(0.5), fixed(1.8)],
    ),
    Sample(
        "bspline",
        lambda t, c, q: interpolate.BSpline(t, c, 2)(q),
        [fixed([0.0, 0.2, 0.4, 0.7, 1.9, 2.8, 4.1, 4.5]), normal(5), PLACES],
        # A parabola's second derivative jumps at the knots, where no place of ours is.
    ),
    Sample("make_interp_spline", spline("make_interp_spline"), [KNOTS, normal(5), PLACES]),
    Sample(
        "interp1d",
        spline("interp1d", bounds_error=False, fill_value="extrapolate"),
        [KNOTS, normal(5), PLACES],
    ),
    Sample(
        "interp1d-nearest",
        lambda y, q: interpolate.interp1d(
            np.arange(5.0).astype(y.dtype.dtype), y, "nearest", fill_value="extrapolate"
        )(q),
        [normal(5), PLACES],
        order=1,
    ),
    *[
        Sample(
            f"grid-{method}",
            lambda x, v, q, method=method: interpolate.RegularGridInterpolator(
                (x, x), v, method, bounds_error=False, fill_value=None
            )(q),
            [KNOTS, normal(5, 5), uniform(0.1, 4.0, 3, 2)],
        )
        for method in ("linear", "cubic", "pchip")
    ],
    *[
        Sample(
            f"scattered-{kernel}",
            lambda x, y, q, kernel=kernel: interpolate.RBFInterpolator(
                x, y, kernel=kernel, epsilon=1.2, smoothing=0.1
            )(q),
            [uniform(0.0, 2.0, 7, 2), normal(7), uniform(0.0, 2.0, 3, 2)],
        )
        for kernel in ("thin_plate_spline", "linear", "gaussian")
    ],
    Sample("krogh", spline("KroghInterpolator"), [KNOTS, normal(5, 2), PLACES]),
    Sample("barycentric", spline("BarycentricInterpolator"), [KNOTS, normal(5, 2), PLACES]),
]


@pytest.mark.parametrize("sample", SAMPLES, ids=repr)
def test_derivatives_batches_and_recordings(sample):
    check_on_cpu(sample)


@pytest.mark.filterwarnings("ignore:You are comparing a array_api_strict dtype")
@pytest.mark.parametrize("sample", SAMPLES, ids=repr)
def test_nothing_is_read_back_from_a_device(sample):
    check_on_strict_device(sample)


def test_the_slope_at_a_point_of_the_polynomial_itself():
    x = tf.constant(np.array([0.0, 1.0, 2.0]))
    f = interpolate.BarycentricInterpolator(x, [0.0, 1.0, 4.0])

    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    slopes = tape.gradient(y, x)

    # Both the place and the point move: the value stays.
    np.testing.assert_allclose(slopes.numpy(), np.zeros(3), atol=1e-12)


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("count", [1, 2, 5, 8, 9])
def test_a_search_by_halving_finds_what_comparing_all_finds(count, right):
    points = np.sort(np.random.default_rng(count).integers(0, 6, size=count)).astype(float)
    values = np.arange(-1.0, 8.0, 0.5)

    found = bisect(tf.constant(points), tf.constant(values), right=right)

    assert (
        found.numpy().tolist()
        == np.searchsorted(points, values, side="right" if right else "left").tolist()
    )
