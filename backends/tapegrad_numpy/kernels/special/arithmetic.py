"""Shared building blocks: polynomials, exact squares, logarithms near 1.

Coefficient tables in this package run from the highest power down. They are near-minimax fits of
the quotient named beside each, computed in 50-digit arithmetic to a relative error below 5e-17,
unless the comment says otherwise, and rounded to float64.
"""

from __future__ import annotations

import numpy as np

from tapegrad_numpy.kernels.special.blocks import Array

Coefficients = tuple[float, ...]


def polynomial(coefficients: Coefficients, x: Array) -> Array:
    """Evaluate sum c_k x^k by Horner's rule, in the dtype of x."""
    y = x * coefficients[0]
    y += coefficients[1]
    for coefficient in coefficients[2:]:
        y *= x
        y += coefficient
    return y


def rational(numerator: Coefficients, denominator: Coefficients, x: Array) -> Array:
    y = polynomial(numerator, x)
    y /= polynomial(denominator, x)
    return y


def square(x: Array) -> tuple[Array, Array]:
    """Return x*x rounded, and what the rounding lost (for |x| below 1e19)."""
    head = x.astype(np.float32).astype(np.float64)
    tail = x - head
    rounded = x * x
    return rounded, ((head * head - rounded) + 2.0 * head * tail) + tail * tail


def sin_pi(x: Array) -> Array:
    """Evaluate sin(pi x), exactly 0 at integers, up to the sign (-1)^round(x)."""
    return np.sin(np.pi * (x - np.round(x)))


# (atanh(r) - r) / r^3 as a polynomial in r^2, for r^2 in [0, 1/9].
# fmt: off
ATANH = (
    0.07819360528177104, 0.037438132438320344, 0.05423121604113459, 0.05867070065315371,
    0.06667594791346586, 0.07692271715383919, 0.09090909956906845, 0.1111111109898335,
    0.14285714285801218, 0.19999999999999757, 0.3333333333333333,
)
# fmt: on


def log_excess(ratio: Array, offset: Array) -> Array:
    """Evaluate offset - log(ratio), where ratio = 1 + offset, to full relative accuracy.

    Near 1 it uses log(ratio) = 2 atanh(r) with r = offset / (2 + offset).
    """
    r = offset / (1.0 + ratio)
    r2 = r * r
    near = r * (offset - 2.0 * r2 * polynomial(ATANH, r2))
    return np.where(np.abs(offset) <= 0.5, near, offset - np.log(ratio))
