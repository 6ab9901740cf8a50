"""TensorBoard event files: records with checksums that hold protocol buffers.

Only the file format is here; summaries.py makes the contents of the records.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Iterable
from itertools import count
from pathlib import Path
from typing import Any

Fields = Iterable[tuple[int, Any]]
"""Fields of a message: pairs of field number and value."""

# Fields of an Event.
_WALL_TIME, _STEP, _FILE_VERSION, _GRAPH, _SUMMARY = 1, 2, 3, 4, 5

_CASTAGNOLI = 0x82F63B78
"""The polynomial of CRC-32C, lowest bit first."""
_MASK = 0xA282EAD8
_32_BITS = 0xFFFFFFFF
_64_BITS = 0xFFFFFFFFFFFFFFFF

_files = count()


def _remainder(byte: int) -> int:
    for _ in range(8):
        byte = (byte >> 1) ^ (_CASTAGNOLI if byte & 1 else 0)
    return byte


_REMAINDERS = tuple(map(_remainder, range(256)))


def crc32c(data: bytes) -> int:
    """Return the CRC-32C checksum (Castagnoli polynomial) of bytes.

    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
    """
    remainders, found = _REMAINDERS, _32_BITS
    for byte in data:
        found = (found >> 8) ^ remainders[(found ^ byte) & 0xFF]
    return found ^ _32_BITS


def record(data: bytes) -> bytes:
    """Return bytes as a record: the length, its checksum, the bytes, their checksum.

    >>> len(record(b"abc"))
    19
    """
    length = struct.pack("<Q", len(data))
    return length + _masked(length) + data + _masked(data)


def _masked(data: bytes) -> bytes:
    """Return the masked checksum; the format masks it because data may contain checksums."""
    found = crc32c(data)
    rotated = (found >> 15) | (found << 17)
    return struct.pack("<I", (rotated + _MASK) & _32_BITS)


def message(fields: Fields) -> bytes:
    """Return a protocol buffer with integer, float (as double), text or bytes fields.

    >>> message([(1, 150), (2, "testing")]).hex(" ")
    '08 96 01 12 07 74 65 73 74 69 6e 67'
    """
    return b"".join([_field(number, value) for number, value in fields])


def _field(number: int, value: Any) -> bytes:
    if isinstance(value, int):
        return _varint(number << 3) + _varint(value)
    if isinstance(value, float):
        return _varint(number << 3 | 1) + struct.pack("<d", value)
    data = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _varint(value: int) -> bytes:
    """Encode seven bits per byte, lowest first; negative numbers as 64 bits."""
    value &= _64_BITS
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


class EventFile:
    """A new event file in a folder, which is created if it does not exist.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = EventFile(folder)
    ...     file.close()
    ...     file.path.name.startswith("events.out.tfevents.")
    True
    """

    def __init__(self, folder: Any) -> None:
        now = time.time()
        # TensorBoard reads files with "tfevents" in their name, in the order of the names.
        place = f"{socket.gethostname()}.{os.getpid()}.{next(_files)}"
        self.path = Path(folder) / f"events.out.tfevents.{int(now):010d}.{place}.v2"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = self.path.open("xb")
        self._add([(_WALL_TIME, now), (_FILE_VERSION, "brain.Event:2")])
        self.flush()

    def add_summary(self, summary: bytes, step: int, wall_time: float | None = None) -> None:
        """Write a Summary of a step."""
        now = time.time() if wall_time is None else wall_time
        self._add([(_WALL_TIME, now), (_STEP, step), (_SUMMARY, summary)])

    def add_graph(self, graph: bytes) -> None:
        """Write a GraphDef."""
        self._add([(_WALL_TIME, time.time()), (_GRAPH, graph)])

    def _add(self, fields: Fields) -> None:
        self._file.write(record(message(fields)))

    def flush(self) -> None:
        """Write buffered records to the file."""
        self._file.flush()

    def close(self) -> None:
        """Write buffered records and close the file."""
        self._file.close()
