"""Domains and windows of series: the functions of `numpy.polynomial.polyutils`."""

from __future__ import annotations

from typing import Any

from tapegrad.numpy.polynomial.basis import beside, series
from tapegrad.numpy.polynomial.families import POWERS
from tapegrad.ops import reduction
from tapegrad.ops.joining import stack


def as_series(alist: Any, trim: bool = True) -> list[Any]:
    """Return sequences of coefficients as arrays of one dtype, without trailing zeros.

    >>> [c.tolist() for c in as_series([[1, 2, 0], [3]])]
    [[1.0, 2.0], [3.0]]
    """
    arrays = series(*alist)
    return [trimcoef(c) for c in arrays] if trim else arrays


def trimcoef(c: Any, tol: float = 0) -> Any:
    """Return a series without the last coefficients that are at most `tol`, but with one.

    >>> trimcoef([1.0, 1e-9], tol=1e-6).tolist()
    [1.0]
    """
    return POWERS.trim(c, tol)


trimseq = trimcoef


def getdomain(x: Any) -> Any:
    """Return the smallest and the largest of some points.

    >>> getdomain([3.0, 1.0, 2.0]).tolist()
    [1.0, 3.0]
    """
    (x,) = series(x)
    return stack([reduction.min(x), reduction.max(x)])


def mapparms(old: Any, new: Any) -> tuple[Any, Any]:
    """Return offset and scale of the line that takes one domain to another.

    >>> [float(part) for part in mapparms([-1.0, 1.0], [0.0, 4.0])]
    [2.0, 2.0]
    """
    length = old[1] - old[0]
    return (old[1] * new[0] - old[0] * new[1]) / length, (new[1] - new[0]) / length


def mapdomain(x: Any, old: Any, new: Any) -> Any:
    """Return points moved by the line that takes one domain to another.

    >>> mapdomain([0.0, 1.0], [-1.0, 1.0], [0.0, 4.0]).tolist()
    [2.0, 4.0]
    """
    x, off, scl = beside(x, *mapparms(old, new))
    return off + scl * x


__all__ = ["as_series", "getdomain", "mapdomain", "mapparms", "trimcoef", "trimseq"]
