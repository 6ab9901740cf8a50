"""TensorFlow's `tf.ragged`: tensors whose rows have different lengths."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from tapegrad.absent import absence as _absence
from tapegrad.core.argument_checks import check_count
from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.core.values.convert import read_on_host
from tapegrad.core.values.strings import is_text, string_tensor, text_array
from tapegrad.errors import ArgumentError
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.creation import constant as dense_constant
from tapegrad.ops.indexing.gather import gather
from tapegrad.ops.shape.functions import reshape
from tapegrad.ragged.calls import boolean_mask, stack
from tapegrad.ragged.dynamic_shape import DynamicRaggedShape as _DynamicRaggedShape  # noqa: F401  # registers tapegrad.shape
from tapegrad.ragged.tensor import RaggedTensor, elementwise
from tapegrad.sparse.crosses import crossed_hashes, crossed_texts
from tapegrad.sparse.tensor import as_tensor

__all__ = [
    "RaggedTensor",
    "boolean_mask",
    "constant",
    "cross",
    "cross_hashed",
    "map_flat_values",
    "range",
    "row_splits_to_segment_ids",
    "segment_ids_to_row_splits",
    "stack",
    "stack_dynamic_partitions",
]


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


def row_splits_to_segment_ids(splits: Any, name: str | None = None, out_type: Any = None) -> Any:
    """Return the number of the row of each value.

    >>> row_splits_to_segment_ids([0, 3, 3, 5]).tolist()
    [0, 0, 0, 2, 2]
    """
    bounds = _whole("row_splits_to_segment_ids", splits)
    if not len(bounds) or bounds[0] or (np.diff(bounds) < 0).any():
        raise ArgumentError(
            f"row_splits_to_segment_ids takes splits from 0 that do not fall. Got {splits!r}."
        )
    ids = np.repeat(np.arange(len(bounds) - 1), np.diff(bounds))
    return cast(as_tensor(ids.astype(np.int64)), out_type or "int64")


def segment_ids_to_row_splits(
    segment_ids: Any, num_segments: int | None = None, out_type: Any = None, name: str | None = None
) -> Any:
    """Return where each row begins, from the number of the row of each value.

    >>> segment_ids_to_row_splits([0, 0, 0, 2, 2]).tolist()
    [0, 3, 3, 5]
    """
    ids = _whole("segment_ids_to_row_splits", segment_ids)
    least = int(ids.max(initial=-1)) + 1
    count = least if num_segments is None else num_segments
    if (np.diff(ids) < 0).any() or (ids < 0).any() or count < least:
        raise ArgumentError(
            "segment_ids_to_row_splits takes numbers from 0 below num_segments that do not fall. "
            f"Got {segment_ids!r} and num_segments={num_segments}."
        )
    splits = np.concatenate([[0], np.cumsum(np.bincount(ids, minlength=count))])
    return cast(as_tensor(splits.astype(np.int64)), out_type or "int64")


def stack_dynamic_partitions(
    data: Any, partitions: Any, num_partitions: int, name: str | None = None
) -> RaggedTensor:
    """Return one row for each partition, with its entries of `data` in their order.

    >>> stack_dynamic_partitions([1, 2, 3, 4], [1, 0, 1, 3], 4).to_list()
    [[2], [1, 3], [], [4]]
    """
    numbers = np.asarray(read_on_host(dense_constant(partitions), "stack_dynamic_partitions"))
    ids = _whole("stack_dynamic_partitions", numbers.reshape(-1))
    count = check_count("num_partitions", num_partitions, "stack_dynamic_partitions")
    if (ids < 0).any() or (ids >= count).any():
        raise ArgumentError(
            f"stack_dynamic_partitions takes partitions from 0 to {count - 1}. Got {partitions!r}."
        )
    order = np.argsort(ids, kind="stable")
    lengths = np.bincount(ids, minlength=count)
    if isinstance(data, RaggedTensor):
        if numbers.ndim != 1:
            raise ArgumentError("Partitions of ragged rows are a vector, a number for each row.")
        return RaggedTensor.from_row_lengths(data.rows_at(order), lengths)
    values = _flat(list(data), None) if is_text(data) else dense_constant(data)
    shape = tuple(values.shape)
    if shape[: numbers.ndim] != numbers.shape:
        raise ArgumentError(
            "stack_dynamic_partitions needs a partition for each entry or row of data. "
            f"Got shapes {numbers.shape} and {shape}."
        )
    rows = reshape(values, (len(ids), *shape[numbers.ndim :])) if numbers.ndim != 1 else values
    return RaggedTensor.from_row_lengths(gather(rows, order), lengths)


def cross(inputs: Any, name: str | None = None) -> RaggedTensor:
    """Join each combination of the entries of a row of several ragged tensors to one text.

    >>> cross([constant([["a"], ["b", "c"]]), constant([["d"], ["e"]])]).to_list()
    [[b'a_X_d'], [b'b_X_e', b'c_X_e']]
    """
    return RaggedTensor.from_rows(crossed_texts("cross", inputs))


def cross_hashed(
    inputs: Any, num_buckets: int = 0, hash_key: Any = None, name: str | None = None
) -> RaggedTensor:
    """Return a hash of each combination of the entries of a row; they are those of TensorFlow.

    >>> cross_hashed([constant([["a"], ["b", "c"]]), constant([["d"], ["e"]])]).to_list()[0]
    [1584069791037555375]
    """
    rows = crossed_hashes("cross_hashed", inputs, num_buckets, hash_key)
    return RaggedTensor.from_rows(rows, np.int64)


def _whole(name: str, values: Any) -> np.ndarray:
    found = np.asarray(read_on_host(dense_constant(values), name))
    if found.ndim != 1 or (found.dtype.kind not in "iu" and found.size):
        raise ArgumentError(f"{name} takes a vector of whole numbers. Got {values!r}.")
    return found.astype(np.int64)


_check_calls(globals(), __all__)


if not TYPE_CHECKING:  # type checkers report names that do not exist

    def __getattr__(name: str) -> Any:
        raise _absence("ragged", name)
