"""Whole files: read and write their bytes."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from typing import Any

from tapegrad.errors import ArgumentTypeError
from tapegrad.io.paths import local_path, named_errors

Path = str | bytes | os.PathLike[str]


def read_file(filename: Path, name: str | None = None) -> bytes:
    """Return the content of a file as bytes; TensorFlow returns them as a string tensor.

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_file(os.path.join(folder, "words.txt"), "some words")
    ...     read_file(os.path.join(folder, "words.txt"))
    b'some words'
    """
    path = local_path(filename, "read_file")
    with named_errors(path, "read_file"), open(path, "rb") as file:
        return file.read()


def write_file(filename: Path, contents: Any, name: str | None = None) -> None:
    """Write bytes or text to a file, and make its folder if that does not exist.

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_file(os.path.join(folder, "new", "words.txt"), b"some words")
    ...     os.listdir(os.path.join(folder, "new"))
    ['words.txt']
    """
    path = local_path(filename, "write_file")
    if not isinstance(contents, str | bytes | bytearray | memoryview):
        raise ArgumentTypeError(
            f"write_file takes bytes or text as contents. Got {type(contents).__name__}."
        )
    data = contents.encode() if isinstance(contents, str) else bytes(contents)
    with named_errors(path, "write_file"):
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        with open(path, "wb") as file:
            file.write(data)


def matching_files(pattern: Path | Sequence[Path], name: str | None = None) -> list[str]:
    """Return the paths of the files that match a glob pattern or one of several, sorted.

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_file(os.path.join(folder, "a.txt"), "")
    ...     [os.path.basename(path) for path in matching_files(os.path.join(folder, "*.txt"))]
    ['a.txt']
    """
    patterns = list(pattern) if isinstance(pattern, list | tuple) else [pattern]
    found = [glob.glob(local_path(one, "matching_files")) for one in patterns]
    return sorted(path for paths in found for path in paths if os.path.isfile(path))
