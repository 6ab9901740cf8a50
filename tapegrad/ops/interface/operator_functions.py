"""Functions of operators that differ from the public functions: matmul, divmod, contains.

The products convert a host value to the dtype and device of the tensor operand, so that
`array @ tensor` behaves like `array * tensor`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tapegrad.core.primitive.primitive import INTERPRETERS
from tapegrad.core.values.convert import adapted, to_tensor
from tapegrad.core.values.tensor import Tensor
from tapegrad.errors import ArgumentTypeError
from tapegrad.ops.elementwise import comparison, rounding
from tapegrad.ops.products import functions as product_functions

Function = Callable[[Any, Any], Any]


def _with_host_values(function: Function) -> Function:
    """Return a function that converts a host value to the dtype and device of the other operand."""

    def call(a: Any, b: Any) -> Any:
        if type(a) is Tensor and type(b) is Tensor:
            return function(a, b)
        a, b = adapted(a), adapted(b)
        like = next((tensor for tensor in map(_unwrap, (a, b)) if tensor is not None), None)
        return function(_convert_like(a, like), _convert_like(b, like))

    return call


def _unwrap(value: Any) -> Tensor | None:
    """Return the tensor of a tensor or batched value, and None for a host value."""
    while type(value) in INTERPRETERS:
        value = value.tensor
    return value if isinstance(value, Tensor) else None


def _convert_like(value: Any, like: Tensor | None) -> Any:
    if like is None or type(value) in INTERPRETERS:
        return value
    return to_tensor(value, like=like)


matmul = _with_host_values(product_functions.matmul)
matvec = _with_host_values(product_functions.matvec)
vecmat = _with_host_values(product_functions.vecmat)
vecdot = _with_host_values(product_functions.vecdot)


def divmod(x: Any, y: Any) -> tuple[Any, Any]:
    """Return the floor quotient and the remainder; only the remainder has a derivative.

    >>> [part.tolist() for part in divmod([7.5, -1.0], 2.0)]
    [[3.0, -1.0], [1.5, 1.0]]
    """
    return rounding.floor_divide(x, y), rounding.mod(x, y)


def contains(x: Any, value: Any) -> bool:
    """Return whether any element equals `value`, which broadcasts as in NumPy.

    >>> x = [[1.0, 2.0], [3.0, 4.0]]
    >>> contains(x, 3), contains(x, [1.0, 9.0]), contains(x, "text")
    (True, True, False)
    """
    try:
        same = comparison.equal(x, value)
    except ArgumentTypeError:
        return False
    return bool(same.any())
