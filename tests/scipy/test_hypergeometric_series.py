"""Hypergeometric functions of large parameters, against their power series with 80 digits."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal, getcontext, localcontext
from typing import Any

import numpy as np
import pytest
import scipy.special

import tapegrad as tf
from tapegrad.scipy import special

DIGITS = 80
ENOUGH = Decimal("1e-45")


def series(tops: list[Decimal], bottom: Decimal, z: Decimal) -> Decimal:
    """Sum the products of (a + k) / ((c + k) (k + 1)) z over all a in `tops`."""
    total = term = Decimal(1)
    k = 0
    while abs(term) > ENOUGH * abs(total) or k < abs(z):
        for top in tops:
            term *= top + k
        term *= z / ((bottom + k) * (k + 1))
        total += term
        k += 1
    return total


def gauss(a: Decimal, b: Decimal, c: Decimal, z: Decimal) -> Decimal:
    # For z < 0 by Pfaff's transformation, whose terms have one sign if a > 0.
    if z < 0:
        return (-a * (1 - z).ln()).exp() * series([a, c - b], c, z / (z - 1))
    return series([a, b], c, z)


def kummer(a: Decimal, b: Decimal, x: Decimal) -> Decimal:
    return x.exp() * series([b - a], b, -x) if x < 0 else series([a], b, x)


Reference = Callable[..., Decimal]

CASES: list[tuple[str, Reference, tuple[float, ...]]] = [
    ("hyp2f1", gauss, (0.5, 1.0, 1e6, 0.875)),
    ("hyp2f1", gauss, (0.5, 1e3, 2e3, -5.0)),
    ("hyp2f1", gauss, (30.0, 1e4, 2e4, 0.875)),
    ("hyp2f1", gauss, (5.0, 1e5, 1e5 + 1, -50.0)),
    ("hyp2f1", gauss, (2.5, 1e6, 3e6, 0.25)),
    ("hyp2f1", gauss, (-3.5, 1e4, 1e5, 0.5)),
    ("hyp2f1", gauss, (1e3, 1e3, 2e3, -1.0)),
    ("hyp2f1", gauss, (100.0, 50.0, 120.0, -3.0)),
    ("hyp2f1", gauss, (0.75, 2.0, 3.5, 1e-9)),
    ("hyp1f1", kummer, (1.0, 1e6, 1.0)),
    ("hyp1f1", kummer, (1e4, 1e5, -20.0)),
    ("hyp1f1", kummer, (0.5, 1e5, 300.0)),
    ("hyp1f1", kummer, (1e5, 1e5 + 0.5, 3.0)),
    ("hyp1f1", kummer, (300.0, 900.0, -700.0)),
]


@pytest.fixture(autouse=True)
def _digits() -> Any:
    with localcontext(getcontext(), prec=DIGITS):
        yield


@pytest.mark.parametrize(("name", "reference", "arguments"), CASES)
def test_values_and_slopes(name: str, reference: Reference, arguments: tuple[float, ...]) -> None:
    x = [tf.constant(value, "float64") for value in arguments]
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = getattr(special, name)(*x)
    slopes = tape.gradient(y, x)

    exact = [Decimal(value) for value in arguments]
    value = reference(*exact)
    assert float(y) == pytest.approx(float(value), rel=1e-13)
    for place, slope in enumerate(slopes):
        step = abs(exact[place]) * Decimal("1e-20")
        above, below = (
            reference(*[v + sign * step * (k == place) for k, v in enumerate(exact)])
            for sign in (1, -1)
        )
        # The slope by a parameter is a mean of logarithms, and has the error of the value.
        noise = 2e-15 * abs(float(value))
        expected = float((above - below) / (2 * step))
        assert float(slope) == pytest.approx(expected, rel=1e-11, abs=noise)


def test_random_parameters_of_gauss() -> None:
    rng = np.random.default_rng(1)
    b, rest = 10 ** rng.uniform(-0.3, 5.5, (2, 40))
    a, z = 10 ** rng.uniform(-2, 2, 40), rng.uniform(-4.0, 0.85, 40)

    found = special.hyp2f1(*[tf.constant(v) for v in (a, b, b + rest, z)]).numpy()

    exact = [gauss(*map(Decimal, row)) for row in np.stack([a, b, b + rest, z], 1).tolist()]
    np.testing.assert_allclose(found, [float(value) for value in exact], rtol=1e-13)


def test_random_parameters_of_kummer() -> None:
    rng = np.random.default_rng(2)
    a, rest = 10 ** rng.uniform(-0.3, 5.5, (2, 40))
    x = rng.choice([-1, 1], 40) * 10 ** rng.uniform(-2, 2.5, 40)

    found = special.hyp1f1(*[tf.constant(v) for v in (a, a + rest, x)]).numpy()

    exact = [kummer(*map(Decimal, row)) for row in np.stack([a, a + rest, x], 1).tolist()]
    np.testing.assert_allclose(found, [float(value) for value in exact], rtol=1e-13)


@pytest.mark.parametrize(
    ("a", "b", "c"),
    [
        (0.5, 0.25, 1.0), (3.0, 2.0, 6.0), (1.0, 150.0, 400.0), (-2.5, 30.0, 500.5),
        (-0.5, -0.75, 0.375), (2.25, -1.5, 1.0), (0.5, 1e5, 3e5), (-40.0, 1e3, 1e4),
    ],
)  # fmt: skip
def test_gauss_at_one_has_a_closed_form(a: float, b: float, c: float) -> None:
    # Γ(c) Γ(c - a - b) / (Γ(c - a) Γ(c - b))
    signs = [math.copysign(1.0, scipy.special.gammasgn(v)) for v in (c, c - a, c - b)]
    size = math.lgamma(c) + math.lgamma(c - a - b) - math.lgamma(c - a) - math.lgamma(c - b)

    found = float(special.hyp2f1(*[tf.constant(v, "float64") for v in (a, b, c, 1.0)]))

    assert found == pytest.approx(math.prod(signs) * math.exp(size), rel=1e-12 + 1e-15 * c)


@pytest.mark.parametrize(
    "arguments", [(-16.0, 16.0, 17.0), (-14.0, 18.0, 17.0), (-40.0, 2.5, 90.0)]
)
def test_polynomials_with_large_terms(arguments: tuple[float, ...]) -> None:
    exact = series([Decimal(arguments[0])], Decimal(arguments[1]), Decimal(arguments[2]))
    assert float(special.hyp1f1(*arguments)) == pytest.approx(float(exact), rel=1e-12)
    slope = tf.grad(lambda x: special.hyp1f1(*arguments[:2], x))(
        tf.constant(arguments[2], "float64")
    )
    ahead = series([Decimal(arguments[0] + 1)], Decimal(arguments[1] + 1), Decimal(arguments[2]))
    wanted = float(ahead) * arguments[0] / arguments[1]
    assert float(slope) == pytest.approx(wanted, rel=1e-12)
