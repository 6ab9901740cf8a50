"""TensorFlow's approximate choice of the largest entries, which is exact here."""

from __future__ import annotations

from typing import Any

from tapegrad.core.argument_checks import check_whole
from tapegrad.core.primitive.operand import as_operand, normalize_axis
from tapegrad.errors import ArgumentError
from tapegrad.ops.indexing.gather import move_axis
from tapegrad.ops.indexing.sorting import top_k


def approx_max_k(
    operand: Any,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
    name: str | None = None,
) -> tuple[Any, Any]:
    """Return the k largest entries along an axis, and their indices.

    All of the largest are found; the arguments after the axis have no effect.

    >>> values, indices = approx_max_k([1.0, 5.0, 3.0], 2)
    >>> values.tolist(), indices.tolist()
    ([5.0, 3.0], [1, 2])
    """
    x, axis = _moved(operand, k, reduction_dimension, "approx_max_k")
    values, indices = top_k(x, k)
    last = len(x.shape) - 1
    return move_axis(values, last, axis), move_axis(indices, last, axis)


def approx_min_k(
    operand: Any,
    k: int,
    reduction_dimension: int = -1,
    recall_target: float = 0.95,
    reduction_input_size_override: int = -1,
    aggregate_to_topk: bool = True,
    name: str | None = None,
) -> tuple[Any, Any]:
    """Return the k smallest entries along an axis, and their indices.

    All of the smallest are found; the arguments after the axis have no effect.

    >>> values, indices = approx_min_k([1.0, 5.0, 3.0], 2)
    >>> values.tolist(), indices.tolist()
    ([1.0, 3.0], [0, 2])
    """
    x, axis = _moved(operand, k, reduction_dimension, "approx_min_k")
    values, indices = top_k(-x, k)
    last = len(x.shape) - 1
    return -move_axis(values, last, axis), move_axis(indices, last, axis)


def _moved(operand: Any, k: Any, dimension: int, name: str) -> tuple[Any, int]:
    x = as_operand(operand)
    axis = normalize_axis(dimension, len(x.shape), name)
    count = check_whole("k", k, name)
    if not 0 <= count <= x.shape[axis]:
        raise ArgumentError(f"{name} needs k from 0 to {x.shape[axis]}. Got {count}.")
    return move_axis(x, axis, len(x.shape) - 1), axis
