"""Arithmetic of series, and series from roots."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.core.argument_checks import check_rounds, check_whole, described, is_whole
from tapegrad.core.values.convert import read_on_host
from tapegrad.errors import ArgumentError
from tapegrad.numpy.joining import concat
from tapegrad.numpy.polynomial.basis import Basis, padded, series, zeros_like_row
from tapegrad.numpy.values import dtype_of
from tapegrad.ops.convolution.sequences import convolve
from tapegrad.ops.creation import full_like_p
from tapegrad.ops.shape.joining import stack


class Arithmetic(Basis):
    """Arithmetic of series of one family: the functions that NumPy names `polyadd` and so on."""

    def add(self, c1: Any, c2: Any) -> Any:
        """Return the sum of two series.

        >>> from tapegrad.numpy.polynomial.chebyshev import chebadd
        >>> chebadd([1.0, 2.0], [1.0, 1.0, 1.0]).tolist()
        [2.0, 3.0, 1.0]
        """
        first, second = _aligned(c1, c2)
        return first + second

    def sub(self, c1: Any, c2: Any) -> Any:
        """Return the difference of two series.

        >>> from tapegrad.numpy.polynomial.chebyshev import chebsub
        >>> chebsub([1.0, 2.0], [1.0, 1.0, 1.0]).tolist()
        [0.0, 1.0, -1.0]
        """
        first, second = _aligned(c1, c2)
        return first - second

    def mulx(self, c: Any) -> Any:
        """Return x times a series.

        >>> from tapegrad.numpy.polynomial.legendre import legmulx
        >>> legmulx([0.0, 3.0]).tolist()
        [1.0, 0.0, 2.0]
        """
        (c,) = series(c)
        return self.times_x(padded(c, c.shape[0] + 1))

    def mul(self, c1: Any, c2: Any) -> Any:
        """Return the product of two series.

        >>> from tapegrad.numpy.polynomial.hermite import hermmul
        >>> hermmul([0.0, 1.0], [0.0, 1.0]).tolist()
        [2.0, 0.0, 1.0]
        """
        first, second = series(c1, c2)
        if self.prefix == "poly":
            return convolve(first, second)
        short, long = sorted([first, second], key=lambda c: c.shape[0])
        wide = padded(long, first.shape[0] + second.shape[0] - 1)
        return self.summed(short, wide, self.times_x)

    def div(self, c1: Any, c2: Any) -> tuple[Any, Any]:
        """Return the quotient and the remainder of two series.

        >>> from tapegrad.numpy.polynomial.polynomial import polydiv
        >>> [part.tolist() for part in polydiv([6.0, 5.0, 1.0], [2.0, 1.0])]
        [[3.0, 1.0], [0.0]]
        """
        rest, bottom = series(c1, c2)
        count = bottom.shape[0]
        if rest.shape[0] < count:
            return zeros_like_row(rest, 1), rest
        quotient: list[Any] = []
        for k in range(rest.shape[0] - count, -1, -1):
            moved = self.mul(_unit(rest, k), bottom)
            factor = rest[-1] / moved[-1]
            quotient.insert(0, factor)
            rest = (rest - factor * moved)[:-1]
        return stack(quotient), rest if count > 1 else zeros_like_row(bottom, 1)

    def pow(self, c: Any, pow: int, maxpower: int | None = 16) -> Any:
        """Return an integer power of a series.

        >>> from tapegrad.numpy.polynomial.polynomial import polypow
        >>> polypow([1.0, 1.0], 3).tolist()
        [1.0, 3.0, 3.0, 1.0]
        """
        if not is_whole(pow) or pow < 0:
            raise ArgumentError(
                f"The power of a series must be an integer >= 0. Got {described(pow)}."
            )
        pow = check_whole("pow", pow)
        check_rounds("pow", pow, "the power of a series")
        if maxpower is not None and pow > maxpower:
            raise ArgumentError(f"The power {pow} exceeds maxpower={maxpower}. Raise maxpower.")
        (c,) = series(c)
        result = c if pow else _unit(c, 0)
        for _ in range(pow - 1):
            result = self.mul(result, c)
        return result

    def line(self, off: Any, scl: Any) -> Any:
        """Return the series of off + scl x.

        >>> from tapegrad.numpy.polynomial.laguerre import lagline
        >>> lagline(3.0, 2.0).tolist()
        [5.0, -2.0]
        """
        off, scl = (c[0] for c in series(off, scl))
        (a, *_), (b, *_), _ = self.steps(1)
        return stack([off - scl * (b / a), scl / a])

    def fromroots(self, roots: Any) -> Any:
        """Return the series of (x - root) (x - root) ...

        >>> from tapegrad.numpy.polynomial.chebyshev import chebfromroots
        >>> chebfromroots([-1.0, 0.0, 1.0]).tolist()
        [0.0, -0.25, 0.0, 0.25]
        """
        if not len(roots):
            return series([1.0])[0]
        (roots,) = series(roots)
        c = _unit(roots, 0)
        for k in range(roots.shape[0]):
            wide = padded(c, k + 2)
            c = self.times_x(wide) - roots[k] * wide
        return c

    def trim(self, c: Any, tol: float = 0) -> Any:
        """Remove trailing coefficients with absolute value at most `tol`, but keep at least one.

        >>> from tapegrad.numpy.polynomial.polynomial import polytrim
        >>> polytrim([1.0, 2.0, 0.0]).tolist()
        [1.0, 2.0]
        """
        if tol < 0:
            raise ArgumentError(f"tol must be nonnegative. Got {tol}.")
        (c,) = series(c)
        places = np.flatnonzero(np.abs(read_on_host(c, "a polynomial's degree")) > tol)
        return c[: int(places[-1]) + 1] if places.size else c[:1] * 0


def _unit(like: Any, degree: int) -> Any:
    """Return the series of the basis polynomial of a degree."""
    one = full_like_p(like, shape=(1,), value=1, dtype=dtype_of(like))
    return concat([zeros_like_row(like, degree), one]) if degree else one


def _aligned(c1: Any, c2: Any) -> list[Any]:
    both = series(c1, c2)
    count = max(c.shape[0] for c in both)
    return [padded(c, count) for c in both]
