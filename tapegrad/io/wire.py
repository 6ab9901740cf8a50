"""The wire format of protocol buffers: fields of integers, floats, text and bytes."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import Any

from tapegrad.errors import FileFormatError

Fields = Iterable[tuple[int, Any]]
"""Fields of a message: pairs of field number and value."""

VARINT, EIGHT_BYTES, LENGTH, FOUR_BYTES = 0, 1, 2, 5
"""How a value is written: the lowest three bits of the number before it."""

_64_BITS = 0xFFFFFFFFFFFFFFFF


def message(fields: Fields) -> bytes:
    """Return a protocol buffer with integer, float (as double), text or bytes fields.

    >>> message([(1, 150), (2, "testing")]).hex(" ")
    '08 96 01 12 07 74 65 73 74 69 6e 67'
    """
    return b"".join([_field(number, value) for number, value in fields])


def _field(number: int, value: Any) -> bytes:
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    if isinstance(value, float):
        return varint(number << 3 | EIGHT_BYTES) + struct.pack("<d", value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | LENGTH) + varint(len(data)) + data


def varint(value: int) -> bytes:
    """Encode seven bits per byte, lowest first; negative numbers as 64 bits.

    >>> varint(300).hex(" ")
    'ac 02'
    """
    value &= _64_BITS
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def varints(data: bytes) -> list[int]:
    """Return the signed integers of a packed field.

    >>> varints(varint(300) + varint(-1))
    [300, -1]
    """
    found: list[int] = []
    at = 0
    while at < len(data):
        value, at = _read_varint(data, at)
        found.append(value - (1 << 64) if value >> 63 else value)
    return found


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(data) or shift > 63:
            raise FileFormatError("A protocol buffer is damaged: an integer does not end.")
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value & _64_BITS, at


def fields(data: bytes) -> Iterator[tuple[int, int, Any]]:
    """Yield the number, the kind and the value of each field: an integer, or its bytes.

    >>> list(fields(message([(1, 150), (2, b"a")])))
    [(1, 0, 150), (2, 2, b'a')]
    """
    at = 0
    while at < len(data):
        head, at = _read_varint(data, at)
        number, kind = head >> 3, head & 7
        if kind == VARINT:
            value: Any
            value, at = _read_varint(data, at)
        else:
            size, at = _size(data, at, kind)
            if at + size > len(data):
                raise FileFormatError("A protocol buffer is damaged: a field is cut off.")
            value, at = data[at : at + size], at + size
        yield number, kind, value


def _size(data: bytes, at: int, kind: int) -> tuple[int, int]:
    if kind == LENGTH:
        return _read_varint(data, at)
    if kind not in (EIGHT_BYTES, FOUR_BYTES):
        raise FileFormatError(f"A protocol buffer is damaged: no field has the kind {kind}.")
    return 8 if kind == EIGHT_BYTES else 4, at
