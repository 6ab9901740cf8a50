"""TensorFlow's `tf.ragged`: tensors whose rows have different lengths."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.absent import absence as _absence
from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.core.values.strings import is_text, string_tensor, text_array
from tapegrad.errors import ArgumentError
from tapegrad.ops.creation import constant as dense_constant
from tapegrad.ragged.calls import boolean_mask, stack
from tapegrad.ragged.dynamic_shape import DynamicRaggedShape as _DynamicRaggedShape  # noqa: F401  # registers tapegrad.shape
from tapegrad.ragged.tensor import RaggedTensor, elementwise
from tapegrad.sparse.tensor import as_tensor

__all__ = ["RaggedTensor", "boolean_mask", "constant", "map_flat_values", "range", "stack"]


def constant(
    pylist: Any,
    dtype: Any = None,
    ragged_rank: int | None = None,
    inner_shape: Any = None,
    name: str | None = None,
    row_splits_dtype: Any = None,
) -> Any:
    """Return nested lists of numbers or text as a ragged tensor.

    >>> constant([[1, 2], [], [3]]).to_list()
    [[1, 2], [], [3]]
    >>> constant([[["a"], []], [["b", "c"]]]).shape
    (2, None, None)
    """
    rows = pylist.tolist() if isinstance(pylist, np.ndarray) else pylist
    if not isinstance(rows, list | tuple):
        return dense_constant(rows, dtype)
    inner = len(inner_shape) if inner_shape is not None else 0
    depth = _depth(rows) - 1 - inner if ragged_rank is None else ragged_rank
    return _nested(rows, max(depth, 0), dtype)


def _depth(value: Any) -> int:
    if isinstance(value, np.ndarray):
        return value.ndim
    if not isinstance(value, list | tuple):
        return 0
    return 1 + max([_depth(item) for item in value], default=0)


def _nested(rows: Any, depth: int, dtype: Any) -> Any:
    if depth == 0:
        return _flat(list(rows), dtype)
    for row in rows:
        if not isinstance(row, list | tuple | np.ndarray):
            raise ArgumentError(
                f"All entries of a ragged tensor must be nested equally deep. Got {row!r} beside "
                "lists."
            )
    items = [item for row in rows for item in row]
    return RaggedTensor.from_row_lengths(
        _nested(items, depth - 1, dtype), np.array([len(row) for row in rows], np.int64)
    )


def _flat(items: list[Any], dtype: Any) -> Any:
    if items and is_text(items[0]):
        others = [item for item in items if not is_text(item)]
        if others:
            raise ArgumentError(
                f"All entries of a ragged tensor must be of one type. Got {others[0]!r} beside "
                "text."
            )
        return string_tensor(text_array(items))
    return dense_constant(items, dtype)


def range(  # TensorFlow's name
    starts: Any,
    limits: Any = None,
    deltas: Any = 1,
    dtype: Any = None,
    name: str | None = None,
    row_splits_dtype: Any = None,
) -> RaggedTensor:
    """Return a row of numbers from each start to its limit, which is excluded.

    >>> range([3, 0, 2]).to_list(), range([0, 5], [2, 8]).to_list()
    ([[0, 1, 2], [], [0, 1]], [[0, 1], [5, 6, 7]])
    """
    ends = (0, starts) if limits is None else (starts, limits)
    bounds = np.broadcast_arrays(*[np.asarray(dense_constant(one)) for one in (*ends, deltas)])
    rows = [np.arange(*three) for three in zip(*[one.ravel().tolist() for one in bounds])]
    flat = np.concatenate([np.zeros(0, bounds[0].dtype), *rows]).astype(bounds[0].dtype)
    values = as_tensor(flat) if dtype is None else dense_constant(flat.tolist(), dtype)
    return RaggedTensor.from_row_lengths(values, np.array([len(row) for row in rows], np.int64))


def map_flat_values(op: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Apply a function to the elements of ragged tensors, which must have equal rows.

    >>> map_flat_values(lambda x: 2 * x + 1, constant([[1], [2, 3]])).to_list()
    [[3], [5, 7]]
    """
    values = [*args, *kwargs.values()]
    if not any(isinstance(value, RaggedTensor) for value in values):
        return op(*args, **kwargs)
    return elementwise(op, *args, **kwargs)


_check_calls(globals(), __all__)


def __getattr__(name: str) -> Any:
    raise _absence("ragged", name)
