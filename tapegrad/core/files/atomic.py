"""Atomic file replacement: a file is either the old one or the complete new one."""

from __future__ import annotations

import os
import re
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO

try:
    import fcntl

    _HAS_LOCKS = True
except ImportError:  # Windows has no file locks of this kind
    _HAS_LOCKS = False

StrPath = str | os.PathLike[str]
TEMPORARY = ".tmp"
"""The suffix of incomplete files."""

_TEMPORARY_NAME = re.compile(rf"\..+\.\d+-[0-9a-f]+{re.escape(TEMPORARY)}", re.DOTALL)
_EXCLUSIVE = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)
_ATTEMPTS = 100


@contextmanager
def replacing(
    path: StrPath, follow_links: bool = True, mode: int | None = None, durable: bool = True
) -> Iterator[BinaryIO]:
    """Open a temporary file that replaces `path` at the end of the block, unless it raises.

    If the path is a symbolic link, the file that it points to is replaced; without `follow_links`
    it is the link. The new file gets this `mode`, or that of the old file, or the usual one. If it
    is `durable`, it survives a power failure.

    A process that is killed leaves nothing where the file system has files without names, and
    otherwise a temporary file, which the next durable replacement in the folder removes.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with replacing(f"{folder}/note") as file:
    ...         _ = file.write(b"done")
    ...     Path(folder, "note").read_bytes()
    b'done'
    """
    target = Path(os.path.realpath(path) if follow_links else os.path.abspath(path))
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = temporary_name(target)
    with _opened_folder(target.parent) as folder:
        created = _mode_of(target) if mode is None else mode
        number, has_name = _open_new(temporary, folder, created)
        try:
            with open(number, "w+b") as file:
                yield file
                file.flush()
                if durable:
                    os.fsync(number)
                if not has_name:
                    # Because of the folder Python calls linkat, which follows such a link.
                    os.link(f"/proc/self/fd/{number}", temporary, src_dir_fd=folder)
                if _HAS_LOCKS:  # the open file is locked, so that no `sweep` removes it
                    os.replace(temporary, target)
            if not _HAS_LOCKS:
                os.replace(temporary, target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        if durable:
            sweep(target.parent)
            if folder is not None:  # the new name survives a power failure
                os.fsync(folder)


@contextmanager
def _opened_folder(path: Path) -> Iterator[int | None]:
    if os.name == "nt":  # Windows cannot open folders
        yield None
        return
    number = os.open(path, os.O_RDONLY)
    try:
        yield number
    finally:
        os.close(number)


def temporary_name(target: Path) -> Path:
    """Return a name beside the target that no other process uses, and that `sweep` recognises."""
    return target.with_name(f".{target.name[:200]}.{os.getpid()}-{token_hex(4)}{TEMPORARY}")


def _mode_of(target: Path) -> int | None:
    """The permissions of the old file: a file that its owner made private stays private."""
    with suppress(OSError):
        status = target.lstat()
        if stat.S_ISREG(status.st_mode):
            return stat.S_IMODE(status.st_mode) & 0o777
    return None


def _open_new(temporary: Path, folder: int | None, mode: int | None) -> tuple[int, bool]:
    """Create and lock a file; return its descriptor, and whether it already has its name."""
    created = 0o666 if mode is None else mode & 0o600
    found = _open_nameless(folder, created)
    number = _open_named(temporary, created) if found is None else found
    try:
        if mode is not None and hasattr(os, "fchmod"):
            os.fchmod(number, mode)
        lock(number)
    except BaseException:
        os.close(number)
        raise
    return number, found is None


def _open_nameless(folder: int | None, mode: int) -> int | None:
    """Create a file that vanishes with the process until it is linked; None if unsupported."""
    try:
        number = os.open(".", os.O_TMPFILE | os.O_RDWR, mode, dir_fd=folder)
    except (AttributeError, OSError):
        return None
    if os.path.exists(f"/proc/self/fd/{number}"):
        return number
    os.close(number)
    return None


def _open_named(temporary: Path, mode: int) -> int:
    for _ in range(_ATTEMPTS):
        number = os.open(temporary, _EXCLUSIVE, mode)
        if lock(number, waits=True) and not os.fstat(number).st_nlink:
            os.close(number)  # a `sweep` came between the creation and the lock
            continue
        return number
    raise FileExistsError(f"{temporary} is removed as soon as it is created.")


def _give_name(number: int, temporary: Path) -> None:
    folder = os.open(temporary.parent, os.O_RDONLY)
    try:  # with a folder, Python calls linkat, which follows the link of a descriptor
        os.link(f"/proc/self/fd/{number}", temporary, src_dir_fd=folder, follow_symlinks=True)
    finally:
        os.close(folder)


def lock(number: int, waits: bool = False) -> bool:
    """Lock an open file until the process ends; return whether that was possible."""
    if not _HAS_LOCKS:
        return False
    try:
        fcntl.flock(number, fcntl.LOCK_EX | (0 if waits else fcntl.LOCK_NB))
    except OSError:  # it is locked, or the file system has no locks
        return False
    return True


def sweep(folder: Path, folders: bool = False) -> None:
    """Remove the temporary files of processes that were killed; living ones hold a lock.

    With `folders`, remove temporary folders as well.
    """
    if not _HAS_LOCKS:
        return
    with suppress(OSError), os.scandir(folder) as entries:
        for name in [one.name for one in entries if _TEMPORARY_NAME.fullmatch(one.name)]:
            remove_abandoned(folder / name, folders)


def remove_abandoned(path: Path, folders: bool = False) -> None:
    """Remove a file, or a folder, unless a process holds its lock."""
    if not _HAS_LOCKS:
        return
    with suppress(OSError):
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            mode = os.fstat(number).st_mode
            if stat.S_ISREG(mode) and lock(number):
                path.unlink()
            elif folders and stat.S_ISDIR(mode) and lock(number):
                shutil.rmtree(path, ignore_errors=True)
        finally:
            os.close(number)
