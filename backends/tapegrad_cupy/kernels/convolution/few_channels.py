"""Convolution of few channels with small windows, such as stencils: one pass at memory speed.

The libraries' kernels are made for many channels. Here a thread computes all outputs of one group
of channels at a few neighbouring positions, with all sizes known to the compiler. The gradient of
the data for strides of 1 is a convolution with reversed windows.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any, NamedTuple

import cupy

from tapegrad_cupy.kernels.convolution import grouped
from tapegrad_cupy.kernels.convolution.patches import Convolution, Plan
from tapegrad_cupy.kernels.convolution.windows import Windows, is_many
from tapegrad_cupy.launch.cuda_prelude import C_TYPES, FLOATS, prelude_for
from tapegrad_cupy.launch.cuda_source import THREADS, Source, blocks_for
from tapegrad_cupy.launch.launch import Kernel, kernel_from

Array = Any

MOST_CHANNELS = 16
"""With more channels the libraries' kernels are used."""

MOST_PRODUCTS = 100
"""The most multiplications per position and group."""

_POSITIONS = 4
"""Positions along the last but one axis for which a thread computes results."""

SOURCE = r"""
typedef Wider<T>::type A;

// Windows of KD x KH x KW elements over data of d x h x w positions, FAN channels and SHARE outputs
// per group. A reversed window is that of a gradient, in which FAN counts the outputs.
extern "C" __global__ void __launch_bounds__(256) few_channels(
    const T* __restrict__ x, const T* __restrict__ weights, T* __restrict__ y, unsigned int total,
    unsigned int groups, int d, int h, int w, unsigned int out_d, unsigned int out_h,
    unsigned int out_w, int low_d, int low_h, int low_w
) {
    const unsigned int i = blockIdx.x * 256u + threadIdx.x;
    if (i >= total) return;
    const unsigned int group = i % groups, blocks_h = (out_h + POSITIONS - 1) / POSITIONS;
    unsigned int rest = i / groups;
    const unsigned int column = rest % out_w;
    rest /= out_w;
    const unsigned int first_row = rest % blocks_h * POSITIONS;
    rest /= blocks_h;
    const unsigned int slice = rest % out_d, image = rest / out_d;
    const int from_d = (int)slice * STRIDE_D - low_d, from_h = (int)first_row * STRIDE_H - low_h;
    const int from_w = (int)column * STRIDE_W - low_w;
    const i64 channels = (i64)groups * FAN, outputs = (i64)groups * SHARE;
    A sums[POSITIONS][SHARE];
#pragma unroll
    for (int p = 0; p < POSITIONS; ++p) {
#pragma unroll
        for (int s = 0; s < SHARE; ++s) sums[p][s] = 0;
    }
#pragma unroll
    for (int kd = 0; kd < KD; ++kd) {
        const int at_d = from_d + kd * STEP_D;
        const bool is_slice = (unsigned int)at_d < (unsigned int)d;
#pragma unroll
        for (int r = 0; r <= (POSITIONS - 1) * STRIDE_H + (KH - 1) * STEP_H; ++r) {
            const int at_h = from_h + r;
            const bool is_row = is_slice && (unsigned int)at_h < (unsigned int)h;
            const i64 start = (((i64)image * d + at_d) * h + at_h) * w;
#pragma unroll
            for (int kw = 0; kw < KW; ++kw) {
                const int at_w = from_w + kw * STEP_W;
                const bool is_there = is_row && (unsigned int)at_w < (unsigned int)w;
#pragma unroll
                for (int c = 0; c < FAN; ++c) {
                    A value = 0;
                    if (is_there) value = widen(x[(start + at_w) * channels + group * FAN + c]);
#pragma unroll
                    for (int kh = 0; kh < KH; ++kh) {
                        const int behind = r - kh * STEP_H;
                        if (behind < 0 || behind % STRIDE_H || behind / STRIDE_H >= POSITIONS) {
                            continue;
                        }
                        const int place = (kd * KH + kh) * KW + kw;
#pragma unroll
                        for (int s = 0; s < SHARE; ++s) {
#if REVERSED
                            const i64 weight = ((i64)(KD * KH * KW - 1 - place) * SHARE + s)
                                * channels + group * FAN + c;
#else
                            const i64 weight = ((i64)place * FAN + c) * outputs + group * SHARE + s;
#endif
                            sums[behind / STRIDE_H][s] += value * widen(weights[weight]);
                        }
                    }
                }
            }
        }
    }
#pragma unroll
    for (int p = 0; p < POSITIONS; ++p) {
        if (first_row + p >= out_h) break;
        const i64 position =
            (((i64)image * out_d + slice) * out_h + first_row + p) * out_w + column;
#pragma unroll
        for (int s = 0; s < SHARE; ++s) {
            y[position * outputs + group * SHARE + s] = narrow<T>(sums[p][s]);
        }
    }
}
"""


