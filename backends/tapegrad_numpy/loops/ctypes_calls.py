"""Call compiled loops by ctypes, with addresses that NumPy's buffer interface reports.

This is the documented way. It is used where direct_calls.py is not.
"""

from __future__ import annotations

import ctypes
import math
import struct
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tapegrad_numpy.loops.source import Kernel

_LOOP = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
"""Takes packed addresses, and an array of the address of the team, the slot count and the sizes."""

_NO_FIT = 1


def entry_text(name: str, work: str, close: str) -> str:
    """Return the C text of a function for `caller`."""
    return (
        f"int {name}(char **data, const int64_t *s) {{\n"
        f"    return run_tasks(data, s + 2, (const Team *)s[0], s[1], {work}, {close});\n}}\n"
    )


def caller(
    arrays: Sequence[tuple[Any, Sequence[int]]],
    inputs: int,
    kernel: Kernel,
    address: int,
    team: int,
) -> Callable[..., int]:
    """Return a function of arrays, inputs first, that returns 0 unless an array is unsuitable."""
    wanted = [
        (np.dtype(dtype), math.prod(shape), number >= inputs)
        for number, (dtype, shape) in enumerate(arrays)
    ]
    run, pack = _LOOP(address), struct.Struct(f"{len(arrays)}P").pack
    numbers = np.array((team, kernel.slots, *kernel.numbers), np.int64)
    at_numbers = numbers.ctypes.data
    ndarray, char_at, address_of = np.ndarray, ctypes.c_char.from_buffer, ctypes.addressof

    library = getattr(address, "library", None)

    def call(*given: Any) -> int:
        if len(given) != len(wanted):
            return _NO_FIT
        kept, places = [numbers, library], []
        for array, (dtype, size, is_written) in zip(given, wanted):
            if type(array) is not ndarray:
                if is_written or type(array) is not dtype.type:
                    return _NO_FIT
                array = np.array(array)
                kept.append(array)
            flags = array.flags
            fits = flags.carray if is_written else flags.c_contiguous and flags.aligned
            if not fits or array.dtype is not dtype or array.size != size:
                return _NO_FIT
            has_buffer = size and flags.writeable
            places.append(address_of(char_at(array)) if has_buffer else array.ctypes.data)
        code: int = run(pack(*places), at_numbers)
        return code

    return call
