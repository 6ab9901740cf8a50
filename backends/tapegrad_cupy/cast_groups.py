"""The same casts at every step, of many arrays together, with as little work as there can be.

All results lie in one piece of memory, which is free again when the last of them is gone.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import cupy
import numpy as np

from tapegrad_cupy.compiled import THREADS
from tapegrad_cupy.multi_casts import WIDTH, kernel_for, takes
from tapegrad_cupy.updates.multi_tensors import layout

Array = Any

_ALIGNMENT = 256

_ndarray = cupy.ndarray
_alloc = cupy.cuda.alloc
_current_device = cupy.cuda.runtime.getDevice


def cast_group(arrays: Sequence[Array], dtype: np.dtype[Any]) -> CastGroup | None:
    """Return what casts these arrays and those that take their places later, or None."""
    given = arrays[0].dtype
    if not takes(given, dtype) or any(array.dtype != given for array in arrays):
        return None
    group = CastGroup(arrays, dtype)
    return group if group.fits(arrays) else None


class CastGroup:
    """Casts arrays of fixed shapes on the device that is the current one when it is made."""

    def __init__(self, arrays: Sequence[Array], dtype: np.dtype[Any]) -> None:
        self._dtype = dtype
        self._given = arrays[0].dtype
        self._device = _current_device()
        self._shapes = [array.shape for array in arrays]
        bytes_each = [array.size * dtype.itemsize for array in arrays]
        rounded = [-(-size // _ALIGNMENT) * _ALIGNMENT for size in bytes_each]
        *self._offsets, self._bytes = accumulate(rounded, initial=0)
        self._layout = layout(tuple([array.size for array in arrays]), WIDTH, 2)
        kernel = kernel_for(self._layout.capacity, self._given, dtype)
        self._launches = [kernel.launcher(part.blocks, THREADS) for part in self._layout.parts]
        self._places: list[int] = []
        self._columns: list[bytes] = []

    def fits(self, arrays: Sequence[Array]) -> bool:
        """Whether the arrays are like the first ones, and lie where the kernel can read them."""
        if _current_device() != self._device:
            return False
        if [array.shape for array in arrays] != self._shapes:
            return False
        if not all([array._c_contiguous for array in arrays]):
            return False
        places = [array.data.ptr for array in arrays]
        if places == self._places:
            return True
        dtype, device = self._given, self._device
        if any(place & 15 for place in places) or any(
            array.dtype != dtype or array.data.device_id != device for array in arrays
        ):
            return False
        self._places = places
        self._columns = [part.column(places) for part in self._layout.parts]
        return True

    def __call__(self, arrays: Sequence[Array]) -> list[Array] | None:
        """Return the arrays in the group's dtype, or None if they do not fit it."""
        if not self.fits(arrays):
            return None
        memory = _alloc(self._bytes)
        base, offsets, chunk = memory.ptr, self._offsets, self._layout.chunk
        for part, given, launch in zip(self._layout.parts, self._columns, self._launches):
            count = len(part.positions)
            made = struct.pack(f"{count}Q", *[base + offsets[at] for at in part.positions])
            table = given + made.ljust(8 * part.capacity, b"\0") + part.ending
            launch(table, chunk, count)
        dtype = self._dtype
        return [_ndarray(shape, dtype, memory + at) for shape, at in zip(self._shapes, offsets)]


KERNELS = {"cast.group": cast_group}
