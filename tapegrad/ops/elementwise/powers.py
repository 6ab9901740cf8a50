"""Powers and roots: square, sqrt, rsqrt, reciprocal, power, hypot."""

from __future__ import annotations

import math
from typing import Any

from tapegrad.core.primitive.families import Function, binary, elementwise, unary
from tapegrad.core.primitive.operand import as_operand
from tapegrad.core.primitive.primitive import Primitive
from tapegrad.core.values.convert import NUMBERS
from tapegrad.core.values.sizes import Size, SizeRatio
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.creation import zeros_like
from tapegrad.ops.elementwise.arithmetic import conj, positive
from tapegrad.ops.elementwise.no_nan import divide_no_nan, xdivy
from tapegrad.ops.elementwise.selection import where
from tapegrad.ops.kinds import is_complex, is_integer

square: Function = unary("square", lambda t, x: 2 * t * x, doc="Return x * x.")
sqrt: Function = unary("sqrt", lambda t, y: xdivy(t, 2 * y), doc="Return the square root.")
rsqrt: Function = unary(
    "rsqrt",
    lambda t, x: xdivy(-0.5 * t, x * sqrt(x)),
    forward=lambda xp, x: 1 / xp.sqrt(x),
    doc="Return 1 / sqrt(x).",
)
reciprocal: Function = unary("reciprocal", lambda t, x: xdivy(-t, x * x), doc="Return 1 / x.")


def _cbrt(xp: Any, x: Any) -> Any:
    if hasattr(xp, "cbrt"):
        return xp.cbrt(x)
    return xp.copysign(xp.pow(xp.abs(x), 1 / 3), x)


cbrt: Function = unary(
    "cbrt",
    lambda t, y: xdivy(t, 3 * y * y),
    forward=_cbrt,
    doc="Return the real cube root, also for negative numbers.",
)
hypot: Function = binary(
    "hypot",
    # The gradient at the origin is 0, as for all norms in this package.
    lambda t, x1, y: t * divide_no_nan(x1, y),
    lambda t, x2, y: t * divide_no_nan(x2, y),
    doc="Return sqrt(x**2 + y**2) without intermediate overflow.",
)


def squared_difference(x: Any, y: Any, name: str | None = None) -> Any:
    """Return (x - y)². For complex numbers, return |x - y|² as a complex tensor.

    >>> squared_difference([3.0, 1.0], 2.0).tolist()
    [1.0, 1.0]
    """
    if is_complex(x) or is_complex(y):
        difference = as_operand(x) - y
        return difference * conj(difference)
    return _squared_difference(x, y)


_squared_difference: Function = binary(
    "squared_difference",
    lambda t, x1, x2: 2 * t * (x1 - x2),
    lambda t, x1, x2: 2 * t * (x2 - x1),
    forward=lambda xp, x, y: xp.square(x - y),
)


def _power_rule(t: Any, x: Any, *, exponent: float) -> Any:
    if exponent == 0:
        return zeros_like(t)
    if exponent < 1:
        return xdivy(exponent * t, power(x, 1 - exponent))
    return exponent * t * power(x, exponent - 1)


power_number_p: Primitive = elementwise(
    "power_number", _power_rule, forward=lambda xp, x, *, exponent: xp.pow(x, exponent)
)


def _log_or_zero(xp: Any, x: Any) -> Any:
    valid = _has_log(x)
    return xp.where(valid, xp.log(xp.where(valid, x, 1)), 0)


log_or_zero: Function = unary(
    "log_or_zero",
    lambda t, x: where(_has_log(x), t / where(_has_log(x), x, 1), 0),
    forward=_log_or_zero,
    doc="Return log(x), and 0 where x is not positive (for complex x, where x is 0).",
)


def _has_log(x: Any) -> Any:
    return x != 0 if is_complex(x) else x > 0


def _log_of_base(x: Any, y: Any) -> Any:
    """Return the logarithm of the base x of y = x ** exponent, and 0 where there is none.

    It is complex if y is. The result for a Python number is a Python number, so that no dtype is
    promoted.
    """
    if type(x) in (int, float, bool):
        if is_complex(y):
            import cmath  # slow to import

            return cmath.log(x) if x else 0.0
        return math.log(x) if x > 0 else 0.0
    return log_or_zero(cast(x, y.dtype) if is_complex(y) and not is_complex(x) else x)


def _base_rule(t: Any, x1: Any, x2: Any) -> Any:
    # 0**0 is constant in the base. Elsewhere the exponent stays x2 - 1, which the second
    # derivative differentiates.
    exponent = where((x1 == 0) & (x2 == 0), 1, x2 - 1)
    return t * x2 * power_p(x1, exponent)


power_p: Function = binary(
    "pow", _base_rule, lambda t, y, x1: t * (y * _log_of_base(x1, y)), poles=True
)

_EXPONENTS = frozenset({int, float, Size, SizeRatio})
_SHORTCUTS: dict[float, Any] = {1: positive, 2: square, 0.5: sqrt, -1: reciprocal, -0.5: rsqrt}


def power(x: Any, y: Any, name: str | None = None) -> Any:
    """Return x to the power y; the gradient with respect to y is 0 where x is not positive.

    >>> power([2.0, 3.0], 2).tolist()
    [4.0, 9.0]
    """
    if type(y) in _EXPONENTS:
        return _power_number(x, y)
    if type(y) in NUMBERS and type(x) not in NUMBERS:
        y = as_operand(y)
    return power_p(x, y)


def _power_number(x: Any, exponent: float) -> Any:
    """Compute a power with a constant exponent: no logarithm, and no `pow` for common exponents."""
    shortcut = _SHORTCUTS.get(exponent)
    if shortcut is not None and exponent > 0 and isinstance(exponent, int):
        return shortcut(x)
    x = as_operand(x)
    if is_integer(x):
        return power_p(x, exponent)
    if shortcut is not None:
        return shortcut(x)
    return power_number_p(x, exponent=exponent)


def float_power(x: Any, y: Any) -> Any:
    """Return x to the power y in double precision.

    >>> float_power([2, 3], -1).round(4).tolist()
    [0.5, 0.3333]
    """
    return power(_double(x), _double(y))


def _double(x: Any) -> Any:
    x = as_operand(x)
    return cast(x, "complex128" if is_complex(x) else "float64")
