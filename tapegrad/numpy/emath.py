"""NumPy's `emath`: functions whose results become complex outside of the real domain.

The values are read on the host to decide. Derivatives are those of the complex functions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.numpy import elementwise
from tapegrad.numpy.values import as_arrays, dtype_of, narrow_floating, side_by_side, with_dtype
from tapegrad.ops.elementwise import comparison, complex_numbers, magnitude
from tapegrad.ops.elementwise.selection import where
from tapegrad.ops.reduction import primitives as reduction

Function = Callable[..., Any]

_WIDER = {"float32": "complex64", "float16": "complex64", "int8": "complex64"}
_WIDER |= dict.fromkeys(("int16", "uint8", "uint16", "bool"), "complex64")


_PARTS = {"complex64": "float32", "complex128": "float64"}


def _wider(x: Any) -> str:
    return _WIDER.get(dtype_of(x).name, "complex128")


def _as_complex(x: Any) -> Any:
    return with_dtype(x, _wider(x))


def _holds_anywhere(condition: Any) -> bool:
    return bool(reduction.any(condition))


def _has_negative(x: Any) -> bool:
    return dtype_of(x).kind in "fi" and _holds_anywhere(comparison.less(x, 0))


def _leaves_unit(x: Any) -> bool:
    return dtype_of(x).kind in "fiu" and _holds_anywhere(comparison.greater(magnitude.abs(x), 1))


def _where_real(function: Function, is_outside: Callable[[Any], bool], what: str) -> Function:
    def call(x: Any) -> Any:
        (x,) = side_by_side(x)
        return function(_as_complex(x) if is_outside(x) else narrow_floating(x))

    call.__name__ = call.__qualname__ = function.__name__
    call.__doc__ = f"Compute {function.__name__} of each element, complex {what}."
    return call


_NEGATIVE = "if any element is negative"
_OUTSIDE = "if any element is outside [-1, 1]"

sqrt = _where_real(elementwise.sqrt, _has_negative, _NEGATIVE)
log = _where_real(elementwise.log, _has_negative, _NEGATIVE)
log2 = _where_real(elementwise.log2, _has_negative, _NEGATIVE)
log10 = _where_real(elementwise.log10, _has_negative, _NEGATIVE)
arctanh = _where_real(elementwise.arctanh, _leaves_unit, _OUTSIDE)


def _arcsin(x: Any) -> Any:
    """The arcsine of real numbers outside [-1, 1]: pi/2 with the sign of x, and i acosh |x|."""
    size = magnitude.abs(x)
    is_outside = size > 1
    inside = elementwise.arcsin(where(is_outside, 0.0, x))
    angle = where(is_outside, magnitude.sign(x) * (math.pi / 2), inside)
    height = where(is_outside, elementwise.arccosh(where(is_outside, size, 2.0)), 0.0)
    return complex_numbers.complex(angle, height)


def arcsin(x: Any) -> Any:
    """Return the arcsine of each element, complex if any is outside [-1, 1].

    >>> arcsin([0.0, 1.0]).round(4).tolist()
    [0.0, 1.5708]
    """
    (x,) = side_by_side(x)
    if not _leaves_unit(x):
        return elementwise.arcsin(x)
    real = x if dtype_of(x).kind == "f" else narrow_floating(x)
    return with_dtype(_arcsin(with_dtype(real, _PARTS[_wider(x)])), _wider(x))


def arccos(x: Any) -> Any:
    """Return the arccosine of each element, complex if any is outside [-1, 1].

    >>> arccos([1.0]).tolist()
    [0.0]
    """
    (x,) = side_by_side(x)
    return math.pi / 2 - arcsin(x) if _leaves_unit(x) else elementwise.arccos(x)


def logn(n: Any, x: Any) -> Any:
    """Return the logarithm of `x` to the base `n`, complex if any element is negative.

    >>> logn(2, [4.0, 8.0]).tolist()
    [2.0, 3.0]
    """
    n, x = side_by_side(n, x)
    return elementwise.divide(*as_arrays([log(x), log(n)]))


def power(x: Any, p: Any) -> Any:
    """Return `x` to the power `p`, complex if any `x` is negative.

    >>> power([2, 4], -1).tolist()
    [0.5, 0.25]
    """
    x, p = side_by_side(x, p)
    if dtype_of(p).kind == "i" and _has_negative(p):
        p = with_dtype(p, "float64")
    return elementwise.power(*as_arrays([_as_complex(x) if _has_negative(x) else x, p]))


_check_calls(globals(), [_name for _name in vars() if _name.islower()])
