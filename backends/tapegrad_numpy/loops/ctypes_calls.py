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

from tapegrad_numpy.loops.libraries import Address
from tapegrad_numpy.loops.lone_functions import EntryPoint
from tapegrad_numpy.loops.runtime import runtime_text
from tapegrad_numpy.loops.source import Kernel

_LOOP = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
"""Takes packed addresses, and an array of the team, the slot count, the parts and the sizes."""

_NO_FIT = 1


_TEXT = r"""
int run_loop(char **data, const int64_t *s) {
    return run_tasks(data, s + 4, (const Team *)s[0], s[1], (Work *)s[2], (Close *)s[3]);
}
"""


ENTRY = EntryPoint(lambda: runtime_text() + _TEXT, "run_loop")
"""The function in C that runs loops."""


def caller(
    arrays: Sequence[tuple[Any, Sequence[int]]],
    inputs: int,
    kernel: Kernel,
    address: Address,
    team: int,
) -> Callable[..., int]:
    """Return a function of arrays, inputs first, that returns 0 unless an array is unsuitable."""
    wanted = [
        (np.dtype(dtype), math.prod(shape), number >= inputs)
        for number, (dtype, shape) in enumerate(arrays)
    ]
    start = ENTRY.address()
    assert start is not None, "loops have addresses only if there is an entry point"
    run, pack = _LOOP(start), struct.Struct(f"{len(arrays)}P").pack
    parts = address.work, address.close
    numbers = np.array((team, kernel.slots, *parts, *kernel.numbers), np.int64)
    at_numbers = numbers.ctypes.data
    ndarray, char_at, address_of = np.ndarray, ctypes.c_char.from_buffer, ctypes.addressof

    library = address.library

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
