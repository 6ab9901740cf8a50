"""A family of orthogonal polynomials, defined by its recurrence.

    p[n + 1](x) = (a[n] x + b[n]) p[n](x) - c[n] p[n - 1](x),    p[0] = 1,    p[-1] = 0

Coefficients are along the first axis, lowest degree first. Results have the length that the degrees
determine. Only `trim` removes trailing zeros, because finding them waits for the device.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

import numpy as np

from tapegrad.errors import ShapeError
from tapegrad.numpy.joining import concat, unstack
from tapegrad.numpy.manipulation import atleast_1d
from tapegrad.numpy.values import as_array, dtype_of, floating, with_numbers
from tapegrad.ops.creation import full_like_p

Steps = tuple[np.ndarray, np.ndarray, np.ndarray]


@dataclass(frozen=True)
class Basis:
    """A family: its module and prefix in NumPy, its recurrence and its weight."""

    name: str
    prefix: str
    recurrence: Callable[[np.ndarray], Steps]
    """Maps degrees n to a[n], b[n], c[n]."""
    weights: Callable[[Any], Any] | None = None
    """The weight function of the orthogonality."""

    @property
    def numpys(self) -> ModuleType:
        """NumPy's module of this family, which computes constant matrices and vectors.

        The vectors stay NumPy arrays, so they work on any device.
        """
        return import_module(f"numpy.polynomial.{self.name}")

    def steps(self, count: int) -> list[list[float]]:
        """Return a[n], b[n] and c[n] for the first degrees, as Python numbers."""
        return [part.tolist() for part in self.recurrence(np.arange(count, dtype=float))]

    def summed(self, coefficients: Any, one: Any, times_x: Callable[[Any], Any]) -> Any:
        """Return the sum of coefficients[k] p[k] by Clenshaw's recurrence.

        `one` is p[0] (None for the number 1), and `times_x` multiplies a value by x. Evaluation,
        products of series and changes of basis are all such sums.
        """
        parts = [part if one is None else part * one for part in unstack(coefficients)]
        a, b, c = self.steps(len(parts) + 1)
        found, after = parts[-1], None
        for k in range(len(parts) - 2, -1, -1):
            y = parts[k] + _scaled(a[k], times_x(found))
            y = y if b[k] == 0 else y + _scaled(b[k], found)
            y = y if after is None or c[k + 1] == 0 else y - _scaled(c[k + 1], after)
            found, after = y, found
        return found

    def times_x(self, v: Any) -> Any:
        """Return x times a series, truncated to the length of the series."""
        up, same, down = (as_array(part.astype(dtype_of(v)), v) for part in _rows(self, v.shape[0]))
        nothing = zeros_like_row(v, 1)
        y = concat([nothing, v[:-1]]) * up
        if any(self.steps(1)[1]):
            y = y + v * same
        return y if self.prefix == "poly" else y + concat([v[1:], nothing]) * down


@cache
def _rows(basis: Basis, count: int) -> list[np.ndarray]:
    """Return the factors of v[k - 1], v[k] and v[k + 1] in the k-th coefficient of x v."""
    a, b, c = basis.recurrence(np.arange(count + 1, dtype=float))
    up = np.concatenate([[0.0], 1 / a[: count - 1]])
    return [up, (-b / a)[:count], (c / a)[1:]]


def _scaled(factor: float, x: Any) -> Any:
    return x if factor == 1 else factor * x


def zeros_like_row(v: Any, count: int) -> Any:
    """Return rows of zeros to append to `v`.

    >>> zeros_like_row(as_array([[1.0, 2.0]]), 2).shape
    (2, 2)
    """
    return full_like_p(v, shape=(count, *v.shape[1:]), value=0, dtype=dtype_of(v))


def padded(v: Any, count: int) -> Any:
    """Pad a series with zeros to a length.

    >>> padded(as_array([1.0]), 3).tolist()
    [1.0, 0.0, 0.0]
    """
    return v if v.shape[0] >= count else concat([v, zeros_like_row(v, count - v.shape[0])])


def series(*coefficients: Any) -> list[Any]:
    """Return coefficient vectors as arrays of one floating dtype; numbers adapt to it.

    >>> [c.tolist() for c in series([1, 2], 3.0)]
    [[1.0, 2.0], [3.0]]
    """
    arrays = [atleast_1d(floating(c)) for c in with_numbers(coefficients)]
    for c in arrays:
        if len(c.shape) != 1 or not c.shape[0]:
            raise ShapeError(
                f"A series needs a vector of at least one coefficient. Got shape {c.shape}."
            )
    return arrays


def beside(*values: Any) -> list[Any]:
    """Return points and coefficients in one floating dtype, to which Python numbers adapt.

    >>> [x.dtype.name for x in beside(1, [2, 3])]
    ['float64', 'float64']
    """
    return [floating(x) for x in with_numbers(values)]
