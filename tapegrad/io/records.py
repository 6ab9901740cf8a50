"""TFRecord files: records of bytes with checksums, perhaps compressed."""

from __future__ import annotations

import gzip
import os
import struct
import zlib
from collections.abc import Iterator
from typing import Any

from tapegrad.core.argument_checks import check_choice
from tapegrad.core.values.strings import is_text, text_array
from tapegrad.errors import ArgumentTypeError, FileFormatError
from tapegrad.io.checksums import masked_crc
from tapegrad.io.paths import local_path, named_errors

COMPRESSIONS = ("", "GZIP", "ZLIB")
_HEAD = 12
"""Bytes before the data of a record: its length and the checksum of that."""


def record(data: bytes) -> bytes:
    """Return bytes as a record: the length, its checksum, the bytes, their checksum.

    >>> len(record(b"abc"))
    19
    """
    length = struct.pack("<Q", len(data))
    return length + masked_crc(length) + data + masked_crc(data)


class TFRecordOptions:
    """Options of a record file: its compression, "GZIP", "ZLIB" or none.

    >>> TFRecordOptions("GZIP").compression_type
    'GZIP'
    """

    def __init__(self, compression_type: Any = "", **ignored: Any) -> None:
        self.compression_type = checked_compression(compression_type)


def checked_compression(given: Any) -> str:
    """Return a compression's name, from a name, options or None.

    >>> checked_compression(None)
    ''
    """
    found = getattr(given, "compression_type", given) or ""
    check_choice("compression_type", found, COMPRESSIONS)
    return str(found)


class TFRecordWriter:
    """Write records to a file.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with TFRecordWriter(folder + "/a.tfrecord") as writer:
    ...         writer.write(b"some bytes")
    ...     list(read_records(folder + "/a.tfrecord"))
    [b'some bytes']
    """

    def __init__(self, path: Any, options: Any = None) -> None:
        self._path = local_path(path, "TFRecordWriter")
        self._compression = checked_compression(options)
        with named_errors(self._path, "TFRecordWriter"):
            self._file: Any = open(self._path, "wb")  # noqa: SIM115
        if self._compression == "GZIP":
            self._file = gzip.GzipFile(fileobj=self._file, mode="wb")
        self._packer = zlib.compressobj() if self._compression == "ZLIB" else None

    def write(self, record: Any) -> None:
        """Write one record: bytes, text, or a string tensor of one text."""
        if not is_text(record):
            raise ArgumentTypeError(
                f"A record is bytes, e.g. example.SerializeToString(). Got {type(record).__name__}."
            )
        data = _framed(text_array(record).item())
        self._file.write(data if self._packer is None else self._packer.compress(data))

    def flush(self) -> None:
        """Write what is buffered."""
        self._file.flush()

    def close(self) -> None:
        """Write the rest and close the file."""
        if self._file.closed:
            return
        if self._packer is not None:
            self._file.write(self._packer.flush())
        below = getattr(self._file, "fileobj", None)
        self._file.close()
        if below is not None:  # gzip leaves the file below it open
            below.close()

    def __enter__(self) -> TFRecordWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_framed = record


def opened(path: str, compression: str, function: str) -> Any:
    """Open a file to read its bytes, decompressed.

    >>> opened("no such file", "", "read")
    Traceback (most recent call last):
    tapegrad.errors.NotFoundError: read: there is no file or folder 'no such file'.
    """
    with named_errors(path, function):
        if compression == "GZIP":
            return gzip.open(path, "rb")
        if compression == "ZLIB":
            with open(path, "rb") as file:
                return _Inflated(zlib.decompress(file.read()))
        return open(path, "rb")


class _Inflated:
    """Bytes in memory that are read like a file."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    def read(self, count: int = -1) -> bytes:
        stop = len(self._data) if count < 0 else self._at + count
        part = self._data[self._at : stop]
        self._at += len(part)
        return part

    def __iter__(self) -> Iterator[bytes]:
        rest = self.read()
        return iter(rest.splitlines(keepends=True))

    def __enter__(self) -> _Inflated:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def read_records(path: Any, compression: str = "") -> Iterator[bytes]:
    """Yield the records of a file; damaged ones raise an error that names the file."""
    place = local_path(path, "TFRecordDataset")
    with opened(place, compression, "TFRecordDataset") as file:
        number = 0
        while True:
            try:
                head = file.read(_HEAD)
            except (OSError, EOFError, zlib.error) as error:
                raise _damaged(place, number, f"it cannot be decompressed: {error}") from error
            if not head:
                return
            yield _checked(file, head, place, number)
            number += 1


def _checked(file: Any, head: bytes, place: str, number: int) -> bytes:
    if len(head) < _HEAD or masked_crc(head[:8]) != head[8:]:
        raise _damaged(place, number, "its length has a wrong checksum")
    (length,) = struct.unpack("<Q", head[:8])
    data: bytes = file.read(length)
    checksum = file.read(4)
    if len(data) < length or len(checksum) < 4:
        raise _damaged(place, number, "it is cut off")
    if masked_crc(data) != checksum:
        raise _damaged(place, number, "it has a wrong checksum")
    return data


def _damaged(place: str, number: int, why: str) -> FileFormatError:
    return FileFormatError(
        f"Record {number} of {os.fspath(place)!r} is damaged: {why}. If the file is compressed, "
        "pass compression_type='GZIP' or 'ZLIB'."
    )
