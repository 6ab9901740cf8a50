"""Read and write HDF5 files through h5py, which is imported on first use."""

from __future__ import annotations

import importlib
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np

from tapegrad.core.files.atomic import StrPath, replacing
from tapegrad.core.values.convert import with_usual_dtype
from tapegrad.core.values.variable import Variable
from tapegrad.errors import ArgumentError, BackendUnavailableError, FileFormatError
from tapegrad.keras.saving.tensor_file import numpy_dtype
from tapegrad.keras.saving.tensor_header import Entry

SIGNATURE = b"\x89HDF\r\n\x1a\n"
SUFFIXES = (".h5", ".hdf5")
_MOST_OBJECTS = 1_000_000
_BYTES_OF_16 = ("bfloat16",)


class Group(NamedTuple):
    """The variables of one layer, or of an optimizer, and its name."""

    name: str
    variables: list[Variable]


def has_h5py() -> bool:
    """Return whether h5py can be imported."""
    try:
        importlib.import_module("h5py")
    except ImportError:
        return False
    return True


def h5py_for(path: StrPath) -> Any:
    """Import h5py, or raise an error that names the package and the file that needs it."""
    try:
        return importlib.import_module("h5py")
    except ImportError as error:
        raise BackendUnavailableError(
            f"{os.fspath(path)!r} is an HDF5 file, which needs the package h5py, which is not "
            "installed. Run: pip install h5py. Files that end in '.keras' or '.safetensors' need "
            "no other package."
        ) from error


def is_hdf5_name(path: StrPath) -> bool:
    """Return whether the name of a file ends as those of HDF5 files do.

    >>> is_hdf5_name("a.weights.h5"), is_hdf5_name("a.keras")
    (True, False)
    """
    return os.fspath(path).endswith(SUFFIXES)


def is_hdf5(path: StrPath) -> bool:
    """Return whether a file starts as HDF5 files do."""
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return file.read(len(SIGNATURE)) == SIGNATURE


@contextmanager
def writing(path: StrPath) -> Iterator[Any]:
    """Open an HDF5 file for writing; it replaces an old file when it is complete."""
    library = h5py_for(path)
    with replacing(path) as file, library.File(file, "w") as content:
        yield content


@contextmanager
def reading(path: StrPath, file: Any = None) -> Iterator[HDF5Arrays]:
    """Open an HDF5 file for reading; an open `file` may be a member of the archive at the path."""
    library, name = h5py_for(path), os.fspath(path)
    try:
        content = library.File(name if file is None else file, "r")
    except (OSError, RuntimeError, ValueError) as error:
        if file is None and not os.path.exists(name):
            raise ArgumentError(f"File {name!r} does not exist.") from error
        raise FileFormatError(
            f"{name!r} is not a readable HDF5 file: it is truncated, damaged or of another kind "
            f"({error})."
        ) from error
    with content:
        yield HDF5Arrays(name, content, library)


def put(group: Any, name: str, value: Any) -> Any:
    """Write an array; bfloat16, which HDF5 does not have, is marked as Keras does."""
    array = np.asarray(value)
    found = group.create_dataset(name, data=array)
    if array.dtype.name in _BYTES_OF_16:
        found.attrs["dtype"] = array.dtype.name
    return found


def texts(values: list[str]) -> Any:
    """Return texts as the value of an attribute."""
    return np.array(values, dtype=h5py_for("attributes").string_dtype())


class HDF5Arrays(Mapping[str, Any]):
    """The arrays of an open HDF5 file by path, each read on access.

    Links to other places, and arrays that claim more bytes than the file has, are refused.
    """

    def __init__(self, path: str, content: Any, library: Any) -> None:
        self.path, self._content, self._library = path, content, library
        self.entries: dict[str, Entry] = {}
        self.attributes: dict[str, dict[str, Any]] = {}
        self._size = int(content.id.get_filesize())
        with self._damage():
            self._visit("", content)

    @contextmanager
    def _damage(self) -> Iterator[None]:
        try:
            yield
        except FileFormatError:
            raise
        except (OSError, RuntimeError, ValueError, LookupError, TypeError) as error:
            raise FileFormatError(f"{self.path!r} is a damaged HDF5 file ({error}).") from error

    def _refuse(self, why: str) -> None:
        raise FileFormatError(f"{self.path!r} cannot be read: {why}.")

    def _visit(self, start: str, start_group: Any) -> None:
        waiting, seen = [(start, start_group)], 0
        while waiting:
            path, group = waiting.pop()
            self.attributes[path.rstrip("/")] = group.attrs
            for name in group:
                seen += 1
                if seen > _MOST_OBJECTS or path.count("/") > 100:
                    self._refuse("it has too many groups")
                if not isinstance(group.get(name, getlink=True), self._library.HardLink):
                    self._refuse(f"{path}{name} is a link to another place")
                value = group[name]
                if isinstance(value, self._library.Group):
                    waiting.append((f"{path}{name}/", value))
                elif isinstance(value, self._library.Dataset):
                    self.entries[path + name] = self._entry(path + name, value)
                else:
                    self._refuse(f"{path}{name} is neither a group nor an array")

    def _entry(self, name: str, value: Any) -> Entry:
        if value.shape is None:
            self._refuse(f"array {name!r} has no shape")
        if value.external or value.is_virtual:
            self._refuse(f"array {name!r} is stored in another file")
        needed = math.prod(value.shape) * value.dtype.itemsize
        if needed > self._size:
            self._refuse(f"array {name!r} claims {needed:,} bytes, which the file does not have")
        marked = value.attrs.get("dtype")
        dtype = marked if marked in _BYTES_OF_16 else value.dtype.name
        return Entry(dtype, tuple(int(n) for n in value.shape), 0, needed)

    def __getitem__(self, name: str) -> np.ndarray:
        entry = self.entries[name]
        with self._damage():
            array = np.asarray(self._content[name][()])
            if entry.dtype in _BYTES_OF_16:
                array = array.view(numpy_dtype(entry.dtype, f"Array {name!r} of {self.path!r}"))
        return with_usual_dtype(array.astype(array.dtype.newbyteorder("="), copy=False))

    def __iter__(self) -> Iterator[str]:
        return iter(sorted(self.entries))

    def __len__(self) -> int:
        return len(self.entries)

    def __contains__(self, name: object) -> bool:
        return name in self.entries

    def text(self, path: str, name: str) -> Any:
        """Return an attribute of a group: text, a list of texts, or None if it is absent."""
        with self._damage():
            value = self.attributes.get(path, {}).get(name)
            if value is None:
                return None
            if isinstance(value, bytes | str):
                return _as_text(value)
            return [_as_text(one) for one in np.asarray(value).reshape(-1).tolist()]


def _as_text(value: Any) -> str:
    return value.decode("utf-8") if isinstance(value, bytes) else str(value)
