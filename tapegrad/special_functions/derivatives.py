"""Evaluate in double precision, with separate formulas for values and derivatives.

The functions of several parameters are sums and integrals with fixed nodes. Their derivative with
respect to the argument is a closed formula. Derivatives with respect to parameters differentiate
the sum term by term in forward mode, so that no term is stored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.autodiff.custom_gradient import custom_gradient
from tapegrad.autodiff.forward import ForwardAccumulator
from tapegrad.core.primitive.primitive import INTERPRETERS
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.casting.promotion import operands
from tapegrad.ops.control.stop_gradient import stop_gradient
from tapegrad.ops.creation import numpy_dtype_of, ones_like
from tapegrad.ops.shape.functions import broadcast_arrays

Function = Callable[..., Any]


def is_tracked(x: Any) -> bool:
    """Whether a tape or an accumulator records operations on the value.

    >>> is_tracked(operands(1.0)[0])
    False
    """
    while type(x) in INTERPRETERS:
        x = x.tensor
    return getattr(x, "node", None) is not None


def in_double(function: Function, *values: Any) -> Any:
    """Call a function with broadcast float64 tensors and return results in the original dtype.

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


def with_derivatives(value: Function, by_x: Function, params: tuple[Any, ...], x: Any) -> Any:
    """Return value(*params, x) with by_x(*params, x) as its derivative with respect to x.

    Derivatives with respect to recorded parameters differentiate the formula of `value`. That
    formula may treat anything that depends on x as a constant.

    >>> p, x = operands(2.0, 3.0)
    >>> float(with_derivatives(lambda p, x: p * x, lambda p, x: p, (p,), x))
    6.0
    """
    is_param_tracked = [is_tracked(p) for p in params]
    if not any(is_param_tracked):

        @custom_gradient
        def of_x(x: Any) -> Any:
            return value(*params, stop_gradient(x)), lambda g: g * by_x(*params, x)

        return of_x(x)

    @custom_gradient
    def call(*args: Any) -> Any:
        *params, x = args

        def by_param(k: int) -> Any:
            # Mixed derivatives commute: d/dx of this one is d/dp of by_x.
            derivatives = _derivative(value, k), _derivative(by_x, k)
            return with_derivatives(*derivatives, tuple(params), x)

        def gradients(g: Any) -> list[Any]:
            parts = [g * by_param(k) if is_on else None for k, is_on in enumerate(is_param_tracked)]
            return [*parts, g * by_x(*args)]

        return value(*(stop_gradient(arg) for arg in args)), gradients

    return call(*params, x)


def _derivative(function: Function, k: int) -> Function:
    """Return the derivative of an elementwise function with respect to its k-th argument."""

    def derivative(*args: Any) -> Any:
        copies = [arg * 1.0 for arg in args]
        with ForwardAccumulator(copies[k], ones_like(copies[k])) as accumulator:
            y = function(*copies)
        return accumulator.jvp(y, unconnected_gradients="zero")

    return derivative
