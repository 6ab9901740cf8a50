"""Deterministic initializers: zeros, ones, constants, identity."""

from __future__ import annotations

from math import prod
from typing import Any

from tapegrad.core.primitive.operand import as_operand
from tapegrad.core.values.dtypes import as_dtype
from tapegrad.core.values.tensor import Tensor
from tapegrad.core.values.variable import Variable
from tapegrad.errors import ShapeError
from tapegrad.keras.initializers.base import DEFAULT_DTYPE, Initializer
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.creation import as_shape, convert_to_tensor, eye, ones, zeros
from tapegrad.ops.shape.functions import broadcast_to, reshape


class Zeros(Initializer):
    """Fill with 0.

    >>> Zeros()((2,)).tolist()
    [0.0, 0.0]
    """

    def __call__(self, shape: Any, dtype: Any = None) -> Any:
        return zeros(shape, DEFAULT_DTYPE if dtype is None else dtype)


class Ones(Initializer):
    """Fill with 1.

    >>> Ones()((2,), dtype="int32").tolist()
    [1, 1]
    """

    def __call__(self, shape: Any, dtype: Any = None) -> Any:
        return ones(shape, DEFAULT_DTYPE if dtype is None else dtype)


class Constant(Initializer):
    """Fill with a number, or with an array that broadcasts to the shape or has as many elements.

    >>> Constant(3.0)((2,)).tolist()
    [3.0, 3.0]
    >>> Constant([1, 2])((2, 2)).tolist()
    [[1.0, 2.0], [1.0, 2.0]]
    """

    def __init__(self, value: Any = 0.0) -> None:
        super().__init__()
        self.value = value

    def __call__(self, shape: Any, dtype: Any = None) -> Any:
        value = _in_dtype(self.value, DEFAULT_DTYPE if dtype is None else dtype)
        wanted, own = as_shape(shape), tuple(value.shape)
        if prod(own) == prod(wanted):  # as TensorFlow's constant_initializer
            return reshape(value, wanted)
        tail = wanted[len(wanted) - len(own) :]
        if len(own) > len(wanted) or any(n not in (1, m) for n, m in zip(own, tail)):
            raise ShapeError(
                f"A value of shape {own} does not broadcast to {wanted}. "
                "Pass a number to Constant, or a value that broadcasts to the shape."
            )
        return broadcast_to(value, wanted)


def _in_dtype(value: Any, dtype: Any) -> Any:
    # Convert Python numbers directly: 0.1 in float64 differs from 0.1 in float32.
    if not isinstance(value, Tensor | Variable):
        return convert_to_tensor(value, dtype)
    value = as_operand(value)
    return value if value.dtype == as_dtype(dtype) else cast(value, dtype)


class Identity(Initializer):
    """Fill a matrix with `gain` on the diagonal and 0 elsewhere.

    >>> Identity(gain=2.0)((2, 3)).tolist()
    [[2.0, 0.0, 0.0], [0.0, 2.0, 0.0]]
    """

    def __init__(self, gain: float = 1.0) -> None:
        super().__init__()
        self.gain = gain

    def __call__(self, shape: Any, dtype: Any = None) -> Any:
        sizes = as_shape(shape)
        if len(sizes) != 2:
            raise ShapeError(
                f"Identity takes a shape with two sizes, that of a matrix. Got {sizes}. "
                "Use Orthogonal for other shapes."
            )
        matrix = eye(*sizes, dtype=DEFAULT_DTYPE if dtype is None else dtype)
        return matrix if self.gain == 1 else matrix * self.gain
