"""Elliptic integrals, Airy's and Lambert's functions, polynomials, distribution functions."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.special

import tapegrad as tf
from tapegrad.scipy import special
from tests.scipy.test_stats_gradients import check

inf, nan = np.inf, np.nan
RNG = np.random.default_rng(3)
BELOW_ONE = np.concatenate([1 - 10 ** RNG.uniform(-12, 6, 60), [0.0, 1.0]])
POSITIVE = 10 ** RNG.uniform(-4, 4, (4, 60))
ANGLES = RNG.uniform(-8, 8, 60)
REAL = RNG.normal(size=60)
SHARES = RNG.uniform(0.01, 0.99, 60)
COUNTS = RNG.integers(0, 6, 60)
DEGREES = RNG.uniform(1.0, 9.0, (2, 60))

ROWS = [
    ("ellipk", [BELOW_ONE]),
    ("ellipkm1", [np.array([0.0, 1e-300, 1e-9, 0.5, 3.0])]),
    ("ellipe", [BELOW_ONE]),
    ("ellipkinc", [ANGLES, 0.9 - abs(REAL)]),
    ("ellipeinc", [ANGLES, 0.9 - abs(REAL)]),
    ("elliprc", list(POSITIVE[:2])),
    ("elliprd", list(POSITIVE[:3])),
    ("elliprf", list(POSITIVE[:3])),
    ("elliprf", [0.0 * REAL, *POSITIVE[:2]]),
    ("elliprj", list(POSITIVE)),
    ("agm", list(POSITIVE[:2])),
    ("agm", [np.array([-1.0, 1.0, 0.0]), np.array([-2.0, -2.0, 3.0])]),
    ("exprel", [np.array([-700.0, -1.0, -1e-9, 0.0, 0.5, 1.0, 300.0, inf])]),
    ("exp10", [RNG.uniform(-300, 300, 40)]),
    ("cosm1", [np.array([-1e-9, 0.0, 1e-5, 1.0, 3.0])]),
    ("powm1", [1 + 1e-9 * REAL, REAL]),
    ("inv_boxcox", [SHARES, 0.3 * REAL]),
    ("inv_boxcox1p", [SHARES, 1e-9 * REAL]),
    ("huber", [REAL, 3 * REAL[::-1]]),
    ("pseudo_huber", [REAL, 1e-5 * REAL[::-1]]),
    ("binom", [np.array([5.0, 7.3, -0.5, 3.0, 4.0]), np.array([2.0, 3.1, 2.0, -1.0, 6.0])]),
    ("zetac", [np.array([-7.7, -0.5, 0.0, 0.5, 1.0, 1.5, 3.0, 40.0])]),
    ("zeta", [np.array([-7.7, -0.5, 0.0, 0.5, 1.0, 1.5, 3.0, 40.0])]),
    ("sindg", [np.array([-30.0, 0.0, 45.0, 180.0, 725.0])]),
    ("cosdg", [np.array([-30.0, 0.0, 45.0, 90.0, 725.0])]),
    ("bdtr", [COUNTS, COUNTS + 3, SHARES]),
    ("bdtrc", [COUNTS - 1, COUNTS + 3, SHARES]),
    ("bdtr", [np.array([3, 4, -1]), np.full(3, 3), np.full(3, 0.5)]),
    ("nbdtr", [COUNTS, COUNTS + 1, SHARES]),
    ("nbdtrc", [COUNTS, COUNTS + 1, SHARES]),
    ("pdtr", [COUNTS, 4 * SHARES]),
    ("pdtrc", [COUNTS, 4 * SHARES]),
    ("chdtr", [DEGREES[0], 9 * SHARES]),
    ("chdtrc", [DEGREES[0], 9 * SHARES]),
    ("chdtri", [DEGREES[0], SHARES]),
    ("gdtr", [DEGREES[0], DEGREES[1], SHARES]),
    ("gdtrc", [DEGREES[0], DEGREES[1], SHARES]),
    ("gdtrix", [DEGREES[0], DEGREES[1], SHARES]),
    ("fdtr", [*DEGREES, 3 * SHARES]),
    ("fdtrc", [*DEGREES, 3 * SHARES]),
    ("fdtri", [*DEGREES, SHARES]),
    ("stdtr", [DEGREES[0], 3 * REAL]),
    ("stdtrit", [DEGREES[0], SHARES]),
    ("betaincc", [*DEGREES, SHARES]),
    ("betainccinv", [*DEGREES, SHARES]),
]
POLYNOMIALS = ("legendre", "chebyt", "chebyu", "hermite", "hermitenorm", "laguerre")


def agree(found, wanted, rtol=2e-11, atol=1e-15):
    np.testing.assert_allclose(found.numpy(), wanted, rtol=rtol, atol=atol)


@pytest.mark.parametrize(("name", "args"), ROWS, ids=[f"{r[0]}-{i}" for i, r in enumerate(ROWS)])
def test_values_are_scipys(name, args):
    agree(getattr(special, name)(*args), getattr(scipy.special, name)(*args))


@pytest.mark.parametrize("degree", [0, 1, 2, 7])
@pytest.mark.parametrize("name", POLYNOMIALS)
def test_polynomials(name, degree):
    x = np.linspace(-1.0, 1.0, 9)

    found = getattr(special, f"eval_{name}")(degree, x)

    agree(found, getattr(scipy.special, f"eval_{name}")(degree, x), atol=1e-13)


@pytest.mark.parametrize("degree", [0, 1, 4])
def test_polynomials_with_parameters(degree):
    x, a, b = np.linspace(-0.9, 1.0, 5), np.linspace(0.3, 2.0, 5), np.linspace(1.5, 0.2, 5)

    agree(special.eval_genlaguerre(degree, a, x), scipy.special.eval_genlaguerre(degree, a, x))
    agree(special.eval_gegenbauer(degree, a, x), scipy.special.eval_gegenbauer(degree, a, x))
    agree(special.eval_jacobi(degree, a, b, x), scipy.special.eval_jacobi(degree, a, b, x))


@pytest.mark.parametrize("derivative", [False, True])
@pytest.mark.parametrize("order", [0, 1, 5, 20])
@pytest.mark.parametrize("kind", ["jn", "yn", "in", "kn"])
def test_spherical_bessel_functions(kind, order, derivative):
    x = np.array([1e-3, 0.04, 0.3, 2.0, 5.0, 19.9, 20.6, 80.0])
    name = f"spherical_{kind}"

    found = getattr(special, name)(order, x, derivative)

    wanted = getattr(scipy.special, name)(order, x, derivative)
    agree(found, wanted, rtol=1e-11, atol=1e-15 if kind in ("jn", "yn") else 0.0)


def test_spherical_bessel_functions_of_both_signs_and_at_zero():
    x = np.array([-2.0, 0.0, 2.0])

    for order in (0, 1, 2):
        agree(special.spherical_jn(order, x), scipy.special.spherical_jn(order, x))
        agree(special.spherical_in(order, x), scipy.special.spherical_in(order, x))


def test_airy():
    x = np.array([-60.0, -7.0, -1.0, -0.3, 0.0, 0.99, 1.0, 4.0, 30.0])

    found = special.airy(x)

    for y, wanted in zip(found, scipy.special.airy(x), strict=True):
        agree(y, wanted, rtol=1e-12)


@pytest.mark.parametrize("branch", [0, -1, 1, 3])
def test_lambertw(branch):
    z = np.array([0.3, 5.0, 1e9, -0.2, -0.36, -3.0, 1j, -0.3 + 0.3j, -0.5 - 0.01j, 1e-5 - 2j])

    found = special.lambertw(z, branch)

    agree(found, scipy.special.lambertw(z, branch), rtol=1e-13)


def test_lambertw_at_the_ends():
    assert special.lambertw(0.0).numpy() == 0
    assert special.lambertw(0.0, -1).numpy().real == -inf
    assert special.lambertw(inf).numpy() == inf


def test_slope_of_lambertw_of_real_numbers():
    check(lambda x: tf.math.real(special.lambertw(x)), {"x": np.array([-0.2, 0.4, 5.0])}, ["x"])


def test_student_t_has_a_slope_in_the_middle():
    t = tf.constant(np.zeros(2))
    df = tf.constant(np.array([1.0, 4.0]))
    half = tf.constant(np.full(2, 0.5))
    with tf.GradientTape() as tape:
        tape.watch([t, half])
        y = special.stdtr(df, t) + special.stdtrit(df, half)
    density, stretch = tape.gradient(y, [t, half])

    wanted = np.array([1 / np.pi, 0.375])
    np.testing.assert_allclose(density.numpy(), wanted, rtol=1e-14)
    np.testing.assert_allclose(stretch.numpy(), 1 / wanted, rtol=1e-14)


def test_zeta_has_a_derivative_by_its_exponent():
    check(lambda x: special.zeta(x), {"x": np.array([-2.5, 0.4, 1.5, 4.0])}, ["x"])
    check(
        lambda x, q: special.zeta(x, q),
        {"x": np.array([1.5, 4.0]), "q": np.array([0.3, 2.0])},
        ["x", "q"],
    )


@pytest.mark.parametrize("n", [1, 2, 5])
def test_diric(n):
    x = np.array([-7.0, -1.0, 0.0, 1e-9, 2 * np.pi, 4.0])

    agree(special.diric(x, n), scipy.special.diric(x, n), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", ["hyp1f1", "kv", "ellipkinc", "airy", "huber", "stdtr"])
def test_the_numpy_face_has_them_too(name):
    assert getattr(tf.numpy.special, name) is getattr(special, name)
