"""Functions that take more parameters, or others, in Keras than in NumPy and TensorFlow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tapegrad import numpy as np
from tapegrad.core.argument_checks import check_choice
from tapegrad.core.primitive.operand import as_operand
from tapegrad.errors import ArgumentError
from tapegrad.ops import creation
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.control import control_flow
from tapegrad.ops.indexing import scatter
from tapegrad.ops.indexing.slices_and_masks import slice_tensor
from tapegrad.ragged.tensor import RaggedTensor
from tapegrad.sparse import to_dense
from tapegrad.sparse.tensor import SparseTensor


def bincount(x: Any, weights: Any = None, minlength: int = 0, sparse: bool = False) -> Any:
    """Count each integer. The rows of a matrix are counted one by one.

    >>> bincount([[1, 2, 2], [0, 0, 1]]).tolist()
    [[0, 1, 2], [2, 1, 0]]
    """
    if sparse:
        raise ArgumentError("bincount returns dense counts. Got sparse=True.")
    values = as_operand(x)
    if len(values.shape) != 2:
        return _counts(values, weights, minlength)
    length = max(minlength, int(np.max(values)) + 1 if values.size else 0)
    rows = [
        _counts(row, None if weights is None else as_operand(weights)[n], length)
        for n, row in enumerate(values)
    ]
    return np.stack(rows) if rows else np.zeros((0, length), "int32")


def _counts(x: Any, weights: Any, minlength: int) -> Any:
    found = np.bincount(x, weights, minlength)
    return cast(found, "int32") if weights is None else found


def convert_to_tensor(
    x: Any, dtype: Any = None, sparse: bool | None = None, ragged: bool | None = None
) -> Any:
    """Return a tensor. Sparse and ragged tensors become dense where `sparse`, `ragged` are False.

    >>> convert_to_tensor([1, 2], dtype="float32", sparse=False).tolist()
    [1.0, 2.0]
    """
    if isinstance(x, SparseTensor) and sparse is False:
        x = to_dense(x)
    elif isinstance(x, RaggedTensor) and ragged is False:
        x = x.to_tensor()
    return creation.convert_to_tensor(x, dtype)


def nan_to_num(x: Any, nan: Any = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    """Replace NaN and infinities by numbers.

    >>> nan_to_num([1.0, float("nan")], 7.0).tolist()
    [1.0, 7.0]
    """
    return np.nan_to_num(x, nan=nan, posinf=posinf, neginf=neginf)


def pad(x: Any, pad_width: Any, mode: str = "constant", constant_values: Any = None) -> Any:
    """Add entries at the ends of axes.

    >>> pad([1.0, 2.0], (1, 0), "constant", 5.0).tolist()
    [5.0, 1.0, 2.0]
    """
    if constant_values is None:
        return np.pad(x, pad_width, mode)
    if mode != "constant":
        raise ArgumentError(f"pad takes constant_values with mode 'constant'. Got mode {mode!r}.")
    return np.pad(x, pad_width, mode, constant_values=constant_values)


def scatter_update(inputs: Any, indices: Any, updates: Any, reduction: str | None = None) -> Any:
    """Replace entries at indices, or combine them with updates: "add", "max", "min" or "mul".

    >>> scatter_update([1.0, 2.0], [[0], [0]], [3.0, 4.0], reduction="add").tolist()
    [8.0, 2.0]
    """
    kind = "update" if reduction is None else str(reduction).lower()
    check_choice("reduction", kind, ("update", "add", "max", "min", "mul"))
    if kind != "mul":
        return getattr(scatter, f"tensor_scatter_nd_{kind}")(inputs, indices, updates)
    places = as_operand(indices)
    index = tuple(places[..., n] for n in range(places.shape[-1]))
    return as_operand(inputs).at[index].multiply(updates)


def slice(inputs: Any, start_indices: Any, shape: Any) -> Any:  # Keras' name
    """Return the block of `shape` that begins at `start_indices`.

    >>> slice([1.0, 2.0, 3.0], start_indices=[1], shape=[2]).tolist()
    [2.0, 3.0]
    """
    return slice_tensor(inputs, start_indices, shape)


def unique(
    x: Any,
    sorted: bool = True,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    size: int | None = None,
    fill_value: Any = None,
) -> Any:
    """Return distinct values and the requested extras, cut or filled up to `size`.

    >>> unique([3, 1, 3], size=3).tolist()
    [1, 3, 0]
    """
    wanted = {"index": return_index, "inverse": return_inverse, "counts": return_counts}
    options = {f"return_{name}": flag for name, flag in wanted.items()}
    found = np.unique(as_operand(x), axis=axis, sorted=sorted, **options)
    return with_size(found, wanted, axis, size, fill_value)


def with_size(
    found: Any, wanted: Mapping[str, bool], axis: int | None, size: int | None, fill_value: Any
) -> Any:
    """Return the results of `np.unique`, cut or filled up to `size`.

    `wanted` says which of "index", "inverse" and "counts" follow the values.

    >>> with_size(as_operand([1, 3]), {}, None, 3, 7).tolist()
    [1, 3, 7]
    """
    extras = [name for name, flag in wanted.items() if flag]
    if size is None:
        return found
    first, *others = found if extras else (found,)
    along = 0 if axis is None else axis % len(first.shape)
    cut = _with_length(first, size, along, 0 if fill_value is None else fill_value)
    others = [
        part if name == "inverse" else _with_length(part, size, 0, int(name == "index"))
        for name, part in zip(extras, others)
    ]
    return (cut, *others) if others else cut


def _with_length(x: Any, size: int, axis: int, fill: Any) -> Any:
    length = min(size, x.shape[axis])
    sizes = [length if n == axis else -1 for n in range(len(x.shape))]
    kept = slice_tensor(x, [0] * len(sizes), sizes)
    widths = [(0, size - length if n == axis else 0) for n in range(len(sizes))]
    return np.pad(kept, widths, constant_values=fill) if length < size else kept


def while_loop(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Any,
    maximum_iterations: Any = None,
) -> Any:
    """Replace the loop variables by `body(*loop_vars)` while `cond(*loop_vars)` is true.

    >>> while_loop(lambda n: n < 10, lambda n: [n + 1], [as_operand(0)], 3)[0].tolist()
    3
    """
    several = isinstance(loop_vars, list | tuple)

    def run(*values: Any) -> tuple[Any, ...]:
        found = body(*values)
        return tuple(found) if isinstance(found, list | tuple) else (found,)

    start = tuple(loop_vars) if several else (loop_vars,)
    end = control_flow.while_loop(cond, run, start, maximum_iterations=maximum_iterations)
    return type(loop_vars)(end) if several else end[0]
