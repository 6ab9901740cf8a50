"""Convolutions with TensorFlow's signatures."""

from __future__ import annotations

from typing import Any

from tapegrad.core.argument_checks import check_wholes
from tapegrad.core.primitive.operand import common_operands
from tapegrad.core.values.sizes import computed
from tapegrad.errors import ShapeError
from tapegrad.ops.convolution.arguments import (
    Shape,
    channels_to_end,
    channels_to_front,
    check_window_fits,
    fold_batch,
    is_channels_first,
    padding_pairs,
    per_dimension,
    remembered,
    unfold_batch,
)
from tapegrad.ops.convolution.primitives import conv_input_gradient_p, conv_p
from tapegrad.ops.shape.primitives import reshape_p


def _convolve(
    name: str,
    x: Any,
    w: Any,
    strides: Any,
    padding: Any,
    data_format: str | None,
    dilations: Any,
    rank: int,
) -> Any:
    """Run `conv`; the number of groups is the channels of the data over those of the filters."""
    x, w = common_operands(x, w)
    first = is_channels_first(data_format, rank, name)
    x = channels_to_end(x) if first else x
    x, batch = fold_batch(x, rank, name)
    shapes = tuple(x.shape[1:]), tuple(w.shape)
    arguments = strides, padding, dilations
    params = computed(_remembered_geometry, name, rank, first, *shapes, *arguments)
    y = conv_p(x, w, **params)
    y = unfold_batch(y, batch)
    return channels_to_front(y) if first else y


def _remembered_geometry(*arguments: Any) -> Any:
    return remembered(_geometry, *arguments)


