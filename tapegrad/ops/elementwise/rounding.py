"""Rounding, integer division and remainders. Only the remainders have a derivative."""

from __future__ import annotations

from typing import Any

from tapegrad.core.primitive.families import Function, binary, unary
from tapegrad.core.primitive.operand import as_operand
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.kinds import as_arrays, is_integer

floor: Function = unary("floor", None, doc="Return the largest integer <= x.")
ceil: Function = unary("ceil", None, doc="Return the smallest integer >= x.")
trunc: Function = unary("trunc", None, doc="Return x rounded towards zero.")
rint: Function = unary("round", None, doc="Return the nearest integer, halves to even.")


def round(x: Any, decimals: int | None = 0, name: str | None = None) -> Any:  # TF's name
    """Return `x` rounded to `decimals` decimals, halves to even.

    >>> round([0.5, 1.5, -2.5]).tolist()
    [0.0, 2.0, -2.0]
    """
    if not decimals:
        return rint(x)
    # 10.0**n is exact, 10.0**-n is not: for negative `decimals`, divide first.
    scale = 10.0 ** int(abs(decimals))
    x = as_operand(x)
    if x.dtype.is_integer:
        return x if decimals > 0 else cast(rint(cast(x, "float64") / scale) * scale, x.dtype)
    return rint(x * scale) / scale if decimals > 0 else rint(x / scale) * scale


floor_divide: Function = binary("floor_divide", None, None, doc="Return x / y rounded down.")


def _truncate_divide(xp: Any, x: Any, y: Any) -> Any:
    x, y = as_arrays(xp, x, y)
    if not is_integer(x) or not is_integer(y):
        return xp.trunc(x / y)
    quotient = xp.abs(x) // xp.abs(y)
    return xp.where((x < 0) == (y < 0), quotient, -quotient)


truncatediv: Function = binary(
    "truncatediv", None, None, forward=_truncate_divide, doc="Return x / y rounded towards zero."
)

mod: Function = binary(
    "remainder",
    lambda t: t,
    lambda t, x1, x2: -t * floor(x1 / x2),
    doc="Return x - floor(x / y) * y, which has the sign of y.",
)


def _fmod(xp: Any, x: Any, y: Any) -> Any:
    x, y = as_arrays(xp, x, y)
    if hasattr(xp, "fmod"):
        return xp.fmod(x, y)
    rest = xp.remainder(xp.abs(x), xp.abs(y))
    if is_integer(rest):
        return xp.where(x < 0, -rest, rest)
    return xp.copysign(rest, x)  # also a zero has the sign of x


fmod: Function = binary(
    "fmod",
    lambda t: t,
    lambda t, x1, x2: -t * trunc(x1 / x2),
    forward=_fmod,
    doc="Return x - trunc(x / y) * y, which has the sign of x.",
)


def _fraction(xp: Any, x: Any) -> Any:
    rest = xp.where(xp.isinf(x), xp.zeros_like(x), x - xp.trunc(x))
    return xp.copysign(rest, x)


fraction: Function = unary(
    "fraction",
    lambda t: t,
    forward=_fraction,
    doc="Return the fractional part, with the sign of x; that of an infinity is 0.",
)


def modf(x: Any, name: str | None = None) -> tuple[Any, Any]:
    """Return the fractional and the integer part, both with the sign of x.

    >>> [part.item() for part in modf(-1.5)]
    [-0.5, -1.0]
    """
    x = as_operand(x)
    return fraction(x), trunc(x)
