"""Atomic file replacement: a file is either the old one or the complete new one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO

StrPath = str | os.PathLike[str]
TEMPORARY = ".tmp"
"""The suffix of incomplete files."""


@contextmanager
def replacing(path: StrPath) -> Iterator[BinaryIO]:
    """Open a temporary file that replaces `path` at the end of the block, unless it raises.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(f"{folder}/note") as file:
    ...         _ = file.write(b"done")
    ...     Path(folder, "note").read_bytes()
    b'done'
    """
    target = Path(os.path.realpath(path))  # a symbolic link is kept and points to the new file
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.with_name(f".{target.name}.{os.getpid()}-{token_hex(4)}{TEMPORARY}")
    try:
        with open(temporary, "xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    _sync_folder(target.parent)


def _sync_folder(folder: Path) -> None:
    """Flush the directory entry to disk, so that a new name survives a power failure."""
    if os.name == "nt":  # Windows cannot open folders
        return
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
