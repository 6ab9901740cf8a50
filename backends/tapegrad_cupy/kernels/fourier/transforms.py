"""Real Fourier transforms by cuFFT, without the copies of CuPy's functions.

Recorded programs call them without a normalization (see `with_definitions`), which loops then
compute with their neighbours.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Sequence
from math import prod
from typing import Any

import cupy

from tapegrad_cupy.kernels.copying.copies import contiguous_copy
from tapegrad_cupy.kernels.generic import run_generic

Array = Any

_MOST_PLANS = 64
"""The plans that are kept for eager calls."""

_TO_COMPLEX = {"float32": "complex64", "float64": "complex128"}
_TO_REAL = {whole: part for part, whole in _TO_COMPLEX.items()}

_captured: dict[tuple[Any, ...], Any] = {}
"""The plans that CUDA graphs may use, whose scratch memory must not be freed."""

_lock = threading.Lock()
"""Held from choosing the stream of a plan to the end of a call."""


@functools.lru_cache(maxsize=_MOST_PLANS)
def _new_plan(device: int, lengths: tuple[int, ...], kind: int, batch: int) -> Any:
    cufft = cupy.cuda.cufft
    # The scratch memory of a plan must not belong to the graph that is captured.
    with cupy.cuda.using_allocator(cupy.get_default_memory_pool().malloc):
        if len(lengths) == 1:
            return cufft.Plan1d(lengths[0], kind, batch)
        half = (*lengths[:-1], lengths[-1] // 2 + 1)
        is_forward = kind in (cufft.CUFFT_R2C, cufft.CUFFT_D2Z)
        read, written = (lengths, half) if is_forward else (half, lengths)
        last = None if is_forward else lengths[-1]
        return cufft.PlanNd(
            lengths, read, 1, prod(read), written, 1, prod(written), kind, batch,
            "C", len(lengths), last,
        )  # fmt: skip


def _plan(lengths: tuple[int, ...], kind: int, batch: int) -> Any:
    key = (cupy.cuda.runtime.getDevice(), lengths, kind, batch)
    plan = _captured.get(key) or _new_plan(*key)
    if cupy.cuda.get_current_stream().is_capturing():
        _captured[key] = plan
    return plan


def _transform(x: Array, result: Array, lengths: tuple[int, ...], forward: bool) -> None:
    """Transform contiguous arrays along their last axes; `lengths` are those of the real side."""
    cufft = cupy.cuda.cufft
    is_double = x.dtype.name in ("float64", "complex128")
    kinds = (cufft.CUFFT_R2C, cufft.CUFFT_D2Z) if forward else (cufft.CUFFT_C2R, cufft.CUFFT_Z2D)
    batch = prod(result.shape[: result.ndim - len(lengths)])
    plan = _plan(lengths, kinds[is_double], batch)
    with _lock:
        plan.fft(x, result, cufft.CUFFT_FORWARD if forward else cufft.CUFFT_INVERSE)


def real_fourier(x: Array, *, axis: int, norm: str) -> Array:
    """Return the first n // 2 + 1 entries of the transform of real values."""
    if x.dtype.name not in _TO_COMPLEX or not x.size:
        return run_generic("real_fourier", x, axis=axis, norm=norm)
    moved = _contiguous(x.swapaxes(axis, -1))
    n = moved.shape[-1]
    y = cupy.ndarray((*moved.shape[:-1], n // 2 + 1), _TO_COMPLEX[x.dtype.name])
    _transform(moved, y, (n,), forward=True)
    _scale(y, n, norm, "backward")
    return y.swapaxes(axis, -1)


def inverse_real_fourier(
    x: Array, *, axis: int, n: int, norm: str, may_overwrite: bool = False
) -> Array:
    """Return the real transform of the first n // 2 + 1 entries.

    cuFFT uses its operand as scratch memory, so it gets a copy unless it may be overwritten.
    """
    if x.dtype.name not in _TO_REAL or not x.size or x.shape[axis] != n // 2 + 1:
        return run_generic("inverse_real_fourier", x, axis=axis, n=n, norm=norm)
    moved = x.swapaxes(axis, -1)
    if not (may_overwrite and moved.flags.c_contiguous):
        moved = contiguous_copy(moved)
    y = cupy.ndarray((*moved.shape[:-1], n), _TO_REAL[x.dtype.name])
    _transform(moved, y, (n,), forward=False)
    _scale(y, n, norm, "forward")
    return y.swapaxes(axis, -1)


def _contiguous(x: Array) -> Array:
    return x if x.flags.c_contiguous else contiguous_copy(x)


def _axes_last(rank: int, axes: Sequence[int]) -> tuple[list[int], list[int]]:
    """Return the order of axes that moves some behind the others, and the order back."""
    order = [axis for axis in range(rank) if axis not in axes] + [*axes]
    return order, [order.index(axis) for axis in range(rank)]


def real_fourier_nd(x: Array, *, axes: tuple[int, ...]) -> Array:
    """Return the transform of real values over several axes, the last of which is halved."""
    if x.dtype.name not in _TO_COMPLEX or not x.size:
        return run_generic("real_fourier_nd", x, axes=axes)
    order, back = _axes_last(x.ndim, axes)
    moved = _contiguous(x.transpose(order))
    y = cupy.ndarray((*moved.shape[:-1], moved.shape[-1] // 2 + 1), _TO_COMPLEX[x.dtype.name])
    _transform(moved, y, moved.shape[-len(axes) :], forward=True)
    return y.transpose(back)


def inverse_real_fourier_nd(
    x: Array, *, axes: tuple[int, ...], n: int, may_overwrite: bool = False
) -> Array:
    """Return the real transform over several axes, of length `n` along the last of them."""
    if x.dtype.name not in _TO_REAL or not x.size or x.shape[axes[-1]] != n // 2 + 1:
        return run_generic("inverse_real_fourier_nd", x, axes=axes, n=n)
    order, back = _axes_last(x.ndim, axes)
    moved = x.transpose(order)
    if not (may_overwrite and moved.flags.c_contiguous):
        moved = contiguous_copy(moved)
    y = cupy.ndarray((*moved.shape[:-1], n), _TO_REAL[x.dtype.name])
    _transform(moved, y, y.shape[-len(axes) :], forward=False)
    return y.transpose(back)


def _scale(y: Array, n: int, norm: str, unscaled: str) -> None:
    """Multiply by the factor of a normalization; that called `unscaled` has none."""
    if norm != unscaled:
        factor = y.dtype.type(n**-0.5 if norm == "ortho" else 1 / n)
        cupy.multiply(y, factor, out=y)


overwrite_spectrum = functools.partial(inverse_real_fourier, may_overwrite=True)
"""Like `inverse_real_fourier`, but uses the operand as scratch memory."""

overwrite_spectra = functools.partial(inverse_real_fourier_nd, may_overwrite=True)
"""Likewise, of several axes."""

KERNELS = {
    "real_fourier": real_fourier,
    "inverse_real_fourier": inverse_real_fourier,
    "real_fourier_nd": real_fourier_nd,
    "inverse_real_fourier_nd": inverse_real_fourier_nd,
}