def _geometry(
    name: str,
    rank: int,
    first: bool,
    data: Shape,
    filters: Shape,
    strides: Any,
    padding: Any,
    dilations: Any,
) -> dict[str, Any]:
    """Check shapes and arguments, and return the parameters of the primitive."""
    if len(filters) != rank + 2:
        raise ShapeError(
            f"{name} takes filters of {rank + 2} dimensions: window, input channels, output "
            f"channels. Got shape {tuple(filters)}."
        )
    c_in, (fan_in, c_out) = data[-1], filters[-2:]
    if fan_in == 0 or c_in % fan_in or c_out % (c_in // fan_in):
        raise ShapeError(
            f"{name} takes filters whose input channels divide the channels of the data; the "
            "number of groups must divide the output channels. "
            f"Got {c_in} channels and filters of shape {tuple(filters)}."
        )
    spatial, window = tuple(data[:-1]), tuple(filters[:-2])
    steps = per_dimension(strides, rank, "strides", name, first)
    dilation = per_dimension(dilations, rank, "dilations", name, first)
    pairs = padding_pairs(padding, spatial, window, steps, dilation, name, first)
    check_window_fits(spatial, window, pairs, dilation, name)
    return {"strides": steps, "padding": pairs, "dilation": dilation, "groups": c_in // fan_in}


def conv1d(
    input: Any,
    filters: Any,
    stride: Any,
    padding: Any,
    data_format: str | None = "NWC",
    dilations: Any = None,
    name: str | None = None,
) -> Any:
    """Convolve sequences `[batch, width, channels]` with filters `[width, in, out]`.

    >>> conv1d([[[1.0], [2.0], [3.0]]], [[[1.0]], [[1.0]]], 1, "VALID").shape
    (1, 2, 1)
    """
    return _convolve("conv1d", input, filters, stride, padding, data_format, dilations, 1)


def conv2d(
    input: Any,
    filters: Any,
    strides: Any,
    padding: Any,
    data_format: str | None = "NHWC",
    dilations: Any = None,
    name: str | None = None,
) -> Any:
    """Convolve images `[batch, height, width, channels]` with filters `[height, width, in, out]`.

    `padding` is 'SAME', 'VALID' or a list of (low, high) pairs. If the filters have fewer input
    channels than the images, the convolution is grouped.

    >>> import numpy as np
    >>> conv2d(np.ones((1, 4, 4, 3)), np.ones((3, 3, 3, 2)), strides=2, padding="SAME").shape
    (1, 2, 2, 2)
    """
    return _convolve("conv2d", input, filters, strides, padding, data_format, dilations, 2)


def conv3d(
    input: Any,
    filters: Any,
    strides: Any,
    padding: Any,
    data_format: str | None = "NDHWC",
    dilations: Any = None,
    name: str | None = None,
) -> Any:
    """Convolve volumes `[batch, depth, height, width, channels]` with filters.

    >>> import numpy as np
    >>> conv3d(np.ones((1, 2, 3, 3, 1)), np.ones((2, 2, 2, 1, 4)), 1, "VALID").shape
    (1, 1, 2, 2, 4)
    """
    return _convolve("conv3d", input, filters, strides, padding, data_format, dilations, 3)


def convolution(
    input: Any,
    filters: Any,
    strides: Any = None,
    padding: Any = "VALID",
    data_format: str | None = None,
    dilations: Any = None,
    name: str | None = None,
) -> Any:
    """Convolve data; the rank of the filters gives the number of spatial axes.

    >>> import numpy as np
    >>> convolution(np.ones((1, 5, 1)), np.ones((3, 1, 1))).shape
    (1, 3, 1)
    """
    x, w = common_operands(input, filters)
    rank = len(w.shape) - 2
    return _convolve("convolution", x, w, strides, padding, data_format, dilations, rank)


def conv_transpose(
    input: Any,
    filters: Any,
    output_shape: Any,
    strides: Any,
    padding: Any = "SAME",
    data_format: str | None = None,
    dilations: Any = None,
    name: str | None = None,
) -> Any:
    """Apply the transpose of a convolution; filters are `[*window, out, in]`.

    `output_shape` is the full shape of the result: a convolution of data of this shape gives a
    result with the shape of `input`.

    >>> import numpy as np
    >>> conv_transpose(np.ones((1, 2, 2, 3)), np.ones((3, 3, 1, 3)), (1, 4, 4, 1), 2).shape
    (1, 4, 4, 1)
    """
    return _convolve_transposed(
        "conv_transpose", input, filters, output_shape, strides, padding, data_format, dilations
    )


def _convolve_transposed(
    name: str,
    t: Any,
    w: Any,
    output_shape: Any,
    strides: Any,
    padding: Any,
    data_format: str | None,
    dilations: Any,
) -> Any:
    t, w = common_operands(t, w)
    rank = len(w.shape) - 2
    first = is_channels_first(data_format, rank, name)
    shape = check_wholes("output_shape", output_shape, name)
    if first:
        t, shape = channels_to_end(t), (shape[0], *shape[2:], shape[1])
    spatial, window = shape[1:-1], tuple(w.shape[:-2])
    steps = per_dimension(strides, rank, "strides", name, first)
    dilation = per_dimension(dilations, rank, "dilations", name, first)
    pairs = computed(padding_pairs, padding, spatial, window, steps, dilation, name, first)
    counts = tuple(
        (size + low + high - (extent - 1) * step - 1) // stride + 1
        for size, (low, high), extent, step, stride in zip(spatial, pairs, window, dilation, steps)
    )
    expected = (shape[0], *counts, w.shape[-1])
    if t.shape != expected or w.shape[-2] == 0 or shape[-1] % w.shape[-2]:
        raise ShapeError(
            f"{name} with output_shape {tuple(output_shape)} and filters of shape "
            f"{w.shape} takes channels-last input of shape {expected}. Got {t.shape}."
        )
    y = conv_input_gradient_p(
        t,
        w,
        input_shape=shape,
        strides=steps,
        padding=pairs,
        dilation=dilation,
        groups=shape[-1] // w.shape[-2],
    )
    return channels_to_front(y) if first else y


def conv1d_transpose(
    input: Any,
    filters: Any,
    output_shape: Any,
    strides: Any,
    padding: Any = "SAME",
    data_format: str | None = "NWC",
    dilations: Any = None,
    name: str | None = None,
) -> Any:
    """Apply the transpose of `conv1d`; filters are `[width, out, in]`.

    >>> import numpy as np
    >>> conv1d_transpose(np.ones((1, 2, 3)), np.ones((3, 1, 3)), (1, 4, 1), 2).shape
    (1, 4, 1)
    """
    return _convolve_transposed(
        "conv1d_transpose", input, filters, output_shape, strides, padding, data_format, dilations
    )


def conv2d_transpose(
    input: Any,
    filters: Any,
    output_shape: Any,
    strides: Any,
    padding: Any = "SAME",
    data_format: str | None = "NHWC",
    dilations: Any = None,
    name: str | None = None,
) -> Any:
    """Apply the transpose of `conv2d`; filters are `[height, width, out, in]`.

    >>> import numpy as np
    >>> conv2d_transpose(np.ones((1, 2, 2, 3)), np.ones((2, 2, 1, 3)), (1, 4, 4, 1), 2).shape
    (1, 4, 4, 1)
    """
    return _convolve_transposed(
        "conv2d_transpose", input, filters, output_shape, strides, padding, data_format, dilations
    )


def conv3d_transpose(
    input: Any,
    filters: Any,
    output_shape: Any,
    strides: Any,
    padding: Any = "SAME",
    data_format: str | None = "NDHWC",
    dilations: Any = None,
    name: str | None = None,
) -> Any:
    """Apply the transpose of `conv3d`; filters are `[depth, height, width, out, in]`.

    >>> import numpy as np
    >>> w = np.ones((2, 2, 2, 1, 3))
    >>> conv3d_transpose(np.ones((1, 2, 2, 2, 3)), w, (1, 4, 4, 4, 1), 2).shape
    (1, 4, 4, 4, 1)
    """
    return _convolve_transposed(
        "conv3d_transpose", input, filters, output_shape, strides, padding, data_format, dilations
    )


def depthwise_conv2d(
    input: Any,
    filter: Any,
    strides: Any,
    padding: Any,
    data_format: str | None = None,
    dilations: Any = None,
    name: str | None = None,
) -> Any:
    """Convolve each channel separately with filters `[height, width, channels, multiplier]`.

    >>> import numpy as np
    >>> depthwise_conv2d(np.ones((1, 4, 4, 3)), np.ones((3, 3, 3, 2)), 1, "SAME").shape
    (1, 4, 4, 6)
    """
    x, w = common_operands(input, filter)
    channels = x.shape[1 if is_channels_first(data_format, 2, "depthwise_conv2d") else -1]
    if len(w.shape) != 4 or w.shape[2] != channels:
        raise ShapeError(
            "depthwise_conv2d takes filters of shape (height, width, channels, multiplier) with "
            f"the {channels} channels of the data. Got {w.shape}."
        )
    height, width, _, multiplier = w.shape
    w = reshape_p(w, shape=(height, width, 1, channels * multiplier))
    return _convolve("depthwise_conv2d", x, w, strides, padding, data_format, dilations, 2)


def separable_conv2d(
    input: Any,
    depthwise_filter: Any,
    pointwise_filter: Any,
    strides: Any,
    padding: Any,
    data_format: str | None = None,
    dilations: Any = None,
    name: str | None = None,
) -> Any:
    """Convolve each channel separately, then mix the channels with a 1 by 1 convolution.

    >>> import numpy as np
    >>> w1, w2 = np.ones((3, 3, 3, 2)), np.ones((1, 1, 6, 5))
    >>> separable_conv2d(np.ones((1, 4, 4, 3)), w1, w2, 1, "SAME").shape
    (1, 4, 4, 5)
    """
    y = depthwise_conv2d(input, depthwise_filter, strides, padding, data_format, dilations)
    return _convolve("separable_conv2d", y, pointwise_filter, 1, "VALID", data_format, None, 2)


def atrous_conv2d(
    value: Any, filters: Any, rate: int, padding: Any, name: str | None = None
) -> Any:
    """Convolve images with filters dilated by `rate`.

    >>> import numpy as np
    >>> atrous_conv2d(np.ones((1, 5, 5, 1)), np.ones((2, 2, 1, 1)), 2, "VALID").shape
    (1, 3, 3, 1)
    """
    return _convolve("atrous_conv2d", value, filters, 1, padding, "NHWC", rate, 2)


def atrous_conv2d_transpose(
    value: Any, filters: Any, output_shape: Any, rate: int, padding: Any, name: str | None = None
) -> Any:
    """Apply the transpose of `atrous_conv2d`; filters are `[height, width, out, in]`.

    >>> import numpy as np
    >>> t, w = np.ones((1, 3, 3, 1)), np.ones((2, 2, 1, 1))
    >>> atrous_conv2d_transpose(t, w, (1, 5, 5, 1), 2, "VALID").shape
    (1, 5, 5, 1)
    """
    return _convolve_transposed(
        "atrous_conv2d_transpose", value, filters, output_shape, 1, padding, "NHWC", rate
    )
