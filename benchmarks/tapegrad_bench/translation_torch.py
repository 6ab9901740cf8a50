"""Kernels of PyTorch for primitives whose generic kernels fail or are slow there.

Convolutions use cuDNN's or oneDNN's through `torch.ops.aten`; scatters use `index_add` and
`scatter_add`.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from typing import Any

Array = Any
Shape = tuple[int, ...]
Padding = tuple[tuple[int, int], ...]
Index = tuple[Any, ...]
Kernel = Callable[..., Any]


def torch_kernels(generic: Callable[[str], Kernel]) -> dict[str, Kernel]:
    """Return kernels by the names of primitives; `generic` finds the generic one by name."""
    torch: Any = importlib.import_module("torch")
    windows, parts = _Windows(torch, generic), _Parts(torch)
    return {
        "conv": windows.conv,
        "conv_input_gradient": windows.conv_input_gradient,
        "conv_filter_gradient": windows.conv_filter_gradient,
        "max_pool": windows.max_pool,
        "slice": parts.slice,
        "unslice": parts.unslice,
        "slice_set": parts.slice_set,
        "take_add": parts.take_add,
        "scatter_along_axis": parts.along_axis,
        "segment_sum": parts.segment_sum,
        "pool_scatter": parts.pool_scatter,
        "polygamma": lambda n, x: _polygamma(torch, n, x),
        **{name: _wrapping(torch, generic(name)) for name in ("add", "subtract")},
    }


def _wrapping(torch: Any, kernel: Kernel) -> Kernel:
    """Compute with unsigned numbers in int64: the bits are the same, and uint64 has no sums."""

    def run(x: Array, y: Array) -> Array:
        if x.dtype is torch.uint64 or y.dtype is torch.uint64:
            return kernel(x.to(torch.int64), y.to(torch.int64)).to(torch.uint64)
        return kernel(x, y)

    return run


def _polygamma(torch: Any, n: Array, x: Array) -> Array:
    """(-1)^(n + 1) n! zeta(n + 1, x), and the digamma function at n = 0: torch takes no array n."""
    sign = torch.where(torch.remainder(n, 2) == 0, -1.0, 1.0).to(x.dtype)
    value = sign * torch.exp(torch.special.gammaln(n + 1.0)) * torch.special.zeta(n + 1.0, x)
    return torch.where(n == 0, torch.special.digamma(x), value)


class _Windows:
    """Convolutions and pooling over `x[n, *spatial, c]`."""

    def __init__(self, torch: Any, generic: Callable[[str], Kernel]) -> None:
        self.torch = torch
        self._generic = generic

    def _is_native(self, *arrays: Array, rank: int) -> bool:
        return 1 <= rank <= 3 and all(array.is_floating_point() for array in arrays)

    def conv(self, x: Array, w: Array, *, padding: Padding, **params: Any) -> Array:
        if not self._is_native(x, w, rank=len(padding)):
            return self._generic("conv")(x, w, padding=padding, **params)
        dtype = self.torch.promote_types(x.dtype, w.dtype)
        x, symmetric = self._padded(_channels_first(x.to(dtype)), padding)
        y = self.torch.ops.aten.convolution(
            x, _filters_first(w.to(dtype)), None, *_setting(symmetric, params)
        )
        return y.movedim(1, -1)

    def conv_input_gradient(
        self, t: Array, w: Array, *, input_shape: Shape, padding: Padding, **params: Any
    ) -> Array:
        if not self._is_native(t, w, rank=len(padding)):
            return self._generic("conv_input_gradient")(
                t, w, input_shape=input_shape, padding=padding, **params
            )
        dtype = self.torch.promote_types(t.dtype, w.dtype)
        like = self.torch.empty(input_shape, dtype=dtype, device=t.device)
        x, symmetric = self._padded(_channels_first(like), padding)
        g = self._backward(t.to(dtype), x, _filters_first(w.to(dtype)), symmetric, params, 0)
        if any(low != high for low, high in padding):
            inner = zip(padding, input_shape[1:-1], strict=True)
            g = g[(..., *[slice(low, low + size) for (low, _), size in inner])]
        return g.movedim(1, -1)

    def conv_filter_gradient(
        self, x: Array, t: Array, *, window: Shape, padding: Padding, **params: Any
    ) -> Array:
        if not self._is_native(x, t, rank=len(padding)):
            return self._generic("conv_filter_gradient")(
                x, t, window=window, padding=padding, **params
            )
        dtype = self.torch.promote_types(x.dtype, t.dtype)
        shape = (t.shape[-1], x.shape[-1] // params["groups"], *window)
        w = self.torch.empty(shape, dtype=dtype, device=t.device)
        padded, symmetric = self._padded(_channels_first(x.to(dtype)), padding)
        g = self._backward(t.to(dtype), padded, w, symmetric, params, 1)
        return g.movedim(0, -1).movedim(0, -2)

    def _backward(
        self, t: Array, x: Array, w: Array, padding: list[int], params: Any, which: int
    ) -> Array:
        """Return the gradient of the data (0) or of the filters (1)."""
        return self.torch.ops.aten.convolution_backward(
            _channels_first(t),
            x,
            w,
            None,
            *_setting(padding, params),
            [which == 0, which == 1, False],
        )[which]

    def _padded(self, x: Array, padding: Padding) -> tuple[Array, list[int]]:
        """Return the data and the padding that is left to the convolution."""
        if all(low == high >= 0 for low, high in padding):
            return x, [low for low, _ in padding]
        return self._pad(x, padding, 0.0), [0] * len(padding)

    def _pad(self, x: Array, padding: Padding, value: float) -> Array:
        sizes = [size for pair in reversed(padding) for size in pair]
        return self.torch.nn.functional.pad(x, sizes, value=value)

    def max_pool(
        self, x: Array, *, window: Shape, strides: Shape, padding: Padding, dilation: Shape
    ) -> tuple[Array, Array]:
        if not self._is_native(x, rank=len(window)):
            values, places = self._generic("max_pool")(
                x, window=window, strides=strides, padding=padding, dilation=dilation
            )
            return values, places
        pool = getattr(self.torch.nn.functional, f"max_pool{len(window)}d")
        padded = self._pad(_channels_first(x), padding, -math.inf)
        best, found = pool(padded, window, strides, dilation=dilation, return_indices=True)
        if any(map(any, padding)):
            found = _unpadded(self.torch, found, x.shape[1:-1], padded.shape[2:], padding)
        return best.movedim(1, -1), found.movedim(1, -1)


def _channels_first(x: Array) -> Array:
    return x.movedim(-1, 1)


def _filters_first(w: Array) -> Array:
    """Turn `[*window, c_in, c_out]` into `[c_out, c_in, *window]`."""
    return w.movedim(-1, 0).movedim(-1, 1)


def _setting(padding: list[int], params: Any) -> tuple[Any, ...]:
    strides, dilation = [*params["strides"]], [*params["dilation"]]
    return strides, padding, dilation, False, [0] * len(padding), params["groups"]


def _unpadded(torch: Any, found: Array, spatial: Shape, padded: Shape, padding: Padding) -> Array:
    """Turn flat positions in padded data into those in the data itself."""
    position, rest = 0, found
    places: list[Array] = []
    for size in reversed(padded):
        places.append(rest % size)
        rest = rest // size
    for place, size, (low, _) in zip(reversed(places), spatial, padding, strict=True):
        position = position * size + (place - low)
    return position


class _Parts:
    """Reads and writes of parts of arrays."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch

    def slice(self, x: Array, *, index: Index) -> Array:
        forward, flipped = _forward_steps(index, x.shape)
        part = x[forward]
        return part.flip(flipped) if flipped else part

    def unslice(self, t: Array, *, index: Index, shape: Shape) -> Array:
        return self.slice_set(
            self.torch.zeros(shape, dtype=t.dtype, device=t.device), t, index=index
        )

    def slice_set(self, x: Array, v: Array, *, index: Index) -> Array:
        forward, flipped = _forward_steps(index, x.shape)
        y = x.clone()
        part = y[forward]
        v = v.broadcast_to(part.shape)
        y[forward] = v.flip(flipped) if flipped else v
        return y

    def take_add(self, t: Array, indices: Array, *, axis: int, size: int) -> Array:
        outer, inner = t.shape[:axis], t.shape[axis + indices.ndim :]
        flat = indices.reshape(-1).to(self.torch.int64)
        rows = t.reshape(*outer, flat.shape[0], *inner)
        flat = self.torch.where(flat < 0, flat + size, flat)
        return self._sum_rows(rows, flat, axis, size)

    def segment_sum(self, x: Array, ids: Array, *, num: int) -> Array:
        return self._sum_rows(x, ids.to(self.torch.int64), 0, num)

    def _sum_rows(self, rows: Array, places: Array, axis: int, size: int) -> Array:
        """Add rows at their places; those out of range go to a row that is cut off."""
        shape = (*rows.shape[:axis], size + 1, *rows.shape[axis + 1 :])
        inside = (places >= 0) & (places < size)
        places = self.torch.where(inside, places, size)
        zeros = self.torch.zeros(shape, dtype=rows.dtype, device=rows.device)
        return zeros.index_add(axis, places, rows).narrow(axis, 0, size)

    def along_axis(
        self, t: Array, indices: Array, *, axis: int, length: int, unique: bool
    ) -> Array:
        shape = list(t.shape)
        shape[axis] = length
        places = self.torch.where(indices < 0, indices + length, indices)
        places = places.to(self.torch.int64).broadcast_to(t.shape)
        zeros = self.torch.zeros(shape, dtype=t.dtype, device=t.device)
        return zeros.scatter_add(axis, places, t)

    def pool_scatter(
        self, t: Array, indices: Array, *, spatial: Shape, unique: bool = False
    ) -> Array:
        n, channels = t.shape[0], t.shape[-1]
        zeros = self.torch.zeros((n, math.prod(spatial), channels), dtype=t.dtype, device=t.device)
        places = indices.reshape(n, -1, channels)
        total = zeros.scatter_add(1, places, t.reshape(n, -1, channels))
        return total.reshape(n, *spatial, channels)


def _forward_steps(index: Index, shape: Shape) -> tuple[Index, list[int]]:
    """Return an index without negative steps, and the axes of the part that are then reversed."""
    whole = len(shape) - sum(part is not None and part is not Ellipsis for part in index)
    forward: list[Any] = []
    flipped: list[int] = []
    axis = place = 0
    for part in index:
        if part is Ellipsis:
            axis, place = axis + whole, place + whole
        elif isinstance(part, slice):
            if part.step is not None and part.step < 0:
                covered = range(*part.indices(shape[axis]))
                flipped.append(place)
                part = slice(covered[-1], covered[0] + 1, -part.step) if covered else slice(0, 0)
            axis, place = axis + 1, place + 1
        elif part is None:
            place += 1
        else:
            axis += 1
        forward.append(part)
    return tuple(forward), flipped
