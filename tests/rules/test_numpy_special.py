from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import scipy.special as sp

from tapegrad_numpy.kernels.special import KERNELS

INF, NAN = np.inf, np.nan


def line(low: float, high: float) -> np.ndarray:
    """An even grid, and random points between."""
    between = np.random.default_rng(5).uniform(low, high, 2000)
    return np.concatenate([np.linspace(low, high, 2001), between])


def decades(low: float, high: float) -> np.ndarray:
    return 10.0 ** np.random.default_rng(6).uniform(low, high, 1000)


def around(centre: float) -> np.ndarray:
    steps = 10.0 ** np.arange(-15.0, -1.0)
    return np.concatenate([centre - steps, [centre], centre + steps])


def both(x: np.ndarray) -> np.ndarray:
    return np.concatenate([x, -x])


def points(*pieces: np.ndarray) -> tuple[np.ndarray, ...]:
    return (np.concatenate(pieces),)


def draws(*ranges: tuple[float, float]) -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(7)
    return tuple(rng.uniform(low, high, 3000) for low, high in ranges)


def logs(*ranges: tuple[float, float]) -> tuple[np.ndarray, ...]:
    return tuple(10.0**exponent for exponent in draws(*ranges))


def joined(*groups: tuple[np.ndarray, ...]) -> tuple[np.ndarray, ...]:
    return tuple(np.concatenate(columns) for columns in zip(*groups))


def gamma_pairs(most: float) -> tuple[np.ndarray, ...]:
    """Shapes, and arguments within a few deviations of them."""
    a, spread = draws((0.1, 1.0), (-4.0, 4.0))
    a = a * most
    return a, np.abs(a + spread * np.sqrt(a))


