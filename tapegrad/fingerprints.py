"""Hashes of texts as TensorFlow computes them: FarmHash and SipHash.

All functions take and return arrays of uint64, whose arithmetic wraps around.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Words = np.ndarray[Any, np.dtype[np.uint64]]

_K0, _K1, _K2 = map(np.uint64, (0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F))
_SEED = np.uint64(81)
_CROSS = np.uint64(0xC6A4A7935BD1E995)
CROSS_KEY = np.uint64(0xDECAFCAFFE)
"""The key of `sparse.cross_hashed`, and the seed of `legacy_hash`."""
_SIP = (0x736F6D6570736575, 0x646F72616E646F6D, 0x6C7967656E657261, 0x7465646279746573)


def farm_hash(texts: Sequence[bytes]) -> Words:
    """Return Fingerprint64 of FarmHash.

    >>> [int(n) for n in farm_hash([b"A", b"B", b"C", b"D", b"E"]) % np.uint64(3)]
    [1, 0, 1, 1, 2]
    """
    found = np.zeros(len(texts), np.uint64)
    lengths = np.array([len(text) for text in texts])
    with np.errstate(over="ignore"):
        for length in np.unique(lengths):
            places = np.flatnonzero(lengths == length)
            rows = np.array([list(texts[place]) for place in places.tolist()], np.uint64)
            found[places] = _of_length(rows.reshape(len(places), length), int(length))
    return found


def _of_length(rows: Any, n: int) -> Any:
    size = np.uint64(n)
    mul = _K2 + size * np.uint64(2)
    if n > 64:
        return _of_long(rows, n)
    if n > 32:
        return _of_33_to_64(rows, n, mul)
    if n > 16:
        a, b = _word(rows, 0) * _K1, _word(rows, 8)
        c, d = _word(rows, n - 8) * mul, _word(rows, n - 16) * _K2
        first = _rotated(a + b, 43) + _rotated(c, 30) + d
        return _mixed(first, a + _rotated(b + _K2, 18) + c, mul)
    if n >= 8:
        a, b = _word(rows, 0) + _K2, _word(rows, n - 8)
        return _mixed(_rotated(b, 37) * mul + a, (_rotated(a, 25) + b) * mul, mul)
    if n >= 4:
        first = size + (_word(rows, 0, 4) << np.uint64(3))
        return _mixed(first, _word(rows, n - 4, 4), mul)
    if n == 0:
        return np.full(len(rows), _K2)
    y = rows[:, 0] + (rows[:, n >> 1] << np.uint64(8))
    z = size + (rows[:, n - 1] << np.uint64(2))
    return _shift_mixed(y * _K2 ^ z * _K0) * _K2


def _of_33_to_64(rows: Any, n: int, mul: Any) -> Any:
    a, b = _word(rows, 0) * _K2, _word(rows, 8)
    c, d = _word(rows, n - 8) * mul, _word(rows, n - 16) * _K2
    y = _rotated(a + b, 43) + _rotated(c, 30) + d
    z = _mixed(y, a + _rotated(b + _K2, 18) + c, mul)
    e, f = _word(rows, 16) * mul, _word(rows, 24)
    g, h = (y + _word(rows, n - 32)) * mul, (z + _word(rows, n - 24)) * mul
    first = _rotated(e + f, 43) + _rotated(g, 30) + h
    return _mixed(first, e + _rotated(f + a, 18) + g, mul)


def _of_long(rows: Any, n: int) -> Any:
    """Hash blocks of 64 bytes, and then the last 64 bytes."""
    x = np.full(len(rows), _SEED) * _K2 + _word(rows, 0)
    y = np.full(len(rows), _SEED) * _K1 + np.uint64(113)
    z = _shift_mixed(y * _K2 + np.uint64(113)) * _K2
    state = (x, y, z, *[np.zeros(len(rows), np.uint64)] * 4)
    for start in range(0, (n - 1) // 64 * 64, 64):
        state = _with_block(rows, start, state, _K1, np.uint64(1))
    x, y, z, v, v2, w, w2 = state
    mul = _K1 + ((z & np.uint64(0xFF)) << np.uint64(1))
    w = w + np.uint64((n - 1) & 63)
    v = v + w
    w = w + v
    state = _with_block(rows, n - 64, (x, y, z, v, v2, w, w2), mul, np.uint64(9))
    x, y, z, v, v2, w, w2 = state
    first = _mixed(v, w, mul) + _shift_mixed(y) * _K0 + z
    return _mixed(first, _mixed(v2, w2, mul) + x, mul)


def _with_block(rows: Any, start: int, state: Any, mul: Any, factor: Any) -> Any:
    x, y, z, v, v2, w, w2 = state
    x = _rotated(x + y + v + _word(rows, start + 8), 37) * mul
    y = _rotated(y + v2 + _word(rows, start + 48), 42) * mul
    x = x ^ w2 * factor
    y = y + v * factor + _word(rows, start + 40)
    z = _rotated(z + w, 33) * mul
    v, v2 = _weakly_hashed(rows, start, v2 * mul, x + w)
    w, w2 = _weakly_hashed(rows, start + 32, z + w2, y + _word(rows, start + 16))
    return z, y, x, v, v2, w, w2


def _weakly_hashed(rows: Any, start: int, a: Any, b: Any) -> Any:
    a = a + _word(rows, start)
    last = _word(rows, start + 24)
    b = _rotated(b + a + last, 21)
    total = a + _word(rows, start + 8) + _word(rows, start + 16)
    return total + last, b + _rotated(total, 44) + a


def _word(rows: Any, start: int, count: int = 8) -> Words:
    """Return the bytes from `start` on as little-endian numbers."""
    shifts = np.arange(count, dtype=np.uint64) * np.uint64(8)
    total: Words = (rows[:, start : start + count] << shifts).sum(axis=1, dtype=np.uint64)
    return total


def _rotated(x: Any, by: int) -> Any:
    return (x >> np.uint64(by)) | (x << np.uint64(64 - by))


def _shift_mixed(x: Any) -> Any:
    return x ^ (x >> np.uint64(47))


def _mixed(u: Any, v: Any, mul: Any) -> Any:
    a = _shift_mixed((u ^ v) * mul)
    return _shift_mixed((v ^ a) * mul) * mul


def crossed_hash(columns: Sequence[Words], key: int = int(CROSS_KEY)) -> Words:
    """Return one hash for the entries at the same place of several columns.

    >>> words, numbers = farm_hash([b"A", b"B", b"A", b"B", b"A"]), [101, 101, 101, 102, 102]
    >>> [int(n) for n in crossed_hash([words, np.array(numbers, np.uint64)]) % np.uint64(5)]
    [1, 4, 1, 1, 3]
    """
    found = np.full(len(columns[0]), np.uint64(key))
    with np.errstate(over="ignore"):
        for column in columns:
            found = found ^ _CROSS ^ (_shift_mixed(column * _CROSS) * _CROSS)
            found = _shift_mixed(_shift_mixed(found * _CROSS) * _CROSS)
    return found


def legacy_hash(texts: Sequence[bytes]) -> Words:
    """Return MurmurHash64A with TensorFlow's seed.

    >>> [int(n) for n in legacy_hash([b"Hello", b"TensorFlow", b"2.x"]) % np.uint64(3)]
    [2, 0, 1]
    """
    return np.array([_murmur_hash(text) for text in texts], np.uint64)


def _murmur_hash(text: bytes) -> int:
    most, mul = 2**64 - 1, int(_CROSS)
    found = int(CROSS_KEY) ^ (len(text) * mul & most)
    whole = len(text) // 8 * 8
    for k in range(0, whole, 8):
        word = int.from_bytes(text[k : k + 8], "little") * mul & most
        found = (found ^ ((word ^ (word >> 47)) * mul & most)) * mul & most
    if whole < len(text):
        found = (found ^ int.from_bytes(text[whole:], "little")) * mul & most
    found = (found ^ (found >> 47)) * mul & most
    return found ^ (found >> 47)


def sip_hash(texts: Sequence[bytes], key: tuple[int, int]) -> Words:
    """Return SipHash-2-4 of texts.

    >>> [int(n) for n in sip_hash([b"A", b"B", b"C", b"D", b"E"], (133, 137)) % np.uint64(3)]
    [1, 2, 1, 0, 2]
    """
    return np.array([_sip_hash(text, key) for text in texts], np.uint64)


def _sip_hash(text: bytes, key: tuple[int, int]) -> int:
    state = [word ^ (key[place % 2] & _MOST) for place, word in enumerate(_SIP)]
    padded = text + bytes(-(len(text) + 1) % 8) + bytes([len(text) % 256])
    for start in range(0, len(padded), 8):
        word = int.from_bytes(padded[start : start + 8], "little")
        state[3] ^= word
        _rounds(state, 2)
        state[0] ^= word
    state[2] ^= 0xFF
    _rounds(state, 4)
    return state[0] ^ state[1] ^ state[2] ^ state[3]


_MOST = 2**64 - 1


def _rounds(v: list[int], count: int) -> None:
    for _ in range(count):
        for a, b, turn, half in ((0, 1, 13, True), (2, 3, 16, False)):
            v[a] = (v[a] + v[b]) & _MOST
            v[b] = _turned(v[b], turn) ^ v[a]
            v[a] = _turned(v[a], 32) if half else v[a]
        for a, b, turn, half in ((0, 3, 21, False), (2, 1, 17, True)):
            v[a] = (v[a] + v[b]) & _MOST
            v[b] = _turned(v[b], turn) ^ v[a]
            v[a] = _turned(v[a], 32) if half else v[a]


def _turned(x: int, by: int) -> int:
    return (x << by | x >> (64 - by)) & _MOST
