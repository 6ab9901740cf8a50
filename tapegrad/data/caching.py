"""Caches: the elements of the first complete pass, kept in memory or in a file.

The file is a NumPy .npz archive with one entry per array; reading it runs no code.
"""

from __future__ import annotations

import json
import math
import os
import tempfile
import threading
import weakref
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from glob import escape
from pathlib import Path
from typing import Any

import numpy as np

from tapegrad.core.files.atomic import lock, remove_abandoned
from tapegrad.core.files.formats import member_problem, parse_json
from tapegrad.core.values import nest
from tapegrad.core.values.dtypes import as_dtype
from tapegrad.data.plan import (
    END,
    ListRows,
    Passing,
    Plan,
    Rows,
    RowSource,
    Run,
    Source,
    State,
    refuse_beyond,
)
from tapegrad.data.structure import Nested
from tapegrad.errors import ArgumentError, ArgumentTypeError, FileFormatError, OutOfMemoryError

_FORMAT = "tapegrad dataset 1"
MOST_ARRAYS = 2**27
_PARTIAL = ".partial"


class Cache(Passing):
    """Passes on the elements of the input and computes them only once.

    It has no `rows`, even when all elements are cached: the meaning of a state must not depend on
    how much is cached when the state is used.
    """

    step = "cache"

    def __init__(self, plan: Plan, store: InMemory | InFile) -> None:
        super().__init__(plan)
        self._store = store

    def open(self, run: Run, state: State | None) -> Source:
        host = run.on_host()
        if run.peeks:
            return self._input.start(host)
        at = 0 if state is None else state["at"]
        first = self.memory if state is None else state["first"]
        rows = self._store.rows()
        if rows is not None:
            return RowSource(self.step, rows, at, {"first": first})
        if state is not None and state.get("input") is not None:
            # The earlier elements are missing, so this pass cannot fill the cache.
            return _CachingSource(self, self._input.start(host, state["input"]), None, at, first)
        begun = self._input.start(host, first)
        source = _CachingSource(self, begun, self._store.begin(), 0, begun.state())
        for _ in range(at):
            if source.next() is END:
                refuse_beyond(self.step)
        return source

    def size(self) -> int:
        rows = self._store.rows()
        return self._input.size() if rows is None else len(rows)


class _CachingSource(Source):
    """Passes elements on and stores them; `first` is the state of the input before the pass."""

    def __init__(
        self,
        plan: Cache,
        source: Source,
        keeper: _ListKeeper | _FileKeeper | None,
        at: int,
        first: State | None,
    ) -> None:
        self._plan = plan
        self._source = source
        self._keeper = keeper
        self._at = at
        self._first = first

    def next(self) -> Any:
        try:
            element = self._source.next()
            if element is not END and self._keeper is not None:
                self._keeper.add(element)
        except BaseException:
            self._abandon()  # an incomplete pass is not kept
            raise
        if element is not END:
            self._at += 1
            return element
        self._plan.memory = self._first
        if self._keeper is not None:
            self._keeper.finish()
            self._keeper = None
        return END

    def state(self) -> State:
        inside = {"first": self._first, "input": self._source.state()}
        return {"step": "cache", "at": self._at, **inside}

    def _abandon(self) -> None:
        if self._keeper is not None:
            self._keeper.abandon()
            self._keeper = None

    def close(self) -> None:
        self._abandon()
        self._source.close()


# Memory


class InMemory:
    """Keeps elements in a list; has `rows` after a complete pass."""

    kept: Rows | None = None

    def rows(self) -> Rows | None:
        return self.kept

    def begin(self) -> _ListKeeper:
        return _ListKeeper(self)


class _ListKeeper:
    """Collects the elements of one pass, and stores them when it is complete."""

    def __init__(self, store: InMemory) -> None:
        self._store = store
        self._elements: list[Any] = []

    def add(self, element: Any) -> None:
        self._elements.append(element)

    def finish(self) -> None:
        self._store.kept = ListRows(self._elements)

    def abandon(self) -> None:
        self._elements = []


# A file


class InFile:
    """Keeps elements in a .npz file, which later processes reuse."""

    def __init__(self, filename: str | os.PathLike[str]) -> None:
        path = Path(os.fspath(filename))
        self._path = path if path.suffix == ".npz" else path.with_name(path.name + ".npz")
        self._found: Rows | None = None
        self._lock = threading.Lock()

    def rows(self) -> Rows | None:
        with self._lock:
            if self._found is None and self._path.exists():
                self._found = _FileRows(self._path)
            return self._found

    def begin(self) -> _FileKeeper:
        return _FileKeeper(self._path)


def snapshot_in(folder: str | os.PathLike[str]) -> InFile:
    """Return the store of a snapshot: a file in a folder, which is made if it is missing."""
    path = Path(os.fspath(folder))
    if path.exists() and not path.is_dir():
        raise ArgumentError(f"snapshot() writes to a folder, and {str(path)!r} is a file.")
    path.mkdir(parents=True, exist_ok=True)
    return InFile(path / "elements.npz")


