"""Binary search in sorted sequences; the generic kernel would compare all pairs."""

from __future__ import annotations

from typing import Any

import cupy

from tapegrad_cupy.kernels.generic import run_generic

Array = Any


def searchsorted(sequence: Array, values: Array, *, right: bool) -> Array:
    """Return the insertion position of each value; only one sequence is supported by CuPy."""
    is_supported = all(array.dtype.kind in "biuf" for array in (sequence, values))
    if sequence.ndim == 1 and is_supported:
        return cupy.searchsorted(sequence, values, side="right" if right else "left")
    return run_generic("searchsorted", sequence, values, right=right)


KERNELS = {"searchsorted": searchsorted}
