"""Maximum and average pooling and their gradients, one launch each.

Only the scatter to the positions of maxima takes two launches, since overlapping windows may share
a maximum. The first launch builds lists, so that the second adds in a fixed order.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator
from typing import Any

import cupy
import numpy as np

from tapegrad.core.backend.registry import by_name
from tapegrad_cupy.kernels.convolution.pooling_source import LISTED, MAXIMUM, MEAN, PICKED
from tapegrad_cupy.kernels.convolution.windows import (
    Padding,
    Shape,
    Windows,
    by_generic_kernel,
    divider,
    find_windows,
    is_many,
    window_macros,
)
from tapegrad_cupy.launch.cuda_prelude import C_TYPES, FLOATS, UNITS
from tapegrad_cupy.launch.cuda_source import (
    THREADS,
    Source,
    blocks_for,
    compile_kernel,
    contiguous,
    full_source,
    is_aligned,
)
from tapegrad_cupy.launch.launch import Kernel

Array = Any
Plan = Callable[[Array], Any]

MOST_PLANS = 4096
_MOST_CHANNELS = 4
"""The most channels per thread; positions take 8 bytes, so more would not save accesses."""

_plans: dict[Any, Plan] = {}

_INT64 = np.dtype(np.int64)
_REALS = {"complex64": np.dtype(np.float32), "complex128": np.dtype(np.float64)}


# Kernels


def max_pool(
    x: Array, *, window: Shape, strides: Shape, padding: Padding, dilation: Shape
) -> tuple[Array, Array]:
    """Return each window's maximum and its flat position, that of the first of equal elements."""
    params: dict[str, Any] = {
        "window": window,
        "strides": strides,
        "padding": padding,
        "dilation": dilation,
    }
    if x.dtype.name not in C_TYPES or x.dtype.kind == "b" or not window:
        values, places = by_generic_kernel("max_pool", x, **params)
        return values, places
    x = contiguous(x)
    key = ("max", x.shape, x.dtype.num, x.data.ptr & 15, window, strides, padding, dilation)
    plan = _plans.get(key)
    if plan is None:
        plan = _keep(key, _plan_maximum(x, find_windows(x.shape[1:-1], **params)))
    result: tuple[Array, Array] = plan(x)
    return result


def avg_pool(
    x: Array, *, window: Shape, strides: Shape, padding: Padding, count_padding: bool
) -> Array:
    """Return the mean of each window, without the padding unless `count_padding`."""
    params = {"window": window, "strides": strides, "padding": padding}
    if x.dtype.name in _REALS:
        return _by_parts(avg_pool, x, count_padding=count_padding, **params)
    if x.dtype.name not in FLOATS or not window:
        return by_generic_kernel("avg_pool", x, count_padding=count_padding, **params)
    x = contiguous(x)
    key = ("avg", x.shape, x.dtype.num, x.data.ptr & 15, window, strides, padding, count_padding)
    plan = _plans.get(key)
    if plan is None:
        windows = find_windows(x.shape[1:-1], window, strides, padding, (1,) * len(window))
        plan = _keep(key, _plan_mean("avg_pool", x, windows.counts, windows, count_padding))
    return plan(x)


def avg_pool_gradient(
    t: Array,
    *,
    spatial: Shape,
    window: Shape,
    strides: Shape,
    padding: Padding,
    count_padding: bool,
) -> Array:
    """Distribute each cotangent among the elements of its window."""
    params = {"spatial": spatial, "window": window, "strides": strides, "padding": padding}
    if t.dtype.name in _REALS:
        return _by_parts(avg_pool_gradient, t, count_padding=count_padding, **params)
    if t.dtype.name not in FLOATS or not window:
        return by_generic_kernel("avg_pool_gradient", t, count_padding=count_padding, **params)
    t = contiguous(t)
    key = (
        "avg_t", t.shape, t.dtype.num, t.data.ptr & 15, spatial, window, strides, padding,
        count_padding,
    )  # fmt: skip
    plan = _plans.get(key)
    if plan is None:
        windows = Windows(spatial, t.shape[1:-1], window, strides, padding, (1,) * len(window))
        plan = _keep(key, _plan_mean("avg_pool_gradient", t, spatial, windows, count_padding))
    return plan(t)


