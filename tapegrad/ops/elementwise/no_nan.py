"""Products and quotients in which an exact zero takes precedence over infinities and NaN.

Derivative rules divide with `xdivy`: a zero cotangent then stays zero where the slope is infinite.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.core.primitive.families import Function, binary
from tapegrad.core.primitive.rule import Guard, set_guard
from tapegrad.core.recorder import active_stack
from tapegrad.core.values.tensor import Tensor
from tapegrad.ops.elementwise.comparison import isnan
from tapegrad.ops.elementwise.selection import keep
from tapegrad.ops.kinds import as_arrays

_FEW = 800
"""Below this number of elements argmax is faster than a scalar product."""


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
    selects=True,
    doc="Return x / y, and 0 where y is 0.",
)
multiply_no_nan: Function = binary(
    "multiply_no_nan",
    lambda t, x2: multiply_no_nan(t, x2),
    lambda t, x1: multiply_no_nan(x1, t),
    forward=_multiply_no_nan,
    selects=True,
    doc="Return x * y, and 0 where y is 0 even if x is infinite or NaN.",
)
xdivy: Function = binary(
    "xdivy",
    # At (0, 0) the function is constant in y and has no derivative in x: the rule returns 0.
    lambda t, x1, x2: xdivy(keep(t, (x1 != 0) | (x2 != 0)), x2),
    lambda t, y, x2: -xdivy(multiply_no_nan(t, y), x2),
    forward=_xdivy,
    selects=True,
    doc="Return x / y, and 0 where x is 0 for every y.",
)


# The result of a rule is 0 where the cotangent is 0. A rule is linear in the cotangent, so its
# derivative by a zero cotangent is still the slope.
zero_with: Function = binary(
    "zero_with",
    lambda t: t,
    None,
    jvps=(lambda t, x2: keep(t, (x2 != 0) | ~isnan(t)), None),
    forward=lambda xp, x, y: xp.where(y == 0, xp.zeros_like(x), x),
    selects=True,
    doc="Return x, and 0 where y is 0; the derivative is that of x.",
)
live_with: Function = binary(
    "live_with",
    lambda t, x2: keep(t, ~x2),
    None,
    forward=lambda xp, x, y: xp.where(y, x, x),  # broadcasts, and changes nothing
    conjugates=False,
    selects=True,
    doc="Return x; its derivative is 0 where y is true.",
)


def guard(cotangent: Any, t: Any) -> Any:
    """Return the result of an elementwise rule for the cotangent `t`, with 0 where t is 0."""
    array = cotangent
    if type(array) is not np.ndarray and not active_stack().tokens:
        array = _array_of(cotangent)  # no recorder needs the derivative of `zero_with`
    return zero_with(cotangent, t) if _may_have_nan(array) else cotangent


def lost_in(cotangent: Any, t: Any) -> Any:
    """Return where the result of a rule is NaN although `t` is 0; None if it is so nowhere."""
    if not _may_have_nan(_array_of(cotangent)):
        return None
    return isnan(cotangent) & (t == 0)


def _array_of(value: Any) -> Any:
    """Return the array in a tensor or a batch of tensors; others as they are."""
    while hasattr(value, "tensor"):  # a batch
        value = value.tensor
    return value.array if type(value) is Tensor else value


def _may_have_nan(cotangent: Any) -> bool:
    """Whether an array has a NaN; true where that is not known, as on a device."""
    if type(cotangent) is np.ndarray:
        # The fastest ways to find a NaN: it counts as the largest number, and sums keep it.
        if cotangent.dtype.char not in "fd":
            return bool(np.isnan(cotangent).any())
        if 0 < cotangent.size < _FEW:
            largest = cotangent.item(cotangent.argmax())
            return bool(largest != largest)
        total = np.vdot(cotangent, cotangent)
        return bool(total != total)
    return not isinstance(cotangent, np.generic) or bool(cotangent != cotangent)


set_guard(Guard(guard, lost_in, live_with))
