"""An independent reader of TensorBoard event files."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np


def checksum(data: bytes) -> int:
    """CRC-32C bit by bit, then rotated and shifted as the format of TFRecords asks."""
    found = 0xFFFFFFFF
    for byte in data:
        found ^= byte
        for _ in range(8):
            found = (found >> 1) ^ (0x82F63B78 * (found & 1))
    found ^= 0xFFFFFFFF
    return ((found >> 15 | found << 17) + 0xA282EAD8) % 2**32


def records(data: bytes) -> Iterator[bytes]:
    """The contents of all records; both checksums of each must be right."""
    while data:
        (length,) = struct.unpack("<Q", data[:8])
        body, rest = data[12 : 12 + length], data[12 + length :]
        assert struct.unpack("<I", data[8:12]) == (checksum(data[:8]),)
        assert struct.unpack("<I", rest[:4]) == (checksum(body),)
        yield body
        data = rest[4:]


def fields(data: bytes) -> dict[int, list[Any]]:
    """The fields of a protocol buffer by number: integers, doubles, or bytes."""
    found: dict[int, list[Any]] = {}
    place = 0

    def varint() -> int:
        nonlocal place
        value = shift = 0
        while True:
            byte = data[place]
            place += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while place < len(data):
        number, kind = divmod(varint(), 8)
        value: Any
        if kind == 0:
            value = varint()
        elif kind == 1:
            (value,) = struct.unpack_from("<d", data, place)
            place += 8
        else:
            assert kind == 2
            size = varint()
            value = data[place : place + size]
            place += size
        found.setdefault(number, []).append(value)
    return found


@dataclass
class Entry:
    """One value of a summary."""

    tag: str
    step: int
    plugin: str
    value: Any


def read_events(folder: Path) -> list[dict[int, list[Any]]]:
    """All events of all files in a folder, in the order of the names."""
    files = sorted(folder.glob("events.out.tfevents.*"))
    return [fields(one) for file in files for one in records(file.read_bytes())]


def read_entries(folder: Path) -> list[Entry]:
    """All values of all summaries in a folder."""
    found = []
    for event in read_events(folder):
        for summary in event.get(5, []):
            for value in fields(summary)[1]:
                parts = fields(value)
                plugin = fields(fields(parts[9][0])[1][0])[1][0].decode()
                step = event.get(2, [0])[0]
                found.append(Entry(parts[1][0].decode(), step, plugin, _tensor(parts[8][0])))
    return found


def _tensor(data: bytes) -> Any:
    parts = fields(data)
    (dtype,) = parts[1]
    shape = [fields(size)[1][0] for size in fields(parts[2][0]).get(2, [])]
    if dtype == 7:
        assert shape == [len(parts[8])]
        return parts[8]
    array = np.frombuffer(parts[4][0], {1: "<f4", 2: "<f8"}[dtype])
    return array.reshape(shape)


def curve(folder: Path, tag: str) -> dict[int, float]:
    """The values of a scalar by step."""
    return {
        entry.step: float(entry.value)
        for entry in read_entries(folder)
        if entry.tag == tag and entry.plugin == "scalars"
    }
