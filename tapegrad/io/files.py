"""Whole files: read and write their bytes."""

from __future__ import annotations

import glob
import os
from typing import Any

import numpy as np

from tapegrad.core.values.strings import StringTensor, string_tensor, text_array
from tapegrad.core.values.variable import Variable
from tapegrad.errors import ArgumentTypeError
from tapegrad.io.paths import local_path, named_errors


def read_file(filename: Any, name: str | None = None) -> StringTensor:
    """Return the content of a file as a string tensor.

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_file(os.path.join(folder, "words.txt"), "some words")
    ...     read_file(os.path.join(folder, "words.txt")).numpy()
    b'some words'
    """
    path = local_path(filename, "read_file")
    with named_errors(path, "read_file"), open(path, "rb") as file:
        return string_tensor(file.read())


def write_file(filename: Any, contents: Any, name: str | None = None) -> None:
    """Write bytes or text to a file, and make its folder if that does not exist.

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_file(os.path.join(folder, "new", "words.txt"), b"some words")
    ...     os.listdir(os.path.join(folder, "new"))
    ['words.txt']
    """
    path = local_path(filename, "write_file")
    if not isinstance(contents, str | bytes | bytearray | memoryview | StringTensor):
        raise ArgumentTypeError(
            f"write_file takes bytes or text as contents. Got {type(contents).__name__}."
        )
    data = contents.encode() if isinstance(contents, str) else bytes(contents)
    with named_errors(path, "write_file"):
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        with open(path, "wb") as file:
            file.write(data)


def matching_files(pattern: Any, name: str | None = None) -> StringTensor:
    """Return the paths of the files that match a glob pattern or one of several, sorted.

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_file(os.path.join(folder, "a.txt"), "")
    ...     found = matching_files(os.path.join(folder, "*.txt")).tolist()
    ...     [os.path.basename(path) for path in found]
    [b'a.txt']
    """
    found = np.empty(len(paths := files_matching(pattern, "matching_files")), object)
    found[:] = [os.fsencode(path) for path in paths]
    return string_tensor(found)


def match_filenames_once(pattern: Any, name: str | None = None) -> Any:
    """Return a variable with the paths of the files that match now.

    >>> match_filenames_once("no such folder/*").shape
    (0,)
    """
    return Variable(matching_files(pattern), trainable=False, name=name or "matching_filenames")


def files_matching(pattern: Any, function: str) -> list[str]:
    """Return the paths of the files that match glob patterns, sorted.

    >>> files_matching("no such folder/*", "list_files")
    []
    """
    found = [glob.glob(path) for path in paths_in(pattern, function)]
    return sorted({path for paths in found for path in paths if os.path.isfile(path)})


def paths_in(value: Any, function: str) -> list[str]:
    """Return one path, or a list or a string tensor of them, as a list of text.

    >>> paths_in(["a", "b"], "list_files")
    ['a', 'b']
    """
    if isinstance(value, StringTensor | np.ndarray):
        value = [os.fsdecode(one) for one in text_array(value).ravel().tolist()]
    several = list(value) if isinstance(value, list | tuple) else [value]
    return [local_path(one, function) for one in several]
