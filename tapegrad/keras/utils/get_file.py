"""get_file: download files once and cache them."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any, BinaryIO
from urllib.error import URLError
from urllib.parse import urlsplit

from tapegrad.core.argument_checks import check_choice
from tapegrad.core.files.atomic import replacing
from tapegrad.core.files.private_cache import home_folder, make_private_folder
from tapegrad.errors import ArgumentError, TapegradError
from tapegrad.keras.utils.unpacking import FORMATS, unpacked

_HASHES = {32: "md5", 40: "sha1", 64: "sha256", 96: "sha384", 128: "sha512"}
"""By the number of digits."""
_SECONDS = 60
"""How long to wait for the next part of a file."""
_BLOCK = 2**20


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
    ~/.keras. A download that ends too early is not kept. With `extract`, return the path of the
    folder with the extracted archive; each archive has its own folder.

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
    wanted = (file_hash or md5_hash or "").strip().lower()
    kind = _algorithm(wanted, hash_algorithm)
    if extract or untar:
        check_choice("archive_format", archive_format, FORMATS)
    folder = _folder(cache_dir, cache_subdir)
    target = folder / (name if "." in name or not extract else f"{name}_archive")
    if force_download or not target.exists() or not _has_hash(target, wanted, kind):
        _fetch(origin, target, wanted, kind)
    return unpacked(target, name, archive_format) if extract or untar else str(target)


def _folder(cache_dir: str | os.PathLike[str] | None, subdir: str) -> Path:
    """Return the folder of the cache; in the home folder no other user can write to it."""
    chosen = cache_dir or os.environ.get("KERAS_HOME")
    if chosen:
        return Path(chosen).expanduser() / subdir
    home = home_folder()
    if home is None:
        raise ArgumentError(
            "get_file has no folder to keep files in: there is no home folder. Pass cache_dir, or "
            "set the environment variable KERAS_HOME."
        )
    folder = home / ".keras" / subdir
    make_private_folder(folder)
    return folder


def _algorithm(wanted: str, given: str) -> str:
    if given == "auto":
        found = _HASHES.get(len(wanted)) if wanted else "sha256"
        if found is None or not set(wanted) <= set("0123456789abcdef"):
            raise ArgumentError(
                f"A hash has {', '.join(map(str, _HASHES))} hexadecimal digits. Got {wanted!r}."
            )
        return found
    check_choice("hash_algorithm", given, ("auto", *_HASHES.values()))
    return given


def _has_hash(file: Path, wanted: str, kind: str) -> bool:
    if not wanted:
        return True
    with open(file, "rb") as data:
        return hashlib.file_digest(data, kind).hexdigest() == wanted


def _fetch(origin: str, target: Path, wanted: str, kind: str) -> None:
    """Download a file; nothing is kept unless it is complete and has the hash."""
    from http.client import HTTPException
    from urllib.request import urlopen  # imported here because these load slowly

    try:
        # A link in the cache is replaced: nothing outside of the cache is written to.
        opened = urlopen(origin, timeout=_SECONDS)
        with opened as source, replacing(target, follow_links=False) as file:
            found = _copy(source, file, kind)
            if wanted and found != wanted:
                raise TapegradError(
                    f"The file from {origin} has not the expected hash {wanted}. "
                    "It was not kept; try again, or pass the right hash."
                )
    except (URLError, HTTPException, OSError, ValueError) as error:
        if isinstance(error, TapegradError):
            raise
        raise TapegradError(
            f"{origin} could not be downloaded: {getattr(error, 'reason', error)}. Without a "
            f"network, put the file at {target}."
        ) from error


def _copy(source: Any, file: BinaryIO, kind: str) -> str:
    """Copy a response and return its hash; raise an error if it ends before its announced size."""
    announced = source.headers.get("Content-Length")
    digest, size = hashlib.new(kind), 0
    while block := source.read(_BLOCK):
        digest.update(block)
        size += file.write(block)
    if announced is not None and announced.isdecimal() and size != int(announced):
        raise OSError(f"it sent {size:,} of {int(announced):,} bytes")
    return digest.hexdigest()
