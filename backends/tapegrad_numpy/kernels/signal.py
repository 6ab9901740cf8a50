"""Frames of signals and convolution of sequences, without the index arrays of generic kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view
from numpy.typing import NDArray

from tapegrad.core.backend.registry import by_name

Array = NDArray[Any]


def frames(x: Array, *, length: int, step: int) -> Array:
    """Return the frames of `length` entries that start every `step` entries of the last axis."""
    if x.shape[-1] < length:
        return np.empty((*x.shape[:-1], 0, length), x.dtype)
    return np.array(sliding_window_view(x, length, axis=-1)[..., ::step, :])


def overlap_and_add(x: Array, *, step: int) -> Array:
    """Add frames that start every `step` entries, by frame or by block, whichever are fewer."""
    *lead, count, length = x.shape
    blocks = -(-length // step)
    flat = np.zeros((*lead, (count + blocks) * step), x.dtype)
    if count <= blocks:
        for k in range(count):
            flat[..., k * step : k * step + length] += x[..., k, :]
    else:
        rows = flat.reshape(*lead, count + blocks, step)
        for k in range(blocks):
            part = x[..., k * step : (k + 1) * step]
            rows[..., k : k + count, : part.shape[-1]] += part
    return flat[..., : (count - 1) * step + length if count else 0]


def convolve(a: Array, b: Array) -> Array:
    """Convolve each pair of sequences of two batches."""
    if a.ndim == 1:
        return np.convolve(a, b)
    rows = [np.convolve(*pair) for pair in zip(_rows(a), _rows(b), strict=True)]
    width = a.shape[-1] + b.shape[-1] - 1
    return np.array(rows, np.result_type(a, b)).reshape(*a.shape[:-1], width)


def sliding_dot(x: Array, w: Array) -> Array:
    """Return the sums of x[..., n + k] w[..., k] over k, for all n where the two overlap."""
    flipped = w[..., ::-1]
    if x.ndim == 1:
        return np.convolve(x, flipped, "valid")
    pairs = zip(_rows(x), _rows(flipped), strict=True)
    width = x.shape[-1] - w.shape[-1] + 1
    rows = [np.convolve(*pair, "valid") for pair in pairs]
    return np.array(rows, np.result_type(x, w)).reshape(*x.shape[:-1], width)


def _rows(x: Array) -> Array:
    return x.reshape(int(np.prod(x.shape[:-1])), x.shape[-1])


KERNELS = by_name(frames, overlap_and_add, convolve, sliding_dot)
