"""Examples, tables and raw bytes as tensors: parse_example, decode_csv, decode_raw and others."""

from __future__ import annotations

import base64
import csv
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tapegrad.core.values.convert import read_on_host
from tapegrad.core.values.dtypes import as_dtype, numpy_dtype
from tapegrad.core.values.strings import is_text, string_tensor, text_array
from tapegrad.errors import ArgumentError, ArgumentTypeError, FileFormatError
from tapegrad.io.messages import Example, Feature
from tapegrad.ragged.tensor import RaggedTensor
from tapegrad.sparse.tensor import SparseTensor, as_tensor


class FixedLenFeature(NamedTuple):
    """A feature with a fixed shape; without a default it must be there.

    >>> FixedLenFeature([], "int64").shape
    []
    """

    shape: Any
    dtype: Any
    default_value: Any = None


class FixedLenSequenceFeature(NamedTuple):
    """A feature of any number of entries of one shape; in batches, shorter ones are padded.

    >>> FixedLenSequenceFeature([], "int64", allow_missing=True).default_value is None
    True
    """

    shape: Any
    dtype: Any
    allow_missing: bool = False
    default_value: Any = None


class VarLenFeature(NamedTuple):
    """A feature of any number of values, which becomes a sparse tensor.

    >>> VarLenFeature("int64").dtype
    'int64'
    """

    dtype: Any


class RaggedFeature(NamedTuple):
    """A feature of any number of values: a vector, and for a batch a ragged tensor.

    >>> RaggedFeature("int64").value_key is None
    True
    """

    dtype: Any
    value_key: str | None = None


_LIST_OF = {"int64": "int64_list", "float32": "float_list", "string": "bytes_list"}


def parse_single_example(
    serialized: Any,
    features: Mapping[str, Any],
    example_names: Any = None,
    name: str | None = None,
) -> dict[str, Any]:
    """Return the features of one example as tensors by name.

    >>> from tapegrad.io.messages import Features, Int64List
    >>> example = Example(Features({"a": Feature(int64_list=Int64List([3]))}))
    >>> data = example.SerializeToString()
    >>> int(parse_single_example(data, {"a": FixedLenFeature([], "int64")})["a"])
    3
    """
    if np.ndim(text_array(serialized)):
        raise ArgumentError(
            "parse_single_example takes one example. Use parse_example for a batch."
        )
    found = _parsed(text_array(serialized).item(), features)
    return {key: _one(spec, found[key]) for key, spec in features.items()}


def _one(spec: Any, value: np.ndarray) -> Any:
    if isinstance(spec, VarLenFeature):
        return SparseTensor(np.arange(len(value))[:, None], as_tensor(value), [len(value)])
    return as_tensor(value)


def _of_any_length(spec: Any, parts: list[np.ndarray]) -> Any:
    """Return the values of a batch as a ragged or a sparse tensor."""
    flat = np.concatenate([np.empty(0, _storage(spec.dtype)), *parts])
    rows = RaggedTensor.from_row_lengths(
        as_tensor(flat), np.array([len(part) for part in parts], np.int64)
    )
    return rows.to_sparse() if isinstance(spec, VarLenFeature) else rows


def parse_example(
    serialized: Any,
    features: Mapping[str, Any],
    example_names: Any = None,
    name: str | None = None,
) -> dict[str, Any]:
    """Return the features of a vector of examples as tensors with a batch axis, by name.

    >>> from tapegrad.io.messages import FloatList, Features
    >>> example = Example(Features({"a": Feature(float_list=FloatList([0.5]))}))
    >>> data = [example.SerializeToString()] * 2
    >>> parse_example(data, {"a": FixedLenFeature([], "float32")})["a"].tolist()
    [0.5, 0.5]
    """
    texts = text_array(serialized)
    if not texts.ndim:
        return parse_single_example(serialized, features)
    rows = [_parsed(one, features) for one in texts.ravel().tolist()]
    found = {}
    for key, spec in features.items():
        parts = [row[key] for row in rows]
        if isinstance(spec, VarLenFeature | RaggedFeature):
            found[key] = _of_any_length(spec, parts)
            continue
        if isinstance(spec, FixedLenSequenceFeature):
            parts = _padded(parts, spec)
        shape = parts[0].shape if parts else tuple(spec.shape)
        column = np.stack(parts) if parts else np.empty((0, *shape), _storage(spec.dtype))
        found[key] = as_tensor(column)
    return found


