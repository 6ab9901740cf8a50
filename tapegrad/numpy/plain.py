"""NumPy names for text, settings and types, and functions that only need shapes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from tapegrad.core.values.convert import read_on_host
from tapegrad.errors import ArgumentError
from tapegrad.numpy.manipulation import broadcast_arrays, ravel
from tapegrad.numpy.values import as_array, side_by_side
from tapegrad.numpy.vectorized import vectorize

# NumPy's own functions, for the host.
getbufsize = np.getbufsize
geterrcall = np.geterrcall
get_include = np.get_include
setbufsize = np.setbufsize
seterrcall = np.seterrcall
typecodes = np.typecodes
typename = np.typename


def mintypecode(typechars: Any, typeset: Any = "GDFgdf", default: str = "d") -> str:
    """Return the character of the smallest type to which all given types can be cast.

    >>> mintypecode("fd")
    'd'
    """
    return str(np.mintypecode(typechars, typeset, default))


class broadcast:  # noqa: N801 -- NumPy's name
    """The common shape of arrays, and an iterator over tuples of their elements.

    >>> broadcast([[1], [2]], [3, 4, 5]).shape
    (2, 3)
    """

    def __init__(self, *args: Any) -> None:
        self._arrays = side_by_side(*args)
        self.shape = np.broadcast_shapes(*[tuple(x.shape) for x in self._arrays])
        self.nd = self.ndim = len(self.shape)
        self.size = int(np.prod(self.shape))
        self.numiter = len(self._arrays)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return zip(*[ravel(x) for x in broadcast_arrays(*self._arrays)], strict=True)


def format_float_positional(x: Any, *args: Any, **options: Any) -> str:
    """Format a number without an exponent.

    >>> format_float_positional(0.5)
    '0.5'
    """
    return np.format_float_positional(_number(x, "format_float_positional"), *args, **options)


def format_float_scientific(x: Any, *args: Any, **options: Any) -> str:
    """Format a number with an exponent.

    >>> format_float_scientific(0.5)
    '5.e-01'
    """
    return np.format_float_scientific(_number(x, "format_float_scientific"), *args, **options)


def _number(x: Any, name: str) -> Any:
    values = read_on_host(as_array(x), f"{name}()")
    if values.size != 1:
        raise ArgumentError(f"{name} takes one number. Got an array of shape {values.shape}.")
    return values.reshape(-1)[0]


def isfortran(a: Any) -> bool:
    """Return whether an array is Fortran-contiguous: False, because tensors are in C order.

    >>> isfortran([[1, 2], [3, 4]])
    False
    """
    return False


def frompyfunc(func: Callable[..., Any], /, nin: int, nout: int, *, identity: Any = None) -> Any:
    """Turn a function of numbers into a function of arrays, called once per element.

    >>> frompyfunc(lambda a, b: a + b, 2, 1)([1.0, 2.0], 3.0).tolist()
    [4.0, 5.0]
    """
    mapped = vectorize(func)

    def call(*args: Any) -> Any:
        if len(args) != nin:
            raise ArgumentError(f"This function takes {nin} arrays. Got {len(args)}.")
        return mapped(*args)

    call.nin, call.nout = nin, nout  # type: ignore[attr-defined]  # as NumPy's ufuncs have
    return call