class _FileKeeper:
    """Writes to a temporary file next to the cache, and renames it when it is complete."""

    def __init__(self, path: Path) -> None:
        for left in path.parent.glob(f"{escape(path.name)}*{_PARTIAL}"):
            remove_abandoned(left)  # the process that wrote it was killed
        self._path = path
        handle, self._partial = _new_file(path)
        self._archive = zipfile.ZipFile(os.fdopen(handle, "wb"), "w", zipfile.ZIP_STORED)
        self._forget = weakref.finalize(self, _remove, self._archive, self._partial)
        self.count = 0
        self._structure: Any = None

    def add(self, element: Any) -> None:
        structure = _described(element)
        if self._structure is None:
            self._structure = structure
        elif structure != self._structure:
            raise ArgumentError(
                "cache to a file needs elements of one structure. Element 0 is "
                f"{self._structure}, element {self.count} is {structure}."
            )
        for place, leaf in enumerate(nest.flatten(element)):
            self._write(f"{self.count}.{place}", leaf)
        self.count += 1

    def _write(self, name: str, array: np.ndarray) -> None:
        if array.dtype.name == "bfloat16":  # NumPy's files store it as two raw bytes
            array = array.view(np.uint16)
        if array.dtype.kind == "O":
            array = _as_fixed_width(array)
        with self._archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
            np.lib.format.write_array(entry, np.asarray(array), allow_pickle=False)

    def finish(self) -> None:
        head = {"format": _FORMAT, "count": self.count, "structure": self._structure}
        self._write("head", np.asarray(json.dumps(head)))
        underlying: Any = self._archive.fp
        self._archive.close()
        os.replace(self._partial, self._path)
        underlying.close()  # and gives up its lock
        self._forget.detach()

    def abandon(self) -> None:
        self._forget()


def _new_file(path: Path) -> tuple[int, Path]:
    """Create and lock a temporary file beside a path."""
    while True:
        handle, name = tempfile.mkstemp(suffix=_PARTIAL, prefix=path.name, dir=path.parent)
        if not lock(handle, waits=True) or os.fstat(handle).st_nlink:
            return handle, Path(name)
        os.close(handle)  # another process took it for an abandoned one


def _remove(archive: zipfile.ZipFile, path: Path) -> None:
    underlying = archive.fp
    archive.close()
    if underlying is not None:
        underlying.close()
    with suppress(FileNotFoundError):
        path.unlink()


def _described(element: Any) -> Any:
    """Return the structure of an element for JSON; a leaf becomes the name of its dtype."""
    if type(element) is tuple:
        return [_described(part) for part in element]
    if type(element) is dict and all(isinstance(key, str) for key in element):
        return {key: _described(part) for key, part in element.items()}
    if isinstance(element, Nested | tuple | dict):
        raise ArgumentTypeError(
            "cache to a file takes tuples of arrays, and dictionaries whose keys are strings. An "
            f"element holds a {type(element).__name__}; use cache() to keep the elements in memory."
        )
    return str(as_dtype(element.dtype).name)


def _as_fixed_width(texts: np.ndarray) -> np.ndarray:
    """Return texts as bytes of one width; each gets a last byte: NumPy drops trailing zeros."""
    return np.array([text + _END_OF_TEXT for text in texts.ravel()], np.bytes_).reshape(texts.shape)


_END_OF_TEXT = b"\x03"


def _as_stored(array: np.ndarray, dtype: np.dtype[Any]) -> np.ndarray:
    """Undo what `_write` does to text and to bfloat16."""
    if dtype.kind != "O":
        return array if array.dtype == dtype else array.view(dtype)
    texts = np.empty(array.shape, object)
    texts.ravel()[:] = [text[:-1] for text in array.ravel().tolist()]
    return texts


class _FileRows(Rows):
    """The elements of a file, each read on demand."""

    def __init__(self, path: Path) -> None:
        self._path = path
        opened = path.open("rb")
        self._close = weakref.finalize(self, opened.close)
        with self._reading():
            self._file = zipfile.ZipFile(opened)
            problem = member_problem(self._file, path.stat().st_size, MOST_ARRAYS)
            if problem is not None:
                raise ValueError(problem)
            head = parse_json(str(self._array("head")), str(path), "its head")
            self._structure = _restored(head["structure"])
            self._dtypes = [as_dtype(name).dtype for name in nest.flatten(self._structure)]
            self._count = int(head["count"])
            arrays = 1 + self._count * len(self._dtypes)
            found = len(self._file.infolist())
            if head["format"] != _FORMAT or (self._count and found != arrays):
                raise ValueError(head)

    @contextmanager
    def _reading(self) -> Iterator[None]:
        try:
            yield
        except MemoryError as error:
            self._close()
            raise OutOfMemoryError(
                f"{self._path} cannot be read: the memory does not suffice, or the file is damaged "
                "and asks for too much."
            ) from error
        except Exception as error:  # NumPy's reader alone has a dozen kinds
            self._close()
            raise FileFormatError(
                f"{self._path} is not a cache of a tapegrad dataset, or it is damaged. Remove it, "
                "or give cache another filename."
            ) from error

    def __len__(self) -> int:
        return self._count

    def at(self, index: int) -> Any:
        leaves = []
        with self._reading():
            for place, dtype in enumerate(self._dtypes):
                array = self._array(f"{index}.{place}")
                leaves.append(_as_stored(array, dtype))
        return nest.pack_sequence_as(self._structure, leaves)

    def _array(self, name: str) -> np.ndarray:
        """Read an array; its shape is compared with the size of its entry first."""
        info = self._file.getinfo(f"{name}.npy")
        entry: Any
        with self._file.open(info) as entry:
            version = np.lib.format.read_magic(entry)
            read_header = _HEADERS[version]
            shape, is_fortran, dtype = read_header(entry)
            size = math.prod(shape) * dtype.itemsize
            if dtype.hasobject or entry.tell() + size != info.file_size:
                raise ValueError(f"{name} has a damaged header")
            array = np.empty(shape, dtype, order="F" if is_fortran else "C")
            content = array.reshape(-1, order="A").view(np.uint8) if size else array
            if size and entry.readinto(content.data) != size:
                raise ValueError(f"{name} is truncated")
        return array


_HEADERS = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def _restored(structure: Any) -> Any:
    if isinstance(structure, list):
        return tuple(_restored(part) for part in structure)
    if isinstance(structure, dict):
        return {key: _restored(part) for key, part in structure.items()}
    return structure
