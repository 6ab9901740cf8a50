"""Paths of local files, and their errors under TensorFlow's names."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tapegrad.errors import (
    AlreadyExistsError,
    ArgumentTypeError,
    NotFoundError,
    PermissionDeniedError,
    UnimplementedError,
)


def local_path(path: Any, function: str) -> str:
    """Return a path as text, or raise an error that names the function."""
    if isinstance(path, bytes):
        path = os.fsdecode(path)
    try:
        found = os.fspath(path)
    except TypeError:
        raise ArgumentTypeError(
            f"{function} takes a path: text or a pathlib.Path. Got {type(path).__name__}."
        ) from None
    if "://" in found:
        raise UnimplementedError(
            f"{function} reads and writes local files. Got {found!r}; copy the file first, e.g. "
            "with keras.utils.get_file."
        )
    return str(found)


@contextmanager
def named_errors(path: str, function: str) -> Iterator[None]:
    """Raise errors of the operating system again under TensorFlow's names."""
    try:
        yield
    except FileNotFoundError as error:
        raise NotFoundError(f"{function}: there is no file or folder {path!r}.") from error
    except FileExistsError as error:
        raise AlreadyExistsError(f"{function}: {path!r} exists already.") from error
    except PermissionError as error:
        raise PermissionDeniedError(f"{function}: no permission for {path!r}.") from error
