"""Convolution and its two gradients, by a matrix product, cuDNN, or kernels of this package.

The choice is made once for each combination of shapes, dtypes and geometry. Windows of one element
with stride 1 are a matrix product, and few channels have a kernel (few_channels.py). Otherwise
cuDNN is used if it has a plan.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cupy

from tapegrad.core.precision import TF32
from tapegrad_cupy.kernels.convolution import (
    cudnn,
    few_channels,
    filter_layout,
    grouped,
    patches,
)
from tapegrad_cupy.kernels.convolution.patches import Convolution, Plan
from tapegrad_cupy.kernels.convolution.windows import (
    Padding,
    Shape,
    Windows,
    by_generic_kernel,
    find_windows,
)
from tapegrad_cupy.kernels.products import products
from tapegrad_cupy.launch.cuda_source import contiguous

Array = Any

MOST_PLANS = 4096

_plans: dict[Any, Plan] = {}
_current_device = cupy.cuda.runtime.getDevice


# Kernels


def conv(
    x: Array, w: Array, *, strides: Shape, padding: Padding, dilation: Shape, groups: int
) -> Array:
    """Slide filters over data."""
    key = (
        "conv", x.shape, x.dtype.num, w.shape, w.dtype.num,
        strides, padding, dilation, groups, _current_device(), TF32["on"],
    )  # fmt: skip
    plan = _plans.get(key)
    if plan is None:
        windows = find_windows(x.shape[1:-1], w.shape[:-2], strides, padding, dilation)
        plan = _plan(key, x, w, windows, (x.shape[0], x.shape[-1], w.shape[-1], groups))
    return plan(x, w)


def conv_input_gradient(
    t: Array,
    w: Array,
    *,
    input_shape: Shape,
    strides: Shape,
    padding: Padding,
    dilation: Shape,
    groups: int,
) -> Array:
    """Return the gradient of the data: spread each cotangent over its window."""
    key = (
        "conv_input_gradient", t.shape, t.dtype.num, w.shape, w.dtype.num, input_shape,
        strides, padding, dilation, groups, _current_device(), TF32["on"],
    )  # fmt: skip
    plan = _plans.get(key)
    if plan is None:
        spatial = tuple(input_shape[1:-1])
        windows = Windows(spatial, t.shape[1:-1], w.shape[:-2], strides, padding, dilation)
        plan = _plan(key, t, w, windows, (t.shape[0], input_shape[-1], t.shape[-1], groups))
    return plan(t, w)


def conv_filter_gradient(x: Array, t: Array, **geometry: Any) -> Array:
    """Return the gradient of the filters: correlate data with cotangents."""
    return filter_layout.to_row_major(_filter_gradient(x, t, **geometry))


def _filter_gradient(
    x: Array,
    t: Array,
    *,
    window: Shape,
    strides: Shape,
    padding: Padding,
    dilation: Shape,
    groups: int,
) -> Array:
    """Return the gradient of the filters, in cuDNN's order if cuDNN computes it."""
    key = (
        "conv_filter_gradient", x.shape, x.dtype.num, t.shape, t.dtype.num, window,
        strides, padding, dilation, groups, _current_device(), TF32["on"],
    )  # fmt: skip
    plan = _plans.get(key)
    if plan is None:
        windows = Windows(x.shape[1:-1], t.shape[1:-1], window, strides, padding, dilation)
        plan = _plan(key, x, t, windows, (x.shape[0], x.shape[-1], t.shape[-1], groups))
    return plan(x, t)


def conv_vjp(
    t: Array, saved: Any, wanted: tuple[bool, bool], params: dict[str, Any], conjugate: bool
) -> tuple[Array | None, Array | None] | None:
    """Return the cotangents of data and filters.

    For each of them, `saved` has the other operand and the shape of its own.
    """
    if conjugate:
        return None
    by_data = by_filters = None
    if wanted[0]:
        shape, w = saved[0]
        by_data = conv_input_gradient(t, w, input_shape=tuple(shape), **params)
    if wanted[1]:
        x, shape = saved[1]
        by_filters = _filter_gradient(x, t, window=tuple(shape[:-2]), **params)
        if by_filters.dtype.itemsize > 2:  # others are likely to be cast, which restores the order
            by_filters = filter_layout.to_row_major(by_filters)
    return by_data, by_filters


KERNELS = {
    "conv": conv,
    "conv_filter_gradient": conv_filter_gradient,
    "conv_input_gradient": conv_input_gradient,
}


def forget_plans() -> None:
    """Drop all plans, so that they are chosen again, for example when cuDNN is switched off."""
    _plans.clear()


# Plans


