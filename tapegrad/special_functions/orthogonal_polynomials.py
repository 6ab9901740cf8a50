"""Orthogonal polynomials of integer degree, by their recurrences.

The degree is a Python int. The argument and the parameters are differentiable.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tapegrad.errors import ArgumentError
from tapegrad.ops.casting.promotion import operands
from tapegrad.ops.elementwise.selection import where
from tapegrad.special_functions.recurrence_limit import check_steps


def _degree(n: Any, name: str) -> int:
    if type(n) not in (int, float) or int(n) != n or n < 0:
        raise ArgumentError(f"{name} needs a non-negative integer degree. Got {n!r}.")
    return check_steps(int(n), name)


def _upwards(n: int, first: Any, step: Callable[[int, Any, Any], Any], x: Any) -> Any:
    """Run p(k + 1) = step(k, p(k), p(k - 1)) from p(0) = 1 and p(1) = first to p(n).

    Where `x` is infinite, p(n) for n > 1 is x to the power n: the recurrence subtracts infinities.
    """
    is_infinite = abs(first) == math.inf
    before, y = 1.0 + 0.0 * where(is_infinite, 0.0, first), first
    if n == 0:
        return before
    for k in range(1, n):
        before, y = y, step(k, y, before)
    is_infinite = abs(x) == math.inf
    return y if n == 1 else where(is_infinite, where(is_infinite, x, 1.0) ** n, y)


def eval_legendre(n: int, x: Any) -> Any:
    """Return the Legendre polynomial of degree n.

    >>> float(eval_legendre(2, 0.5))
    -0.125
    """
    n, (x,) = _degree(n, "eval_legendre"), operands(x)
    return _upwards(n, x, lambda k, y, below: ((2 * k + 1) * x * y - k * below) / (k + 1), x)


def eval_chebyt(n: int, x: Any) -> Any:
    """Return the Chebyshev polynomial of the first kind of degree n.

    >>> float(eval_chebyt(3, 0.5))
    -1.0
    """
    n, (x,) = _degree(n, "eval_chebyt"), operands(x)
    return _upwards(n, x, lambda k, y, below: 2 * x * y - below, x)


def eval_chebyu(n: int, x: Any) -> Any:
    """Return the Chebyshev polynomial of the second kind of degree n.

    >>> float(eval_chebyu(2, 0.5))
    0.0
    """
    n, (x,) = _degree(n, "eval_chebyu"), operands(x)
    return _upwards(n, 2 * x, lambda k, y, below: 2 * x * y - below, x)


def eval_hermite(n: int, x: Any) -> Any:
    """Return the physicists' Hermite polynomial of degree n.

    >>> float(eval_hermite(2, 1.0))
    2.0
    """
    n, (x,) = _degree(n, "eval_hermite"), operands(x)
    return _upwards(n, 2 * x, lambda k, y, below: 2 * (x * y - k * below), x)


def eval_hermitenorm(n: int, x: Any) -> Any:
    """Return the probabilists' Hermite polynomial of degree n.

    >>> float(eval_hermitenorm(2, 1.0))
    0.0
    """
    n, (x,) = _degree(n, "eval_hermitenorm"), operands(x)
    return _upwards(n, x, lambda k, y, below: x * y - k * below, x)


def eval_laguerre(n: int, x: Any) -> Any:
    """Return the Laguerre polynomial of degree n.

    >>> float(eval_laguerre(2, 1.0))
    -0.5
    """
    return eval_genlaguerre(_degree(n, "eval_laguerre"), 0.0, x)


def eval_genlaguerre(n: int, alpha: Any, x: Any) -> Any:
    """Return the generalized Laguerre polynomial of degree n.

    >>> float(eval_genlaguerre(1, 2.0, 1.0))
    2.0
    """
    n, (alpha, x) = _degree(n, "eval_genlaguerre"), operands(alpha, x)
    return _upwards(
        n,
        1 + alpha - x,
        lambda k, y, below: ((2 * k + 1 + alpha - x) * y - (k + alpha) * below) / (k + 1),
        where(abs(alpha) < math.inf, -x, 0.0),
    )


def eval_gegenbauer(n: int, alpha: Any, x: Any) -> Any:
    """Return the Gegenbauer polynomial of degree n.

    >>> float(eval_gegenbauer(2, 1.0, 0.5))
    0.0
    """
    n, (alpha, x) = _degree(n, "eval_gegenbauer"), operands(alpha, x)
    return _upwards(
        n,
        2 * alpha * x,
        lambda k, y, below: (2 * (k + alpha) * x * y - (k - 1 + 2 * alpha) * below) / (k + 1),
        where((alpha > 0) & (alpha < math.inf), x, 0.0),
    )


def eval_jacobi(n: int, alpha: Any, beta: Any, x: Any) -> Any:
    """Return the Jacobi polynomial of degree n.

    >>> float(eval_jacobi(1, 1.0, 0.0, 0.5))
    1.25
    """
    n, (alpha, beta, x) = _degree(n, "eval_jacobi"), operands(alpha, beta, x)
    total, gap = alpha + beta, alpha * alpha - beta * beta

    def step(k: int, y: Any, below: Any) -> Any:
        double = 2 * k + total
        scale = 2 * (k + 1) * (k + 1 + total) * double
        now = (double + 1) * (gap + double * (double + 2) * x)
        return (now * y - 2 * (k + alpha) * (k + beta) * (double + 2) * below) / scale

    first = 0.5 * ((alpha - beta) + (total + 2) * x)
    is_plain = (alpha > -1) & (beta > -1) & (total < math.inf)
    return _upwards(n, first, step, where(is_plain, x, 0.0))
