"""Caches: the elements of the first whole pass, kept in memory or in a file.

The file is NumPy's .npz, one entry per array: it holds numbers only and runs no code when read.
"""

from __future__ import annotations

import json
import os
import tempfile
import threading
import weakref
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np

from tapegrad.core import nest
from tapegrad.core.dtypes import numpy_dtype
from tapegrad.data.plan import END, Plan, Rows, RowSource, Run, Source, State
from tapegrad.data.structure import Nested
from tapegrad.errors import ArgumentError, ArgumentTypeError

_FORMAT = "tapegrad dataset 1"


class Store(ABC):
    """Where elements are kept."""

    @abstractmethod
    def rows(self) -> Rows | None:
        """Return all elements, if they have been kept."""

    @abstractmethod
    def begin(self) -> Keeper:
        """Return somebody who takes the elements of a pass."""


class Keeper(ABC):
    """Takes the elements of one pass."""

    @abstractmethod
    def add(self, element: Any) -> None:
        """Take the next element."""

    @abstractmethod
    def finish(self) -> None:
        """Keep what has been taken, as that was all."""

    @abstractmethod
    def abandon(self) -> None:
        """Forget what has been taken."""


class Cache(Plan):
    """The input's elements, which are computed once only.

    It offers no `rows`, not even when all elements are there: what states mean must not depend
    on how much is cached when they are used.
    """

    step = "cache"

    def __init__(self, plan: Plan, store: Store) -> None:
        self._input = plan
        self._store = store

    def open(self, run: Run, state: State | None) -> Source:
        host = run.on_host()
        if run.peeks:
            return self._input.start(host)
        rows = self._store.rows()
        if rows is not None:
            return RowSource(self.step, rows, 0 if state is None else state["at"])
        if state is not None and state.get("input") is not None:
            # The elements before are not here, so this pass cannot fill the cache.
            return _Kept(self._input.start(host, state["input"]), None, state["at"])
        source = _Kept(self._input.start(host), self._store.begin(), 0)
        for _ in range(0 if state is None else state["at"]):
            source.next()
        return source

    def size(self) -> int:
        rows = self._store.rows()
        return self._input.size() if rows is None else len(rows)

    def spec(self) -> Any:
        return self._input.spec()


class _Kept(Source):
    """Passes elements on and has them kept."""

    def __init__(self, source: Source, keeper: Keeper | None, at: int) -> None:
        self._source = source
        self._keeper = keeper
        self._at = at

    def next(self) -> Any:
        element = self._source.next()
        if element is not END:
            self._at += 1
            if self._keeper is not None:
                self._keeper.add(element)
        elif self._keeper is not None:
            self._keeper.finish()
            self._keeper = None
        return element

    def state(self) -> State:
        return {"step": "cache", "at": self._at, "input": self._source.state()}

    def close(self) -> None:
        if self._keeper is not None:
            self._keeper.abandon()
            self._keeper = None
        self._source.close()


# Memory


class InMemory(Store):
    """Keeps elements in a list."""

    def __init__(self) -> None:
        self._elements: list[Any] | None = None

    def rows(self) -> Rows | None:
        return None if self._elements is None else _KeptRows(self._elements)

    def begin(self) -> Keeper:
        return _ListKeeper(self._keep)

    def _keep(self, elements: list[Any]) -> None:
        self._elements = elements


class _KeptRows(Rows):
    def __init__(self, elements: list[Any]) -> None:
        self._elements = elements

    def __len__(self) -> int:
        return len(self._elements)

    def at(self, index: int) -> Any:
        return self._elements[index]


class _ListKeeper(Keeper):
    def __init__(self, keep: Callable[[list[Any]], None]) -> None:
        self._keep = keep
        self._elements: list[Any] = []

    def add(self, element: Any) -> None:
        self._elements.append(element)

    def finish(self) -> None:
        self._keep(self._elements)

    def abandon(self) -> None:
        self._elements = []


# A file


class InFile(Store):
    """Keeps elements in a .npz file, which later programs find."""

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

    def begin(self) -> Keeper:
        return _FileKeeper(self._path)


