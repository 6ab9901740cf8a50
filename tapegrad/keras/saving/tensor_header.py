"""The header of a safetensors file: the dtype, shape and offset of each array.

A file consists of the header length (8 bytes, little-endian), the header (JSON), and the bytes of
the arrays.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, NamedTuple, NoReturn

from tapegrad.errors import ArgumentError, ArgumentTypeError, DTypeError, FileFormatError

LENGTH_BYTES = 8
MAX_HEADER = 100_000_000
_METADATA = "__metadata__"
_COMPLEX = "tapegrad.complex128"
"""Metadata key: names of complex128 arrays, which are stored as pairs of F64.

The format has no complex128.
"""

# The dtype in the format, its NumPy or ml_dtypes name, and its size in bytes.
_DTYPES = {
    "BOOL": ("bool", 1),
    "U8": ("uint8", 1),
    "I8": ("int8", 1),
    "U16": ("uint16", 2),
    "I16": ("int16", 2),
    "U32": ("uint32", 4),
    "I32": ("int32", 4),
    "U64": ("uint64", 8),
    "I64": ("int64", 8),
    "F8_E4M3": ("float8_e4m3fn", 1),
    "F8_E5M2": ("float8_e5m2", 1),
    "F8_E8M0": ("float8_e8m0fnu", 1),
    "F8_E4M3FNUZ": ("float8_e4m3fnuz", 1),
    "F8_E5M2FNUZ": ("float8_e5m2fnuz", 1),
    "F16": ("float16", 2),
    "BF16": ("bfloat16", 2),
    "F32": ("float32", 4),
    "F64": ("float64", 8),
    "C64": ("complex64", 8),
}
_MOST_AXES = 100
_PACKED = ("F4", "F6_E2M3", "F6_E3M2")
_WORDS = {name: (word, size) for word, (name, size) in _DTYPES.items()}


class Entry(NamedTuple):
    """An array in a file: dtype name, shape, and byte offsets relative to the header end."""

    dtype: str
    shape: tuple[int, ...]
    start: int
    stop: int

    def __str__(self) -> str:
        return describe(self.dtype, self.shape)


def describe(dtype: str, shape: tuple[int, ...]) -> str:
    """Return dtype and shape as text.

    >>> describe("float32", (2, 3))
    'float32[2, 3]'
    """
    return f"{dtype}{list(shape)}"


def make_header(
    arrays: Mapping[Any, tuple[str, tuple[int, ...]]], metadata: Mapping[Any, Any] | None
) -> bytes:
    """Return the bytes before the first array; `arrays` has dtypes and shapes in order.

    >>> make_header({"w": ("float32", (2,))}, None)[8:]
    b'{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}  '
    """
    notes = dict(metadata or {})
    for key, value in notes.items():
        if not isinstance(key, str) or not isinstance(value, str):
            raise ArgumentTypeError(
                f"Metadata must map strings to strings. Got {key!r}: {value!r}; "
                "convert other values with json.dumps."
            )
    doubles = [name for name, (dtype, _) in arrays.items() if dtype == "complex128"]
    if doubles:
        notes[_COMPLEX] = json.dumps(doubles)
    header: dict[str, Any] = {_METADATA: notes} if notes else {}
    place = 0
    for name, (dtype, shape) in arrays.items():
        word, size, dims = _written_as(name, dtype, shape)
        stop = place + size * math.prod(dims)
        header[name] = {"dtype": word, "shape": dims, "data_offsets": [place, stop]}
        place = stop
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    if len(text) > MAX_HEADER:
        raise ArgumentError(
            f"The names and metadata of a file may take at most {MAX_HEADER:,} bytes. "
            f"Got {len(text):,}; write several files."
        )
    return len(text).to_bytes(LENGTH_BYTES, "little") + text


def _written_as(name: Any, dtype: str, shape: tuple[int, ...]) -> tuple[str, int, list[int]]:
    """Return the dtype in the format, its size in bytes, and the shape in the file."""
    if not isinstance(name, str) or name == _METADATA:
        raise ArgumentError(
            f"An array name must be a string other than {_METADATA!r}. Got {name!r}."
        )
    dims = [int(n) for n in shape]
    if dtype == "complex128":
        return "F64", 8, [*dims, 2]
    if dtype not in _WORDS:
        raise DTypeError(
            f"A safetensors file can hold arrays of complex128, {', '.join(_WORDS)}. "
            f"Got {name!r} of {dtype}; cast it first."
        )
    return *_WORDS[dtype], dims


def parse_header(text: bytes, size: int, path: str) -> tuple[dict[str, Entry], dict[str, str]]:
    """Check a header against the total `size` of the arrays; return entries and metadata.

    >>> text = make_header({"w": ("float32", (2,))}, {"by": "me"})[8:]
    >>> parse_header(text, 8, "a.safetensors")
    ({'w': Entry(dtype='float32', shape=(2,), start=0, stop=8)}, {'by': 'me'})
    """
    header = _parse_json(text, path)
    metadata = header.pop(_METADATA, {})
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        refuse(path, f"its {_METADATA} must map strings to strings")
    entries = {name: parse_entry(name, value, path) for name, value in header.items()}
    _check_places(entries, size, path)
    for name in _complex_names(metadata, path):
        entry = entries.get(name)
        if entry is None or entry.dtype != "float64" or entry.shape[-1:] != (2,):
            refuse(path, f"array {name!r} is marked as complex128 but does not hold pairs of F64")
        entries[name] = entry._replace(dtype="complex128", shape=entry.shape[:-1])
    metadata.pop(_COMPLEX, None)
    return entries, metadata


def _parse_json(text: bytes, path: str) -> dict[str, Any]:
    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            names = [name for name, _ in pairs]
            twice = next(name for name in names if names.count(name) > 1)
            refuse(path, f"its header has the name {twice!r} twice")
        return found

    if not text.startswith(b"{"):
        refuse(path, "its header does not start with '{'")
    try:
        header: dict[str, Any] = json.loads(text.decode(), object_pairs_hook=unique)
    except ArgumentError:
        raise
    except (ValueError, RecursionError) as error:
        raise FileFormatError(_sentence(path, f"its header is not JSON: {error}")) from error
    return header


def dtype_word(name: str) -> str | None:
    """Return the word of the format for a dtype, or None if it has none.

    >>> dtype_word("float32"), dtype_word("complex128")
    ('F32', None)
    """
    return _WORDS[name][0] if name in _WORDS else None


def parse_entry(name: str, value: Any, path: str) -> Entry:
    """Check the description of one array."""
    what = f"array {name!r}"
    if not isinstance(value, dict) or not {"dtype", "shape", "data_offsets"} <= value.keys():
        refuse(path, f"{what} needs a dtype, a shape and data_offsets")
    word, shape, offsets = value["dtype"], value["shape"], value["data_offsets"]
    if word in _PACKED:
        refuse(path, f"{what} has dtype {word}, whose elements are smaller than a byte")
    if not isinstance(word, str) or word not in _DTYPES:
        refuse(path, f"{what} has unknown dtype {word!r}; known dtypes are {', '.join(_DTYPES)}")
    if not _are_counts(shape):
        refuse(path, f"{what} has shape {shape!r}, which is not a list of nonnegative integers")
    if not _are_counts(offsets) or len(offsets) != 2 or offsets[0] > offsets[1]:
        refuse(path, f"{what} has data_offsets {offsets!r} instead of [start, stop]")
    dtype, size = _DTYPES[word]
    needed = size * math.prod(shape)
    if needed != offsets[1] - offsets[0]:
        given = offsets[1] - offsets[0]
        refuse(path, f"{what} of {word}{shape} needs {needed:,} bytes but has {given:,}")
    return Entry(dtype, tuple(shape), *offsets)


def _are_counts(values: Any) -> bool:
    if not isinstance(values, list) or len(values) > _MOST_AXES:
        return False
    return all(type(n) is int and 0 <= n < 2**63 for n in values)


def _check_places(entries: dict[str, Entry], size: int, path: str) -> None:
    """Check that every byte belongs to exactly one array."""
    place = 0
    for name, entry in sorted(entries.items(), key=lambda item: (item[1].start, item[1].stop)):
        if entry.start < place:
            refuse(path, f"array {name!r} overlaps with the previous one")
        if entry.start > place:
            gap = entry.start - place
            refuse(path, f"there is a gap of {gap:,} bytes before array {name!r}")
        place = entry.stop
    if place > size:
        refuse(path, f"its arrays need {place:,} bytes, but there are {size:,}: it is truncated")
    if place < size:
        refuse(path, f"{size - place:,} bytes after the last array belong to no array")


def _complex_names(metadata: dict[str, str], path: str) -> list[str]:
    try:
        names = json.loads(metadata.get(_COMPLEX, "[]"))
    except (ValueError, RecursionError):
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        refuse(path, f"its metadata {_COMPLEX!r} must be a JSON list of names")
    return names


def refuse(path: str, why: str) -> NoReturn:
    """Raise an error about a malformed file.

    >>> refuse("a.safetensors", "it is empty")
    Traceback (most recent call last):
    tapegrad.errors.FileFormatError: 'a.safetensors' is not a valid safetensors file: it is empty.
    """
    raise FileFormatError(_sentence(path, why))


def _sentence(path: str, why: str) -> str:
    return f"{path!r} is not a valid safetensors file: {why}."
