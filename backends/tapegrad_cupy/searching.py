"""Places in a sorted sequence by halving, where the generic kernel would compare all pairs."""

from __future__ import annotations

from typing import Any

import cupy

from tapegrad_cupy.rows.row_arrays import generic

Array = Any


def searchsorted(sequence: Array, values: Array, *, right: bool) -> Array:
    """Return where each value would be put; rows of sequences are left to the generic kernel."""
    usual = all(array.dtype.kind in "biuf" for array in (sequence, values))
    if sequence.ndim == 1 and usual:
        return cupy.searchsorted(sequence, values, side="right" if right else "left")
    return generic("searchsorted", sequence, values, right=right)


KERNELS = {"searchsorted": searchsorted}