class Form(NamedTuple):
    """What a kernel is compiled for; sizes are those of three axes."""

    dtype: str
    window: tuple[int, ...]
    strides: tuple[int, ...]
    steps: tuple[int, ...]
    fan: int
    share: int
    positions: int
    is_reversed: bool

    def text(self) -> str:
        by_name = {"K": self.window, "STRIDE_": self.strides, "STEP_": self.steps}
        sizes = {f"{k}{axis}": n for k, three in by_name.items() for axis, n in zip("DHW", three)}
        macros: dict[str, Any] = {
            "T": C_TYPES[self.dtype], "FAN": self.fan, "SHARE": self.share,
            "POSITIONS": self.positions, "REVERSED": int(self.is_reversed),
            **sizes,
        }  # fmt: skip
        lines = "".join(f"#define {name} {value}\n" for name, value in macros.items())
        return prelude_for([self.dtype]) + lines + SOURCE


@functools.cache
def _kernel(form: Form) -> Kernel:
    return kernel_from(form.text(), "few_channels", "PPPIIiiiIIIiii")


def find_plan(name: str, conv: Convolution) -> Plan | None:
    """Return a plan for a convolution or a gradient, or None if the libraries are faster."""
    if not _is_small(conv):
        return None
    if name == "conv":
        return _plan(conv, conv.windows, reverse=False)
    if name == "conv_input_gradient":
        if any(stride != 1 for stride in conv.windows.strides):
            return None
        return _plan(conv, _reversed(conv.windows), reverse=True)
    return grouped.plan_filter_gradient(conv)


def _is_small(conv: Convolution) -> bool:
    share = conv.c_out // conv.groups
    products = conv.fan_in * share * math.prod(conv.windows.window)
    most = max(math.prod(conv.input_shape), math.prod(conv.output_shape))
    return (
        max(conv.c_in, conv.c_out) <= MOST_CHANNELS
        and products <= MOST_PRODUCTS
        and len(conv.windows.spatial) <= 3
        and max(conv.windows.strides) <= 4
        and max(conv.windows.dilation) <= 4
        and conv.dtype.name in FLOATS
        and not is_many(most)
    )


def _reversed(windows: Windows) -> Windows:
    """Return the windows over cotangents that give the gradient of the data."""
    low = [
        ((extent - 1) * step - pad[0], 0)
        for extent, step, pad in zip(windows.window, windows.dilation, windows.padding)
    ]
    return Windows(
        windows.counts, windows.spatial, windows.window, windows.strides, tuple(low),
        windows.dilation,
    )  # fmt: skip


def _plan(conv: Convolution, windows: Windows, reverse: bool) -> Plan:
    share = conv.c_out // conv.groups
    fan, share = (share, conv.fan_in) if reverse else (conv.fan_in, share)
    shape = conv.input_shape if reverse else conv.output_shape
    spatial, counts, low, form = _in_three_axes(conv.dtype.name, windows, fan, share, reverse)
    rows = -(-counts[1] // form.positions)
    total = conv.batch * counts[0] * rows * counts[2] * conv.groups
    arguments = (total, conv.groups, *spatial, *counts, *low)
    blocks = blocks_for(total)

    def run(a: Array, b: Array) -> Array:
        result = cupy.ndarray(shape, conv.dtype)
        _kernel(form)(blocks, THREADS, a.data.ptr, b.data.ptr, result.data.ptr, *arguments)
        return result

    return run


def _in_three_axes(
    dtype: str, windows: Windows, fan: int, share: int, reverse: bool
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], Form]:
    """Return the sizes of data and results, the padding, and the form of the kernel."""
    missing = (1,) * (3 - len(windows.spatial))
    spatial, counts = (*missing, *windows.spatial), (*missing, *windows.counts)
    low = (*(0 for _ in missing), *(pad[0] for pad in windows.padding))
    positions = 1 if counts[1] == 1 or share > 4 else _POSITIONS
    form = Form(
        dtype, (*missing, *windows.window), (*missing, *windows.strides),
        (*missing, *windows.dilation), fan, share, positions, reverse,
    )  # fmt: skip
    return spatial, counts, low, form


def variants() -> Iterator[Source]:
    """Yield the sources with the most products, with strides, and in all dtypes."""
    ones = (1, 1, 1)
    for dtype in FLOATS:
        for is_reversed in (False, True):
            for window, fan, share in (((1, 3, 3), 1, 1), ((1, 3, 3), 3, 3), ((1, 5, 5), 2, 2),
                                       ((3, 3, 3), 1, 3), ((1, 1, 3), 5, 6)):  # fmt: skip
                positions = 1 if window[1] == 1 or share > 4 else _POSITIONS
                form = Form(dtype, window, ones, ones, fan, share, positions, is_reversed)
                sizes = "x".join(map(str, window))
                label = f"few_channels {dtype} {sizes} {fan} to {share} {is_reversed}"
                yield Source(label, form.text())
        form = Form(dtype, (1, 4, 5), (1, 2, 3), (1, 2, 2), 1, 3, _POSITIONS, False)
        yield Source(f"few_channels {dtype} with strides", form.text())
