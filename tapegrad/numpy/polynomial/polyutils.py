"""Domains and windows of series: the functions of `numpy.polynomial.polyutils`."""

from __future__ import annotations

from typing import Any

from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.numpy.polynomial.basis import beside, series
from tapegrad.numpy.polynomial.families import POWERS
from tapegrad.ops.elementwise.complex_numbers import complex, imag, real
from tapegrad.ops.kinds import is_complex
from tapegrad.ops.reduction import primitives as reduction
from tapegrad.ops.shape.joining import stack


def as_series(alist: Any, trim: bool = True) -> list[Any]:
    """Return coefficient sequences as arrays of one dtype, without trailing zeros.

    >>> [c.tolist() for c in as_series([[1, 2, 0], [3]])]
    [[1.0, 2.0], [3.0]]
    """
    arrays = series(*alist)
    return [trimcoef(c) for c in arrays] if trim else arrays


def trimcoef(c: Any, tol: float = 0) -> Any:
    """Remove trailing coefficients with absolute value at most `tol`, but keep at least one.

    >>> trimcoef([1.0, 1e-9], tol=1e-6).tolist()
    [1.0]
    """
    return POWERS.trim(c, tol)


trimseq = trimcoef


def getdomain(x: Any) -> Any:
    """Return the smallest and the largest of the points.

    Complex points give two corners of the smallest rectangle that contains them.

    >>> getdomain([3.0, 1.0, 2.0]).tolist()
    [1.0, 3.0]
    """
    (x,) = series(x)
    if not is_complex(x):
        return stack([reduction.min(x), reduction.max(x)])
    parts = real(x), imag(x)
    corners = (complex(*(pick(part) for part in parts)) for pick in (reduction.min, reduction.max))
    return stack(list(corners))


def mapparms(old: Any, new: Any) -> tuple[Any, Any]:
    """Return offset and scale of the linear map from one domain to another.

    >>> [float(part) for part in mapparms([-1.0, 1.0], [0.0, 4.0])]
    [2.0, 2.0]
    """
    length = old[1] - old[0]
    return (old[1] * new[0] - old[0] * new[1]) / length, (new[1] - new[0]) / length


def mapdomain(x: Any, old: Any, new: Any) -> Any:
    """Map points from one domain to another.

    >>> mapdomain([0.0, 1.0], [-1.0, 1.0], [0.0, 4.0]).tolist()
    [2.0, 4.0]
    """
    x, off, scl = beside(x, *mapparms(old, new))
    return off + scl * x


__all__ = ["as_series", "getdomain", "mapdomain", "mapparms", "trimcoef", "trimseq"]

_check_calls(globals(), __all__)
