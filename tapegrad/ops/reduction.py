"""Reductions over axes: sum, mean, maximum and their kin."""

from __future__ import annotations

from typing import Any

from tapegrad.core.operand import as_operand, normalize_axes
from tapegrad.ops.basic import sum_p


def sum(x: Any, axis: Any = None, keepdims: bool = False) -> Any:  # noqa: A001  # the maths word
    """Return the sum over `axis` (an int, several, or None for all).

    >>> import tapegrad
    >>> float(sum(tapegrad.constant([1.0, 2.0, 3.0])))
    6.0
    """
    x = as_operand(x)
    return sum_p(x, axis=normalize_axes(axis, len(x.shape), "sum"), keepdims=bool(keepdims))


