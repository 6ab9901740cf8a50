"""Functions of an integer order, for arrays of orders."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.core.values.host import fetch
from tapegrad.core.values.tensor import Tensor
from tapegrad.errors import ArgumentError
from tapegrad.ops.casting.promotion import operand, operands
from tapegrad.ops.elementwise.selection import where
from tapegrad.ops.shape.functions import broadcast_arrays


def is_array_of_orders(n: Any) -> bool:
    """Whether orders are an array and no number."""
    return isinstance(n, Tensor | np.ndarray | np.generic)


def for_each_order(function: Callable[[int, Any], Any], n: Any, x: Any, name: str) -> Any:
    """Return function(n, x) elementwise; the distinct orders are read on the host.

    Orders without a value, such as negative ones, give NaN where the function raises.
    """
    orders, x = operand(n), operands(n, x)[1]
    values = fetch(orders.array, None, name)
    if values.dtype.kind == "f" and np.any(values != np.floor(values)):
        raise ArgumentError(f"{name} needs integer orders. Got {n!r}.")
    orders, x = broadcast_arrays(orders, x)
    total = math.nan * x
    for order in np.unique(values).tolist():
        try:
            found = function(int(order), x)
        except ArgumentError:
            if order >= 0:
                raise
            continue
        total = where(orders == order, found, total)
    return total
