"""Unpack archives into folders of a cache, each archive into its own."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from tapegrad.core.files.atomic import replacing
from tapegrad.errors import FileFormatError

FORMATS = ("auto", "tar", "zip")
_SUFFIXES = ("gz", "tar", "tar.bz2", "tar.gz", "tar.xz", "tbz2", "tgz", "txz", "zip")
_DAMAGE = (EOFError, OSError, NotImplementedError, RuntimeError, ValueError, shutil.ReadError)


def unpacked(archive: Path, name: str, archive_format: Any) -> str:
    """Return the folder with the content of an archive, which is unpacked if it changed."""
    folder = _folder_of(archive, name)
    if folder.is_dir() and not folder.is_symlink() and _source_of(folder) == _state(archive):
        return str(folder)
    folder.parent.mkdir(parents=True, exist_ok=True)
    # What is already in the folder may be links that lead elsewhere, so unpack into a new one.
    new = Path(tempfile.mkdtemp(prefix=".unpacking-", dir=folder.parent))
    try:
        _unpack(archive, new, archive_format)
        _move_content(new, folder)
    finally:
        shutil.rmtree(new, ignore_errors=True)
    with replacing(_note_of(folder), follow_links=False) as file:
        file.write(json.dumps(_state(archive)).encode())
    return str(folder)


def _folder_of(archive: Path, name: str) -> Path:
    """Return Keras's folder for an archive if it is the only one with this stem, or its own."""
    stem, dot, suffix = name.partition(".")
    if not dot:
        return archive.with_name(name)
    usual = archive.with_name(f"{stem}_extracted")
    source = _source_of(usual)
    is_taken = source is not None and source[0] != archive.name
    if suffix.lower() in _SUFFIXES and not is_taken:
        return usual
    return archive.with_name(f"{name}_extracted")


def _note_of(folder: Path) -> Path:
    """The file that says which archive was unpacked into a folder."""
    return folder.with_name(f".{folder.name}.json")


def _source_of(folder: Path) -> list[Any] | None:
    try:
        found = json.loads(_note_of(folder).read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
    return found if isinstance(found, list) and len(found) == 3 else None


def _state(archive: Path) -> list[Any]:
    status = archive.stat()
    return [archive.name, status.st_size, status.st_mtime_ns]


def _unpack(archive: Path, folder: Path, archive_format: Any) -> None:
    import tarfile  # slow to import, and few programs unpack archives

    kind = archive_format
    if kind == "auto":
        with open(archive, "rb") as file:
            kind = "zip" if file.read(2) == b"PK" else "tar"
    try:
        if kind == "tar":
            _unpack_tar(archive, folder)
        else:
            with zipfile.ZipFile(archive) as members:  # `shutil` would leave such members out
                _refuse_other_places(archive, members.namelist())
            shutil.unpack_archive(archive, folder, kind)
    except FileFormatError:
        raise
    except (*_DAMAGE, tarfile.TarError, zipfile.BadZipFile, zlib.error) as error:
        raise FileFormatError(
            f"{str(archive)!r} cannot be unpacked as {kind}: {error}. Delete it to download it "
            "again, or pass its archive_format."
        ) from error


def _unpack_tar(archive: Path, folder: Path) -> None:
    import tarfile  # as above

    if not hasattr(tarfile, "data_filter"):  # Python before 3.11.4
        with tarfile.open(archive) as members:
            _refuse_other_places(archive, [member.name for member in members])
            # Links may lead elsewhere, and devices are no data.
            plain = [member for member in members if member.isfile() or member.isdir()]
            members.extractall(folder, plain)
        return
    try:
        shutil.unpack_archive(archive, folder, "gztar", filter="data")  # of any compression
    except tarfile.FilterError as error:  # it names the member that would be written elsewhere
        raise FileFormatError(f"{str(archive)!r} was not unpacked: {error}.") from error


def _refuse_other_places(archive: Path, names: Iterable[str]) -> None:
    """Raise if the name of a member leads out of the folder."""
    for name in names:
        if name.startswith("/") or ".." in name.split("/"):
            raise FileFormatError(
                f"{str(archive)!r} was not unpacked: {name!r} would be written elsewhere, "
                "outside the destination."
            )


def _move_content(source: Path, target: Path) -> None:
    """Move files into a folder; links in it are replaced and never followed."""
    if target.is_symlink() or (target.exists() and not target.is_dir()):
        target.unlink()
    target.mkdir(exist_ok=True)
    for entry in list(os.scandir(source)):
        place = target / entry.name
        if entry.is_dir(follow_symlinks=False):
            _move_content(Path(entry.path), place)
            continue
        with suppress(FileNotFoundError):
            if place.is_dir() and not place.is_symlink():
                shutil.rmtree(place)
        os.replace(entry.path, place)
