"""Differentiable roots of functions of one variable: root_scalar, newton, brentq, bisect.

The searches run on Python floats, so the host reads each value. `newton` also takes arrays and
solves all elements together on their device.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tapegrad.autodiff.transforms import grad, value_and_grad
from tapegrad.errors import ArgumentError
from tapegrad.scipy.optimize.implicit import (
    is_recording,
    read_scalars,
    with_implicit_derivatives,
    without_recording,
)
from tapegrad.scipy.optimize.result import OptimizeError
from tapegrad.scipy.optimize.scipy_searches import BRACKETING, bracketed_by_scipy
from tapegrad.scipy.vocabulary import (
    arguments,
    largest,
    operand,
    reshape_p,
    stop_gradient,
    sum_over,
    where,
)

_READER = "an iteration of root_scalar"
_EPS = 8.881784197001252e-16
Real = Callable[[float], float]


@dataclass(frozen=True)
class RootResults:
    """The result of root_scalar: the root as a tensor, and diagnostics.

    >>> root_scalar(lambda x: x * x - 4.0, bracket=[0.0, 3.0]).converged
    True
    """

    root: Any
    iterations: int
    function_calls: int
    converged: bool
    flag: str
    method: str


class _Counted:
    """A function of a float that counts its calls."""

    def __init__(self, function: Callable[..., Any], args: tuple[Any, ...], like: Any) -> None:
        self._function, self._args, self._like = function, args, like
        self.calls = 0

    def tensor(self, x: float) -> Any:
        """Return a float as the tensor that the function receives."""
        return self._like * 0.0 + x

    def __call__(self, x: float) -> float:
        self.calls += 1
        return read_scalars(_READER, self._function(self.tensor(x), *self._args))[0]


def root_scalar(
    f: Callable[..., Any],
    args: Any = (),
    method: str | None = None,
    bracket: Any = None,
    fprime: Any = None,
    fprime2: Any = None,
    x0: Any = None,
    x1: Any = None,
    xtol: float | None = None,
    rtol: float | None = None,
    maxiter: int | None = None,
) -> RootResults:
    """Find a root of f(x, *args), a function of one variable.

    'brentq', 'bisect' and, if SciPy is installed, 'brenth', 'ridder' and 'toms748' search within a
    `bracket`; 'newton', 'halley' and 'secant' start at `x0`.
    The tape provides derivatives that are not given. Enclosing tapes record the derivatives of the
    root with respect to everything that `f` reads.

    >>> import tapegrad
    >>> c = tapegrad.constant(4.0)
    >>> with tapegrad.GradientTape() as tape:
    ...     tape.watch(c)
    ...     x = root_scalar(lambda x, c: x * x - c, c, bracket=[0.0, 3.0]).root
    >>> round(float(x), 6), round(float(tape.gradient(x, c)), 6)
    (2.0, 0.25)
    """
    name = method or ("brentq" if bracket is not None else "newton" if x1 is None else "secant")
    if name in ("brentq", "bisect", *BRACKETING):
        if bracket is None or len(bracket) != 2:
            raise ArgumentError(f"{name} needs bracket=[a, b] with a sign change between a and b.")
        search = _search_in_bracket(name)
        ends = (float(bracket[0]), float(bracket[1]))
        return _bracketed(search, name, f, *ends, args, xtol, rtol, maxiter)
    if name not in ("newton", "halley", "secant"):
        raise ArgumentError(
            f"method must be one of brentq, bisect, {', '.join(BRACKETING)}, newton, halley, "
            f"secant. Got {method!r}."
        )
    if x0 is None:
        raise ArgumentError(f"{name} needs a starting point x0.")
    second = fprime2 or (True if name == "halley" else None)
    start = 1.0001 * operand(x0) + 1e-4 if name == "secant" and x1 is None else x1
    tolerances = (1.48e-8 if xtol is None else xtol, rtol or 0.0, maxiter or 50)
    return _newton(f, x0, fprime, args, second, start, *tolerances, name)


def _search_in_bracket(name: str) -> Callable[..., tuple[float, int, bool]]:
    if name in BRACKETING:
        return bracketed_by_scipy(name)
    return _bisected if name == "bisect" else _brent


def _bracketed(
    search: Callable[..., tuple[float, int, bool]],
    name: str,
    f: Callable[..., Any],
    a: float,
    b: float,
    args: Any,
    xtol: float | None,
    rtol: float | None,
    maxiter: int | None,
) -> RootResults:
    values = arguments(args)
    like = operand(a)
    counted = _Counted(f, values, like)
    goal = (2e-12 if xtol is None else xtol, _EPS if rtol is None else rtol)
    with without_recording():
        fa, fb = counted(a), counted(b)
        if not fa * fb <= 0:
            raise ArgumentError(
                f"{name} needs values of opposite sign at the ends of the bracket. "
                f"Got {fa} at {a} and {fb} at {b}."
            )
        x, iterations, is_found = search(counted, (a, fa), (b, fb), *goal, maxiter or 100)
        found = counted.tensor(x)
    return _results(f, found, values, iterations, counted.calls, is_found, name)


def _results(
    f: Callable[..., Any],
    found: Any,
    args: Any,
    iterations: int,
    calls: int,
    is_found: bool,
    name: str,
) -> RootResults:
    """Return the result; the root has derivatives if a tape is recording."""
    shape = tuple(found.shape)

    def residual(x: Any) -> Any:
        return reshape_p(operand(f(reshape_p(x, shape=shape), *args)), shape=(-1,))

    if is_recording():
        found = reshape_p(
            with_implicit_derivatives(residual, reshape_p(found, shape=(-1,))), shape=shape
        )
    flag = "converged" if is_found else "stopped at the maximum number of iterations"
    return RootResults(found, iterations, calls, is_found, flag, name)


Point = tuple[float, float]


def _bisected(
    f: Real, low: Point, high: Point, xtol: float, rtol: float, most: int
) -> tuple[float, int, bool]:
    if low[1] == 0 or high[1] == 0:
        return (low if low[1] == 0 else high)[0], 0, True
    for iterations in range(1, most + 1):
        middle = 0.5 * (low[0] + high[0])
        value = f(middle)
        if value == 0 or 0.5 * abs(high[0] - low[0]) < xtol + rtol * abs(middle):
            return middle, iterations, True
        low, high = ((middle, value), high) if value * high[1] < 0 else (low, (middle, value))
    return 0.5 * (low[0] + high[0]), most, False


def _brent(
    f: Real, before: Point, best: Point, xtol: float, rtol: float, most: int
) -> tuple[float, int, bool]:
    """Brent's method: inverse interpolation while it converges, bisection otherwise.

    The root lies between `best` and `other`; `before` is the previous point.
    """
    other = before
    last_step = step = best[0] - before[0]
    for iterations in range(most):
        if before[1] * best[1] < 0:
            other = before
            last_step = step = best[0] - before[0]
        if abs(other[1]) < abs(best[1]):
            before, best, other = best, other, best
        half = 0.5 * (other[0] - best[0])
        least = 0.5 * (xtol + rtol * abs(best[0]))
        if best[1] == 0 or abs(half) < least:
            return best[0], iterations, True
        guess = _interpolated(before, other, best)
        is_falling = abs(last_step) > least and abs(best[1]) < abs(before[1])
        if is_falling and 2.0 * abs(guess) < min(abs(last_step), 3.0 * abs(half) - least):
            last_step, step = step, guess
        else:
            last_step = step = half
        before = best
        x = best[0] + (step if abs(step) > least else math.copysign(least, half))
        best = (x, f(x))
    return best[0], most, False


def root_between(f: Real, a: float, b: float) -> float:
    """Return the point between a and b where a function changes sign.

    >>> round(root_between(lambda x: x * x - 2.0, 0.0, 2.0), 6)
    1.414214
    """
    low, high = (a, f(a)), (b, f(b))
    if low[1] == 0 or high[1] == 0 or low[1] * high[1] > 0:
        return min(low, high, key=lambda point: abs(point[1]))[0]
    return _brent(f, low, high, 4 * _EPS, 4 * _EPS, 100)[0]


def _interpolated(before: Point, other: Point, best: Point) -> float:
    """Return the step of the secant method or of inverse quadratic interpolation."""
    if best[1] == before[1]:
        return math.inf
    if before[0] in (other[0], best[0]) or other[1] in (before[1], best[1]):
        return -best[1] * (best[0] - before[0]) / (best[1] - before[1])
    first = (before[1] - best[1]) / (before[0] - best[0])
    second = (other[1] - best[1]) / (other[0] - best[0])
    bottom = first * second * (other[1] - before[1])
    if bottom == 0:
        return math.inf
    return -best[1] * (other[1] * second - before[1] * first) / bottom


def brentq(
    f: Callable[..., Any],
    a: float,
    b: float,
    args: Any = (),
    xtol: float = 2e-12,
    rtol: float = _EPS,
    maxiter: int = 100,
    full_output: bool = False,
    disp: bool = True,
) -> Any:
    """Return a root of f between a and b by Brent's method; f(a) and f(b) must differ in sign.

    >>> round(float(brentq(lambda x: x * x * x - 2.0, 0.0, 2.0)), 6)
    1.259921
    """
    found = _bracketed(_brent, "brentq", f, float(a), float(b), args, xtol, rtol, maxiter)
    return _answer(found, full_output, disp)


def bisect(
    f: Callable[..., Any],
    a: float,
    b: float,
    args: Any = (),
    xtol: float = 2e-12,
    rtol: float = _EPS,
    maxiter: int = 100,
    full_output: bool = False,
    disp: bool = True,
) -> Any:
    """Return a root of f between a and b by bisection.

    >>> round(float(bisect(lambda x: x - 0.3, 0.0, 1.0)), 6)
    0.3
    """
    found = _bracketed(_bisected, "bisect", f, float(a), float(b), args, xtol, rtol, maxiter)
    return _answer(found, full_output, disp)


def _answer(found: RootResults, is_full: bool, raises: bool) -> Any:
    if raises and not found.converged:
        raise OptimizeError(
            f"{found.method} found no root in {found.iterations} iterations. Start closer to a "
            "root or increase maxiter."
        )
    return (found.root, found) if is_full else found.root


def newton(
    func: Callable[..., Any],
    x0: Any,
    fprime: Any = None,
    args: Any = (),
    tol: float = 1.48e-8,
    maxiter: int = 50,
    fprime2: Any = None,
    x1: Any = None,
    rtol: float = 0.0,
    full_output: bool = False,
    disp: bool = True,
) -> Any:
    """Return a root near x0 by Newton's method, elementwise for arrays.

    The tape provides the derivative unless `fprime` is given. `x1` selects the secant method.
    `fprime2`, a function or True for a derivative from the tape, selects Halley's method.

    >>> newton(lambda x: x * x - [4.0, 9.0], [1.0, 1.0]).round(6).tolist()
    [2.0, 3.0]
    """
    name = "newton" if x1 is None else "secant"
    found = _newton(func, x0, fprime, args, fprime2, x1, tol, rtol, maxiter, name)
    return _answer(found, full_output, disp)


def _newton(
    f: Callable[..., Any],
    x0: Any,
    fprime: Any,
    args: Any,
    fprime2: Any,
    x1: Any,
    tol: float,
    rtol: float,
    maxiter: int,
    name: str,
) -> RootResults:
    values = arguments(args)
    x = stop_gradient(operand(x0))
    with without_recording():
        steps = _secant_steps(f, x, operand(x1), values) if x1 is not None else None
        iterations, is_found = 0, False
        while iterations < maxiter and not is_found:
            iterations += 1
            if steps is None:
                new = x + _newton_step(f, x, fprime, fprime2, values)
            else:
                new = next(steps)
            # One host read of the element that exceeds its tolerance most.
            excess = largest(abs(new - x) - rtol * abs(new))
            x = new
            is_found = read_scalars(_READER, excess)[0] <= tol
    calls = iterations + (1 if steps is not None else 0)
    return _results(f, x, values, iterations, calls, is_found, name)


def _newton_step(
    f: Callable[..., Any], x: Any, fprime: Any, fprime2: Any, args: tuple[Any, ...]
) -> Any:
    def together(x: Any) -> Any:
        return sum_over(operand(f(x, *args)))

    value = stop_gradient(operand(f(x, *args)))
    if callable(fprime):
        slope = operand(fprime(x, *args))
    else:
        slope = value_and_grad(together)(x)[1]
    step = -value / where(slope == 0.0, 1.0, slope)
    if fprime2:
        bend = (
            operand(fprime2(x, *args))
            if callable(fprime2)
            else grad(lambda x: sum_over(grad(together)(x)))(x)
        )
        correction = 1.0 + 0.5 * step * bend / where(slope == 0.0, 1.0, slope)
        step = where(
            abs(correction - 1.0) < 1.0, step / where(correction == 0.0, 1.0, correction), step
        )
    return stop_gradient(step)


def _secant_steps(f: Callable[..., Any], x: Any, after: Any, args: tuple[Any, ...]) -> Any:
    before, value_before = x, stop_gradient(operand(f(x, *args)))
    while True:
        value = stop_gradient(operand(f(after, *args)))
        rise = value - value_before
        step = where(rise == 0.0, 0.0, -value * (after - before) / where(rise == 0.0, 1.0, rise))
        before, value_before, after = after, value, after + step
        yield after
