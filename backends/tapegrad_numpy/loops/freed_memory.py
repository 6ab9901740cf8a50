"""Keep freed memory in the process, which the system would have to map and clear again.

The C library of Linux returns the end of its heap when more than 128 kB are free there. A
gradient of operations on arrays of a megabyte frees some ten arrays at its end, so each step waited
for the system to clear the same pages. The library learns from programs: if they free a block that
it has mapped separately, blocks up to this size come from the heap, and twice as much of it stays.
"""

from __future__ import annotations

import ctypes
import functools
import sys

_BLOCK = (1 << 25) - (1 << 16)
"""Just below the largest block from which the library learns. No page of it is touched."""


@functools.cache
def keep_freed_memory() -> None:
    """Let the C library keep up to 64 MB of free memory."""
    if sys.platform != "linux":
        return
    library = ctypes.CDLL(None)
    library.malloc.restype, library.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    library.free.restype, library.free.argtypes = None, [ctypes.c_void_p]
    library.free(library.malloc(_BLOCK))
