"""Values computed one way and differentiated another, in double precision.

The functions of several parameters here are sums and integrals with fixed nodes. By the argument
they have a derivative that is a neighbour of theirs; by a parameter their sum is differentiated
term by term, in forward mode, so that no term has to be kept.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.autodiff.custom_gradient import custom_gradient
from tapegrad.autodiff.forward import ForwardAccumulator
from tapegrad.core.primitive import INTERPRETERS
from tapegrad.scipy.vocabulary import (
    broadcast_arrays,
    cast,
    numpy_dtype_of,
    ones_like,
    operands,
    stop_gradient,
)

Function = Callable[..., Any]


def is_followed(x: Any) -> bool:
    """Whether a tape or an accumulator follows the value.

    >>> is_followed(operands(1.0)[0])
    False
    """
    while type(x) in INTERPRETERS:
        x = x.tensor
    return getattr(x, "node", None) is not None


def in_double(function: Function, *values: Any) -> Any:
    """Call a function with float64 tensors of one shape; return its results in the common dtype.

    >>> import tapegrad
    >>> in_double(lambda x, y: x / y, tapegrad.constant([1.0]), 3.0).dtype.name
    'float32'
    """
    given = operands(*values)
    dtype = numpy_dtype_of(given[0])
    double = np.dtype(np.complex128 if dtype.kind == "c" else np.float64)
    if dtype == double:
        return function(*broadcast_arrays(*given))
    y = function(*broadcast_arrays(*(cast(x, double) for x in given)))
    return tuple(cast(part, dtype) for part in y) if isinstance(y, tuple) else cast(y, dtype)


def with_slopes(value: Function, by_x: Function, params: tuple[Any, ...], x: Any) -> Any:
    """Return value(*params, x); its derivative by x is by_x(*params, x).

    By a parameter that somebody follows, the formula of the value is differentiated. The formula
    need not be one of x: what depends on x may be held fixed in it.

    >>> y = with_slopes(lambda p, x: p * x, lambda p, x: p, (operands(2.0)[0],), operands(3.0)[0])
    >>> float(y)
    6.0
    """
    followed = [is_followed(p) for p in params]
    if not any(followed):

        @custom_gradient
        def of_x(x: Any) -> Any:
            return value(*params, stop_gradient(x)), lambda g: g * by_x(*params, x)

        return of_x(x)

    @custom_gradient
    def call(*args: Any) -> Any:
        *params, x = args

        def by_param(k: int) -> Any:
            # Its own derivative by x is that of by_x by the parameter.
            return with_slopes(_slope(value, k), _slope(by_x, k), tuple(params), x)

        def slopes(g: Any) -> list[Any]:
            parts = [g * by_param(k) if is_on else None for k, is_on in enumerate(followed)]
            return [*parts, g * by_x(*args)]

        return value(*(stop_gradient(arg) for arg in args)), slopes

    return call(*params, x)


def _slope(function: Function, k: int) -> Function:
    """Return the derivative of a function of single elements by its k-th argument."""

    def slope(*args: Any) -> Any:
        copies = [arg * 1.0 for arg in args]
        with ForwardAccumulator(copies[k], ones_like(copies[k])) as accumulator:
            y = function(*copies)
        return accumulator.jvp(y, unconnected_gradients="zero")

    return slope
