"""Elliptic integrals where each term of their formulas counts: extreme ratios, closed forms, ends.

Ratios of the arguments up to 1e300 leave differences after the last duplication, so that the terms
of the final series change the result. Between moderate arguments they vanish in rounding.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.special

import tapegrad as tf
from tapegrad.scipy import special

RNG = np.random.default_rng(11)


def spread(count: int, decades: float, size: int = 200) -> list[np.ndarray]:
    """Numbers that are even in their logarithm, over so many decades to both sides of 1."""
    return [10 ** RNG.uniform(-decades, decades, size) for _ in range(count)]


def agree(name: str, arguments: list[np.ndarray], rtol: float) -> None:
    found = getattr(special, name)(*[tf.constant(x) for x in arguments]).numpy()
    np.testing.assert_allclose(found, getattr(scipy.special, name)(*arguments), rtol=rtol)


@pytest.mark.parametrize("decades", [0.5, 5.0, 50.0, 150.0])
def test_rf_of_any_ratio(decades):
    agree("elliprf", spread(3, decades), 2e-15)
    agree("elliprf", [np.zeros(200), *spread(2, decades)], 2e-15)


@pytest.mark.parametrize("decades", [0.5, 5.0, 50.0, 100.0])
def test_rd_of_any_ratio(decades):
    x, y, z = spread(3, decades)

    agree("elliprd", [x, y, z], 5e-15)
    agree("elliprd", [0 * x, y, z], 5e-15)


@pytest.mark.parametrize("decades", [0.1, 1.0, 3.0, 6.0])
def test_rj_of_any_ratio(decades):
    x, y, z, p = spread(4, decades)

    agree("elliprj", [x, y, z, p], 2e-13)
    agree("elliprj", [x, y, 0 * z, p], 2e-13)


def test_rd_and_rj_of_the_widest_ratios():
    small, large = 10 ** RNG.uniform(-300, -280, 200), 10 ** RNG.uniform(80, 100, 200)

    agree("elliprd", [small, small, large], 5e-15)
    agree("elliprd", [small, 10 ** RNG.uniform(-280, 80, 200), large], 5e-15)
    agree("elliprj", [small, small[::-1], large, large], 5e-15)


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("power", [-30, -20, -10, -3, 1, 2, 10, 15, 20, 30])
def test_rj_of_a_small_and_a_large_fourth_argument(power, sign):
    x, y, z, p = spread(4, 1.0)
    p = sign * 10.0**power * p

    # SciPy itself is wrong by 3e-12 for some of these, as 60 digits show.
    agree("elliprj", [x, y, z, p], 5e-12)
    agree("elliprj", [0 * x, y, z, p], 5e-12)
    # Powers of 4 scale the result exactly.
    found, scaled = (
        special.elliprj(*[tf.constant(4.0**k * v) for v in (x, y, z, p)]).numpy() for k in (0, 130)
    )
    np.testing.assert_allclose(scaled, found * 8.0**-130, rtol=1e-13)


def test_equal_arguments_have_powers():
    x = spread(1, 100.0)[0]
    t = tf.constant(x)

    np.testing.assert_allclose(special.elliprf(t, t, t).numpy(), x**-0.5, rtol=1e-15)
    np.testing.assert_allclose(special.elliprc(t, t).numpy(), x**-0.5, rtol=1e-15)
    np.testing.assert_allclose(special.elliprd(t, t, t).numpy(), x**-1.5, rtol=2e-15)
    np.testing.assert_allclose(special.elliprj(t, t, t, t).numpy(), x**-1.5, rtol=2e-15)


def test_rc_has_closed_forms():
    x, y = RNG.uniform(0.01, 9.0, 400), RNG.uniform(0.01, 9.0, 400)
    y = np.where(abs(y - x) < 0.1, x + 1, y)
    d = np.abs(y - x)
    ways = np.arctan(np.sqrt(d / x)), np.arctanh(np.sqrt(d / np.maximum(x, y)))

    found = special.elliprc(tf.constant(x), tf.constant(y)).numpy()

    np.testing.assert_allclose(found, np.where(x < y, *ways) / np.sqrt(d), rtol=3e-14)


def test_rj_of_three_equal_arguments_has_a_closed_form():
    # RJ(x, x, x, p) = 3 (1 / sqrt(x) - RC(x, p)) / (p - x)
    x, p = RNG.uniform(0.1, 2.0, 200), 4.0 * 10 ** RNG.uniform(0.0, 40.0, 200)
    d = p - x
    rc = np.arctan(np.sqrt(d / x)) / np.sqrt(d)

    found = special.elliprj(*[tf.constant(v) for v in (x, x, x, p)]).numpy()

    np.testing.assert_allclose(found, 3 / d * (x**-0.5 - rc), rtol=2e-14)


def test_legendres_relation():
    m = np.concatenate([RNG.uniform(0, 1, 100), 10 ** RNG.uniform(-12, 0, 100)])
    k, k1 = (special.ellipk(tf.constant(v)).numpy() for v in (m, 1 - m))
    e, e1 = (special.ellipe(tf.constant(v)).numpy() for v in (m, 1 - m))

    np.testing.assert_allclose(e * k1 + e1 * k - k * k1, np.pi / 2, rtol=1e-13)


@pytest.mark.parametrize("name", ["ellipkinc", "ellipeinc"])
def test_incomplete_integrals_over_many_half_turns(name):
    halves = np.arange(-9, 10) * np.pi / 2
    phi = np.concatenate([halves + 1e-9, halves - 1e-9, halves + 0.4, RNG.uniform(-50, 50, 100)])
    for m in (-1e6, -3.0, 0.0, 0.3, 0.99, 1 - 1e-9):
        agree(name, [phi, np.full(phi.shape, m)], 3e-11 if m > 0.999 else 3e-13)


def test_more_than_one_is_inside_up_to_where_the_root_ends():
    # F(phi | m) = F(theta | 1/m) / sqrt(m) with sin(theta) = sqrt(m) sin(phi), for phi within.
    m = RNG.uniform(1.05, 4.0, 100)
    phi = np.arcsin(1 / np.sqrt(m)) * RNG.uniform(-0.99, 0.99, 100)
    theta = np.arcsin(np.sqrt(m) * np.sin(phi))

    found = special.ellipkinc(tf.constant(phi), tf.constant(m)).numpy()

    np.testing.assert_allclose(
        found, scipy.special.ellipkinc(theta, 1 / m) / np.sqrt(m), rtol=1e-12
    )
    outside = special.ellipkinc(tf.constant(np.full(100, 1.5)), tf.constant(m)).numpy()
    assert np.isnan(outside).all()


ENDS = [
    ("ellipk", (1.0,), np.inf),
    ("ellipk", (-np.inf,), 0.0),
    ("ellipk", (0.0,), np.pi / 2),
    ("ellipk", (1.0 + 1e-9,), np.nan),
    ("ellipkm1", (0.0,), np.inf),
    ("ellipkm1", (np.inf,), 0.0),
    ("ellipkm1", (-1e-9,), np.nan),
    ("ellipe", (1.0,), 1.0),
    ("ellipe", (0.0,), np.pi / 2),
    ("ellipe", (-np.inf,), np.inf),
    ("ellipe", (1.0 + 1e-9,), np.nan),
    ("elliprc", (0.0, 4.0), np.pi / 4),
    ("elliprf", (0.0, 1.0, 1.0), np.pi / 2),
    ("elliprf", (-1e-9, 1.0, 1.0), np.nan),
    ("agm", (3.0, 3.0), 3.0),
    ("agm", (-2.0, -2.0), -2.0),
    ("agm", (0.0, 5.0), 0.0),
    ("agm", (-1.0, 1.0), np.nan),
    ("agm", (1.0, -1.0), np.nan),
    ("agm", (0.0, np.inf), np.nan),
]


@pytest.mark.parametrize(("name", "arguments", "expected"), ENDS)
def test_ends_of_the_domains(name, arguments, expected):
    with np.errstate(invalid="ignore"):  # infinity times zero
        found = float(getattr(special, name)(*[tf.constant(x, "float64") for x in arguments]))

    np.testing.assert_allclose(found, expected, rtol=1e-15)


def test_gausss_constant():
    found = float(special.agm(tf.constant(1.0, "float64"), tf.constant(2.0**0.5, "float64")))

    assert 1 / found == pytest.approx(0.8346268416740731, rel=1e-15)


VALUES = np.array([0.0, 0.5, 1.0, 3.0, -1.0, np.inf])


@pytest.mark.parametrize("name", ["elliprc", "elliprf", "elliprd", "elliprj"])
def test_carlsons_integrals_at_their_poles_and_past_them(name):
    count = {"elliprc": 2, "elliprj": 4}.get(name, 3)
    grid = [axis.ravel() for axis in np.meshgrid(*[VALUES] * count, indexing="ij")]
    expected = getattr(scipy.special, name)(*grid)

    with np.errstate(all="ignore"):
        found = getattr(special, name)(*[tf.constant(axis) for axis in grid]).numpy()

    np.testing.assert_allclose(found, expected, rtol=1e-13, atol=1e-14)


# Near equal arguments, an integral of degree -1/2 or -3/2 is a power of their weighted mean.
WEIGHTS = {
    "elliprc": (-0.5, [1 / 3, 2 / 3]),
    "elliprf": (-0.5, [1 / 3, 1 / 3, 1 / 3]),
    "elliprd": (-1.5, [1 / 5, 1 / 5, 3 / 5]),
    "elliprj": (-1.5, [1 / 5, 1 / 5, 1 / 5, 2 / 5]),
}


@pytest.mark.parametrize("name", WEIGHTS)
def test_each_of_some_equal_arguments_has_its_own_slope(name):
    degree, weights = WEIGHTS[name]
    x = [tf.constant(np.array([0.3, 2.0, 500.0])) for _ in weights]
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = getattr(special, name)(*x)

    for slope, weight in zip(tape.gradient(y, x), weights, strict=True):
        expected = weight * degree * np.array([0.3, 2.0, 500.0]) ** (degree - 1)
        np.testing.assert_allclose(slope.numpy(), expected, rtol=1e-14)


@pytest.mark.parametrize("p", [1e-12, 1e-3, 2.0, 47.0, 49.0, 1e4, 1e18])
@pytest.mark.parametrize("first", [(0.5, 2.0, 3.0), (3.0, 3.0, 0.1), (2.0, 2.0, 2.0)], ids=str)
def test_slopes_of_rj_for_every_size_of_the_fourth_argument(first, p):
    values = np.array([*first, p])
    x = [tf.constant(value) for value in values]
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = special.elliprj(*x)

    for place, slope in enumerate(tape.gradient(y, x)):
        step = 1e-4 * values * (np.arange(4) == place)
        far, near = (
            scipy.special.elliprj(*(values + k * step))
            - scipy.special.elliprj(*(values - k * step))
            for k in (2, 1)
        )
        expected = (8 * near - far) / (12 * step[place])
        np.testing.assert_allclose(slope.numpy(), expected, rtol=1e-10)


@pytest.mark.parametrize("arguments", [(0.7, -1.3), (2.0, 1.0, 3.0, -0.4)])
def test_gradients_of_principal_values(arguments):
    function = special.elliprc if len(arguments) == 2 else special.elliprj
    reference = scipy.special.elliprc if len(arguments) == 2 else scipy.special.elliprj
    x = [tf.constant(value, "float64") for value in arguments]
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(*x)

    for place, slope in enumerate(tape.gradient(y, x)):
        step = 1e-6 * (np.arange(len(arguments)) == place)
        rise = reference(*(arguments + step)) - reference(*(arguments - step))
        np.testing.assert_allclose(slope.numpy(), rise / 2e-6, rtol=1e-7)


@pytest.mark.parametrize("name", ["elliprc", "elliprf", "elliprd", "elliprj"])
def test_complex_arguments(name):
    count = {"elliprc": 2, "elliprj": 4}.get(name, 3)
    sizes = 10 ** RNG.uniform(-2, 2, (count, 200))
    arguments = sizes * np.exp(1j * RNG.uniform(-1.5, 1.5, (count, 200)))

    agree(name, list(arguments), 1e-13)
    # Real numbers in a complex dtype have the real result.
    real = [tf.constant(size) for size in sizes]
    found = getattr(special, name)(*[tf.cast(x, "complex128") for x in real]).numpy()
    np.testing.assert_allclose(found, getattr(special, name)(*real).numpy(), rtol=1e-14)


def test_complex_arguments_with_a_negative_one():
    x, y, z, p = 10 ** RNG.uniform(-1, 1, (4, 100))

    agree("elliprc", [x + 0j, -p + 0j], 1e-13)
    agree("elliprj", [x + 0j, y + 0j, z + 0j, -p + 0j], 1e-11)


ANYWHERE = [0j, 1, 1j, -1j, 0.5 + 1j, -0.5 + 1j, -0.5 - 1j, 2, -1 + 0.5j, -2, 1e-3j, 1e6 + 1j]


@pytest.mark.parametrize(("name", "count"), [("elliprc", 2), ("elliprf", 3), ("elliprd", 3)])
def test_carlsons_integrals_are_those_of_scipy_in_the_whole_complex_plane(name, count):
    points = np.array(list(itertools.product(ANYWHERE, repeat=count)), complex).T

    with np.errstate(all="ignore"):
        ours, wanted = (np.asarray(getattr(lib, name)(*points)) for lib in (special, scipy.special))

    has_value = np.isfinite(wanted)
    assert has_value.mean() > 0.6
    np.testing.assert_allclose(ours[has_value], wanted[has_value], rtol=1e-10)
    assert not np.isfinite(ours[~has_value]).any()


def test_the_third_integral_takes_arguments_on_the_imaginary_axis():
    points = np.array([[1j, -1j, 0.0, 2.0], [0.5 + 1j, 0.5 - 1j, 1j, 1.0], [1j, 2.0, 0.0, 3.0]]).T

    ours, wanted = special.elliprj(*points), scipy.special.elliprj(*points)

    np.testing.assert_allclose(ours, wanted, rtol=1e-12)