def pool_gather(x: Array, indices: Array) -> Array:
    """Pick `x[n, indices, c]`, with the spatial dimensions of `x` taken as one."""
    x, indices = contiguous(x), contiguous(indices.astype(_INT64, copy=False))
    y = cupy.ndarray(indices.shape, x.dtype)
    if not y.size:
        return y
    area, channels, windows = _sizes(x.shape[1:-1], indices.shape)
    if not area:
        return cupy.zeros(indices.shape, x.dtype)
    size = x.dtype.itemsize
    if size > 8:  # complex128 is gathered as two doubles
        pairs = cupy.repeat(indices, 2, axis=-1)
        return pool_gather(x.view(np.float64), pairs).view(x.dtype)
    kernel = _picking_kernel("pool_gather", size, is_many(y.size))
    kernel(
        blocks_for(y.size), THREADS, x.data.ptr, indices.data.ptr, y.data.ptr, y.size, area,
        *divider(channels), *divider(windows),
    )  # fmt: skip
    return y


def pool_scatter(t: Array, indices: Array, *, spatial: Shape, unique: bool = False) -> Array:
    """Transpose `pool_gather`: add each cotangent to the element that was picked.

    If `unique`, no element was picked twice.
    """
    if t.dtype.name not in C_TYPES or t.dtype.kind == "b":
        return by_generic_kernel("pool_scatter", t, indices, spatial=spatial)
    t, indices = contiguous(t), contiguous(indices.astype(_INT64, copy=False))
    shape = (t.shape[0], *spatial, t.shape[-1])
    if not t.size or 0 in shape:
        return cupy.zeros(shape, t.dtype)
    area, channels, windows = _sizes(spatial, t.shape)
    if unique:
        g = cupy.zeros(shape, t.dtype)
        place = _picking_kernel("pool_place", t.dtype.itemsize, is_many(t.size, g.size))
        place(
            blocks_for(t.size), THREADS, t.data.ptr, indices.data.ptr, g.data.ptr, t.size, area,
            *divider(channels), *divider(windows),
        )  # fmt: skip
        return g
    g = cupy.ndarray(shape, t.dtype)
    is_long = is_many(t.size, g.size)
    number = cupy.uint64 if is_long else cupy.uint32
    heads, after = cupy.zeros(g.size, number), cupy.ndarray((t.size,), number)
    link, add = _scatter_kernels(t.dtype.name, is_long)
    link(
        blocks_for(t.size), THREADS, indices.data.ptr, heads.data.ptr, after.data.ptr, t.size, area,
        *divider(channels), *divider(windows),
    )  # fmt: skip
    add(
        blocks_for(g.size), THREADS,
        t.data.ptr, heads.data.ptr, after.data.ptr, g.data.ptr, g.size,
    )  # fmt: skip
    return g


KERNELS = by_name(avg_pool, avg_pool_gradient, max_pool, pool_gather, pool_scatter)


# Plans


@functools.cache
def _kernel(source: str, name: str, arguments: str, **macros: str | int) -> Kernel:
    return Kernel(lambda: compile_kernel(source, name, **macros), arguments)


