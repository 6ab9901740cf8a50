"""Write and read safetensors files.

See tensor_header.py for the header.
"""

from __future__ import annotations

import importlib
import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, Self

import numpy as np

from tapegrad.core.backend.registry import backend_of
from tapegrad.core.files.atomic import StrPath, replacing
from tapegrad.core.values import host
from tapegrad.core.values.convert import device_array, with_usual_dtype
from tapegrad.core.values.tensor import Tensor
from tapegrad.core.values.variable import Variable
from tapegrad.errors import DTypeError, FileFormatError
from tapegrad.keras.saving.tensor_header import (
    LENGTH_BYTES,
    MAX_HEADER,
    Entry,
    make_header,
    parse_header,
    refuse,
)


def write_tensors(
    path: StrPath,
    tensors: Mapping[str, Any],
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Write named arrays, tensors or variables to a file, sorted by name.

    Arrays on a GPU are copied to the host one at a time. On an error, an existing file is kept.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_tensors(f"{folder}/a.safetensors", {"w": Variable([1.0, 2.0])})
    ...     with TensorFile(f"{folder}/a.safetensors") as file:
    ...         file["w"]
    array([1., 2.], dtype=float32)
    """
    chunks = tensor_chunks(tensors, metadata)
    with replacing(path) as file:
        for chunk in chunks:
            file.write(chunk)


def tensor_chunks(
    tensors: Mapping[str, Any], metadata: Mapping[str, str] | None = None
) -> Iterable[Any]:
    """Return the parts of a safetensors file: the header, and the bytes of one array at a time."""
    arrays = {name: _array_of(tensors[name]) for name in sorted(tensors)}
    kinds = {name: (_dtype_of(array).name, tuple(array.shape)) for name, array in arrays.items()}
    return chain([make_header(kinds, metadata)], map(_bytes_of, arrays.values()))


def _array_of(value: Any) -> Any:
    """Return the raw array of a value on its device."""
    if isinstance(value, Tensor | Variable):
        return value.array
    on_device = device_array(value)
    return np.asarray(value) if on_device is None else on_device


def _dtype_of(array: Any) -> np.dtype[Any]:
    return array.dtype if isinstance(array, np.ndarray) else backend_of(array).dtype_of(array)


def _bytes_of(array: Any) -> Any:
    if not isinstance(array, np.ndarray):
        array = host.fetch(array, None, "write_tensors()")
    array = np.asarray(array, array.dtype.newbyteorder("<"), order="C")
    return array.reshape(-1).view(np.uint8).data


class TensorFile(Mapping[str, Any]):
    """The arrays of a safetensors file by name, each read on access.

    Opening checks the whole header. The file stays open until `close`, so that all arrays come
    from the same file even if it is replaced meanwhile.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = f"{folder}/a.safetensors"
    ...     write_tensors(path, {"w": np.zeros((2, 3)), "b": np.ones(1)}, {"epoch": "3"})
    ...     with TensorFile(path) as file:
    ...         list(file), file.entries["w"].shape, file.metadata
    (['b', 'w'], (2, 3), {'epoch': '3'})
    """

    def __init__(self, path: StrPath, file: Any = None, size: int | None = None) -> None:
        # An open `file` of this `size` may be a member of the archive at the path.
        self.path = os.fspath(path)
        if file is None and stat.S_ISFIFO(os.stat(self.path).st_mode):  # opening it would wait
            raise FileFormatError(f"{self.path!r} is a pipe. Expected a safetensors file.")
        self._file: Any = file or open(self.path, "rb")  # noqa: SIM115  # closed by `close`
        try:
            self._begin, text, rest = self._read_header(size)
            self.entries, self.metadata = parse_header(text, rest, self.path)
        except BaseException:
            self._file.close()
            raise

    def _read_header(self, size: int | None) -> tuple[int, bytes, int]:
        """Return the offset of the arrays, the header, and the size of the arrays in bytes."""
        if size is None:
            size = os.fstat(self._file.fileno()).st_size
        if size < LENGTH_BYTES:
            refuse(self.path, f"it has {size} bytes, but at least {LENGTH_BYTES} are needed")
        length = int.from_bytes(self._file.read(LENGTH_BYTES), "little")
        if length > MAX_HEADER:
            refuse(
                self.path, f"its header has {length:,} bytes; at most {MAX_HEADER:,} are allowed"
            )
        begin = LENGTH_BYTES + length
        if begin > size:
            refuse(self.path, f"its header needs {begin:,} bytes, but the file has {size:,}")
        return begin, self._file.read(length), size - begin

    def __getitem__(self, name: str) -> np.ndarray:
        entry = self.entries[name]
        array = self._empty(name, entry)
        self._file.seek(self._begin + entry.start)
        count = self._file.readinto(array.reshape(-1).view(np.uint8).data)
        if count != array.nbytes:
            refuse(self.path, f"it ends within array {name!r}: it is truncated")
        if entry.dtype == "bool" and array.view(np.uint8).max(initial=0) > 1:
            refuse(self.path, f"array {name!r} of BOOL has bytes other than 0 and 1")
        return with_usual_dtype(array.astype(array.dtype.newbyteorder("="), copy=False))

    def _empty(self, name: str, entry: Entry) -> np.ndarray:
        dtype = numpy_dtype(entry.dtype, f"Array {name!r} of {self.path!r}")
        try:
            return np.empty(entry.shape, dtype.newbyteorder("<"))
        except ValueError as error:  # more axes or a longer axis than NumPy supports
            refuse(self.path, f"array {name!r} has shape {list(entry.shape)}: {error}")

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self.entries))

    def __len__(self) -> int:
        return len(self.entries)

    def __contains__(self, name: object) -> bool:
        return name in self.entries

    def close(self) -> None:
        """Close the file; arrays that were read remain valid."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def numpy_dtype(name: str, whose: str) -> np.dtype[Any]:
    """Return the NumPy dtype of this name; those of ml_dtypes need that package."""
    if name != "bfloat16" and not name.startswith("float8"):
        return np.dtype(name)
    try:
        library = importlib.import_module("ml_dtypes")
    except ImportError as error:
        raise DTypeError(
            f"{whose} has dtype {name}, which needs ml_dtypes, which is not installed. "
            "Run: pip install ml_dtypes."
        ) from error
    kind: Any = getattr(library, name, None)
    if kind is None:
        raise DTypeError(
            f"{whose} has dtype {name}, which needs a newer ml_dtypes than the one installed. "
            "Run: pip install --upgrade ml_dtypes."
        )
    dtype: np.dtype[Any] = np.dtype(kind)
    return dtype
