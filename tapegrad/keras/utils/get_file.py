"""get_file: download files once and cache them."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path
from typing import Any
from urllib.error import URLError
from urllib.parse import urlsplit

from tapegrad.core.argument_checks import check_choice
from tapegrad.errors import ArgumentError, TapegradError
from tapegrad.keras.saving.atomic import replacing

_FORMATS = ("auto", "tar", "zip")


def get_file(
    fname: str | None = None,
    origin: str | None = None,
    untar: bool = False,
    md5_hash: str | None = None,
    file_hash: str | None = None,
    cache_subdir: str = "datasets",
    hash_algorithm: str = "auto",
    extract: bool = False,
    archive_format: Any = "auto",
    cache_dir: str | os.PathLike[str] | None = None,
    force_download: bool = False,
) -> str:
    """Return the path of a file; download it from `origin` if it is missing or its hash differs.

    The file is in `cache_dir/cache_subdir`; the default of `cache_dir` is `$KERAS_HOME` or
    ~/.keras. With `extract`, return the path of the folder with the extracted archive.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     origin = Path(folder, "words.txt")
    ...     _ = origin.write_text("some words")
    ...     Path(get_file(origin=origin.as_uri(), cache_dir=folder)).read_text()
    'some words'
    """
    name = fname or os.path.basename(urlsplit(origin or "").path)
    if not origin or name in ("", ".", "..") or Path(name).name != name:
        raise ArgumentError(
            "get_file takes a URL as origin, and a file name without folders as fname. "
            f"Got origin={origin!r} and fname={fname!r}."
        )
    home = Path(cache_dir or os.environ.get("KERAS_HOME") or "~/.keras").expanduser()
    target = home / cache_subdir / (name if "." in name or not extract else f"{name}_archive")
    wanted = file_hash or md5_hash or ""
    if force_download or not target.exists() or not _has_hash(target, wanted, hash_algorithm):
        _fetch(origin, target, wanted, hash_algorithm)
    return _unpacked(target, name, archive_format) if extract or untar else str(target)


def _has_hash(file: Path, wanted: str, algorithm: str) -> bool:
    if not wanted:
        return True
    kind = ("md5" if len(wanted) == 32 else "sha256") if algorithm == "auto" else algorithm
    with open(file, "rb") as data:
        return hashlib.file_digest(data, kind).hexdigest() == wanted


def _fetch(origin: str, target: Path, wanted: str, algorithm: str) -> None:
    from urllib.request import urlopen  # imported here because it loads slowly

    try:
        with urlopen(origin) as source, replacing(target) as file:
            shutil.copyfileobj(source, file)
            file.flush()
            if not _has_hash(Path(file.name), wanted, algorithm):
                raise TapegradError(
                    f"The file from {origin} has not the expected hash {wanted}. "
                    "It was not kept; try again, or pass the right hash."
                )
    except URLError as error:
        raise TapegradError(
            f"{origin} could not be downloaded: {error.reason}. Without a network, put the file "
            f"at {target}."
        ) from error


def _unpacked(archive: Path, name: str, archive_format: Any) -> str:
    check_choice("archive_format", archive_format, _FORMATS)
    folder = archive.with_name(f"{name.partition('.')[0]}_extracted" if "." in name else name)
    kind = archive_format
    if kind == "auto":
        kind = "zip" if archive.read_bytes()[:2] == b"PK" else "tar"
    if kind == "tar":  # "gztar" handles every compression
        shutil.unpack_archive(archive, folder, "gztar", filter="data")
    else:
        shutil.unpack_archive(archive, folder, kind)
    return str(folder)
