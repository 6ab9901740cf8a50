"""Elementwise functions that are not ufuncs in NumPy: parts, clip, isclose, where."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.core.values.convert import NUMBERS
from tapegrad.core.values.device import device
from tapegrad.core.values.dtypes import numpy_dtype
from tapegrad.core.values.variable import Variable
from tapegrad.errors import ArgumentError, ArgumentTypeError, DTypeError
from tapegrad.numpy.values import (
    NoValue,
    as_array,
    as_array_like,
    check_cast,
    deliver,
    dtype_of,
    floating,
    is_array,
    narrow_floating,
    operands,
    selected,
    side_by_side,
    with_dtype,
)
from tapegrad.ops.control.stop_gradient import identity
from tapegrad.ops.elementwise import (
    bessel,
    comparison,
    complex_numbers,
    rounding,
    selection,
    trigonometric,
)
from tapegrad.ops.elementwise.selection import where as choose
from tapegrad.ops.indexing.views import IMAGINARY_PART, READ_ONLY, REAL_PART, ReadOnly, as_view
from tapegrad.ops.kinds import is_complex


def real(val: Any) -> Any:
    """Return the real part.

    >>> real([1 + 2j]).tolist()
    [1.0]
    """
    x = as_array(val)
    return as_view(complex_numbers.real(x), x, REAL_PART, None)


def imag(val: Any) -> Any:
    """Return the imaginary part.

    >>> imag([1 + 2j]).tolist()
    [2.0]
    """
    x = as_array(val)
    if is_complex(x):
        return as_view(complex_numbers.imag(x), x, IMAGINARY_PART, None)
    how = ReadOnly("imag of a real array", complex_numbers.imag, np.zeros_like)
    return as_view(complex_numbers.imag(x), x, READ_ONLY, how)


def set_real(x: Any, value: Any) -> None:
    """Write the real part: `x.real = value`."""
    _set_part(real, x, value)


def set_imag(x: Any, value: Any) -> None:
    """Write the imaginary part: `x.imag = value`."""
    if not is_complex(x):
        raise ArgumentTypeError(f"A tensor of {x.dtype} has no imaginary part to write to.")
    _set_part(imag, x, value)


def _set_part(part: Callable[[Any], Any], x: Any, value: Any) -> None:
    if isinstance(x, Variable):  # its parts are copies
        whole = identity(as_array(x))
        part(whole)[...] = value
        x.assign(whole)
    else:
        part(x)[...] = value


def angle(z: Any, deg: bool = False) -> Any:
    """Return the angle of complex numbers with the positive real axis.

    >>> angle([1j], deg=True).tolist()
    [90.0]
    """
    x = as_array(z)
    x = floating(x) if dtype_of(x).kind == "b" else narrow_floating(x)
    result = complex_numbers.angle(x)
    return trigonometric.rad2deg(result) if deg else result


def real_if_close(a: Any, tol: float = 100) -> Any:
    """Return the real part if all imaginary parts are within `tol` rounding errors of zero.

    >>> real_if_close([1 + 0j]).tolist()
    [1.0]
    """
    return complex_numbers.real_if_close(as_array(a), tol)


def iscomplex(x: Any) -> Any:
    """Return for each number whether its imaginary part is nonzero.

    >>> iscomplex([1j, 1]).tolist()
    [True, False]
    """
    return imag(x) != 0


def isreal(x: Any) -> Any:
    """Return for each number whether its imaginary part is zero.

    >>> isreal([1j, 1]).tolist()
    [False, True]
    """
    return imag(x) == 0


def clip(
    a: Any,
    min: Any = NoValue,
    max: Any = NoValue,
    out: Any = None,
    *,
    a_min: Any = NoValue,
    a_max: Any = NoValue,
    dtype: Any = None,
    where: Any = True,
    casting: str = "same_kind",
    order: str = "K",
    subok: bool = True,
) -> Any:
    """Clip the array to the interval from `min` to `max`; None means no limit.

    >>> clip([1, 5, 9], 2, 6).tolist()
    [2, 5, 6]
    """
    low = next((v for v in (min, a_min) if v is not NoValue), None)
    high = next((v for v in (max, a_max) if v is not NoValue), None)
    x = as_array(a, next((v for v in (low, high) if is_array(v)), None))
    if dtype is not None:
        x, low, high = (_converted(v, dtype, casting) for v in (x, low, high))
    kind = dtype_of(x)
    if all([v is None or type(v) in (int, float) for v in (low, high)]) and kind.kind == "f":
        return deliver(
            selected(selection.clip(x, low, high), where, out), out, casting, broadcasts=True
        )
    result = x
    for bound, pick in ((low, selection.maximum), (high, selection.minimum)):
        if bound is not None:
            result = pick(result, _bound(bound, x))
    result = identity(result) if result is x else result
    return deliver(selected(result, where, out), out, casting, broadcasts=True)


def _converted(value: Any, dtype: Any, casting: str) -> Any:
    if value is None or type(value) in NUMBERS:
        return value
    x = as_array(value)
    check_cast("clip", dtype_of(x), numpy_dtype(dtype), casting)
    return with_dtype(x, dtype)


def _bound(bound: Any, x: Any) -> Any:
    """Return a bound as an operand; an integer outside of the dtype's range is clipped to it."""
    kind = dtype_of(x)
    if type(bound) not in NUMBERS:
        return as_array(bound, x)
    if kind.kind in "iu" and isinstance(bound, int):
        limits = np.iinfo(kind)
        return max(int(limits.min), min(bound, int(limits.max)))
    return bound


