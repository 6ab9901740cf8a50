"""`convolve` with HIPS autograd's signature, which also contracts and keeps axes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from tapegrad import numpy as tensors
from tapegrad.compat.autograd.values import plain
from tapegrad.core.argument_checks import check_choice
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.ops.convolution.functions import convolution

__all__ = ["convolve"]

Axes = tuple[tuple[int, ...], tuple[int, ...]]
MOST_AXES = 3
"""The maximum number of axes of the engine's convolution."""


def convolve(A: Any, B: Any, axes: Any = None, dot_axes: Any = ((), ()), mode: str = "full") -> Any:
    """Convolve `A` with `B` along pairs of axes, and sum products over the pairs of `dot_axes`.

    The axes of the result are the unpaired axes of `A`, the unpaired axes of `B`, and the convolved
    axes. `mode` is "full", "valid" or "same".

    >>> convolve([1.0, 2.0, 3.0], [1.0, 1.0], mode="valid").tolist()
    [3.0, 5.0]
    """
    check_choice("mode", mode, ("full", "valid", "same"))
    A, B = tensors.asarray(A), tensors.asarray(B)
    every = tuple(range(A.ndim))
    slid: Axes = (every, every) if axes is None else _pairs(axes, A, B, "axes")
    summed = _pairs(dot_axes or ((), ()), A, B, "dot_axes")
    if len(slid[0]) > MOST_AXES:
        raise ShapeError(f"convolve supports at most {MOST_AXES} axes. Got {len(slid[0])}.")
    return plain(_convolved(A, B, slid, summed, mode))


def _pairs(axes: Any, A: Any, B: Any, name: str) -> Axes:
    of_a = tuple(int(axis) % A.ndim for axis in axes[0])
    of_b = tuple(int(axis) % B.ndim for axis in axes[1])
    if len(of_a) != len(of_b):
        raise ArgumentError(f"{name} must pair axes of A with as many axes of B. Got {axes!r}.")
    return of_a, of_b


def _convolved(A: Any, B: Any, slid: Axes, summed: Axes, mode: str) -> Any:
    kept_a = [i for i in range(A.ndim) if i not in slid[0] + summed[0]]
    kept_b = [i for i in range(B.ndim) if i not in slid[1] + summed[1]]
    sizes_a, sizes_b = _sizes(A, slid[0]), _sizes(B, slid[1])
    if not slid[0]:
        return tensors.tensordot(A, B, summed)
    if mode == "valid" and any(b > a for a, b in zip(sizes_a, sizes_b, strict=True)):
        if any(a > b for a, b in zip(sizes_a, sizes_b, strict=True)):
            raise ShapeError(
                "With mode='valid' one array must be at least as long as the other along all "
                f"axes. Got {sizes_a} and {sizes_b}."
            )
        swapped = _convolved(B, A, slid[::-1], summed[::-1], mode)
        a, b, n = len(kept_a), len(kept_b), len(slid[0])
        return tensors.transpose(swapped, [*range(b, a + b), *range(b), *range(a + b, a + b + n)])
    terms = prod(_sizes(A, summed[0]))
    data = tensors.transpose(A, [*kept_a, *slid[0], *summed[0]])
    data = tensors.reshape(data, (prod(_sizes(A, kept_a)), *sizes_a, terms))
    data = tensors.pad(data, [(0, 0), *[_margin(size, mode) for size in sizes_b], (0, 0)])
    window = tensors.flip(
        tensors.transpose(B, [*slid[1], *summed[1], *kept_b]), tuple(range(len(slid[1])))
    )
    window = tensors.reshape(window, (*sizes_b, terms, prod(_sizes(B, kept_b))))
    out = tensors.moveaxis(convolution(data, window, padding="VALID"), -1, 1)
    return tensors.reshape(out, (*_sizes(A, kept_a), *_sizes(B, kept_b), *out.shape[2:]))


def _sizes(x: Any, axes: Sequence[int]) -> tuple[int, ...]:
    return tuple(x.shape[axis] for axis in axes)


def _margin(size: int, mode: str) -> tuple[int, int]:
    """Return the padding before and after the data for a window of this size."""
    if mode == "valid":
        return 0, 0
    if mode == "full":
        return size - 1, size - 1
    after = (size - 1) // 2
    return size - 1 - after, after
