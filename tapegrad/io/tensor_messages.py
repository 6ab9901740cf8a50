"""Tensors as bytes, in TensorFlow's TensorProto: serialize_tensor and parse_tensor."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.core.values.convert import read_on_host
from tapegrad.core.values.dtypes import as_dtype
from tapegrad.core.values.strings import is_text, string_tensor, text_array
from tapegrad.errors import ArgumentError, FileFormatError
from tapegrad.io.messages import bytes_of
from tapegrad.io.wire import fields, message, varint, varints
from tapegrad.strings.ragged import as_tensor

_NUMBERS = {
    "float32": 1, "float64": 2, "int32": 3, "uint8": 4, "int16": 5, "int8": 6, "string": 7,
    "complex64": 8, "int64": 9, "bool": 10, "bfloat16": 14, "uint16": 17, "complex128": 18,
    "float16": 19, "uint32": 22, "uint64": 23,
}  # fmt: skip
_NAMES = {number: name for name, number in _NUMBERS.items()}
_DTYPE, _SHAPE, _CONTENT, _TEXTS = 1, 2, 4, 8


def serialize_tensor(tensor: Any, name: str | None = None) -> Any:
    """Return a tensor as bytes.

    >>> parse_tensor(serialize_tensor([[1.0, 2.0]]), "float32").tolist()
    [[1.0, 2.0]]
    """
    if is_text(tensor):
        array = text_array(tensor)
        content: list[tuple[int, Any]] = [(_TEXTS, text) for text in array.ravel().tolist()]
    else:
        array = as_tensor_array(tensor)
        content = [(_CONTENT, np.ascontiguousarray(array).tobytes())]
    sizes = message([(2, message([(1, int(size))])) for size in array.shape])
    dtype = _NUMBERS[as_dtype(array.dtype).name]
    return string_tensor(message([(_DTYPE, dtype), (_SHAPE, sizes), *content]))


def as_tensor_array(tensor: Any) -> np.ndarray:
    """Return numbers as an array with the dtype that a tensor would have.

    >>> as_tensor_array([1.0]).dtype.name
    'float32'
    """
    array = np.asarray(read_on_host(tensor, "serialize_tensor"))
    if not hasattr(tensor, "dtype"):
        usual = {"float64": np.float32, "int64": np.int32}
        array = array.astype(usual.get(array.dtype.name, array.dtype))
    return array


def parse_tensor(serialized: Any, out_type: Any, name: str | None = None) -> Any:
    """Return the tensor that `serialize_tensor` wrote.

    >>> parse_tensor(serialize_tensor(["a"]), "string").tolist()
    [b'a']
    """
    found = {_DTYPE: 0, _SHAPE: b"", _CONTENT: b""}
    texts: list[bytes] = []
    for number, _, value in fields(bytes_of(serialized)):
        if number == _TEXTS:
            texts.append(value)
        elif number in found:
            found[number] = value
    dtype = _NAMES.get(found[_DTYPE])  # type: ignore[call-overload]
    if dtype is None:
        raise FileFormatError("parse_tensor: these bytes hold no tensor.")
    if as_dtype(out_type).name != dtype:
        raise ArgumentError(
            f"parse_tensor: the tensor has the dtype {dtype}, but out_type is "
            f"{as_dtype(out_type).name}."
        )
    shape = _sizes(found[_SHAPE])
    if dtype == "string":
        array = np.empty(len(texts), object)
        array[:] = texts
    else:
        array = np.frombuffer(found[_CONTENT], as_dtype(dtype).dtype).copy()  # type: ignore[call-overload]
    if array.size != int(np.prod(shape)):
        raise FileFormatError(
            f"parse_tensor: shape {shape} needs {int(np.prod(shape))} values. Got {array.size}."
        )
    return as_tensor(array.reshape(shape))


def _sizes(data: Any) -> tuple[int, ...]:
    found = []
    for number, _, part in fields(data):
        if number == 2:
            sizes = [value for own, _, value in fields(part) if own == 1]
            found.append(varints(varint(sizes[0]))[0] if sizes else 0)
    return tuple(found)
