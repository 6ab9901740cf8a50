"""Sparse tensors as bytes: those of their indices, values and shape."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.core.argument_checks import check_choice
from tapegrad.core.values.dtypes import as_dtype
from tapegrad.core.values.strings import StringTensor, is_text, text_array
from tapegrad.errors import ArgumentTypeError, FileFormatError, ShapeError
from tapegrad.io.tensor_messages import as_tensor_array, parse_tensor, serialize_tensor
from tapegrad.sparse.tensor import SparseTensor, as_tensor


def serialize_sparse(
    sp_input: SparseTensor, out_type: Any = "string", name: str | None = None
) -> Any:
    """Return a sparse tensor as three texts: its indices, values and shape.

    >>> x = SparseTensor([[0, 1]], [3.0], [2, 2])
    >>> texts = serialize_sparse(x)
    >>> parse_tensor(texts[1], "float32").tolist()
    [3.0]
    """
    _check("serialize_sparse", sp_input, out_type)
    return _texts([_parts(sp_input.indices, sp_input.values, sp_input.dense_shape)])[0]


def serialize_many_sparse(
    sp_input: SparseTensor, out_type: Any = "string", name: str | None = None
) -> Any:
    """Return the entries of a sparse tensor along its first axis, as three texts each.

    >>> serialize_many_sparse(SparseTensor([[0, 1], [1, 0]], [3.0, 4.0], [2, 2])).shape
    (2, 3)
    """
    _check("serialize_many_sparse", sp_input, out_type)
    sizes = np.asarray(sp_input.dense_shape)
    if sizes.size < 2:
        raise ShapeError(
            f"serialize_many_sparse needs at least two dimensions. Got shape {sp_input.shape}."
        )
    indices, values = np.asarray(sp_input.indices), _array(sp_input.values)
    rows = [indices[:, 0] == n for n in range(int(sizes[0]))]
    return _texts([_parts(indices[row][:, 1:], values[row], sizes[1:]) for row in rows])


def deserialize_many_sparse(
    serialized_sparse: Any, dtype: Any, rank: int | None = None, name: str | None = None
) -> SparseTensor:
    """Return the sparse tensor of entries that `serialize_many_sparse` wrote, stacked.

    Their shapes may differ; the largest sizes are those of the result. `rank` is that of an entry.

    >>> x = SparseTensor([[0, 1], [1, 0]], [3.0, 4.0], [2, 2])
    >>> deserialize_many_sparse(serialize_many_sparse(x), "float32").values.tolist()
    [3.0, 4.0]
    """
    texts = text_array(serialized_sparse)
    if texts.ndim != 2 or texts.shape[1] != 3:
        raise ShapeError(
            "deserialize_many_sparse takes a matrix with three texts for each entry. "
            f"Got shape {texts.shape}."
        )
    places, values, shapes = [], [], []
    for n, (first, second, third) in enumerate(texts):
        indices = np.asarray(parse_tensor(first, "int64"))
        places.append(np.insert(indices, 0, n, axis=1))
        values.append(_array(parse_tensor(second, dtype)))
        shapes.append(np.asarray(parse_tensor(third, "int64")))
    if len({len(shape) for shape in shapes} | ({rank} if rank is not None else set())) != 1:
        raise FileFormatError(
            "deserialize_many_sparse: the entries need the same number of dimensions"
            f"{'' if rank is None else f', {rank}'}. Got {[len(shape) for shape in shapes]}."
        )
    sizes = [len(texts), *np.max(shapes, axis=0).tolist()]
    joined = np.concatenate(values)
    held = as_tensor(joined if as_dtype(dtype).name == "string" else joined.copy())
    return SparseTensor(np.concatenate(places), held, sizes)


def _check(function: str, x: Any, out_type: Any) -> None:
    check_choice("out_type", as_dtype(out_type).name, ("string",))
    if not isinstance(x, SparseTensor):
        raise ArgumentTypeError(f"{function} takes a sparse tensor. Got {type(x).__name__}.")


def _parts(indices: Any, values: Any, shape: Any) -> list[Any]:
    return [serialize_tensor(part).numpy() for part in (indices, values, shape)]


def _texts(rows: list[list[Any]]) -> Any:
    found = np.empty((len(rows), 3), object)
    for n, row in enumerate(rows):
        found[n] = row
    return StringTensor(found)


def _array(values: Any) -> np.ndarray:
    return text_array(values) if is_text(values) else as_tensor_array(values)
