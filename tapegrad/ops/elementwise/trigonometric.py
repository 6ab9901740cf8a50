"""Trigonometric and hyperbolic functions, their inverses, and sinc."""

from __future__ import annotations

import math
from typing import Any

from tapegrad.core.primitive.families import Function, binary, elementwise, unary
from tapegrad.core.primitive.operand import as_operand
from tapegrad.core.primitive.primitive import Primitive
from tapegrad.ops.casting.cast import as_float
from tapegrad.ops.elementwise.arithmetic import multiply
from tapegrad.ops.elementwise.no_nan import divide_no_nan, xdivy
from tapegrad.ops.elementwise.powers import sqrt
from tapegrad.ops.kinds import is_complex

sin: Function = unary("sin", lambda t, x: t * cos(x), doc="Return the sine.")
cos: Function = unary("cos", lambda t, x: -t * sin(x), doc="Return the cosine.")
tan: Function = unary("tan", lambda t, y: t * (y * y + 1), doc="Return the tangent.")
# On a branch cut, the sign of a zero imaginary part selects the side. Only x - c preserves that
# sign: the zeros of c - x and x + c are always positive.
asin: Function = unary("asin", lambda t, x: xdivy(t, _cosine_of(x)), doc="Return the inverse sine.")
acos: Function = unary(
    "acos", lambda t, x: xdivy(-t, _cosine_of(x)), doc="Return the inverse cosine."
)
atan: Function = unary("atan", lambda t, x: t / (x * x + 1), doc="Return the inverse tangent.")

sinh: Function = unary("sinh", lambda t, x: t * cosh(x), doc="Return the hyperbolic sine.")
cosh: Function = unary("cosh", lambda t, x: t * sinh(x), doc="Return the hyperbolic cosine.")
tanh: Function = unary("tanh", lambda t, y: t * (1 - y * y), doc="Return the hyperbolic tangent.")
asinh: Function = unary(
    "asinh", lambda t, x: t / sqrt(x * x - (-1)), doc="Return the inverse hyperbolic sine."
)
acosh: Function = unary(
    "acosh",
    # Two square roots, because sqrt(x² - 1) has another branch cut for complex x.
    lambda t, x: xdivy(t, sqrt(x - 1) * sqrt(x - (-1))),
    doc="Return the inverse hyperbolic cosine.",
)
atanh: Function = unary(
    "atanh", lambda t, x: xdivy(t, 1 - x * x), doc="Return the inverse hyperbolic tangent."
)

atan2: Function = binary(
    "atan2",
    lambda t, x1, x2: t * divide_no_nan(x2, x1 * x1 + x2 * x2),
    lambda t, x1, x2: -t * divide_no_nan(x1, x1 * x1 + x2 * x2),
    doc="Return the angle of the point (x, y); the gradient at (0, 0) is 0.",
    names=("y", "x"),
)


def _cosine_of(sine: Any) -> Any:
    if is_complex(sine):
        return sqrt(-(sine * sine - 1))
    return sqrt(1 - sine * sine)


def rad2deg(x: Any, name: str | None = None) -> Any:
    """Convert radians to degrees.

    >>> float(rad2deg(0.0))
    0.0
    """
    return multiply(as_operand(x), 180 / math.pi)


def deg2rad(x: Any, name: str | None = None) -> Any:
    """Convert degrees to radians.

    >>> float(deg2rad(0.0))
    0.0
    """
    return multiply(as_operand(x), math.pi / 180)


def _sinc_series(x: Any, order: int) -> Any:
    """Return the derivative of order `order` by the power series, which is accurate for |x| < 1."""
    squared = x * x
    total = 0 * x
    for k in range(order // 2 + 16, (order + 1) // 2 - 1, -1):
        falling = math.perm(2 * k, order) / math.factorial(2 * k + 1)
        total = total * squared + (-1) ** k * math.pi ** (2 * k) * falling
    return total * x if order % 2 else total


def _sinc(xp: Any, x: Any, *, order: int) -> Any:
    """Return the derivative of order `order` of sin(πx) / (πx).

    For |x| >= 1 it follows from the recurrence x f⁽ⁿ⁾ + n f⁽ⁿ⁻¹⁾ = πⁿ⁻¹ sin⁽ⁿ⁾(πx).
    """
    near = xp.abs(x) < 1
    far = xp.where(near, xp.ones_like(x), x)
    waves = (xp.sin(math.pi * far), xp.cos(math.pi * far))
    value = waves[0] / (math.pi * far)
    for n in range(1, order + 1):
        wave = waves[n % 2] if n % 4 < 2 else -waves[n % 2]
        value = (math.pi ** (n - 1) * wave - n * value) / far
    inner = xp.where(near, x, xp.zeros_like(x))
    return xp.where(near, _sinc_series(inner, order), value)


sinc_p: Primitive = elementwise(
    "sinc", lambda t, x, *, order: t * sinc_p(x, order=order + 1), forward=_sinc
)


def sinc(x: Any, name: str | None = None) -> Any:
    """Return sin(πx) / (πx), which is 1 at 0; derivatives of every order are exact at 0.

    >>> float(sinc(0.0))
    1.0
    """
    return sinc_p(as_float(x), order=0)
