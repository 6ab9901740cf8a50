"""Cache folders with files that become running code: only this user may write to them.

Files are created with mode 0600 in folders of mode 0700. Before a file is used, the owner and the
mode of the folder and of the file are checked, and the content is compared with its digest.
"""

from __future__ import annotations

import atexit
import functools
import hashlib
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from secrets import token_hex

from tapegrad.core.files.atomic import TEMPORARY, lock, replacing, sweep

_DIGEST = 32
_SECONDS_BETWEEN_MARKS = 3600
_DAY = 24 * 3600


class PrivateCache:
    """Files by key, in the folder `name` of the user's cache folder, or in the one that is given.

    At most `most_bytes` are kept, and no file that was not used for `most_days`: those that were
    used least recently are removed first.
    """

    def __init__(
        self, variable: str, name: str, suffix: str, most_bytes: int, most_days: int
    ) -> None:
        self._variable, self._name, self._suffix = variable, name, suffix
        self.most_bytes, self.most_days = most_bytes, most_days
        self._unchecked = most_bytes  # the first file that is kept starts a check

    def folder(self) -> Path:
        """Return the folder, or a temporary one if there is none that only this user can use."""
        wanted = self._wanted()
        if wanted is not None:
            with suppress(OSError):
                make_private_folder(wanted)
                if is_private_folder(wanted):
                    return wanted
        return process_folder(self._name)

    def _wanted(self) -> Path | None:
        chosen = os.environ.get(self._variable)
        if chosen:
            return Path(chosen).absolute()
        base = user_cache_folder()
        return None if base is None else base / self._name

    def find(self, key: str) -> Path | None:
        """Return the file of a key if only this user could have written it and it is intact.

        Every other file of this name is removed.
        """
        path = self.folder() / f"{key}{self._suffix}"
        try:
            status = path.lstat()
            if is_private_file(status) and _is_intact(
                path, status.st_ino, status.st_size, status.st_mtime_ns
            ):
                _mark_as_used(path, status)
                return path
            path.unlink()
        except OSError:
            pass
        return None

    def keep(self, content: bytes, keys: list[str]) -> None:
        """Store a content with its digest under every key, atomically; it takes space once."""
        folder, first = self.folder(), None
        for key in keys:
            path = folder / f"{key}{self._suffix}"
            if first is None or not _link(first, path):
                with replacing(path, follow_links=False, mode=0o600, durable=False) as file:
                    file.write(content)
                    file.write(hashlib.sha256(content).digest())
            first = first or path
        self._unchecked += len(content)
        if self._unchecked > self.most_bytes // 16:
            self._unchecked = 0
            self.prune()

    @contextmanager
    def scratch(self) -> Iterator[Path]:
        """Yield an empty folder of mode 0700 for one compilation, which is removed at the end."""
        parent = self.folder()
        path, number = _make_scratch(parent)
        try:
            yield path
        finally:
            shutil.rmtree(path, ignore_errors=True)
            os.close(number)

    def prune(self) -> None:
        """Remove what killed processes left, files that are old, and files beyond the limit."""
        folder = self.folder()
        sweep(folder, folders=True)
        oldest = time.time() - self.most_days * _DAY
        found = []
        with suppress(OSError), os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.endswith(self._suffix):
                    with suppress(OSError):
                        found.append((entry.stat(follow_symlinks=False), entry.path))
        found.sort(key=lambda one: -max(one[0].st_atime, one[0].st_mtime))  # latest use first
        total, counted = 0, set()
        for status, path in found:
            if status.st_ino not in counted:  # several names may share one content
                counted.add(status.st_ino)
                total += status.st_size
            last = max(status.st_atime, status.st_mtime)
            if total > self.most_bytes or last < oldest:
                with suppress(OSError):
                    os.unlink(path)


def user_cache_folder() -> Path | None:
    """Return $XDG_CACHE_HOME or ~/.cache; None without a home folder."""
    base = os.environ.get("XDG_CACHE_HOME") or ""
    if os.path.isabs(base):
        return Path(base)
    home = home_folder()
    return None if home is None else home / ".cache"


def home_folder() -> Path | None:
    """Return the user's home folder; None if there is none."""
    if os.environ.get("HOME") == "":  # Python would take the root of the file system
        return None
    home = os.path.expanduser("~")
    return Path(home) if os.path.isabs(home) else None


def is_private_folder(path: Path) -> bool:
    """Return whether a folder belongs to this user and no other user can change its entries."""
    status = path.lstat()
    is_mine = stat.S_ISDIR(status.st_mode) and _is_owner(status)
    return is_mine and not status.st_mode & 0o022 and os.access(path, os.W_OK | os.X_OK)


def is_private_file(status: os.stat_result) -> bool:
    """Return whether this is a regular file of this user that no other user can open."""
    is_mine = stat.S_ISREG(status.st_mode) and _is_owner(status)
    return is_mine and (os.name == "nt" or not status.st_mode & 0o077)


def _is_owner(status: os.stat_result) -> bool:
    getuid = getattr(os, "getuid", None)
    return getuid is None or status.st_uid == getuid()


def make_private_folder(path: Path) -> None:
    """Create a folder, and the folders above it that are missing, with mode 0700."""
    if not path.parent.exists():
        make_private_folder(path.parent)
    path.mkdir(mode=0o700, exist_ok=True)


def process_folder(name: str) -> Path:
    """Return a folder that is removed when the process ends; a forked process gets another one."""
    return _folder_of(os.getpid(), name)


@functools.cache
def _folder_of(process: int, name: str) -> Path:
    path = tempfile.mkdtemp(prefix=f"{name}-")

    def remove() -> None:
        if os.getpid() == process:
            shutil.rmtree(path, ignore_errors=True)

    atexit.register(remove)
    return Path(path)


@functools.lru_cache(maxsize=1024)
def _is_intact(path: Path, inode: int, size: int, changed: int) -> bool:
    """Whether a file matches its digest; checked once per process unless the file changes."""
    content = path.read_bytes()
    return hashlib.sha256(content[:-_DIGEST]).digest() == content[-_DIGEST:]


def _mark_as_used(path: Path, status: os.stat_result) -> None:
    """Set the time of the last use, which many file systems do not."""
    if time.time() - status.st_atime > _SECONDS_BETWEEN_MARKS:
        with suppress(OSError):
            os.utime(path, ns=(time.time_ns(), status.st_mtime_ns))


def _link(first: Path, path: Path) -> bool:
    """Give a file a second name, atomically; return whether the file system can do that."""
    name = first.with_name(f".{path.name}.{os.getpid()}-{token_hex(4)}{TEMPORARY}")
    try:
        os.link(first, name)
        os.replace(name, path)
        name.unlink(
            missing_ok=True
        )  # replacing a name by another one of the same file does nothing
    except OSError:
        return False
    return True


def _make_scratch(parent: Path) -> tuple[Path, int]:
    """Create and lock a folder; return its path, and the descriptor that holds the lock."""
    while True:
        path = parent / f".scratch.{os.getpid()}-{token_hex(8)}{TEMPORARY}"
        path.mkdir(mode=0o700)
        try:
            number = os.open(path, os.O_RDONLY)
        except FileNotFoundError:  # a `sweep` came between the creation and the lock
            continue
        if not lock(number, waits=True) or os.fstat(number).st_nlink:
            return path, number
        os.close(number)