def slope_of_gammainc(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    step = 2e-3 * np.sqrt(a)
    return slope(lambda a: sp.gammainc(a, x), a, step)


def slope_of_gammaincinv(a: np.ndarray, x: np.ndarray) -> np.ndarray:
    level = sp.gammainc(a, x)
    return slope(lambda a: sp.gammaincinv(a, level), a, 2e-3 * np.sqrt(a))


def slope(function: Callable[[np.ndarray], Any], a: np.ndarray, step: np.ndarray) -> np.ndarray:
    """The difference quotient of sixth order."""
    y = 45.0 * (function(a + step) - function(a - step))
    y -= 9.0 * (function(a + 2.0 * step) - function(a - 2.0 * step))
    y += function(a + 3.0 * step) - function(a - 3.0 * step)
    return y / (60.0 * step)


@dataclass(frozen=True)
class Row:
    """One kernel's oracle, where to compare, and how closely: relative, and absolute at zeros."""

    oracle: Callable[..., Any]
    args: tuple[np.ndarray, ...]
    rtol: float = 5e-15
    atol: float = 0.0
    single: float = 1.5e-7  # one unit in the last place of float32: computed in float64


# Against 40-digit arithmetic every kernel of one argument was within 1.4e-15. Where rtol or atol is
# wider than that, the comment names the cause.
ROWS = {
    # The float32 kernel is a tanh of a polynomial, both evaluated in float32.
    "erf": Row(sp.erf, points(line(-6, 6), both(decades(-300, 1))), single=4e-7),
    # SciPy loses the rounding of x^2 in exp(x^2): up to 700 eps.
    "erfc": Row(sp.erfc, points(line(-7, 26), both(decades(-20, 1))), rtol=2e-13),
    "erfcx": Row(sp.erfcx, points(line(-26, 30), decades(-20, 10)), rtol=2e-13),
    "ndtr": Row(sp.ndtr, points(line(-36, 9), both(decades(-10, 1))), rtol=5e-13),
    "log_ndtr": Row(sp.log_ndtr, points(line(-40, 20), -decades(0, 10)), rtol=2e-13),
    "erfinv": Row(sp.erfinv, points(line(-1, 1), both(decades(-300, -1)), 1 - decades(-15, -1))),
    "erfcinv": Row(sp.erfcinv, points(line(0, 2), decades(-300, -1), 2 - decades(-15, -1))),
    "ndtri": Row(sp.ndtri, points(line(0, 1), decades(-300, -1))),
    # SciPy's error is absolute around 1 and 2; EXACT tests the relative one.
    "lgamma": Row(
        sp.gammaln,
        points(line(0, 5), line(0, 200), decades(-300, 300), around(1.0), around(2.0)),
        atol=2e-15,
    ),
    "digamma": Row(
        sp.psi, points(line(1e-3, 5), line(1e-3, 200), decades(-200, 300), around(1.46163214496836))
    ),
    "polygamma": Row(
        lambda n, x: sp.polygamma(n.astype(int), x),
        joined(
            tuple(np.round(v) if i == 0 else v for i, v in enumerate(draws((0, 8), (0.01, 30)))),
            tuple(np.round(v) if i == 0 else v for i, v in enumerate(draws((1, 50), (0.5, 9)))),
        ),
        rtol=2e-14,  # factorials and Euler-Maclaurin, in both
    ),
    "zeta": Row(
        sp.zeta, joined(draws((1.001, 30), (0.01, 30)), logs((0.01, 2), (-2, 2))), rtol=2e-14
    ),
    # SciPy subtracts two lgamma up to 360 where lbeta is around 0.
    "lbeta": Row(sp.betaln, joined(draws((0, 10), (0, 10)), logs((-6, 2), (-6, 2))), 5e-14, 1e-13),
    # The density loses a log(x) eps; SciPy's a little more.
    "igamma": Row(
        sp.gammainc,
        joined(draws((0, 20), (0, 40)), logs((-6, 0), (-8, 1)), gamma_pairs(60), gamma_pairs(3e3)),
        rtol=1e-11,
    ),
    "igammac": Row(
        sp.gammaincc,
        joined(draws((0, 20), (0, 40)), logs((-6, 0), (-8, 1)), gamma_pairs(60), gamma_pairs(3e3)),
        rtol=1e-11,
    ),
    # The oracles are difference quotients; EXACT tests the last digits.
    "igamma_grad_a": Row(
        slope_of_gammainc,
        joined(draws((0.5, 20), (0.1, 30)), gamma_pairs(900)),
        rtol=1e-7,
        atol=1e-10,
        single=1e-6,
    ),
    "random_gamma_grad": Row(
        slope_of_gammaincinv,
        joined(draws((4.0, 9.0), (2.0, 12.0)), gamma_pairs(900)),
        rtol=1e-7,
        single=1e-6,
    ),
    "betainc": Row(
        sp.betainc,
        joined(
            draws((0, 10), (0, 10), (0, 1)),
            draws((10, 300), (10, 300), (0.2, 0.8)),
            logs((-4, 3), (-4, 3), (-4, 0)),
        ),
        rtol=1e-11,
        atol=1e-300,  # SciPy flushes subnormal results to 0
    ),
    "bessel_i0": Row(sp.i0, points(line(-20, 20), line(-700, 700))),
    "bessel_i1": Row(sp.i1, points(line(-20, 20), line(-700, 700))),
    "bessel_i0e": Row(sp.i0e, points(line(-20, 20), line(-700, 700), decades(-10, 10))),
    "bessel_i1e": Row(sp.i1e, points(line(-20, 20), line(-700, 700), decades(-10, 10))),
    "bessel_k0": Row(sp.k0, points(line(0, 5), line(0, 600), decades(-300, 2))),
    "bessel_k1": Row(sp.k1, points(line(0, 5), line(0, 600), decades(-300, 2))),
    "bessel_k0e": Row(sp.k0e, points(line(0, 5), line(0, 600), decades(-300, 10))),
    "bessel_k1e": Row(sp.k1e, points(line(0, 5), line(0, 600), decades(-300, 10))),
    # Oscillating: absolute accuracy around the zeros, in both.
    "bessel_j0": Row(sp.j0, points(line(-30, 30), both(decades(-10, 3))), atol=3e-15),
    "bessel_j1": Row(sp.j1, points(line(-30, 30), both(decades(-10, 3))), atol=3e-15),
    "bessel_y0": Row(sp.y0, points(line(0, 30), decades(-300, 3)), atol=3e-15),
    "bessel_y1": Row(sp.y1, points(line(0, 30), decades(-300, 3)), atol=3e-15),
    # SciPy is off by up to 38 eps near 0.01.
    "dawsn": Row(sp.dawsn, points(line(-12, 12), both(decades(-300, 20))), rtol=2e-14),
    # SciPy sums its series where Ei has a zero, and drifts for large x.
    "expint": Row(
        sp.expi,
        points(line(-5, 5), line(-50, 50), both(decades(-300, 2.8)), around(0.37250741078137)),
        rtol=2e-13,
        atol=5e-15,
    ),
    "spence": Row(sp.spence, points(line(0, 4), decades(-300, 20), around(1.0))),
    # SciPy loses digits of the phase pi x^2 / 2.
    "fresnel_sin": Row(
        lambda x: sp.fresnel(x)[0], points(line(-10, 10), both(decades(-60, 3))), rtol=1e-13
    ),
    "fresnel_cos": Row(
        lambda x: sp.fresnel(x)[1], points(line(-10, 10), both(decades(-60, 3))), rtol=1e-13
    ),
}
every_kernel = pytest.mark.parametrize("name", ROWS)

# Values from 60-digit arithmetic, where SciPy has no such function or is itself off.
EXACT = [
    ("igamma_grad_a", (0.001, 1e-05), -10.818398299086339),
    ("igamma_grad_a", (0.3, 0.2), -1.0233803072203944),
    ("igamma_grad_a", (0.5, 1.9), -0.15075191952357515),
    ("igamma_grad_a", (0.7, 3.0), -0.065597569503852617),
    ("igamma_grad_a", (5.0, 4.0), -0.18027006579680636),
    ("igamma_grad_a", (5.0, 12.0), -0.0082327691720886354),
    ("igamma_grad_a", (15.0, 3.0), -1.1103035643219324e-6),
    ("igamma_grad_a", (25.0, 26.0), -0.076981078548081019),
    ("igamma_grad_a", (25.0, 70.0), -1.9787873884341589e-10),
    ("igamma_grad_a", (300.0, 280.0), -0.011865557618722611),
    ("igamma_grad_a", (1000.0, 1300.0), -4.9858275831497202e-19),
    ("random_gamma_grad", (0.001, 1e-05), 0.10937472778081825),
    ("random_gamma_grad", (0.3, 0.2), 1.2120372612897223),
    ("random_gamma_grad", (0.5, 1.9), 2.4624878885902653),
    ("random_gamma_grad", (0.7, 3.0), 2.3779393639106449),
    ("random_gamma_grad", (5.0, 4.0), 0.92272613426801414),
    ("random_gamma_grad", (5.0, 12.0), 1.5508363766251058),
    ("random_gamma_grad", (15.0, 3.0), 0.40647698979248031),
    ("random_gamma_grad", (25.0, 26.0), 1.0265635501721919),
    ("random_gamma_grad", (25.0, 70.0), 1.6120020019659481),
    ("random_gamma_grad", (300.0, 280.0), 0.96643689916251177),
    ("random_gamma_grad", (1000.0, 1300.0), 1.137100885546744),
    ("random_gamma_grad", (2.0, 900.0), 6.3878112285675141),
    ("random_gamma_grad", (0.01, 1e-300), 6.9021464244034503e-296),
    ("lgamma", (1.0000000000000009,), -5.1267049707839985e-16),
    ("lgamma", (0.9999999999999991,), 5.1267049707840115e-16),
    ("lgamma", (2.0000000000000018,), 7.5101584524345049e-16),
    ("lgamma", (1e-310,), 713.80137882815417),
    ("lgamma", (-2.5,), -0.056243716497674051),
    ("digamma", (1.4616321449683622,), -9.2412655217294275e-17),
    ("digamma", (1.4616321449683625,), 1.2245374622004069e-16),
    ("digamma", (-100.5,), 4.6151246013380641),
    ("expint", (0.3725074107813667,), 1.6508643146897012e-16),
    ("expint", (0.3725074107813666,), -5.1196989365556847e-17),
    ("expint", (700.5,), 2.3905495202385982e301),
    ("bessel_j0", (2.404825557695773,), -6.1087652597367304e-17),
    ("bessel_j0", (5.520078110286311,), -2.7522649432621831e-17),
    ("bessel_j0", (1e5,), -0.0017192011162359722),
    ("bessel_j0", (1e10,), 2.1755917502468917e-6),
    ("bessel_j1", (3.8317059702075125,), -6.1498073569949061e-17),
    ("bessel_j1", (1e10,), -7.6765081756841571e-6),
    ("bessel_y0", (1e5,), 0.0018467661588650641),
    ("bessel_y0", (1e10,), -7.6765081757929367e-6),
    ("bessel_y1", (1e5,), 0.0017192103500882563),
    ("bessel_y1", (1e10,), -2.1755917506307171e-6),
    ("fresnel_sin", (12345.678,), 0.50001096632980145),
    ("fresnel_cos", (12345.678,), 0.50002333469531803),
    ("erfc", (25.0,), 8.3001725711965228e-274),
    ("erfc", (26.0,), 5.6631924088561428e-296),
    ("erfcx", (-26.0,), 7.6577249314905684e293),
    ("ndtr", (-37.0,), 5.7255712225245768e-300),
    ("log_ndtr", (20.0,), -2.7536241186062337e-89),
    ("dawsn", (0.01,), 0.0099993333599992383),
    ("igamma", (1e7, 9984188.611699158), 2.8291057582979789e-7),
    ("igammac", (1e-8, 1.5), 1.0001958374029749e-9),
    ("zeta", (26.75, 209.0), 7.4465494108251741e-62),
    ("zeta", (5.0, -3.25), -1020.0644208839947),
    ("polygamma", (2.0, -3.25), 123.95521103942202),
    ("polygamma", (10.0, -1.5), -156.22959659323299),
    ("polygamma", (20.0, -7.5), -0.082020591664052534),
    ("polygamma", (200.0, 3.0), -9.8972933203120519e278),
    ("betainc", (1.0, 1e-10, 0.9), 2.3025850927289511e-10),
    ("lbeta", (0.5, 1e15), -16.697023254530642),
]

EDGES = [
    ("erf", [(0.0,), (-0.0,), (INF,), (-INF,)], [0.0, -0.0, 1.0, -1.0]),
    ("erfc", [(0.0,), (INF,), (-INF,), (27.5,)], [1.0, 0.0, 2.0, 0.0]),
    ("erfcx", [(0.0,), (INF,), (-INF,), (-27.0,)], [1.0, 0.0, INF, INF]),
    ("erfinv", [(1.0,), (-1.0,), (0.0,), (1.1,), (-INF,)], [INF, -INF, 0.0, NAN, NAN]),
    ("erfcinv", [(0.0,), (2.0,), (1.0,), (-0.1,), (2.1,)], [INF, -INF, 0.0, NAN, NAN]),
    ("ndtr", [(0.0,), (INF,), (-INF,), (-40.0,)], [0.5, 1.0, 0.0, 0.0]),
    ("ndtri", [(0.0,), (1.0,), (0.5,), (-0.1,), (1.1,)], [-INF, INF, 0.0, NAN, NAN]),
    ("log_ndtr", [(INF,), (-INF,), (-1e200,)], [0.0, -INF, -INF]),
    ("lgamma", [(0.0,), (-0.0,), (-3.0,), (1.0,), (2.0,)], [INF, INF, INF, 0.0, 0.0]),
    ("lgamma", [(INF,), (-INF,), (-1e300,)], [INF, INF, INF]),
    ("digamma", [(0.0,), (-0.0,), (-3.0,), (INF,), (-INF,)], [NAN, NAN, NAN, INF, NAN]),
    ("digamma", [(5e-324,), (-5e-324,)], [-INF, INF]),
    ("polygamma", [(0, 0.0), (1, 0.0), (2, 0.0), (1, -2.0)], [NAN, INF, -INF, INF]),
    ("polygamma", [(-1, 2.0), (1.5, 2.0), (1, INF), (NAN, 1.0)], [NAN, NAN, 0.0, NAN]),
    ("zeta", [(1.0, 2.0), (0.5, 2.0), (2.0, 0.0), (2.0, -3.0)], [INF, NAN, INF, INF]),
    ("zeta", [(2.5, -0.5), (INF, 2.0), (INF, 1.0), (2.0, INF)], [NAN, 0.0, 1.0, 0.0]),
    ("lbeta", [(0.0, 2.0), (0.0, 1e200), (INF, 2.0), (1.0, 1.0)], [INF, INF, -INF, 0.0]),
    ("igamma", [(2.0, 0.0), (2.0, INF), (INF, 2.0), (1e300, 2.0)], [0.0, 1.0, 0.0, 0.0]),
    ("igamma", [(0.0, 1.0), (-1.0, 1.0), (1.0, -1.0), (INF, INF)], [NAN, NAN, NAN, NAN]),
    ("igammac", [(2.0, 0.0), (2.0, INF), (INF, 2.0), (2.0, 1e300)], [1.0, 0.0, 1.0, 0.0]),
    ("igammac", [(0.0, 1.0), (-1.0, 1.0), (1.0, -1.0), (INF, INF)], [NAN, NAN, NAN, NAN]),
    ("igamma_grad_a", [(2.0, 0.0), (2.0, INF), (0.0, 1.0), (1.0, -1.0)], [0.0, 0.0, NAN, NAN]),
    ("random_gamma_grad", [(2.0, 0.0), (0.0, 1.0), (1.0, -1.0)], [0.0, NAN, NAN]),
    ("betainc", [(2.0, 3.0, 0.0), (2.0, 3.0, 1.0)], [0.0, 1.0]),
    ("betainc", [(2.0, 3.0, -0.1), (2.0, 3.0, 1.1), (0.0, 3.0, 0.5)], [NAN, NAN, NAN]),
    ("betainc", [(2.0, -3.0, 0.5), (INF, 3.0, 0.5)], [NAN, NAN]),
    ("bessel_i0", [(0.0,), (INF,), (-INF,), (800.0,)], [1.0, INF, INF, INF]),
    ("bessel_i1", [(0.0,), (INF,), (-INF,), (-800.0,)], [0.0, INF, -INF, -INF]),
    ("bessel_i0e", [(0.0,), (INF,), (-INF,)], [1.0, 0.0, 0.0]),
    ("bessel_i1e", [(0.0,), (INF,), (-INF,)], [0.0, 0.0, 0.0]),
    ("bessel_j0", [(0.0,), (INF,), (-INF,)], [1.0, 0.0, 0.0]),
    ("bessel_j1", [(0.0,), (INF,), (-INF,)], [0.0, 0.0, 0.0]),
    ("bessel_y0", [(0.0,), (INF,), (-1.0,)], [-INF, 0.0, NAN]),
    ("bessel_y1", [(0.0,), (INF,), (-1.0,)], [-INF, 0.0, NAN]),
    ("bessel_k0", [(0.0,), (INF,), (-1.0,)], [INF, 0.0, NAN]),
    ("bessel_k1", [(0.0,), (INF,), (-1.0,)], [INF, 0.0, NAN]),
    ("bessel_k0e", [(0.0,), (INF,), (-1.0,)], [INF, 0.0, NAN]),
    ("bessel_k1e", [(0.0,), (INF,), (-1.0,)], [INF, 0.0, NAN]),
    ("dawsn", [(0.0,), (INF,), (-INF,)], [0.0, 0.0, 0.0]),
    ("expint", [(0.0,), (INF,), (-INF,), (800.0,)], [-INF, INF, 0.0, INF]),
    ("spence", [(0.0,), (1.0,), (INF,), (-0.1,)], [np.pi**2 / 6, 0.0, -INF, NAN]),
    ("fresnel_sin", [(0.0,), (INF,), (-INF,), (1e300,)], [0.0, 0.5, -0.5, 0.5]),
    ("fresnel_cos", [(0.0,), (INF,), (-INF,), (1e300,)], [0.0, 0.5, -0.5, 0.5]),
]


def sample(name: str, size: int) -> tuple[np.ndarray, ...]:
    """Arguments from the row, shuffled so that every piece of the formula is met."""
    order = np.random.default_rng(3).integers(0, ROWS[name].args[0].size, size)
    return tuple(arg[order] for arg in ROWS[name].args)


def cast(args: Any, dtype: Any) -> tuple[np.ndarray, ...]:
    with np.errstate(all="ignore"):
        return tuple(arg.astype(dtype) for arg in args)


def narrowed(row: Row, dtype: Any, low: float, high: float) -> tuple[np.ndarray, ...]:
    """The row's arguments rounded to the dtype, less those that are not normal numbers there."""
    sizes = np.abs(row.args)
    kept = np.all((sizes < high) & (sizes > low), axis=0)
    return tuple(arg[kept] for arg in cast(row.args, dtype))


def test_every_kernel_has_a_row():
    assert set(KERNELS) == set(ROWS)


@every_kernel
def test_float64_agrees_with_scipy(name):
    row = ROWS[name]

    y = KERNELS[name](*row.args)

    with np.errstate(all="ignore"):
        expected = row.oracle(*row.args)
    np.testing.assert_allclose(y, expected, rtol=row.rtol, atol=row.atol)


@pytest.mark.parametrize("name", ["lgamma", "digamma"])
def test_reflection_to_negative_arguments_agrees_with_scipy(name):
    x = np.random.default_rng(8).uniform(-30, 0, 4000)
    x = x[np.abs(x - np.round(x)) > 1e-3]  # closer to a pole SciPy's pi * x decides

    y = KERNELS[name](x)

    np.testing.assert_allclose(y, ROWS[name].oracle(x), rtol=2e-13, atol=2e-13)


@every_kernel
def test_float32_is_right_to_the_last_places(name):
    row = ROWS[name]
    args = narrowed(row, np.float32, 1e-37, 1e38)

    y = KERNELS[name](*args)

    with np.errstate(all="ignore"):
        expected = row.oracle(*(arg.astype(np.float64) for arg in args)).astype(np.float32)
    assert y.dtype == np.float32
    np.testing.assert_allclose(y, expected, rtol=row.single, atol=max(row.atol, 3e-45))


@every_kernel
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_right_to_the_last_place(name, dtype):
    if dtype == "bfloat16":
        dtype = pytest.importorskip("ml_dtypes").bfloat16
    row = ROWS[name]
    args = narrowed(row, dtype, 1e-4, 6e4)
    unit = 2.0**-10 if dtype == "float16" else 2.0**-7

    y = KERNELS[name](*args)

    with np.errstate(all="ignore"):
        expected = row.oracle(*(arg.astype(np.float64) for arg in args)).astype(dtype)
    assert y.dtype == dtype
    y, expected = y.astype(np.float64), expected.astype(np.float64)
    np.testing.assert_allclose(y, expected, rtol=1.01 * unit, atol=1e-7)


@pytest.mark.parametrize(("name", "args", "expected"), EXACT, ids=lambda v: str(v))
def test_float64_agrees_with_high_precision(name, args, expected):
    y = KERNELS[name](*args)

    # 2e-13: exp(log) of results down to 1e-300, as in igamma_grad_a; most are right to 1e-15.
    np.testing.assert_allclose(y, expected, rtol=2e-13)


@pytest.mark.parametrize(("name", "args", "expected"), EDGES, ids=lambda v: str(v))
def test_edge_values(name, args, expected):
    columns = [np.array(column, dtype=np.float64) for column in zip(*args)]

    y = KERNELS[name](*columns)

    np.testing.assert_allclose(y, expected, rtol=1e-15)


@every_kernel
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_nan_comes_through_and_harms_no_neighbour(name, dtype):
    args = cast(sample(name, 40), dtype)
    clean = KERNELS[name](*args)

    for i in range(len(args)):
        spoilt = [arg.copy() for arg in args]
        spoilt[i][::2] = NAN
        y = KERNELS[name](*spoilt)

        assert np.isnan(y[::2]).all()
        # Group sizes follow the arguments, so iteration counts may differ in the last digit.
        np.testing.assert_allclose(y[1::2], clean[1::2], rtol=1e-13)


@every_kernel
def test_no_floating_point_warning_escapes(name):
    extremes = np.array([0.0, -0.0, 1.0, -1.0, 0.5, 1e-320, 1e308, -1e308, INF, -INF, NAN, 30.0])
    count = len(ROWS[name].args)
    grid = [axis.reshape(-1) for axis in np.meshgrid(*[extremes] * count)]

    with np.errstate(all="raise"):
        for dtype in (np.float64, np.float32):
            y = KERNELS[name](*cast(grid, dtype))

            assert y.shape == grid[0].shape


@every_kernel
def test_a_number_gives_a_0d_array(name):
    args = sample(name, 1)

    y = KERNELS[name](*(arg.reshape(()) for arg in args))

    assert isinstance(y, np.ndarray)
    assert y.shape == ()
    assert y == KERNELS[name](*args)[0]


@every_kernel
def test_empty_arrays_stay_empty(name):
    empty = np.empty((0, 3), dtype=np.float32)

    y = KERNELS[name](*[empty] * len(ROWS[name].args))

    assert y.shape == (0, 3)
    assert y.dtype == np.float32


@every_kernel
def test_large_strided_arrays_agree_with_their_parts(name):
    args = sample(name, 40_000)
    square = [np.asfortranarray(arg.reshape(200, 200)) for arg in args]

    y = KERNELS[name](*square)

    parts = [KERNELS[name](*(arg[i : i + 5000] for arg in args)) for i in range(0, 40_000, 5000)]
    np.testing.assert_allclose(y.reshape(-1), np.concatenate(parts), rtol=1e-13)


@every_kernel
def test_arguments_are_not_written_to(name):
    args = sample(name, 100)
    before = [arg.copy() for arg in args]
    for arg in args:
        arg.flags.writeable = False

    KERNELS[name](*args)

    for arg, copy in zip(args, before):
        np.testing.assert_array_equal(arg, copy)


@pytest.mark.parametrize("name", [name for name, row in ROWS.items() if len(row.args) > 1])
def test_arguments_broadcast(name):
    args = sample(name, 4)
    shapes = [(4, 1), (1, 4), (1, 1, 4)]

    y = KERNELS[name](*(arg.reshape(shape) for arg, shape in zip(args, shapes)))

    full = np.broadcast_arrays(*(arg.reshape(shape) for arg, shape in zip(args, shapes)))
    np.testing.assert_allclose(y, KERNELS[name](*(arg.copy() for arg in full)), rtol=1e-13)
    assert y.shape == full[0].shape


@every_kernel
def test_integers_become_float64(name):
    ones = np.ones(3, dtype=np.int32)

    y = KERNELS[name](*[ones] * len(ROWS[name].args))

    assert y.dtype == np.float64
    np.testing.assert_array_equal(y, KERNELS[name](*[np.ones(3)] * len(ROWS[name].args)))


@pytest.mark.parametrize("order", [2, np.int64(2), np.array([2, 2])], ids=repr)
def test_an_integer_order_does_not_widen_polygamma(order):
    x = np.array([0.5, 3.0], dtype=np.float32)

    y = KERNELS["polygamma"](order, x)

    assert y.dtype == np.float32
    np.testing.assert_allclose(y, sp.polygamma(2, x.astype(np.float64)), rtol=2e-7)


@pytest.mark.parametrize(("name", "count"), [("erf", 1), ("igamma", 2)])
def test_complex_arrays_are_refused(name, count):
    with pytest.raises(TypeError, match=rf"{name} takes real arrays: .*float64.* Got complex128"):
        KERNELS[name](*[np.ones(2, dtype=np.complex128)] * count)


def test_float32_erf_stays_within_one():
    bits = np.arange(0, 0x7F800000, 997, dtype=np.uint32)
    x = bits.view(np.float32)

    y = KERNELS["erf"](x)

    assert y.max() == 1.0
    np.testing.assert_allclose(y, sp.erf(x.astype(np.float64)), rtol=4e-7, atol=1e-45)


def test_lower_and_upper_incomplete_gamma_sum_to_one():
    a, x = ROWS["igamma"].args

    total = KERNELS["igamma"](a, x) + KERNELS["igammac"](a, x)

    np.testing.assert_allclose(total, 1.0, rtol=1e-13)


def test_gamma_gradient_is_minus_the_slope_over_the_density():
    a, x = draws((0.2, 30.0), (0.1, 30.0))
    density = np.exp((a - 1.0) * np.log(x) - x - sp.gammaln(a))

    product = -KERNELS["random_gamma_grad"](a, x) * density

    np.testing.assert_allclose(KERNELS["igamma_grad_a"](a, x), product, rtol=1e-12)


def test_the_package_needs_numpy_only():
    code = (
        "import sys, tapegrad_numpy.kernels.special\n"
        "print(sorted({'scipy', 'mpmath', 'ml_dtypes'} & set(sys.modules)))"
    )

    result = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )

    assert result.stdout.strip() == "[]"
