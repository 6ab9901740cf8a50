"""minimize_scalar: differentiable minima of functions of one variable.

The searches run on Python floats, so the host reads each value.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tapegrad.autodiff.transforms import grad
from tapegrad.errors import ArgumentError
from tapegrad.scipy.optimize.implicit import (
    is_recording,
    read_scalars,
    with_implicit_derivatives,
    without_recording,
)
from tapegrad.scipy.optimize.result import MESSAGES, OptimizeResult, merge_options
from tapegrad.scipy.vocabulary import arguments, operand, reshape_p

_READER = "an iteration of minimize_scalar"
_GOLD = 0.5 * (3.0 - math.sqrt(5.0))
_METHODS: dict[str, dict[str, Any]] = {
    "brent": {"xtol": 1.48e-8, "maxiter": 500},
    "golden": {"xtol": 1.4901161193847656e-08, "maxiter": 5000},
    "bounded": {"xatol": 1e-5, "maxiter": 500},
}
Point = tuple[float, float]
Real = Callable[[float], float]


def minimize_scalar(
    fun: Callable[..., Any],
    bracket: Any = None,
    bounds: Any = None,
    args: Any = (),
    method: str | None = None,
    tol: float | None = None,
    options: dict[str, Any] | None = None,
) -> OptimizeResult:
    """Find a local minimum of fun(x, *args), a function of one variable.

    The method is 'brent' or 'golden', which start from a `bracket` of two or three numbers, or
    'bounded', which searches between `bounds`. Enclosing tapes record the derivatives of the
    minimum with respect to everything that `fun` reads.

    >>> found = minimize_scalar(lambda x: (x - 2.0) ** 2 + 1.0)
    >>> round(float(found.x), 6), round(found.fun, 6)
    (2.0, 1.0)
    """
    name = (method or ("brent" if bounds is None else "bounded")).lower()
    if name not in _METHODS:
        raise ArgumentError(f"method must be one of {', '.join(_METHODS)}. Got {method!r}.")
    if (name == "bounded") != (bounds is not None):
        raise ArgumentError("method='bounded' needs bounds, and other methods do not support them.")
    chosen = merge_options(name, _METHODS[name], tol, options)
    args = arguments(args)
    like, calls = operand(0.0), [0]

    def at(x: float) -> float:
        calls[0] += 1
        return read_scalars(_READER, fun(like + x, *args))[0]

    with without_recording():
        best, iterations, is_found = _search(name, at, bracket, bounds, chosen)
        found = like + best[0]
    slope = grad(lambda x: reshape_p(operand(fun(x, *args)), shape=()))
    if is_recording():
        vector = with_implicit_derivatives(
            lambda x: reshape_p(slope(x[0]), shape=(1,)), reshape_p(found, shape=(1,))
        )
        found = vector[0]
    status = 0 if is_found else 1
    return OptimizeResult(
        x=found,
        fun=best[1],
        nfev=calls[0],
        nit=iterations,
        status=status,
        success=is_found,
        message=MESSAGES[status],
    )


def _search(
    name: str, at: Real, bracket: Any, bounds: Any, chosen: dict[str, Any]
) -> tuple[Point, int, bool]:
    most = int(chosen["maxiter"])
    if name == "bounded":
        low, high = (float(end) for end in bounds)
        if not low <= high:
            raise ArgumentError(f"The lower bound must not exceed the upper bound. Got {bounds!r}.")
        x = low + _GOLD * (high - low)
        slack = chosen["xatol"] / 3.0
        return _narrow(at, low, (x, at(x)), high, 1.5e-8, slack, most)
    a, b, c = _bracket(at, bracket)
    low, high = min(a[0], c[0]), max(a[0], c[0])
    if name == "golden":
        return _golden(at, low, b, high, chosen["xtol"], most)
    return _narrow(at, low, b, high, chosen["xtol"], 1e-11, most)


def _bracket(at: Real, bracket: Any) -> tuple[Point, Point, Point]:
    """Return three points with the lowest value in the middle; two points are extended downhill."""
    given = (0.0, 1.0) if bracket is None else tuple(float(x) for x in bracket)
    if len(given) == 3:
        a, b, c = sorted(given)
        points = (a, at(a)), (b, at(b)), (c, at(c))
        if not a < b < c or not points[1][1] < min(points[0][1], points[2][1]):
            raise ArgumentError(
                f"A bracket of three points needs its lowest value in the middle. Got {given}."
            )
        return points
    if len(given) != 2:
        raise ArgumentError(f"A bracket needs two or three numbers. Got {given}.")
    first, second = ((x, at(x)) for x in given)
    if first[1] < second[1]:
        first, second = second, first
    step = second[0] - first[0]
    for _ in range(1000):
        step *= 1.618034
        third = (second[0] + step, at(second[0] + step))
        if third[1] >= second[1]:
            return first, second, third
        first, second = second, third
    raise ArgumentError(
        f"No minimum found by searching downhill from {given}: the function keeps falling."
    )


def _narrow(
    at: Real, low: float, best: Point, high: float, rtol: float, slack: float, most: int
) -> tuple[Point, int, bool]:
    """Brent's method: parabolic interpolation while it converges, else golden section steps."""
    second = third = best
    step = before = 0.0
    for iterations in range(most):
        x = best[0]
        middle, least = 0.5 * (low + high), rtol * abs(x) + slack
        if abs(x - middle) <= 2.0 * least - 0.5 * (high - low):
            return best, iterations, True
        guess = _parabola(best, second, third) if abs(before) > least else math.inf
        is_good = abs(guess) < 0.5 * abs(before) and low - x < guess < high - x
        if is_good:
            before, step = step, guess
            if min(x + step - low, high - x - step) < 2.0 * least:
                step = math.copysign(least, middle - x)
        else:
            before = (high if x < middle else low) - x
            step = _GOLD * before
        there = x + (step if abs(step) >= least else math.copysign(least, step))
        new = (there, at(there))
        if new[1] <= best[1]:
            low, high = (x, high) if there >= x else (low, x)
            best, second, third = new, best, second
        else:
            low, high = (there, high) if there < x else (low, there)
            if new[1] <= second[1] or second[0] == best[0]:
                second, third = new, second
            elif new[1] <= third[1] or third[0] in (best[0], second[0]):
                third = new
    return best, most, False


def _parabola(a: Point, b: Point, c: Point) -> float:
    """Return the step from a to the minimum of the parabola through three points."""
    left, right = a[0] - b[0], a[0] - c[0]
    r, q = left * (a[1] - c[1]), right * (a[1] - b[1])
    top, bottom = right * q - left * r, 2.0 * (q - r)
    return -top / bottom if bottom != 0 else math.inf


def _golden(
    at: Real, low: float, best: Point, high: float, xtol: float, most: int
) -> tuple[Point, int, bool]:
    """Shrink the bracket by golden section search."""
    for iterations in range(most):
        if high - low <= xtol * (abs(low) + abs(high)):
            return best, iterations, True
        x = best[0]
        there = x + _GOLD * ((high - x) if high - x > x - low else (low - x))
        new = (there, at(there))
        if new[1] < best[1]:
            low, high = (x, high) if there > x else (low, x)
            best = new
        else:
            low, high = (low, there) if there > x else (there, high)
    return best, most, False