def _plan(key: Any, a: Array, b: Array, windows: Windows, sizes: tuple[int, int, int, int]) -> Plan:
    """Make and keep the plan for operands like `a` and `b`."""
    dtype = a.dtype if a.dtype == b.dtype else cupy.result_type(a.dtype, b.dtype)
    batch, c_in, c_out, groups = sizes
    size = Convolution(batch, windows, c_in, c_out, groups, dtype)
    plan, takes_cudnn_order = _choose(key[0], size)
    if len(_plans) >= MOST_PLANS:
        _plans.clear()
    _plans[key] = _prepared(plan, dtype, takes_cudnn_order)
    return _plans[key]


def _prepared(plan: Plan, dtype: Any, takes_cudnn_order: bool) -> Plan:
    """Return the plan with operands cast to the dtype of the result and made contiguous."""

    def run(a: Array, b: Array) -> Array:
        if a.dtype is not dtype and a.dtype != dtype:
            a = a.astype(dtype)
        if b.dtype is not dtype and b.dtype != dtype:
            b = b.astype(dtype)
        if a._c_contiguous and (
            b._c_contiguous or (takes_cudnn_order and filter_layout.is_cudnn_order(b))
        ):
            return plan(a, b)
        return plan(contiguous(a), contiguous(b))

    return run


def _choose(name: str, conv: Convolution) -> tuple[Plan, bool]:
    """Return a plan, and whether it takes filters in cuDNN's order as second operand."""
    plan = _without_windows(name, conv) or few_channels.find_plan(name, conv)
    if plan is not None:
        return plan, False
    plan = cudnn.plan(name, conv, TF32["on"])
    if plan is not None:
        return plan, name != "conv_filter_gradient"
    plans = grouped.PLANS if grouped.is_thin(conv) else patches.PLANS
    return plans[name](conv), False


def _without_windows(name: str, conv: Convolution) -> Plan | None:
    """Return the plan for windows of one element, empty arrays and unsupported dtypes, or None."""
    if 0 in _result_shape(name, conv):
        return lambda a, b: cupy.ndarray(_result_shape(name, conv), conv.dtype)
    if 0 in conv.input_shape or 0 in conv.filter_shape or 0 in conv.output_shape:
        return lambda a, b: cupy.zeros(_result_shape(name, conv), conv.dtype)
    if conv.dtype.name not in patches.DTYPES or not conv.windows.spatial:
        return _generic(name, conv)
    return _POINTWISE[name](conv) if _is_pointwise(conv) else None


def _result_shape(name: str, conv: Convolution) -> Shape:
    if name == "conv":
        return conv.output_shape
    return conv.input_shape if name == "conv_input_gradient" else conv.filter_shape


def _generic(name: str, conv: Convolution) -> Plan:
    """Return the plan for unsupported dtypes, and for data without spatial dimensions."""
    windows = conv.windows
    params: dict[str, Any] = {
        "strides": windows.strides,
        "padding": windows.padding,
        "dilation": windows.dilation,
        "groups": conv.groups,
    }
    if name == "conv_input_gradient":
        params["input_shape"] = conv.input_shape
    if name == "conv_filter_gradient":
        params["window"] = windows.window
    return lambda a, b: by_generic_kernel(name, a, b, **params)


# Windows of one element


def _is_pointwise(conv: Convolution) -> bool:
    windows = conv.windows
    ones = all(n == 1 for n in (*windows.window, *windows.strides))
    return conv.groups == 1 and ones and not any(map(any, windows.padding))


def _pointwise_conv(conv: Convolution) -> Plan:
    rows, filters = (-1, conv.c_in), (conv.c_in, conv.c_out)

    def run(x: Array, w: Array) -> Array:
        x, w = x.reshape(rows), w.reshape(filters)
        return products.matmul(x, w, transpose_a=False, transpose_b=False).reshape(
            conv.output_shape
        )

    return run


def _pointwise_input_gradient(conv: Convolution) -> Plan:
    rows, filters = (-1, conv.c_out), (conv.c_in, conv.c_out)

    def run(t: Array, w: Array) -> Array:
        t, w = t.reshape(rows), w.reshape(filters)
        return products.matmul(t, w, transpose_a=False, transpose_b=True).reshape(conv.input_shape)

    return run


def _pointwise_filter_gradient(conv: Convolution) -> Plan:
    rows_in, rows_out = (-1, conv.c_in), (-1, conv.c_out)

    def run(x: Array, t: Array) -> Array:
        x, t = x.reshape(rows_in), t.reshape(rows_out)
        return products.matmul(x, t, transpose_a=True, transpose_b=False).reshape(conv.filter_shape)

    return run


_POINTWISE: dict[str, Callable[[Convolution], Plan]] = {
    "conv": _pointwise_conv,
    "conv_input_gradient": _pointwise_input_gradient,
    "conv_filter_gradient": _pointwise_filter_gradient,
}
