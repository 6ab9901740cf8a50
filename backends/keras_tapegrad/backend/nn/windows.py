"""Convolutions, pooling and rearrangements of windows with Keras' signatures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keras.src.backend import config
from keras.src.backend.common.backend_utils import (
    check_conv_input_channels,
    check_conv_transpose_input_channels,
)

import tapegrad as tg
import tapegrad.numpy as tnp
from keras_tapegrad.backend.tensors import common, convert_to_tensor
from tapegrad.keras import ops


def _format(data_format: str | None) -> str:
    return str(config.standardize_data_format(data_format))


def _check_padding(padding: str) -> None:
    if padding not in ("same", "valid"):
        raise ValueError(f"Invalid padding {padding!r}. Windows are padded as 'same' or 'valid'.")


def _pool(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(
        inputs: Any,
        pool_size: Any,
        strides: Any = None,
        padding: str = "valid",
        data_format: str | None = None,
    ) -> Any:
        _check_padding(padding)
        return function(
            convert_to_tensor(inputs), pool_size, strides, padding, _format(data_format)
        )

    run.__name__, run.__doc__ = function.__name__, function.__doc__
    return run


max_pool = _pool(ops.max_pool)
average_pool = _pool(ops.average_pool)


def _adaptive(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(inputs: Any, output_size: Any, data_format: str | None = None) -> Any:
        return function(convert_to_tensor(inputs), output_size, _format(data_format))

    run.__name__, run.__doc__ = function.__name__, function.__doc__
    return run


adaptive_average_pool = _adaptive(ops.adaptive_average_pool)
adaptive_max_pool = _adaptive(ops.adaptive_max_pool)


def conv(
    inputs: Any,
    kernel: Any,
    strides: Any = 1,
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: Any = 1,
) -> Any:
    """Convolve sequences, images or volumes."""
    data_format = _format(data_format)
    x, filters = common(convert_to_tensor(inputs), convert_to_tensor(kernel))
    channels = x.shape[-1 if data_format == "channels_last" else 1]
    if channels % filters.shape[-2]:
        raise ValueError(
            f"The number of input channels, {channels}, must be a multiple of the "
            f"{filters.shape[-2]} channels of the filters."
        )
    y = ops.conv(x, filters, strides, padding, data_format, dilation_rate)
    if 0 in y.shape and 0 not in x.shape:
        raise ValueError(
            f"A convolution of shape {tuple(x.shape)} by filters of shape {tuple(filters.shape)} "
            "resulted in an empty output. Pad the input, or use smaller windows or dilations."
        )
    return y


def depthwise_conv(
    inputs: Any,
    kernel: Any,
    strides: Any = 1,
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: Any = 1,
) -> Any:
    """Convolve each channel separately."""
    data_format = _format(data_format)
    x, filters = common(convert_to_tensor(inputs), convert_to_tensor(kernel))
    check_conv_input_channels(x, filters, data_format)
    return ops.depthwise_conv(x, filters, strides, padding, data_format, dilation_rate)


def separable_conv(
    inputs: Any,
    depthwise_kernel: Any,
    pointwise_kernel: Any,
    strides: Any = 1,
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: Any = 1,
) -> Any:
    """Convolve each channel separately, then mix the channels."""
    y = depthwise_conv(inputs, depthwise_kernel, strides, padding, data_format, dilation_rate)
    return conv(y, pointwise_kernel, data_format=data_format)


def conv_transpose(
    inputs: Any,
    kernel: Any,
    strides: Any = 1,
    padding: str = "valid",
    output_padding: Any = None,
    data_format: str | None = None,
    dilation_rate: Any = 1,
) -> Any:
    """Apply a transposed convolution."""
    data_format = _format(data_format)
    x, filters = common(convert_to_tensor(inputs), convert_to_tensor(kernel))
    check_conv_transpose_input_channels(x, filters, data_format)
    return ops.conv_transpose(
        x, filters, strides, padding, output_padding, data_format, dilation_rate
    )


def unfold(
    input: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
) -> Any:
    """Return the windows of images `[batch, channels, height, width]` as columns."""
    return ops.unfold(convert_to_tensor(input), kernel_size, dilation, padding, stride)


def fold(
    x: Any,
    output_size: Any,
    kernel_size: Any,
    dilation: Any = 1,
    padding: Any = 0,
    stride: Any = 1,
) -> Any:
    """Add windows in columns to images; the transpose of `unfold`."""
    return ops.fold(convert_to_tensor(x), output_size, kernel_size, dilation, padding, stride)


def depth_to_space(x: Any, block_size: int, data_format: str = "channels_last") -> Any:
    """Move channels into blocks of pixels."""
    x = convert_to_tensor(x)
    if _format(data_format) == "channels_first":
        batch, depth, height, width = x.shape
        rest = depth // block_size**2
        x = tnp.reshape(x, (batch, rest, block_size, block_size, height, width))
        x = tnp.transpose(x, (0, 1, 4, 2, 5, 3))
        return tnp.reshape(x, (batch, rest, height * block_size, width * block_size))
    return tg.nn.depth_to_space(x, block_size)


def space_to_depth(x: Any, block_size: int, data_format: str = "channels_last") -> Any:
    """Move blocks of pixels into channels."""
    x = convert_to_tensor(x)
    if _format(data_format) == "channels_first":
        batch, depth, height, width = x.shape
        sizes = (height // block_size, block_size, width // block_size, block_size)
        x = tnp.transpose(tnp.reshape(x, (batch, depth, *sizes)), (0, 1, 3, 5, 2, 4))
        return tnp.reshape(x, (batch, depth * block_size**2, sizes[0], sizes[2]))
    return tg.nn.space_to_depth(x, block_size)
