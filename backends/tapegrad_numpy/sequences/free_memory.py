"""Return memory that was freed to the operating system."""

from __future__ import annotations

import ctypes


def return_free_memory() -> bool:
    """Return free memory of the C library's heap to the system; False if the library cannot.

    The GNU C library keeps freed arrays of up to 32 MiB in its heap. What a recorded call has freed
    would stay there, while the program takes other memory for the same values.

    >>> return_free_memory() in (True, False)
    True
    """
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, TypeError, AttributeError):  # Windows, macOS, musl
        return False
    trim(ctypes.c_size_t(0))
    return True
