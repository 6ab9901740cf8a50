"""Variables, shapes, dtypes and choices of keras.backend."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tapegrad.core.primitive.operand import as_operand
from tapegrad.core.values.dtypes import as_dtype
from tapegrad.core.values.tensor import Tensor
from tapegrad.core.values.variable import Variable
from tapegrad.keras.config import floatx
from tapegrad.keras.symbolic import KerasTensor
from tapegrad.ops import creation
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.control.loops import is_recording
from tapegrad.ops.elementwise.selection import where
from tapegrad.ops.shape.functions import reshape
from tapegrad.program.record.effects import print_tensors
from tapegrad.sparse.functions import to_dense as sparse_to_dense
from tapegrad.sparse.tensor import SparseTensor

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
    return len(x.shape if isinstance(x, KerasTensor | SparseTensor) else as_operand(x).shape)


def switch(condition: Any, then_expression: Any, else_expression: Any) -> Any:
    """Return one of two values, or results of functions, by a condition for all or per element.

    >>> switch(True, lambda: 1.0, lambda: 2.0).item()
    1.0
    """
    values = [evaluated(one) for one in (then_expression, else_expression)]
    chosen = as_operand(condition)
    rank = max(len(as_operand(value).shape) for value in values)
    if 0 < len(chosen.shape) < rank:
        chosen = reshape(chosen, (*chosen.shape, *(1,) * (rank - len(chosen.shape))))
    return where(chosen, *values)


def zeros(shape: Any, dtype: Any = None, name: str | None = None) -> Any:
    """Create a variable of zeros; inside a recorded function, a tensor.

    >>> zeros((2,)).numpy().tolist()
    [0.0, 0.0]
    """
    return _created(creation.zeros(shape, dtype or floatx()), name)


def ones(shape: Any, dtype: Any = None, name: str | None = None) -> Any:
    """Create a variable of ones; inside a recorded function, a tensor.

    >>> ones((2,)).numpy().tolist()
    [1.0, 1.0]
    """
    return _created(creation.ones(shape, dtype or floatx()), name)


def eye(size: Any, dtype: Any = None, name: str | None = None) -> Any:
    """Create a variable with ones on the diagonal; inside a recorded function, a tensor.

    >>> eye(2).numpy().tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    return _created(creation.eye(size, dtype=dtype or floatx()), name)


def _created(value: Any, name: str | None) -> Any:
    return value if is_recording() else Variable(value, name=name)


def cast_to_floatx(x: Any) -> Any:
    """Cast to the default dtype of weights; an array stays an array.

    >>> cast_to_floatx([1, 2]).dtype.name
    'float32'
    """
    if isinstance(x, Tensor | Variable | KerasTensor):
        return cast(x, floatx())
    return np.asarray(x, floatx())


def update(x: Any, new_x: Any) -> Any:
    """Assign a value to a variable, and return the variable.

    >>> float(update(variable(3.0), 4.0))
    4.0
    """
    return x.assign(new_x)


def update_add(x: Any, increment: Any) -> Any:
    """Add to a variable, and return the variable.

    >>> float(update_add(variable(3.0), 4.0))
    7.0
    """
    return x.assign_add(increment)


def update_sub(x: Any, decrement: Any) -> Any:
    """Subtract from a variable, and return the variable.

    >>> float(update_sub(variable(3.0), 1.0))
    2.0
    """
    return x.assign_sub(decrement)


def moving_average_update(x: Any, value: Any, momentum: Any) -> Any:
    """Move a variable to `momentum` times its value plus the rest of a new value.

    >>> float(moving_average_update(variable(4.0), 8.0, 0.75))
    5.0
    """
    return x.assign_sub((x - cast(value, x.dtype)) * (1 - momentum))


def batch_get_value(tensors: Sequence[Any]) -> list[Any]:
    """Return the values of several variables as NumPy arrays.

    >>> [x.item() for x in batch_get_value([variable(3.0), variable(4.0)])]
    [3.0, 4.0]
    """
    return [get_value(x) for x in tensors]


def batch_set_value(tuples: Sequence[tuple[Any, Any]]) -> None:
    """Assign to several variables, given as pairs of a variable and a value.

    >>> v = variable(3.0)
    >>> batch_set_value([(v, 4.0)])
    >>> float(v)
    4.0
    """
    for x, value in tuples:
        set_value(x, value)


def count_params(x: Any) -> int:
    """Return the number of elements.

    >>> count_params(variable([[1.0, 2.0]]))
    2
    """
    return math.prod(x.shape)


def dtype(x: Any) -> str:
    """Return the name of the dtype.

    >>> dtype(variable(3.0))
    'float32'
    """
    if isinstance(x, KerasTensor):
        return x.dtype
    return str((x if is_sparse(x) else as_operand(x)).dtype.name)


def is_sparse(tensor: Any) -> bool:
    """Return whether a value is a sparse tensor.

    >>> is_sparse(variable(3.0))
    False
    """
    return isinstance(tensor, SparseTensor)


def to_dense(tensor: Any) -> Any:
    """Return a sparse tensor as a dense one, and other values as they are.

    >>> to_dense(3.0)
    3.0
    """
    return sparse_to_dense(tensor) if is_sparse(tensor) else tensor


def print_tensor(x: Any, message: str = "", summarize: int = 3) -> Any:
    """Print a tensor when it is computed, and return it.

    >>> print_tensor(variable(3.0), "x =").numpy().item()
    3.0
    """
    print_tensors(message, x, summarize=summarize)
    return x


def evaluated(value: Any) -> Any:
    """Return the result of a function without arguments, and other values as they are.

    >>> evaluated(lambda: 1.0), evaluated(2.0)
    (1.0, 2.0)
    """
    is_function: Callable[[Any], bool] = callable
    return value() if is_function(value) and not isinstance(value, Tensor | Variable) else value
