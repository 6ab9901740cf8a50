"""Files that are either the old ones or complete new ones, whenever the process dies."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO

StrPath = str | os.PathLike[str]
TEMPORARY = ".tmp"
"""How the names of files end that are not complete yet."""


@contextmanager
def replacing(path: StrPath) -> Iterator[BinaryIO]:
    """Write a file that takes its place at the end of the block; on an error the old one stays.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(f"{folder}/note") as file:
    ...         _ = file.write(b"done")
    ...     Path(folder, "note").read_bytes()
    b'done'
    """
    target = Path(os.path.realpath(path))  # a link stays a link to the new file
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
    """Make a new name last through a power cut, as fsync does for the bytes."""
    if os.name == "nt":  # where folders cannot be opened
        return
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