def _parsed(data: bytes, features: Mapping[str, Any]) -> dict[str, np.ndarray]:
    try:
        given = Example.FromString(data).features.feature
    except (FileFormatError, UnicodeDecodeError) as error:
        raise FileFormatError(f"This is not an example: {error}") from error
    return {
        key: _value(key, spec, given.get(getattr(spec, "value_key", None) or key))
        for key, spec in features.items()
    }


def _value(key: str, spec: Any, feature: Feature | None) -> np.ndarray:
    if isinstance(spec, VarLenFeature | RaggedFeature):
        spec = FixedLenSequenceFeature([], spec.dtype, allow_missing=True)
    if not isinstance(spec, FixedLenFeature | FixedLenSequenceFeature):
        raise ArgumentTypeError(
            f"The feature {key!r} must be described by FixedLenFeature, FixedLenSequenceFeature, "
            f"VarLenFeature or RaggedFeature. Got {type(spec).__name__}."
        )
    dtype = as_dtype(spec.dtype).name
    if dtype not in _LIST_OF:
        raise ArgumentError(f"Examples hold int64, float32 and string. {key!r} asks for {dtype}.")
    shape = tuple(int(n) for n in (spec.shape if np.ndim(spec.shape) else [spec.shape]))
    is_sequence = isinstance(spec, FixedLenSequenceFeature)
    kind = None if feature is None else feature.WhichOneof()
    if feature is None or kind is None:
        return _default(key, spec, shape, is_sequence)
    if kind != _LIST_OF[dtype]:
        raise ArgumentError(f"The feature {key!r} is a {kind}, but {dtype} was requested.")
    values = getattr(feature, kind).value
    array = np.empty(len(values), _storage(dtype))
    array[:] = values
    try:
        return array.reshape((-1, *shape) if is_sequence else shape)
    except ValueError:
        raise ArgumentError(
            f"The feature {key!r} has {len(values)} values, which do not fill shape {shape}."
        ) from None


def _storage(dtype: Any) -> np.dtype[Any]:
    return as_dtype(dtype).dtype


def _default(key: str, spec: Any, shape: tuple[int, ...], is_sequence: bool) -> np.ndarray:
    dtype = _storage(spec.dtype)
    if is_sequence:
        if not spec.allow_missing:
            raise ArgumentError(f"The feature {key!r} is missing, and allow_missing is False.")
        return np.empty((0, *shape), dtype)
    if spec.default_value is None:
        raise ArgumentError(f"The feature {key!r} is missing, and it has no default_value.")
    given = spec.default_value
    value = text_array(given) if is_text(given) else np.asarray(given, dtype)
    if value.size == int(np.prod(shape)):
        return value.reshape(shape)
    return np.broadcast_to(value, shape).copy()


def _padded(parts: list[np.ndarray], spec: Any) -> list[np.ndarray]:
    longest = max([len(part) for part in parts], default=0)
    fill = spec.default_value
    if fill is None:
        fill = b"" if as_dtype(spec.dtype).name == "string" else 0
    found = []
    for part in parts:
        whole = np.full((longest, *part.shape[1:]), fill, part.dtype)
        whole[: len(part)] = part
        found.append(whole)
    return found


# Tables and bytes


def decode_csv(
    records: Any,
    record_defaults: Sequence[Any],
    field_delim: str = ",",
    use_quote_delim: bool = True,
    na_value: str = "",
    select_cols: Sequence[int] | None = None,
    name: str | None = None,
) -> list[Any]:
    """Return the columns of lines of text as tensors, one per entry of `record_defaults`.

    A default is a value or a list of one; a dtype or an empty list means that the field must be
    there.

    >>> [column.tolist() for column in decode_csv(["1,a", "2,b"], [[0], [""]])]
    [[1, 2], [b'a', b'b']]
    """
    texts = text_array(records)
    kinds = [column_kind(one) for one in record_defaults]
    lines = [text.decode("utf-8", "surrogateescape") for text in texts.ravel().tolist()]
    rows = [_split_line(line, field_delim, use_quote_delim) for line in lines]
    columns = [np.empty(len(rows), kind.dtype) for kind in kinds]
    for number, row in enumerate(rows):
        chosen = row if select_cols is None else [row[k] for k in select_cols if k < len(row)]
        if len(chosen) != len(kinds):
            raise ArgumentError(
                f"Expected {len(kinds)} fields but found {len(chosen)} in record {number}: "
                f"{lines[number]!r:.80}."
            )
        for place, (field, kind) in enumerate(zip(chosen, kinds)):
            columns[place][number] = kind.read(field, na_value, place, number)
    return [as_tensor(column.reshape(texts.shape)) for column in columns]


