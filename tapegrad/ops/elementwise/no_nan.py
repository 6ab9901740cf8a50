"""Products and quotients in which an exact zero takes precedence over infinities and NaN.

Derivative rules divide with `xdivy`: a zero cotangent then stays zero where the slope is infinite.
"""

from __future__ import annotations

from typing import Any

from tapegrad.core.primitive.families import Function, binary
from tapegrad.ops.kinds import as_arrays


def _divide_no_nan(xp: Any, x: Any, y: Any) -> Any:
    x, y = as_arrays(xp, x, y)
    zero = y == 0
    return xp.where(zero, xp.zeros_like(y), x / xp.where(zero, xp.ones_like(y), y))


def _multiply_no_nan(xp: Any, x: Any, y: Any) -> Any:
    x, y = as_arrays(xp, x, y)
    return xp.where(y == 0, xp.zeros_like(y), x * y)


def _xdivy(xp: Any, x: Any, y: Any) -> Any:
    x, y = as_arrays(xp, x, y)
    zero = x == 0
    return xp.where(zero, xp.zeros_like(x), x / xp.where(zero, xp.ones_like(y), y))


divide_no_nan: Function = binary(
    "divide_no_nan",
    lambda t, x2: divide_no_nan(t, x2),
    lambda t, y, x2: t * divide_no_nan(-y, x2),
    forward=_divide_no_nan,
    doc="Return x / y, and 0 where y is 0.",
)
multiply_no_nan: Function = binary(
    "multiply_no_nan",
    lambda t, x2: multiply_no_nan(t, x2),
    lambda t, x1: multiply_no_nan(x1, t),
    forward=_multiply_no_nan,
    doc="Return x * y, and 0 where y is 0 even if x is infinite or NaN.",
)
xdivy: Function = binary(
    "xdivy",
    lambda t, x2: xdivy(t, x2),
    lambda t, y, x2: -xdivy(t * y, x2),
    forward=_xdivy,
    doc="Return x / y, and 0 where x is 0 for every y.",
)
