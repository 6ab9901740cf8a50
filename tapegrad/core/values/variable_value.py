"""The value of a variable as a tensor that can also be called: `v.value` and `v.value()`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tapegrad.core.values.tensor import Tensor


class VariableValue(Tensor):
    """The result of `v.value`: a tensor, as in Keras. A call reads again, as in TensorFlow.

    >>> import tapegrad
    >>> v = tapegrad.Variable([1.0, 2.0])
    >>> (2 * v.value).tolist(), v.value().tolist()
    ([2.0, 4.0], [1.0, 2.0])
    """

    __slots__ = ("_read",)

    _read: Callable[[], Any]

    why_read_only = (
        "This is a copy of the value of a Variable, and writing to it would not change the "
        "Variable. Write `v[0] = x` instead of `v.value[0] = x`."
    )

    def __call__(self) -> Any:
        """Return the current value of the variable as a new tensor."""
        return self._read()


def callable_value(tensor: Tensor, read: Callable[[], Any]) -> VariableValue:
    """Return a tensor that calls `read` when it is called."""
    value: VariableValue = object.__new__(VariableValue)
    value.array, value.node, value._read = tensor.array, tensor.node, read
    return value
