"""TensorFlow's `tf.io.gfile`: local files and folders."""

from __future__ import annotations

import glob as globs
import os
import shutil
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from tapegrad.absent import absence as _absence
from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.errors import AlreadyExistsError, ArgumentError
from tapegrad.io.paths import local_path, named_errors

__all__ = [
    "GFile",
    "copy",
    "exists",
    "glob",
    "isdir",
    "join",
    "listdir",
    "makedirs",
    "mkdir",
    "remove",
    "rename",
    "rmtree",
    "stat",
    "walk",
]

_MODES = ("r", "w", "a", "rb", "wb", "ab", "r+", "w+", "a+", "rb+", "wb+", "ab+")


class GFile:
    """A local file; text unless the mode has a "b". It is opened when it is first used.

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with GFile(os.path.join(folder, "words.txt"), "w") as file:
    ...         file.write("some words")
    ...     with GFile(os.path.join(folder, "words.txt")) as file:
    ...         file.read()
    'some words'
    """

    def __init__(self, name: Any, mode: str = "r") -> None:
        self._path = local_path(name, "GFile")
        if mode not in _MODES:
            raise ArgumentError(f"GFile takes one of the modes {', '.join(_MODES)}. Got {mode!r}.")
        self._mode = mode
        self._file: Any = None

    @property
    def name(self) -> str:
        """The path of the file."""
        return self._path

    @property
    def mode(self) -> str:
        """The mode in which the file is opened."""
        return self._mode

    def _opened(self) -> Any:
        if self._file is None:
            encoding = None if "b" in self._mode else "utf-8"
            with named_errors(self._path, "GFile"):
                self._file = open(self._path, self._mode, encoding=encoding)  # noqa: SIM115
        return self._file

    def read(self, n: int = -1) -> Any:
        """Return the next `n` characters or bytes, or all that are left."""
        return self._opened().read(n)

    def readline(self) -> Any:
        """Return the next line with its end."""
        return self._opened().readline()

    def readlines(self) -> list[Any]:
        """Return the lines that are left."""
        return list(self._opened())

    def write(self, file_content: Any) -> None:
        """Write text, or bytes if the mode has a "b"."""
        self._opened().write(file_content)

    def seek(self, offset: int, whence: int = 0) -> None:
        """Move to a position, counted as in Python's files."""
        self._opened().seek(offset, whence)

    def tell(self) -> int:
        """Return the position."""
        return int(self._opened().tell())

    def seekable(self) -> bool:
        """Return whether the position can be changed: always."""
        return True

    def size(self) -> int:
        """Return the length of the file in bytes."""
        self.flush()
        with named_errors(self._path, "GFile"):
            return os.path.getsize(self._path)

    def flush(self) -> None:
        """Write what is buffered."""
        if self._file is not None:
            self._file.flush()

    def close(self) -> None:
        """Close the file. It is opened again when it is used again."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def __iter__(self) -> Iterator[Any]:
        return iter(self._opened())

    def __enter__(self) -> GFile:
        if self._mode[0] in "wa":
            self._opened()  # so that the file exists although nothing is written
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def exists(path: Any) -> bool:
    """Return whether there is a file or a folder.

    >>> exists("no such file")
    False
    """
    return os.path.exists(local_path(path, "gfile.exists"))


def isdir(path: Any) -> bool:
    """Return whether there is a folder.

    >>> isdir(".")
    True
    """
    return os.path.isdir(local_path(path, "gfile.isdir"))


def listdir(path: Any) -> list[str]:
    """Return the names in a folder.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     makedirs(join(folder, "images"))
    ...     listdir(folder)
    ['images']
    """
    found = local_path(path, "gfile.listdir")
    with named_errors(found, "gfile.listdir"):
        return os.listdir(found)


def glob(pattern: Any) -> list[str]:
    """Return the paths that match a pattern or one of several.

    >>> glob("no such folder/*")
    []
    """
    patterns = list(pattern) if isinstance(pattern, list | tuple) else [pattern]
    return [path for one in patterns for path in globs.glob(local_path(one, "gfile.glob"))]


def mkdir(path: Any) -> None:
    """Make a folder in one that exists.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     mkdir(join(folder, "images"))
    ...     isdir(join(folder, "images"))
    True
    """
    found = local_path(path, "gfile.mkdir")
    with named_errors(found, "gfile.mkdir"):
        os.mkdir(found)


def makedirs(path: Any) -> None:
    """Make a folder and those around it; folders that exist stay as they are.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     makedirs(join(folder, "images", "small"))
    ...     isdir(join(folder, "images", "small"))
    True
    """
    found = local_path(path, "gfile.makedirs")
    with named_errors(found, "gfile.makedirs"):
        os.makedirs(found, exist_ok=True)


def join(path: Any, *paths: Any) -> str:
    """Return a path made of parts.

    >>> join("folder", "file.txt").replace("\\\\", "/")
    'folder/file.txt'
    """
    return os.path.join(*[local_path(part, "gfile.join") for part in (path, *paths)])


def remove(path: Any) -> None:
    """Remove a file.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with GFile(join(folder, "a.txt"), "w"):
    ...         pass
    ...     remove(join(folder, "a.txt"))
    ...     listdir(folder)
    []
    """
    found = local_path(path, "gfile.remove")
    with named_errors(found, "gfile.remove"):
        os.remove(found)


def rmtree(path: Any) -> None:
    """Remove a folder and everything in it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     makedirs(join(folder, "images", "small"))
    ...     rmtree(join(folder, "images"))
    ...     listdir(folder)
    []
    """
    found = local_path(path, "gfile.rmtree")
    with named_errors(found, "gfile.rmtree"):
        shutil.rmtree(found)


def rename(src: Any, dst: Any, overwrite: bool = False) -> None:
    """Rename or move a file or a folder.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     mkdir(join(folder, "old"))
    ...     rename(join(folder, "old"), join(folder, "new"))
    ...     listdir(folder)
    ['new']
    """
    _transfer(os.replace, src, dst, overwrite, "gfile.rename")


def copy(src: Any, dst: Any, overwrite: bool = False) -> None:
    """Copy a file.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with GFile(join(folder, "a.txt"), "w") as file:
    ...         file.write("some words")
    ...     copy(join(folder, "a.txt"), join(folder, "b.txt"))
    ...     sorted(listdir(folder))
    ['a.txt', 'b.txt']
    """
    _transfer(shutil.copyfile, src, dst, overwrite, "gfile.copy")


def _transfer(
    action: Callable[[str, str], Any], src: Any, dst: Any, overwrite: bool, function: str
) -> None:
    source, target = local_path(src, function), local_path(dst, function)
    if os.path.exists(target) and not overwrite:
        raise AlreadyExistsError(f"{function}: {target!r} exists already. Give overwrite=True.")
    with named_errors(source, function):
        action(source, target)


def stat(path: Any) -> os.stat_result:
    """Return what the system knows about a file; TensorFlow's `length` is `st_size` here.

    >>> stat(".").st_size >= 0
    True
    """
    found = local_path(path, "gfile.stat")
    with named_errors(found, "gfile.stat"):
        return os.stat(found)


def walk(top: Any, topdown: bool = True) -> Iterator[tuple[str, list[str], list[str]]]:
    """Return an iterator over a folder and those in it: path, names of folders, names of files.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     mkdir(join(folder, "images"))
    ...     [(folders, files) for _, folders, files in walk(folder)]
    [(['images'], []), ([], [])]
    """
    return os.walk(local_path(top, "gfile.walk"), topdown)


_check_calls(globals(), __all__)


if not TYPE_CHECKING:  # type checkers report names that do not exist

    def __getattr__(name: str) -> Any:
        raise _absence("io.gfile", name)
