"""Cast a fixed set of arrays in one launch, at every step.

All results share one block of memory, which is freed with the last of them. Arrays that may be
filters of a convolution are written in cuDNN's order, if cuDNN is available.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from itertools import accumulate
from typing import Any

import cupy
import numpy as np

from tapegrad_cupy.kernels.casting.multi_casts import (
    WIDTH,
    kernel_for,
    pack_shape,
    takes,
    work_items,
)
from tapegrad_cupy.kernels.convolution.filter_layout import cudnn_strides
from tapegrad_cupy.launch.cuda_source import THREADS
from tapegrad_cupy.launch.multi_tensors import layout
from tapegrad_cupy.library_calls.cudnn_handle import library

Array = Any

_ALIGNMENT = 256

_ndarray = cupy.ndarray
_alloc = cupy.cuda.alloc
_current_device = cupy.cuda.runtime.getDevice


def cast_group(arrays: Sequence[Array], dtype: np.dtype[Any]) -> CastGroup | None:
    """Return a group that casts arrays like these, or None if their dtypes are not supported."""
    given = arrays[0].dtype
    if not takes(given, dtype) or any(array.dtype != given for array in arrays):
        return None
    group = CastGroup(arrays, dtype)
    return group if group.fits(arrays) else None


class CastGroup:
    """Casts arrays of fixed shapes, on the device that is current when the group is made."""

    def __init__(self, arrays: Sequence[Array], dtype: np.dtype[Any]) -> None:
        self._dtype = dtype
        self._given = arrays[0].dtype
        self._device = _current_device()
        self._shapes = [array.shape for array in arrays]
        bytes_each = [array.size * dtype.itemsize for array in arrays]
        rounded = [-(-size // _ALIGNMENT) * _ALIGNMENT for size in bytes_each]
        *self._offsets, self._bytes = accumulate(rounded, initial=0)
        transposes = [_transposed_shape(shape) for shape in self._shapes]
        self._strides = [
            cudnn_strides(shape, dtype.itemsize) if transpose else None
            for shape, transpose in zip(self._shapes, transposes)
        ]
        sizes = tuple(
            [work_items(array.size, transpose) for array, transpose in zip(arrays, transposes)]
        )
        self._layout = layout(sizes, WIDTH, 3)
        self._endings = [part.column(transposes) + part.ending for part in self._layout.parts]
        kernel = kernel_for(self._layout.capacity, self._given, dtype)
        self._launches = [kernel.launcher(part.blocks, THREADS) for part in self._layout.parts]
        self._places: list[int] = []
        self._columns: list[bytes] = []

    def fits(self, arrays: Sequence[Array]) -> bool:
        """Return whether the arrays have the group's shapes and dtype, contiguous and aligned."""
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
        in_parts = zip(self._layout.parts, self._columns, self._endings, self._launches)
        for part, given, ending, launch in in_parts:
            count = len(part.positions)
            made = struct.pack(f"{count}Q", *[base + offsets[at] for at in part.positions])
            table = given + made.ljust(8 * part.capacity, b"\0") + ending
            launch(table, chunk, count)
        dtype, results = self._dtype, zip(self._shapes, offsets, self._strides)
        return [_ndarray(shape, dtype, memory + at, strides) for shape, at, strides in results]


def _transposed_shape(shape: tuple[int, ...]) -> int:
    """Return the packed matrix shape of an array that may be filters, or 0 for other arrays.

    Other arrays of four or five dimensions are rare; for them only later reads get slower.
    """
    has_windows = len(shape) in (4, 5) and math.prod(shape[:-2]) > 1
    if not has_windows or 0 in shape or shape[-1] == 1 or library()[0] is None:
        return 0
    return pack_shape(math.prod(shape[:-1]), shape[-1])