class _FileKeeper(Keeper):
    """Writes to a file beside the one that is wanted, and renames it when it is whole."""

    def __init__(self, path: Path) -> None:
        self._path = path
        handle, name = tempfile.mkstemp(suffix=".partial", prefix=path.name, dir=path.parent)
        self._partial = Path(name)
        self._archive = zipfile.ZipFile(os.fdopen(handle, "wb"), "w", zipfile.ZIP_STORED)
        self._forget = weakref.finalize(self, _remove, self._archive, self._partial)
        self._count = 0
        self._structure: Any = None

    def add(self, element: Any) -> None:
        structure = _described(element)
        if self._structure is None:
            self._structure = structure
        elif structure != self._structure:
            raise ArgumentError(
                "cache to a file needs elements that are built alike. Element 0 is "
                f"{self._structure}, element {self._count} is {structure}."
            )
        for place, leaf in enumerate(nest.flatten(element)):
            self._write(f"{self._count}.{place}", leaf)
        self._count += 1

    def _write(self, name: str, array: np.ndarray[Any, Any]) -> None:
        if array.dtype.name == "bfloat16":  # NumPy's files know it as two bytes only
            array = array.view(np.uint16)
        with self._archive.open(f"{name}.npy", "w", force_zip64=True) as entry:
            np.lib.format.write_array(entry, np.asarray(array), allow_pickle=False)

    def finish(self) -> None:
        head = {"format": _FORMAT, "count": self._count, "structure": self._structure}
        self._write("head", np.asarray(json.dumps(head)))
        underlying = self._archive.fp
        self._archive.close()
        assert underlying is not None
        underlying.close()
        os.replace(self._partial, self._path)
        self._forget.detach()

    def abandon(self) -> None:
        self._forget()


def _remove(archive: zipfile.ZipFile, path: Path) -> None:
    underlying = archive.fp
    archive.close()
    if underlying is not None:
        underlying.close()
    with suppress(FileNotFoundError):
        path.unlink()


def _described(element: Any) -> Any:
    """The structure of an element as JSON can hold it: a leaf is the name of its dtype."""
    if type(element) is tuple:
        return [_described(part) for part in element]
    if type(element) is dict and all(isinstance(key, str) for key in element):
        return {key: _described(part) for key, part in element.items()}
    if isinstance(element, Nested | tuple | dict):
        raise ArgumentTypeError(
            "cache to a file takes tuples of arrays, and dictionaries whose keys are texts. An "
            f"element holds a {type(element).__name__}; use cache() to keep it in memory."
        )
    return str(element.dtype.name)


class _FileRows(Rows):
    """The elements in a file, each read when it is asked for."""

    def __init__(self, path: Path) -> None:
        opened = path.open("rb")
        self._close = weakref.finalize(self, opened.close)
        try:
            self._file = np.load(opened, allow_pickle=False)
            head = json.loads(str(self._file["head"]))
            if head["format"] != _FORMAT:
                raise ValueError(head["format"])
        except (ValueError, LookupError, TypeError, EOFError, zipfile.BadZipFile) as error:
            self._close()
            raise ArgumentError(
                f"{path} is no cache of a tapegrad dataset, or a damaged one. Remove it, or give "
                "cache another name."
            ) from error
        self._count = head["count"]
        self._structure = _restored(head["structure"])
        self._dtypes = [numpy_dtype(name) for name in nest.flatten(self._structure)]

    def __len__(self) -> int:
        return int(self._count)

    def at(self, index: int) -> Any:
        leaves = []
        for place, dtype in enumerate(self._dtypes):
            array = self._file[f"{index}.{place}"]
            leaves.append(array if array.dtype == dtype else array.view(dtype))
        return nest.pack_sequence_as(self._structure, leaves)


def _restored(structure: Any) -> Any:
    if isinstance(structure, list):
        return tuple(_restored(part) for part in structure)
    if isinstance(structure, dict):
        return {key: _restored(part) for key, part in structure.items()}
    return structure
