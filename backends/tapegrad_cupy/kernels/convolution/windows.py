"""The geometry of windows as kernel arguments, and the fallback to generic kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tapegrad_cupy.kernels.generic import run_generic

Array = Any
Shape = tuple[int, ...]
Padding = tuple[tuple[int, int], ...]

_FEW = 2**31
"""Below this many positions, kernels replace division by multiplication."""


@dataclass(frozen=True)
class Windows:
    """The geometry of windows along each spatial dimension."""

    spatial: Shape
    counts: Shape
    window: Shape
    strides: Shape
    padding: Padding
    dilation: Shape

    def pack(self) -> tuple[int, ...]:
        """Return the fields of the kernels' struct Windows."""
        split = (self.counts, self.window, self.spatial, self.strides)
        dividers = [n for lengths in split for length in lengths for n in divider(length)]
        return (*dividers, *(low for low, _ in self.padding), *self.dilation)

    @property
    def layout(self) -> str:
        """The format of those fields."""
        rank = len(self.spatial)
        return f"{12 * rank}I{2 * rank}i"


def find_windows(
    spatial: Shape, window: Shape, strides: Shape, padding: Padding, dilation: Shape
) -> Windows:
    """Return the geometry of all windows that fit into padded data."""
    counts = tuple(
        max(0, (size + low + high - (extent - 1) * step - 1) // stride + 1)
        for size, extent, stride, (low, high), step in zip(
            spatial, window, strides, padding, dilation
        )
    )
    return Windows(spatial, counts, window, strides, padding, dilation)


def divider(value: int) -> tuple[int, int, int]:
    """Return a number, and the factor and shift that divide by it.

    >>> value, magic, shift = divider(7)
    >>> ((1_000_000 * magic >> 32) + 1_000_000) >> shift
    142857
    """
    if value < 1:
        return 1, 1, 0
    shift = (value - 1).bit_length()
    return value, ((2**shift - value) << 32) // value + 1, shift


def window_macros(rank: int, is_long: bool) -> dict[str, str | int]:
    """Return the macros of window_source.py."""
    return {"RANK": rank, "COUNT": "unsigned long long" if is_long else "unsigned int"}


def is_many(*counts: int) -> bool:
    """Return whether positions need 64 bits."""
    return max(counts) >= _FEW


def by_generic_kernel(name: str, *arrays: Array, **params: Any) -> Any:
    """Run the generic kernel of a primitive; bfloat16 as float32, since CuPy corrupts memory."""
    dtype = arrays[0].dtype
    if dtype.name != "bfloat16":
        return run_generic(name, *arrays, **params)
    arrays = tuple(a.astype(np.float32) if a.dtype == dtype else a for a in arrays)
    return run_generic(name, *arrays, **params).astype(dtype)
