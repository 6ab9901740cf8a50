"""NumPy's `poly1d`, and the `poly` functions that return one if they get one.

Coefficients are tensors, highest power first. As in NumPy, leading zeros are removed, which waits
for the device.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

import numpy as np

from tapegrad.core.argument_checks import check_rounds
from tapegrad.core.values.convert import read_on_host
from tapegrad.errors import ArgumentError, ArgumentTypeError, ShapeError
from tapegrad.numpy import polynomials
from tapegrad.numpy.joining import concat
from tapegrad.numpy.manipulation import atleast_1d
from tapegrad.numpy.values import as_array, as_arrays

Function = Callable[..., Any]


class poly1d:  # noqa: N801 -- NumPy's name
    """A polynomial given by its coefficients, highest power first, or by its roots.

    >>> p = poly1d([1.0, 2.0, 3.0])
    >>> float(p(2.0)), (p * p).c.tolist()
    (11.0, [1.0, 4.0, 10.0, 12.0, 9.0])
    """

    __array_ufunc__ = None  # lets operators of NumPy arrays defer to this class
    __hash__ = None  # type: ignore[assignment] # can be written to, as in NumPy

    def __init__(self, c_or_r: Any, r: bool = False, variable: str | None = None) -> None:
        if isinstance(c_or_r, poly1d):
            c_or_r, variable = c_or_r.coeffs, variable or c_or_r.variable
        coefficients = atleast_1d(polynomials.poly(c_or_r) if r else as_array(c_or_r))
        if len(coefficients.shape) != 1:
            raise ShapeError(f"A polynomial needs a vector. Got {coefficients.shape}.")
        self._coeffs: Any = polynomials.trimmed(coefficients)
        self._variable = variable or "x"

    @property
    def coeffs(self) -> Any:
        """The coefficients, highest power first."""
        return self._coeffs

    @coeffs.setter
    def coeffs(self, value: Any) -> None:
        if value is not self._coeffs:
            raise ArgumentError("The coefficients are read-only; make another poly1d.")

    c = coef = coefficients = coeffs

    @property
    def variable(self) -> str:
        """The name of the variable when printed."""
        return self._variable

    @property
    def order(self) -> int:
        """The degree."""
        return int(self._coeffs.shape[0]) - 1

    o = order

    @property
    def roots(self) -> Any:
        """The roots."""
        return polynomials.roots(self._coeffs)

    r = roots

    def _on_host(self) -> Any:
        return np.poly1d(read_on_host(self._coeffs, "repr()"), variable=self._variable)

    def __repr__(self) -> str:
        return repr(self._on_host())

    def __str__(self) -> str:
        return str(self._on_host())

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.asarray(self._coeffs, dtype)

    def __call__(self, val: Any) -> Any:
        """Return the value at each point, or the composition with a polynomial."""
        return polyval(self, val)

    def __len__(self) -> int:
        return self.order

    def __iter__(self) -> Iterator[Any]:
        return iter(self._coeffs)

    def __getitem__(self, power: int) -> Any:
        """Return the coefficient of a power, or 0."""
        if not 0 <= power <= self.order:
            return self._coeffs[0] * 0
        return self._coeffs[self.order - power]

    def __setitem__(self, power: int, value: Any) -> None:
        if power < 0:
            raise ArgumentError(f"Powers must be nonnegative. Got {power}.")
        coeffs, value = as_arrays([self._coeffs, value])
        missing = max(power - self.order, 0)
        coeffs = concat([polynomials.zeros_beside(coeffs, missing), coeffs])
        place = coeffs.shape[0] - 1 - power
        self._coeffs = concat([coeffs[:place], value[None], coeffs[place + 1 :]])

    def __neg__(self) -> poly1d:
        return poly1d(-self._coeffs)

    def __pos__(self) -> poly1d:
        return self

    def __add__(self, other: Any) -> poly1d:
        return poly1d(polynomials.polyadd(self._coeffs, _plain(other)))

    __radd__ = __add__

    def __sub__(self, other: Any) -> poly1d:
        return poly1d(polynomials.polysub(self._coeffs, _plain(other)))

    def __rsub__(self, other: Any) -> poly1d:
        return poly1d(polynomials.polysub(_plain(other), self._coeffs))

    def __mul__(self, other: Any) -> poly1d:
        return poly1d(polynomials.polymul(self._coeffs, _plain(other)))

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Any:
        return polydiv(self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return polydiv(other, self)

    def __pow__(self, val: int) -> poly1d:
        if val != int(val) or val < 0:
            raise ArgumentError(f"The power of a polynomial must be an integer >= 0. Got {val!r}.")
        check_rounds("val", val, "the power of a polynomial")
        result = poly1d(as_array(np.array([1]), self._coeffs))
        for _ in range(int(val)):
            result = result * self
        return result

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, poly1d):
            return NotImplemented
        return np.array_equal(read_on_host(self.coeffs, "=="), read_on_host(other.coeffs, "=="))

    def deriv(self, m: int = 1) -> poly1d:
        """Return the `m`-th derivative."""
        return poly1d(polynomials.polyder(self._coeffs, m) if m <= self.order else [0])

    def integ(self, m: int = 1, k: Any = 0) -> poly1d:
        """Return the `m`-th antiderivative, with constants `k`."""
        constants = [k] * m if np.ndim(k) == 0 else k
        return poly1d(polynomials.polyint(self._coeffs, m, constants))


def _plain(value: Any) -> Any:
    return value.coeffs if isinstance(value, poly1d) else value


def _of_either(function: Function) -> Function:
    """Wrap a function of coefficients so that it returns a poly1d if it gets one."""

    @wraps(function)
    def call(*args: Any, **options: Any) -> Any:
        found = function(*[_plain(arg) for arg in args], **options)
        if not any(isinstance(arg, poly1d) for arg in args):
            return found
        return tuple(map(poly1d, found)) if isinstance(found, tuple) else poly1d(found)

    return call


polyadd = _of_either(polynomials.polyadd)
polysub = _of_either(polynomials.polysub)
polymul = _of_either(polynomials.polymul)
polydiv = _of_either(polynomials.polydiv)
polyder = _of_either(polynomials.polyder)
polyint = _of_either(polynomials.polyint)


@wraps(polynomials.polyval)
def polyval(p: Any, x: Any) -> Any:
    if not isinstance(x, poly1d):
        return polynomials.polyval(_plain(p), x)
    coefficients = as_array(_plain(p))
    if len(coefficients.shape) != 1:
        raise ArgumentTypeError("Only polynomials in one variable can be composed.")
    result = poly1d(coefficients[:1])
    for k in range(1, coefficients.shape[0]):
        result = result * x + coefficients[k : k + 1]
    return result


@wraps(polynomials.roots)
def roots(p: Any) -> Any:
    return polynomials.roots(_plain(p))
