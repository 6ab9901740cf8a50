"""Time the algorithms that cuBLASLt recommends for a large product, once, and keep the fastest.

The first recommendation is often not the fastest: for 12608 x 768 x 2304 in bfloat16 another one
takes 60 us instead of 67 us on an H200. The choice is stored on disk, so that later processes make
the same one. TAPEGRAD_PRODUCT_SEARCH=0 and `enable_op_determinism()` turn the search off, because
algorithms add in different orders.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import cupy

from tapegrad.core.determinism import is_op_determinism_enabled
from tapegrad.core.files.private_cache import PrivateCache
from tapegrad_cupy import switches

MOST = 8
"""The algorithms that are timed."""

LARGE = 1 << 30
"""Multiplications of a product from which a search pays."""

ROUNDS, CALLS = 3, 3
"""The best of so many rounds counts, in each of which an algorithm is called so often."""

BETTER = 0.97
"""The first recommendation stays unless another algorithm takes less than this part of its time."""

CACHE = PrivateCache("TAPEGRAD_CACHE", "tapegrad", ".algorithm", most_bytes=2**20, most_days=90)


def is_searched(multiplications: int) -> bool:
    """Return whether algorithms of a product are to be timed."""
    is_large = multiplications >= LARGE
    return is_large and switches.PRODUCT_SEARCH and not is_op_determinism_enabled()


def key_of(*parts: Any) -> str:
    """Return the name under which a choice is stored: a digest of all that it depends on."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]


def find_fastest(count: int, run: Callable[[int], bool], key: str) -> int:
    """Return the number of the fastest algorithm below `count`, from the disk if it is known.

    `run` calls one of them on the current stream, and returns False if the library refuses it.
    """
    known = CACHE.find(key)
    if known is not None:
        with suppress(OSError):
            content = known.read_bytes()
            if content and content[0] < count:
                return content[0]
    usable = [number for number in range(count) if run(number)]
    times = dict.fromkeys(usable, math.inf)
    for _ in range(ROUNDS):
        for number in usable:
            times[number] = min(times[number], _milliseconds(run, number))
    best = min(usable, key=times.__getitem__, default=0)
    if times.get(best, 0) > BETTER * times.get(0, math.inf):
        best = 0
    CACHE.keep(bytes([best]), [key])
    return best


def _milliseconds(run: Callable[[int], bool], number: int) -> float:
    stream = cupy.cuda.get_current_stream()
    begin, end = cupy.cuda.Event(), cupy.cuda.Event()
    begin.record(stream)
    for _ in range(CALLS):
        run(number)
    end.record(stream)
    end.synchronize()
    return float(cupy.cuda.get_elapsed_time(begin, end))
