"""Random damage to the bytes of a file."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np

Rng = np.random.Generator


def _truncated(data: bytes, rng: Rng) -> bytes:
    return data[: int(rng.integers(0, len(data)))]


def _flipped(data: bytes, rng: Rng) -> bytes:
    found = bytearray(data)
    for _ in range(int(rng.integers(1, 4))):
        found[int(rng.integers(len(found)))] ^= 1 << int(rng.integers(8))
    return bytes(found)


def _flipped_near_start(data: bytes, rng: Rng) -> bytes:
    found = bytearray(data)
    found[int(rng.integers(min(64, len(found))))] ^= 1 << int(rng.integers(8))
    return bytes(found)


def _overwritten(data: bytes, rng: Rng) -> bytes:
    start = int(rng.integers(len(data)))
    length = int(rng.integers(1, 17))
    fill = [b"\x00", b"\xff", b"\x80", b"9"][int(rng.integers(4))]
    return data[:start] + fill * len(data[start : start + length]) + data[start + length :]


def _inserted(data: bytes, rng: Rng) -> bytes:
    start = int(rng.integers(len(data)))
    return data[:start] + rng.bytes(int(rng.integers(1, 9))) + data[start:]


def _removed(data: bytes, rng: Rng) -> bytes:
    start = int(rng.integers(len(data)))
    return data[:start] + data[start + int(rng.integers(1, 17)) :]


def _repeated(data: bytes, rng: Rng) -> bytes:
    start = int(rng.integers(len(data)))
    return data[:start] + data[max(0, start - int(rng.integers(1, 200))) :]


def _other_header(data: bytes, rng: Rng) -> bytes:
    count = int(rng.integers(1, 33))
    return rng.bytes(count) + data[count:]


def _other_format(data: bytes, rng: Rng) -> bytes:
    starts = (
        b"",
        b"{}",
        b"[]",
        b"null",
        b"PK\x03\x04",
        b"\x89PNG\r\n\x1a\n",
        b"\x93NUMPY",
        b"\x1f\x8b",
    )
    return starts[int(rng.integers(len(starts)))]  # fmt: skip


def _other_digits(data: bytes, rng: Rng) -> bytes:
    """Change one number that is written in digits: a size, a shape, an offset."""
    places = [k for k, byte in enumerate(data[:20_000]) if 48 <= byte <= 57]
    if not places:
        return _flipped(data, rng)
    place = places[int(rng.integers(len(places)))]
    other = (b"-1", b"99999999999999999999", b"0", b"1e9", b"7")[int(rng.integers(5))]
    return data[:place] + other + data[place + 1 :]


BYTES: tuple[Callable[[bytes, Rng], bytes], ...] = (
    _truncated, _flipped, _flipped_near_start, _overwritten, _inserted, _removed, _repeated,
    _other_header, _other_format, _other_digits,
)  # fmt: skip

WRONG: tuple[Any, ...] = (
    None, -1, 10**30, 1.5, "bogus", "", [], {}, [None], {"a": 1}, True, [[1]], "float17",
)  # fmt: skip


def damaged_json(text: str, rng: Rng) -> str:
    """Replace or remove one part of a JSON text."""
    tree = json.loads(text)
    places = list(_places(tree))
    if not places:
        return json.dumps(WRONG[int(rng.integers(len(WRONG)))])
    owner, key = places[int(rng.integers(len(places)))]
    if rng.integers(5) == 0:
        del owner[key]
    else:
        owner[key] = WRONG[int(rng.integers(len(WRONG)))]
    return json.dumps(tree)


def _places(tree: Any) -> Any:
    if isinstance(tree, dict | list):
        for key in list(tree) if isinstance(tree, dict) else range(len(tree)):
            yield tree, key
            yield from _places(tree[key])


def damaged(data: bytes, rng: Rng) -> bytes:
    """Return bytes with one kind of damage; half of JSON texts stay JSON."""
    if data[:1] in (b"{", b"[") and rng.integers(2):
        try:
            return damaged_json(data.decode(), rng).encode()
        except ValueError:
            pass
    if not data:
        return rng.bytes(5)
    return BYTES[int(rng.integers(len(BYTES)))](data, rng)
