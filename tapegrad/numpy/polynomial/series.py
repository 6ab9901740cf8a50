"""Series classes: `Polynomial`, `Chebyshev` and so on, with a domain and a window.

Coefficients are tensors with derivatives; domain and window are NumPy arrays of two numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, ClassVar, Self

import numpy as np

from tapegrad.core.values.convert import read_on_host
from tapegrad.errors import ArgumentError, ArgumentKindError, ArgumentTypeError
from tapegrad.numpy.polynomial import families
from tapegrad.numpy.polynomial.basis import beside, series
from tapegrad.numpy.polynomial.calculus import Family
from tapegrad.numpy.polynomial.chebyshev_points import chebinterpolate
from tapegrad.numpy.ranges import linspace


def _pair(value: Any, default: Any, what: str) -> np.ndarray:
    found = np.asarray(read_on_host(default if value is None else value, what), dtype=float)
    if found.shape != (2,):
        raise ArgumentError(f"A {what} must be a pair of numbers. Got shape {found.shape}.")
    return found


def _line(old: Any, new: Any) -> tuple[float, float]:
    """Return offset and scale of the linear map from one domain to another."""
    length = old[1] - old[0]
    off = (old[1] * new[0] - old[0] * new[1]) / length
    return float(off), float((new[1] - new[0]) / length)


class Series:
    """The common base of the classes of all families."""

    family: ClassVar[Family]
    domain: np.ndarray = np.array([-1.0, 1.0])
    """The interval of the variable; that of the class is the default of `domain` and `window`."""
    window: np.ndarray = domain
    maxpower = 100
    __array_ufunc__ = None  # lets operators of NumPy arrays defer to this class
    __hash__ = None  # type: ignore[assignment] # compared by value, as in NumPy

    def __init__(
        self, coef: Any, domain: Any = None, window: Any = None, symbol: str = "x"
    ) -> None:
        if not str(symbol).isidentifier():
            raise ArgumentError(f"symbol must be a name such as 'x'. Got {symbol!r}.")
        (self.coef,) = series(coef)
        self.domain = _pair(domain, type(self).domain, "domain")
        self.window = _pair(window, type(self).window, "window")
        self._symbol = symbol

    @property
    def symbol(self) -> str:
        """The name of the variable when printed."""
        return self._symbol

    def _with(self, coef: Any) -> Self:
        return type(self)(coef, self.domain, self.window, self.symbol)

    def _on_host(self) -> Any:
        values = read_on_host(self.coef, "repr()")
        twin = getattr(self.family.numpys, type(self).__name__)
        return twin(values, self.domain, self.window, self.symbol)

    def __repr__(self) -> str:
        return repr(self._on_host())

    def __str__(self) -> str:
        return str(self._on_host())

    def _repr_latex_(self) -> str:
        return str(self._on_host()._repr_latex_())

    def __format__(self, fmt_str: str) -> str:
        return format(self._on_host(), fmt_str)

    def __call__(self, arg: Any) -> Any:
        """Return the value at each point."""
        off, scl = self.mapparms()
        arg, coef = beside(arg, self.coef)
        return self.family.val(off + scl * arg, coef)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.coef)

    def __len__(self) -> int:
        return int(self.coef.shape[0])

    # Arithmetic

    def _other(self, other: Any) -> Any:
        """Return the coefficients of an operand: a compatible series, or a vector."""
        if not isinstance(other, Series):
            return other
        if not (self.has_sametype(other) and self.has_samedomain(other)):
            raise ArgumentTypeError(
                f"Series must have the same type, domain and window. Got {type(self).__name__} on "
                f"{self.domain} and {type(other).__name__} on {other.domain}; use convert()."
            )
        if not self.has_samewindow(other) or self.symbol != other.symbol:
            raise ArgumentKindError(
                f"Series need the same window and symbol. Got {self.window} and {other.window}, "
                f"{self.symbol!r} and {other.symbol!r}."
            )
        return other.coef

    def __neg__(self) -> Self:
        return self._with(-self.coef)

    def __pos__(self) -> Self:
        return self

    def __add__(self, other: Any) -> Self:
        return self._with(self.family.add(self.coef, self._other(other)))

    __radd__ = __add__

    def __sub__(self, other: Any) -> Self:
        return self._with(self.family.sub(self.coef, self._other(other)))

    def __rsub__(self, other: Any) -> Self:
        return self._with(self.family.sub(self._other(other), self.coef))

    def __mul__(self, other: Any) -> Self:
        return self._with(self.family.mul(self.coef, self._other(other)))

    __rmul__ = __mul__

    def __truediv__(self, other: Any) -> Self:
        if isinstance(other, Series) or np.ndim(other) > 0:
            raise ArgumentTypeError(
                "A series can be divided by numbers only; for series use // and %."
            )
        return self._with(self.coef / other)

    def __divmod__(self, other: Any) -> tuple[Self, Self]:
        quotient, rest = self.family.div(self.coef, self._other(other))
        return self._with(quotient), self._with(rest)

    def __floordiv__(self, other: Any) -> Self:
        return self._with(self.family.div(self.coef, self._other(other))[0])

    def __mod__(self, other: Any) -> Self:
        return self._with(self.family.div(self.coef, self._other(other))[1])

    def __rdivmod__(self, other: Any) -> tuple[Self, Self]:
        return divmod(self._with(other), self)

    def __rfloordiv__(self, other: Any) -> Self:
        return divmod(self._with(other), self)[0]

    def __rmod__(self, other: Any) -> Self:
        return divmod(self._with(other), self)[1]

    def __pow__(self, other: int) -> Self:
        return self._with(self.family.pow(self.coef, other, self.maxpower))

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Series)
            and self.has_sametype(other)
            and self.has_samedomain(other)
            and self.has_samewindow(other)
            and self.has_samecoef(other)
            and self.symbol == other.symbol
        )

    def has_sametype(self, other: Any) -> bool:
        """Return whether another series is of the same family."""
        return isinstance(other, type(self))

    def has_samedomain(self, other: Any) -> bool:
        """Return whether another series has the same domain."""
        return np.array_equal(self.domain, other.domain)

    def has_samewindow(self, other: Any) -> bool:
        """Return whether another series has the same window."""
        return np.array_equal(self.window, other.window)

    def has_samecoef(self, other: Any) -> bool:
        """Return whether another series has the same coefficients."""
        return np.array_equal(read_on_host(self.coef, "=="), read_on_host(other.coef, "=="))

    # Truncation and conversion

    def copy(self) -> Self:
        """Return a copy."""
        return self._with(self.coef.copy())

    def degree(self) -> int:
        """Return the degree; trailing zeros count."""
        return len(self) - 1

    def truncate(self, size: int) -> Self:
        """Return the series of the first `size` coefficients."""
        if size != int(size) or size < 1:
            raise ArgumentError(f"truncate needs size >= 1. Got {size!r}.")
        return self._with(self.coef[: int(size)])

    def cutdeg(self, deg: int) -> Self:
        """Return the series truncated above a degree."""
        return self.truncate(deg + 1)

    def trim(self, tol: float = 0) -> Self:
        """Remove trailing coefficients with absolute value at most `tol`."""
        return self._with(self.family.trim(self.coef, tol))

    def mapparms(self) -> tuple[float, float]:
        """Return offset and scale of the linear map from the domain to the window."""
        return _line(self.domain, self.window)

    def convert(self, domain: Any = None, kind: Any = None, window: Any = None) -> Any:
        """Convert to a series of another type, domain or window."""
        kind = type(self) if kind is None else kind
        domain = kind.domain if domain is None else domain
        target = kind([0.0], domain, window, self.symbol)
        # The new variable is mapped to the point, and from there to this series' variable.
        back, stretch = _line(target.window, target.domain)
        off, scl = self.mapparms()
        coef = self.family.in_basis(kind.family, self.coef, off + scl * back, scl * stretch)
        return kind(coef, target.domain, target.window, self.symbol)

    @classmethod
    def cast(cls, series: Any, domain: Any = None, window: Any = None) -> Self:
        """Convert another series to this type."""
        found: Self = series.convert(domain, cls, window)
        return found

    # Calculus

    def deriv(self, m: int = 1) -> Self:
        """Return the `m`-th derivative."""
        return self._with(self.family.der(self.coef, m, self.mapparms()[1]))

    def integ(self, m: int = 1, k: Any = (), lbnd: Any = None) -> Self:
        """Return the `m`-th integral from `lbnd`, plus constants."""
        off, scl = self.mapparms()
        start = 0 if lbnd is None else off + scl * lbnd
        return self._with(self.family.int(self.coef, m, k, start, 1.0 / scl))

    def roots(self) -> Any:
        """Return the roots."""
        back, stretch = _line(self.window, self.domain)
        return back + stretch * self.family.roots(self.coef)

    def linspace(self, n: int = 100, domain: Any = None) -> tuple[Any, Any]:
        """Return evenly spaced points of the domain and the values there."""
        start, stop = _pair(domain, self.domain, "domain").tolist()
        points = linspace(start, stop, n)
        return points, self(points)

    # Constructors

    @classmethod
    def fit(
        cls, x: Any, y: Any, deg: Any, domain: Any = None, rcond: Any = None, full: bool = False,
        w: Any = None, window: Any = None, symbol: str = "x",
    ) -> Any:  # fmt: skip
        """Fit a series to points by least squares; the default domain is that of the points.

        An empty list selects the default domain of the class.
        """
        if domain is None:
            values = read_on_host(x, "fit()")
            low, high = float(values.min()), float(values.max())
            domain = (low, high) if low < high else (low - 1.0, high + 1.0)
        target = cls([0.0], None if not len(domain) else domain, window, symbol)
        off, scl = target.mapparms()
        points = off + scl * series(x)[0]
        if full:
            coef, status = cls.family.fit(points, y, deg, rcond, full, w)
            return target._with(coef), status
        return target._with(cls.family.fit(points, y, deg, rcond, full, w))

    @classmethod
    def fromroots(cls, roots: Any, domain: Any = (), window: Any = None, symbol: str = "x") -> Self:
        """Return the series with the given roots; the default domain is that of the roots."""
        (found,) = series(roots)
        if domain is None:
            values = read_on_host(found, "fromroots()")
            domain = (values.min(), values.max())
        target = cls([0.0], None if not len(domain) else domain, window, symbol)
        off, scl = target.mapparms()
        count = found.shape[0]
        return target._with(cls.family.fromroots(off + scl * found) / scl**count)

    @classmethod
    def identity(cls, domain: Any = None, window: Any = None, symbol: str = "x") -> Self:
        """Return the series of the identity function."""
        target = cls([0.0], domain, window, symbol)
        return target._with(cls.family.line(*_line(target.window, target.domain)))

    @classmethod
    def basis(cls, deg: int, domain: Any = None, window: Any = None, symbol: str = "x") -> Self:
        """Return the basis polynomial of a degree."""
        if deg != int(deg) or deg < 0:
            raise ArgumentError(f"basis needs deg >= 0. Got {deg!r}.")
        return cls([0.0] * int(deg) + [1.0], domain, window, symbol)


class Polynomial(Series):
    """A power series.

    >>> float(Polynomial([1.0, 2.0, 3.0])(2.0))
    17.0
    """

    family = families.POWERS


class Chebyshev(Series):
    """A Chebyshev series.

    >>> float(Chebyshev([1.0, 2.0, 3.0])(0.5))
    0.5
    """

    family = families.CHEBYSHEV

    @classmethod
    def interpolate(
        cls, func: Callable[..., Any], deg: int, domain: Any = None, args: Sequence[Any] = ()
    ) -> Self:
        """Return the series that interpolates a function at Chebyshev points of the domain.

        >>> Chebyshev.interpolate(lambda x: x * x, 2, [0.0, 2.0])(1.5).round(9).tolist()
        2.25
        """
        target = cls([0.0], domain)
        back, stretch = _line(target.window, target.domain)
        coef = chebinterpolate(lambda at: func(back + stretch * at, *args), deg)
        return target._with(coef)


class Legendre(Series):
    """A Legendre series.

    >>> Legendre([0.0, 0.0, 1.0]).deriv().coef.tolist()
    [0.0, 3.0]
    """

    family = families.LEGENDRE


class Laguerre(Series):
    """A Laguerre series.

    >>> float(Laguerre([1.0, 1.0])(0.25))
    1.75
    """

    family = families.LAGUERRE
    domain = window = np.array([0.0, 1.0])


class Hermite(Series):
    """A Hermite series, physicists' convention.

    >>> (Hermite([0.0, 1.0]) * Hermite([0.0, 1.0])).coef.tolist()
    [2.0, 0.0, 1.0]
    """

    family = families.HERMITE


class HermiteE(Series):
    """A Hermite series, probabilists' convention.

    >>> float(HermiteE([0.0, 0.0, 1.0])(2.0))
    3.0
    """

    family = families.HERMITE_E
