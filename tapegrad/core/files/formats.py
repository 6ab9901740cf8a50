"""Limits on the content of a file from elsewhere: the sizes, depth and names of JSON and archives.

Sizes are compared before anything is read.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn
from zipfile import ZIP_STORED, ZipFile

from tapegrad.errors import FileFormatError, OutOfMemoryError, TapegradError

MOST_DEPTH = 100
"""Of nested lists and objects in JSON; a layer inside a layer adds three or four."""
MOST_JSON_BYTES = 2**26
MOST_MEMBERS = 1000


def parse_json(text: bytes | str, path: str, what: str) -> Any:
    """Return the value of a JSON text, or raise an error that says what is wrong with it.

    >>> parse_json("[" * 200 + "]" * 200, "a.keras", "config.json")
    Traceback (most recent call last):
    tapegrad.errors.FileFormatError: 'a.keras' cannot be read: config.json is nested more than 100 \
levels deep.
    """
    if len(text) > MOST_JSON_BYTES:
        refuse(path, f"{what} has {len(text):,} bytes, and {MOST_JSON_BYTES:,} are allowed")
    try:
        value = json.loads(text)
    except RecursionError:
        refuse(path, f"{what} is nested more than {MOST_DEPTH} levels deep")
    except ValueError as error:  # also of digits that are too many for a number
        raise FileFormatError(_sentence(path, f"{what} is not JSON: {error}")) from error
    _check_depth(value, path, what)
    return value


def _check_depth(value: Any, path: str, what: str) -> None:
    level = [value]
    for _ in range(MOST_DEPTH + 1):
        level = [
            inner
            for one in level
            if isinstance(one, list | dict)
            for inner in (one if isinstance(one, list) else one.values())
        ]
        if not level:
            return
    refuse(path, f"{what} is nested more than {MOST_DEPTH} levels deep")


def member_problem(archive: ZipFile, size: int, most: int = MOST_MEMBERS) -> str | None:
    """Say why the members of an archive of this size could become larger than the archive.

    They must be stored without compression, each once, and within the file.
    """
    infos = archive.infolist()
    if len(infos) > most:
        return f"it has {len(infos):,} members, and {most:,} are allowed"
    seen = set()
    for info in infos:
        name = repr(info.filename)
        if info.filename in seen:
            return f"its member {name} is there twice"
        seen.add(info.filename)
        if info.compress_type != ZIP_STORED or info.flag_bits & 1:
            return f"its member {name} is compressed or encrypted, and tapegrad does neither"
        if info.file_size != info.compress_size or info.header_offset + info.file_size > size:
            return f"its member {name} claims {info.file_size:,} bytes, which are not there"
    if sum(info.file_size for info in infos) > size:
        return "its members overlap"
    return None


def read_start(archive: ZipFile, name: str, most: int) -> bytes:
    """Return a member of at most so many bytes, whatever its compression, or raise an error."""
    with archive.open(name) as member:
        content = member.read(most + 1)
    if len(content) > most:
        raise ValueError(f"its member {name!r} has more than {most:,} bytes")
    return content


@contextmanager
def damage_explained(path: str, what: str) -> Iterator[None]:
    """Turn what Python raises about a damaged description into one sentence.

    >>> with damage_explained("a.keras", "its description"):
    ...     {}["layers"]
    Traceback (most recent call last):
    tapegrad.errors.FileFormatError: 'a.keras' cannot be read: its description is damaged, or \
classes are not those with which it was saved (KeyError: 'layers').
    """
    try:
        yield
    except TapegradError:
        raise
    except MemoryError as error:
        raise OutOfMemoryError(_sentence(path, _NO_ROOM.format(what))) from error
    except _DAMAGE as error:
        found = f"{type(error).__name__}: {error}".rstrip(": .\n")
        why = f"{what} is damaged, or classes are not those with which it was saved ({found})"
        raise FileFormatError(_sentence(path, why)) from error


_NO_ROOM = "the memory does not suffice, or {} is damaged and asks for too much"

_DAMAGE = (
    *(ArithmeticError, AssertionError, AttributeError, BufferError, LookupError),
    *(RuntimeError, TypeError, ValueError),  # also NotImplementedError and RecursionError
)


def refuse(path: str, why: str) -> NoReturn:
    """Raise an error about a file.

    >>> refuse("a.keras", "it is empty")
    Traceback (most recent call last):
    tapegrad.errors.FileFormatError: 'a.keras' cannot be read: it is empty.
    """
    raise FileFormatError(_sentence(path, why))


def _sentence(path: str, why: str) -> str:
    return f"{path!r} cannot be read: {why}."
