"""The on-disk cache of compiled loops."""

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
    """Return the user's cache folder, or a temporary one if other users could write to it.

    The libraries in it are code that will run, so only the user may have write access.
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
    """A folder that is removed when the process ends; a forked process gets another one."""
    path = tempfile.mkdtemp(prefix="tapegrad-")

    def remove() -> None:
        if os.getpid() == process:
            shutil.rmtree(path, ignore_errors=True)

    atexit.register(remove)
    return Path(path)


def find(key: str) -> Path | None:
    """Return the cached library of a key if it exists and is intact."""
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
    """Whether a file matches its digest; checked once per process unless the file changes."""
    content = path.read_bytes()
    return hashlib.sha256(content[:-_DIGEST]).digest() == content[-_DIGEST:]


def keep(library: Path, keys: Sequence[str]) -> None:
    """Store a library of the folder under every key, atomically.

    Its digest is appended, so that a damaged file is not loaded.
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
    """Return a path in the folder that no other process uses."""
    return folder() / f"new-{os.getpid()}-{uuid.uuid4().hex}.so"
