"""`identity`, which moves an existing tensor to the device of a `with device(...)` block."""

from __future__ import annotations

from typing import Any

from tapegrad.core.primitive.operand import as_operand
from tapegrad.core.values.device import chosen_device
from tapegrad.ops.control import stop_gradient
from tapegrad.ops.shape.functions import to_device


def identity(input: Any, name: str | None = None) -> Any:
    """Return the input as a new tensor; in a `device` block, on that device.

    The gradient is on the device of the input.

    >>> import tapegrad
    >>> with tapegrad.device("cpu"):
    ...     identity(tapegrad.constant([1.0])).device
    'cpu'
    """
    target, x = chosen_device(), as_operand(input)
    if target is None or x.device == target:
        return stop_gradient.identity(x)
    return to_device(x, target)