def round(a: Any, decimals: int = 0, out: Any = None) -> Any:
    """Round to `decimals` places, half to even.

    >>> round([1.25, 2.75], 1).tolist()
    [1.2, 2.8]
    """
    x = as_array(a)
    if dtype_of(x).kind == "b" and decimals:
        raise DTypeError(f"round does not support decimals for booleans. Got decimals={decimals}.")
    result = rounding.round(x, decimals)
    # Whole numbers stay as they are, and a write to the result must not reach them.
    return deliver(identity(result) if result is x else result, out)


around = round


def fix(x: Any, out: Any = None) -> Any:
    """Round towards zero.

    >>> fix([1.7, -1.7]).tolist()
    [1.0, -1.0]
    """
    return deliver(rounding.trunc(as_array(x)), out, broadcasts=True)


def sinc(x: Any) -> Any:
    """Return sin(pi x) / (pi x), which is 1 at 0.

    >>> sinc([0.0, 0.5]).tolist()
    [1.0, 0.6366197723675814]
    """
    return trigonometric.sinc(floating(x))


def i0(x: Any) -> Any:
    """Return the modified Bessel function of the first kind and order 0.

    >>> i0([0.0]).tolist()
    [1.0]
    """
    return bessel.bessel_i0(floating(x))


def nan_to_num(
    x: Any, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None
) -> Any:
    """Replace NaN and infinities; replaced elements get no gradient.

    >>> nan_to_num([1.0, math.nan]).tolist()
    [1.0, 0.0]
    """
    x = as_array(x)
    kind = dtype_of(x).kind
    if kind in "biu":
        return identity(x) if copy else x
    if kind == "c":
        parts = [selection.nan_to_num(p, True, nan, posinf, neginf) for p in (real(x), imag(x))]
        result = complex_numbers.complex(*parts)
    else:
        result = selection.nan_to_num(x, True, nan, posinf, neginf)
    return result if copy else deliver(result, x)


def isposinf(x: Any, out: Any = None) -> Any:
    """Return for each element whether it is positive infinity.

    >>> isposinf([math.inf, -math.inf]).tolist()
    [True, False]
    """
    return deliver(_ordered(x, "isposinf") == math.inf, out, broadcasts=True)


def isneginf(x: Any, out: Any = None) -> Any:
    """Return for each element whether it is negative infinity.

    >>> isneginf([math.inf, -math.inf]).tolist()
    [False, True]
    """
    return deliver(_ordered(x, "isneginf") == -math.inf, out, broadcasts=True)


def _ordered(x: Any, name: str) -> Any:
    """Return an array of real numbers; complex infinities have no sign."""
    x = as_array(x)
    if is_complex(x):
        raise DTypeError(f"{name} needs real numbers. Got {x.dtype}.")
    return x


def isclose(
    a: Any, b: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> Any:
    """Return for each element whether `abs(a - b) <= atol + rtol * abs(b)`.

    >>> isclose([1.0, 2.0], [1.0, 2.1]).tolist()
    [True, False]
    """
    x = as_array(a, b)
    y = as_array_like(b, x)
    if dtype_of(x).kind in "biu" and dtype_of(y).kind in "biu":
        x, y = floating(x), floating(y)
    return comparison.isclose(x, y, rtol, atol, equal_nan)


def allclose(
    a: Any, b: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False
) -> bool:
    """Return whether `abs(a - b) <= atol + rtol * abs(b)` for all elements.

    >>> allclose([1.0], [1.0 + 1e-12])
    True
    """
    return bool(isclose(a, b, rtol, atol, equal_nan).all())


def array_equal(a1: Any, a2: Any, equal_nan: bool = False) -> bool:
    """Return whether two arrays have the same shape and elements.

    >>> array_equal([1, 2], [1, 2]), array_equal([1, 2], [1])
    (True, False)
    """
    x, y = side_by_side(a1, a2)
    if x.shape != y.shape:
        return False
    same = x == y
    if equal_nan:
        same = same | ((x != x) & (y != y))
    return bool(same.all())


def array_equiv(a1: Any, a2: Any) -> bool:
    """Return whether two arrays are equal after broadcasting.

    >>> array_equiv([1, 1], 1)
    True
    """
    x, y = side_by_side(a1, a2)
    try:
        return bool((x == y).all())
    except ValueError:
        return False


def isscalar(element: Any) -> bool:
    """Return whether a value is a scalar.

    >>> isscalar(3.0), isscalar([3.0])
    (True, False)
    """
    return np.isscalar(element)


def where(condition: Any, x: Any = NoValue, y: Any = NoValue, /) -> Any:
    """Return elements of `x` where the condition is true, else of `y`; all three broadcast.

    With the condition alone, return the coordinates where it holds, one array per axis.

    >>> where([True, False], [1, 2], 0).tolist(), where([0, 5])[0].tolist()
    ([1, 0], [1])
    """
    if x is NoValue and y is NoValue:
        return as_array(condition).nonzero()
    if x is NoValue or y is NoValue:
        raise ArgumentError("where needs both x and y, or neither of them.")
    near = next((v for v in (x, y, condition) if is_array(v)), None)
    with device(getattr(near, "device", None)):
        first, second = operands(*[v if type(v) in NUMBERS else as_array(v, near) for v in (x, y)])
    near = next((v for v in (first, second) if is_array(v)), None)
    return choose(as_array(condition, near), first, second)
