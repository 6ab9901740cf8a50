"""What operators compute where no function of the package does just that.

Products here take place on the tensor's device and in its dtype when the other operand is a host
value: `array @ tensor` as `array * tensor`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tapegrad.core.convert import adapted, to_tensor
from tapegrad.core.primitive import INTERPRETERS
from tapegrad.core.tensor import Tensor
from tapegrad.errors import ArgumentTypeError
from tapegrad.ops import comparison, products, rounding

Function = Callable[[Any, Any], Any]


def _together(function: Function) -> Function:
    """Let host values among two operands go to where the other one is."""

    def call(a: Any, b: Any) -> Any:
        if type(a) is Tensor and type(b) is Tensor:
            return function(a, b)
        a, b = adapted(a), adapted(b)
        like = next((held for held in map(_held, (a, b)) if held is not None), None)
        return function(_beside(a, like), _beside(b, like))

    return call


def _held(value: Any) -> Tensor | None:
    """The tensor that a value is, or that has many examples for which it stands."""
    while type(value) in INTERPRETERS:
        value = value.tensor
    return value if isinstance(value, Tensor) else None


def _beside(value: Any, like: Tensor | None) -> Any:
    if like is None or type(value) in INTERPRETERS:
        return value
    return to_tensor(value, like=like)


matmul = _together(products.matmul)
matvec = _together(products.matvec)
vecmat = _together(products.vecmat)
vecdot = _together(products.vecdot)


def divmod(x: Any, y: Any) -> tuple[Any, Any]:
    """Return the quotient rounded down and what is left over; only the latter has a derivative.

    >>> [part.tolist() for part in divmod([7.5, -1.0], 2.0)]
    [[3.0, -1.0], [1.5, 1.0]]
    """
    return rounding.floor_divide(x, y), rounding.mod(x, y)


def contains(x: Any, value: Any) -> bool:
    """Return whether some element equals `value`, which broadcasts as in NumPy.

    >>> x = [[1.0, 2.0], [3.0, 4.0]]
    >>> contains(x, 3), contains(x, [1.0, 9.0]), contains(x, "text")
    (True, True, False)
    """
    try:
        same = comparison.equal(x, value)
    except ArgumentTypeError:
        return False
    return bool(same.any())
