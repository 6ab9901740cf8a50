"""Functions of keras.backend that have no other place in tapegrad."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from tapegrad.core.primitive.operand import as_operand
from tapegrad.core.values.dtypes import as_dtype
from tapegrad.core.values.tensor import Tensor
from tapegrad.core.values.variable import Variable
from tapegrad.errors import ArgumentError
from tapegrad.keras.config import floatx
from tapegrad.keras.symbolic import KerasTensor
from tapegrad.ops.elementwise.selection import where
from tapegrad.ops.products.einsum import einsum
from tapegrad.ops.shape.functions import reshape, transpose
from tapegrad.ops.shape.rearranging import repeat

_uids: Counter[str] = Counter()


def standardize_dtype(dtype: Any) -> str:
    """Return the name of a dtype; None means the default dtype of weights.

    >>> standardize_dtype(None), standardize_dtype(int)
    ('float32', 'int64')
    """
    return floatx() if dtype is None else as_dtype(dtype).name


def is_float_dtype(dtype: Any) -> bool:
    """Return whether a dtype is a floating one.

    >>> is_float_dtype("bfloat16"), is_float_dtype("int8")
    (True, False)
    """
    return bool(as_dtype(dtype).is_floating)


def is_int_dtype(dtype: Any) -> bool:
    """Return whether a dtype is an integer one.

    >>> is_int_dtype("uint8"), is_int_dtype("bool")
    (True, False)
    """
    return bool(as_dtype(dtype).is_integer)


def get_uid(prefix: str = "") -> int:
    """Return 1, 2, 3 and so on: how often the function was called with this prefix.

    >>> get_uid("page") + 1 == get_uid("page")
    True
    """
    _uids[prefix] += 1
    return _uids[prefix]


def variable(value: Any, dtype: Any = None, name: str | None = None, constraint: Any = None) -> Any:
    """Create a variable.

    >>> variable([1.0, 2.0]).numpy().tolist()
    [1.0, 2.0]
    """
    return Variable(value, name=name, dtype=dtype, constraint=constraint)


def get_value(x: Any) -> Any:
    """Return the value of a tensor or a variable as a NumPy array.

    >>> get_value(variable(3.0)).item()
    3.0
    """
    return x.numpy() if isinstance(x, Tensor | Variable) else x


def set_value(x: Any, value: Any) -> None:
    """Assign a value to a variable.

    >>> v = variable(3.0)
    >>> set_value(v, 4.0)
    >>> float(v)
    4.0
    """
    x.assign(value)


def int_shape(x: Any) -> tuple[int | None, ...]:
    """Return the shape of a tensor or a symbolic tensor; unknown lengths are None.

    >>> import tapegrad
    >>> int_shape(tapegrad.keras.Input((3,)))
    (None, 3)
    """
    return tuple(x.shape)


def ndim(x: Any) -> int:
    """Return the number of dimensions.

    >>> ndim([[1.0, 2.0]])
    2
    """
    return len(x.shape if isinstance(x, KerasTensor) else as_operand(x).shape)


def permute_dimensions(x: Any, pattern: Sequence[int]) -> Any:
    """Return a tensor with its axes in another order.

    >>> permute_dimensions([[1.0, 2.0]], (1, 0)).shape
    (2, 1)
    """
    return transpose(x, pattern)


def batch_flatten(x: Any) -> Any:
    """Flatten all axes but the first.

    >>> batch_flatten([[[1.0], [2.0]]]).shape
    (1, 2)
    """
    x = as_operand(x)
    return reshape(x, (x.shape[0], -1))


def repeat_elements(x: Any, rep: int, axis: int) -> Any:
    """Repeat each element along an axis.

    >>> repeat_elements([1.0, 2.0], 2, 0).tolist()
    [1.0, 1.0, 2.0, 2.0]
    """
    return repeat(x, rep, axis)


def switch(condition: Any, then_expression: Any, else_expression: Any) -> Any:
    """Return one of two values, or results of functions, by a condition for all or per element.

    >>> switch(True, lambda: 1.0, lambda: 2.0).item()
    1.0
    """
    values = [_called(one) for one in (then_expression, else_expression)]
    chosen = as_operand(condition)
    rank = max(len(as_operand(value).shape) for value in values)
    if 0 < len(chosen.shape) < rank:
        chosen = reshape(chosen, (*chosen.shape, *(1,) * (rank - len(chosen.shape))))
    return where(chosen, *values)


def _called(value: Any) -> Any:
    is_function: Callable[[Any], bool] = callable
    return value() if is_function(value) and not isinstance(value, Tensor | Variable) else value


def batch_dot(x: Any, y: Any, axes: Any = None) -> Any:
    """Sum the products of two batches along one axis of each, `axes`; the batch stays apart.

    The default axes are the last of x and the last but one of y.

    >>> batch_dot([[1.0, 2.0]], [[3.0, 4.0]], axes=1).tolist()
    [[11.0]]
    """
    x, y = as_operand(x), as_operand(y)
    ranks = len(x.shape), len(y.shape)
    if min(ranks) < 2:
        raise ArgumentError(f"batch_dot takes batches of vectors. Got shapes {x.shape}, {y.shape}.")
    if axes is None:
        axes = (ranks[0] - 1, 1 if ranks[1] == 2 else ranks[1] - 2)
    pair = (axes, axes) if isinstance(axes, int) else tuple(axes)
    one, other = (axis % rank for axis, rank in zip(pair, ranks))
    if not one or not other:
        raise ArgumentError(f"batch_dot cannot sum along axis 0, the batch. Got axes={axes!r}.")
    left = ["a", *"bcdefgh"[: ranks[0] - 1]]
    right = ["a", *"ijklmno"[: ranks[1] - 1]]
    left[one] = right[other] = "z"
    kept = ["a", *(c for c in left[1:] + right[1:] if c != "z")]
    result = einsum(f"{''.join(left)},{''.join(right)}->{''.join(kept)}", x, y)
    return reshape(result, (-1, 1)) if len(kept) == 1 else result