def _split_line(line: str, delimiter: str, has_quotes: bool) -> list[str]:
    if not has_quotes:
        return line.split(delimiter)
    try:
        return next(csv.reader([line], delimiter=delimiter), [""])
    except csv.Error as error:
        raise FileFormatError(f"This CSV record is damaged: {error}: {line!r:.80}.") from error


class ColumnKind(NamedTuple):
    """The dtype of a column, and the value of missing fields: None if there is none."""

    dtype: np.dtype[Any]
    default: Any

    def read(self, field: str, missing: str, place: int, number: int) -> Any:
        """Return the value of a field, or raise an error that names the column and the record.

        >>> ColumnKind(np.dtype("int32"), 0).read("12", "", 0, 0)
        12
        """
        if field == missing or field == "":
            if self.default is None:
                raise ArgumentError(f"Field {place} is required but missing in record {number}.")
            return self.default
        if self.dtype.kind == "O":
            return field.encode("utf-8", "surrogateescape")
        try:
            return int(field) if self.dtype.kind in "iu" else float(field)
        except ValueError as error:
            raise ArgumentError(
                f"Field {place} in record {number} is not a valid {self.dtype}: {field!r:.60}."
            ) from error


def column_kind(given: Any) -> ColumnKind:
    """Return the kind of a column, from a default, a list of one, or a dtype.

    >>> column_kind([1.5]).dtype.name
    'float32'
    """
    if isinstance(given, type) or hasattr(given, "as_numpy_dtype"):
        return ColumnKind(as_dtype(given).dtype, None)
    if is_text(given):
        texts = text_array(given)
        return ColumnKind(texts.dtype, texts.item())
    value = np.asarray(read_on_host(given, "decode_csv"))
    if not hasattr(given, "dtype"):
        value = value.astype({"f": np.float32, "i": np.int32}.get(value.dtype.kind, value.dtype))
    return ColumnKind(value.dtype, value.item() if value.size else None)


def decode_raw(
    input_bytes: Any,
    out_type: Any,
    little_endian: bool = True,
    fixed_length: int | None = None,
    name: str | None = None,
) -> Any:
    """Return the bytes of texts as numbers, along a new last axis.

    >>> decode_raw(b"ab", "uint8").tolist()
    [97, 98]
    """
    texts = text_array(input_bytes)
    dtype = numpy_dtype(out_type)
    stored = dtype.newbyteorder("<" if little_endian else ">")
    rows = []
    for text in texts.ravel().tolist():
        data = text if fixed_length is None else text[:fixed_length].ljust(fixed_length, b"\0")
        if len(data) % dtype.itemsize:
            raise ArgumentError(
                f"decode_raw: {len(data)} bytes are not a whole number of {dtype} values."
            )
        rows.append(np.frombuffer(data, stored).astype(dtype))
    if len({len(row) for row in rows}) > 1:
        raise ArgumentError("decode_raw takes texts of one length. Pass fixed_length for others.")
    return as_tensor(np.array(rows, dtype).reshape(*texts.shape, -1))


def encode_base64(input: Any, pad: bool = False, name: str | None = None) -> Any:
    """Return texts in the web-safe base64 encoding.

    >>> encode_base64(b"abcd").numpy()
    b'YWJjZA'
    """

    def encoded(text: bytes) -> bytes:
        found = base64.urlsafe_b64encode(text)
        return found if pad else found.rstrip(b"=")

    return _each(encoded, input)


def decode_base64(input: Any, name: str | None = None) -> Any:
    """Return the bytes of web-safe base64 texts.

    >>> decode_base64(b"YWJjZA").numpy()
    b'abcd'
    """

    def decoded(text: bytes) -> bytes:
        try:
            return base64.urlsafe_b64decode(text + b"=" * (-len(text) % 4))
        except ValueError as error:
            raise FileFormatError(
                f"decode_base64 needs web-safe base64. Got {text!r:.80}: {error}."
            ) from error

    return _each(decoded, input)


def _each(function: Any, value: Any) -> Any:
    texts = text_array(value)
    found = np.empty(texts.shape, object)
    found.ravel()[:] = [function(text) for text in texts.ravel().tolist()]
    return string_tensor(found)
