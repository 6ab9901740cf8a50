"""CRC-32C, the checksum of record files."""

from __future__ import annotations

import struct
from functools import cache
from typing import Any

import numpy as np

_CASTAGNOLI = 0x82F63B78
"""The polynomial of CRC-32C, lowest bit first."""
_MASK = 0xA282EAD8
_32_BITS = 0xFFFFFFFF
_BLOCK = 256
"""Long data is divided into blocks of so many bytes, whose checksums NumPy computes together."""
_LONG = 16 * _BLOCK


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
    found = _32_BITS
    if len(data) >= _LONG:
        cut = len(data) // _BLOCK * _BLOCK
        found, data = _of_blocks(data[:cut], found), data[cut:]
    remainders = _REMAINDERS
    for byte in data:
        found = (found >> 8) ^ remainders[(found ^ byte) & 0xFF]
    return found ^ _32_BITS


def _of_blocks(data: bytes, found: int) -> int:
    """Return the remainder after whole blocks.

    The checksum is linear: the remainder of two parts is that of the first, advanced by as many
    zeros as the second has bytes, plus that of the second.
    """
    table = np.array(_REMAINDERS, np.uint32)
    blocks = np.frombuffer(data, np.uint8).reshape(-1, _BLOCK)
    state = np.zeros(len(blocks), np.uint32)
    for column in blocks.T:
        state = (state >> np.uint32(8)) ^ table[(state ^ column) & np.uint32(0xFF)]
    first, second, third, fourth = _advances()
    for own in state.tolist():
        advanced = first[found & 0xFF] ^ second[found >> 8 & 0xFF]
        found = advanced ^ third[found >> 16 & 0xFF] ^ fourth[found >> 24] ^ own
    return found


@cache
def _advances() -> list[list[int]]:
    """Return what a block of zeros makes of each value of each of the four bytes of a state."""
    table = np.array(_REMAINDERS, np.uint32)
    found: list[list[int]] = []
    for place in range(4):
        state: Any = np.arange(256, dtype=np.uint32) << np.uint32(8 * place)
        for _ in range(_BLOCK):
            state = (state >> np.uint32(8)) ^ table[state & np.uint32(0xFF)]
        found.append(state.tolist())
    return found


def masked_crc(data: bytes) -> bytes:
    """Return the masked checksum; the format masks it because data may contain checksums.

    >>> masked_crc(b"").hex()
    'd8ea82a2'
    """
    found = crc32c(data)
    rotated = (found >> 15) | (found << 17)
    return struct.pack("<I", (rotated + _MASK) & _32_BITS)
