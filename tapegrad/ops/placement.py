"""Tensors on other devices: what `with device(...)` means for values that exist already."""

from __future__ import annotations

from typing import Any

from tapegrad.core.device import chosen_device
from tapegrad.core.operand import as_operand
from tapegrad.ops import stop_gradient
from tapegrad.ops.shape import to_device


def identity(input: Any, name: str | None = None) -> Any:
    """Return the input as a new tensor with its own gradient; in a `device` block, there.

    The gradient comes back to where the input is.

    >>> import tapegrad
    >>> with tapegrad.device("cpu"):
    ...     identity(tapegrad.constant([1.0])).device
    'cpu'
    """
    place, x = chosen_device(), as_operand(input)
    if place is None or x.device == place:
        return stop_gradient.identity(x)
    return to_device(x, place)