def variants() -> Iterator[Source]:
    """Yield all sources of this module, for three dimensions and the longest vectors."""
    numbers = [name for name in C_TYPES if name != "bool"]
    for is_long in (False, True):
        macros = window_macros(3, is_long)
        count = macros["COUNT"]
        for unit in (UNITS[size] for size in (1, 2, 4, 8)):
            yield Source(f"pool_gather {unit} {count}", full_source(PICKED, UNIT=unit, **macros))
        for dtype in numbers:
            size = FLOATS.get(dtype) or np.dtype(dtype).itemsize
            typed: dict[str, str | int] = {"T": C_TYPES[dtype], **macros}
            vector = min(_MOST_CHANNELS, 16 // size)
            text = full_source(MAXIMUM, V=vector, LOWEST=_lowest(dtype), **typed)
            yield Source(f"max_pool {dtype} {count}", text)
            yield Source(f"pool_scatter {dtype} {count}", full_source(LISTED, **typed))
            if dtype in FLOATS:
                yield Source(f"avg_pool {dtype} {count}", full_source(MEAN, V=16 // size, **typed))


def _keep(key: Any, plan: Plan) -> Plan:
    if len(_plans) >= MOST_PLANS:
        _plans.clear()
    _plans[key] = plan
    return plan


def _vector(x: Array, most: int) -> int:
    """Return how many channels a thread processes: as many as one access moves."""
    if not is_aligned(x):
        return 1
    return math.gcd(x.shape[-1], min(most, 16 // x.dtype.itemsize))


def _plan_maximum(x: Array, windows: Windows) -> Plan:
    shape, dtype = (x.shape[0], *windows.counts, x.shape[-1]), x.dtype
    vector = _vector(x, _MOST_CHANNELS)
    total = math.prod(shape) // vector
    if not total:
        return lambda x: (cupy.ndarray(shape, dtype), cupy.ndarray(shape, _INT64))
    kernel = _kernel(
        MAXIMUM, "max_pool", f"PPPqi3I{windows.layout}",
        T=C_TYPES[dtype.name], V=vector, LOWEST=_lowest(dtype.name),
        **window_macros(len(windows.spatial), is_many(total)),
    )  # fmt: skip
    blocks, places = blocks_for(total), math.prod(windows.window)
    geometry = (*divider(shape[-1] // vector), *windows.pack())

    def run(x: Array) -> tuple[Array, Array]:
        y, index = cupy.ndarray(shape, dtype), cupy.ndarray(shape, _INT64)
        kernel(blocks, THREADS, x.data.ptr, y.data.ptr, index.data.ptr, total, places, *geometry)
        return y, index

    return run


def _lowest(dtype: str) -> str:
    """Return the maximum of an empty window, as a C expression."""
    if dtype in FLOATS:
        return "(-__int_as_float(0x7f800000))"
    info = np.iinfo(dtype)
    return f"(T)({hex(info.min & (2**info.bits - 1))}ull)"


def _plan_mean(name: str, x: Array, spatial: Shape, windows: Windows, count_padding: bool) -> Plan:
    """Return the plan of `avg_pool` or its transpose, which differ in the shape of the result."""
    shape, dtype = (x.shape[0], *spatial, x.shape[-1]), x.dtype
    vector = _vector(x, 8)
    total = math.prod(shape) // vector
    if not total or not x.size:
        return lambda x: cupy.zeros(shape, dtype)
    kernel = _kernel(
        MEAN, name, f"PPqii3I{windows.layout}", T=C_TYPES[dtype.name], V=vector,
        **window_macros(len(windows.spatial), is_many(total)),
    )  # fmt: skip
    blocks, places = blocks_for(total), math.prod(windows.window)
    geometry = (*divider(shape[-1] // vector), *windows.pack())

    def run(x: Array) -> Array:
        y = cupy.ndarray(shape, dtype)
        kernel(
            blocks, THREADS, x.data.ptr, y.data.ptr, total, places, int(count_padding), *geometry
        )
        return y

    return run


def _by_parts(kernel: Callable[..., Any], x: Array, **params: Any) -> Array:
    """Pool complex numbers as twice as many channels of real ones."""
    return kernel(contiguous(x).view(_REALS[x.dtype.name]), **params).view(x.dtype)


def _sizes(spatial: Shape, shape: Shape) -> tuple[int, int, int]:
    """Return the number of pixels of an image, its channels, and its windows."""
    return math.prod(spatial), shape[-1], math.prod(shape[1:-1])


def _picking_kernel(name: str, size: int, is_long: bool) -> Kernel:
    """Return a kernel that moves elements of so many bytes."""
    return _kernel(PICKED, name, "PPPqq6I", UNIT=UNITS[size], **window_macros(1, is_long))


def _scatter_kernels(dtype: str, is_long: bool) -> tuple[Kernel, Kernel]:
    macros = window_macros(1, is_long)
    link = _kernel(PICKED, "pool_link", "PPPqq6I", UNIT=UNITS[1], **macros)
    add = _kernel(LISTED, "pool_scatter", "PPPPq", T=C_TYPES[dtype], **macros)
    return link, add
