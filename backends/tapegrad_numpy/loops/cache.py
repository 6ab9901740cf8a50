"""The folder where compiled loops are kept from one process to the next."""

from __future__ import annotations

import atexit
import contextlib
import functools
import hashlib
import os
import shutil
import stat
import tempfile
import uuid
from collections.abc import Sequence
from pathlib import Path

_DIGEST = 32


def folder() -> Path:
    """The user's own folder; one that only this process uses if others could change that.

    A library in it is code that will run: nobody else may be able to write there.
    """
    path = _wanted()
    with contextlib.suppress(OSError):
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        if _is_private(path):
            return path
    return _own_folder(os.getpid())


def _wanted() -> Path:
    chosen = os.environ.get("TAPEGRAD_CACHE")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "tapegrad"


def _is_private(path: Path) -> bool:
    status = path.lstat()
    mine = status.st_uid == os.getuid() and stat.S_ISDIR(status.st_mode)
    return mine and not status.st_mode & 0o022 and os.access(path, os.W_OK | os.X_OK)


@functools.cache
def _own_folder(process: int) -> Path:
    """A folder that is removed at the end of the process; a forked one gets its own."""
    path = tempfile.mkdtemp(prefix="tapegrad-")

    def remove() -> None:
        if os.getpid() == process:
            shutil.rmtree(path, ignore_errors=True)

    atexit.register(remove)
    return Path(path)


def find(key: str) -> Path | None:
    """The library kept under a key, if it is there and as it was written."""
    path = folder() / f"{key}.so"
    try:
        status = path.stat()
        if _is_sound(path, status.st_ino, status.st_size, status.st_mtime_ns):
            return path
        path.unlink()
    except OSError:
        pass
    return None


@functools.lru_cache(maxsize=256)
def _is_sound(path: Path, inode: int, size: int, changed: int) -> bool:
    """Whether a file is as it was written; read once in a process, unless it changes."""
    content = path.read_bytes()
    return hashlib.sha256(content[:-_DIGEST]).digest() == content[-_DIGEST:]


def keep(library: Path, keys: Sequence[str]) -> None:
    """Keep a library, which lies in the folder, under every key; at once or not at all.

    Its digest is written behind it, so that a file that got damaged is not loaded.
    """
    with library.open("ab") as file:
        file.write(hashlib.sha256(library.read_bytes()).digest())
    for key in keys:
        name = fresh_name()
        try:
            os.link(library, name)
        except OSError:
            shutil.copy(library, name)
        os.replace(name, folder() / f"{key}.so")
    library.unlink()


def fresh_name() -> Path:
    """A path in the folder that no other process uses."""
    return folder() / f"new-{os.getpid()}-{uuid.uuid4().hex}.so"
