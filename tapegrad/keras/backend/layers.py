"""Convolution, pooling, padding, resizing and normalization of keras.backend."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapegrad.core.argument_checks import check_choice
from tapegrad.core.primitive.operand import as_operand
from tapegrad.errors import ArgumentError
from tapegrad.keras.backend.arrays import repeat_elements
from tapegrad.keras.config import image_data_format
from tapegrad.keras.layers.spatial_arguments import axes_in_letters, spatial_axes
from tapegrad.keras.ops import neural
from tapegrad.ops.convolution.functions import conv_transpose
from tapegrad.ops.image.resizing import resize
from tapegrad.ops.normalization import functions as norms
from tapegrad.ops.shape.functions import moveaxis, reshape
from tapegrad.ops.shape.padding import pad

_FORMATS = ("channels_last", "channels_first")
Pair = tuple[int, int]


def _format(data_format: str | None) -> str:
    chosen = image_data_format() if data_format is None else data_format
    check_choice("data_format", chosen, _FORMATS)
    return chosen


def _convolved(
    rank: int, x: Any, kernel: Any, strides: Any, padding: str, data_format: str | None, gaps: Any
) -> Any:
    _check_rank(x, rank)
    return neural.conv(x, kernel, strides, padding, _format(data_format), gaps)


def _check_rank(x: Any, rank: int) -> None:
    shape = as_operand(x).shape
    if len(shape) != rank + 2:
        raise ArgumentError(f"The input must have {rank + 2} dimensions. Got shape {shape}.")


def conv1d(
    x: Any,
    kernel: Any,
    strides: Any = 1,
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: Any = 1,
) -> Any:
    """Convolve sequences; padding "causal" adds zeros only before the first step.

    >>> from tapegrad.ops.creation import ones
    >>> conv1d(ones([1, 4, 1]), ones([2, 1, 1]), padding="causal").shape
    (1, 4, 1)
    """
    if padding == "causal":
        before = dilation_rate * (as_operand(kernel).shape[0] - 1)
        pairs = {spatial_axes(_format(data_format), 1)[0]: (before, 0)}
        x, padding = _padded(x, pairs), "valid"
    return _convolved(1, x, kernel, strides, padding, data_format, dilation_rate)


def conv2d(
    x: Any,
    kernel: Any,
    strides: Any = (1, 1),
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: Any = (1, 1),
) -> Any:
    """Convolve images with filters `[height, width, channels, filters]`.

    >>> from tapegrad.ops.creation import ones
    >>> conv2d(ones([1, 4, 4, 1]), ones([2, 2, 1, 3])).shape
    (1, 3, 3, 3)
    """
    return _convolved(2, x, kernel, strides, padding, data_format, dilation_rate)


def conv3d(
    x: Any,
    kernel: Any,
    strides: Any = (1, 1, 1),
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: Any = (1, 1, 1),
) -> Any:
    """Convolve volumes with filters `[depth, height, width, channels, filters]`.

    >>> from tapegrad.ops.creation import ones
    >>> conv3d(ones([1, 4, 4, 4, 1]), ones([2, 2, 2, 1, 3])).shape
    (1, 3, 3, 3, 3)
    """
    return _convolved(3, x, kernel, strides, padding, data_format, dilation_rate)


def conv2d_transpose(
    x: Any,
    kernel: Any,
    output_shape: Any,
    strides: Any = (1, 1),
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: Any = (1, 1),
) -> Any:
    """Apply a transposed convolution with filters `[height, width, filters, channels]`.

    >>> from tapegrad.ops.creation import ones
    >>> conv2d_transpose(ones([1, 2, 2, 1]), ones([2, 2, 3, 1]), (None, 4, 4, 3), (2, 2)).shape
    (1, 4, 4, 3)
    """
    x = as_operand(x)
    batch, *sizes = output_shape
    shape = (x.shape[0] if batch is None else int(batch), *map(int, sizes))
    letters = axes_in_letters(_format(data_format), 2)
    return conv_transpose(x, kernel, shape, strides, padding.upper(), letters, dilation_rate)


def depthwise_conv2d(
    x: Any,
    depthwise_kernel: Any,
    strides: Any = (1, 1),
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: Any = (1, 1),
) -> Any:
    """Convolve each channel with filters `[height, width, channels, depth_multiplier]`.

    >>> from tapegrad.ops.creation import ones
    >>> depthwise_conv2d(ones([1, 4, 4, 2]), ones([2, 2, 2, 3])).shape
    (1, 3, 3, 6)
    """
    form = _format(data_format)
    return neural.depthwise_conv(x, depthwise_kernel, strides, padding, form, dilation_rate)


def separable_conv2d(
    x: Any,
    depthwise_kernel: Any,
    pointwise_kernel: Any,
    strides: Any = (1, 1),
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: Any = (1, 1),
) -> Any:
    """Convolve each channel separately, then mix the channels.

    >>> from tapegrad.ops.creation import ones
    >>> separable_conv2d(ones([1, 4, 4, 2]), ones([2, 2, 2, 1]), ones([1, 1, 2, 3])).shape
    (1, 3, 3, 3)
    """
    kernels = depthwise_kernel, pointwise_kernel
    return neural.separable_conv(x, *kernels, strides, padding, _format(data_format), dilation_rate)


def pool2d(
    x: Any,
    pool_size: Any,
    strides: Any = (1, 1),
    padding: str = "valid",
    data_format: str | None = None,
    pool_mode: str = "max",
) -> Any:
    """Return the maximum ("max") or the mean ("avg") of each window of images.

    >>> pool2d([[[[1.0], [2.0]]]], (1, 2)).tolist()
    [[[[2.0]]]]
    """
    return _pooled(2, x, pool_size, strides, padding, data_format, pool_mode)


def pool3d(
    x: Any,
    pool_size: Any,
    strides: Any = (1, 1, 1),
    padding: str = "valid",
    data_format: str | None = None,
    pool_mode: str = "max",
) -> Any:
    """Return the maximum ("max") or the mean ("avg") of each window of volumes.

    >>> pool3d([[[[[1.0], [2.0]]]]], (1, 1, 2), pool_mode="avg").tolist()
    [[[[[1.5]]]]]
    """
    return _pooled(3, x, pool_size, strides, padding, data_format, pool_mode)


def _pooled(
    rank: int, x: Any, size: Any, strides: Any, padding: str, data_format: str | None, mode: str
) -> Any:
    _check_rank(x, rank)
    check_choice("pool_mode", mode, ("max", "avg"))
    pool = neural.max_pool if mode == "max" else neural.average_pool
    return pool(x, size, strides, padding, _format(data_format))


def _padded(x: Any, pairs: dict[int, Pair]) -> Any:
    x = as_operand(x)
    return pad(x, [pairs.get(axis, (0, 0)) for axis in range(len(x.shape))])


def temporal_padding(x: Any, padding: Pair = (1, 1)) -> Any:
    """Add zeros before and after the steps of sequences.

    >>> temporal_padding([[[1.0]]], (2, 0)).tolist()
    [[[0.0], [0.0], [1.0]]]
    """
    return _padded(x, {1: padding})


def spatial_2d_padding(
    x: Any, padding: Sequence[Pair] = ((1, 1), (1, 1)), data_format: str | None = None
) -> Any:
    """Add zeros around images.

    >>> spatial_2d_padding([[[[1.0]]]], ((1, 0), (0, 2))).shape
    (1, 2, 3, 1)
    """
    return _padded(x, dict(zip(spatial_axes(_format(data_format), 2), padding, strict=True)))


def spatial_3d_padding(
    x: Any, padding: Sequence[Pair] = ((1, 1), (1, 1), (1, 1)), data_format: str | None = None
) -> Any:
    """Add zeros around volumes.

    >>> spatial_3d_padding([[[[[1.0]]]]]).shape
    (1, 3, 3, 3, 1)
    """
    return _padded(x, dict(zip(spatial_axes(_format(data_format), 3), padding, strict=True)))


def resize_images(
    x: Any,
    height_factor: int,
    width_factor: int,
    data_format: str | None = None,
    interpolation: str = "nearest",
) -> Any:
    """Enlarge images by whole factors.

    >>> resize_images([[[[1.0]]]], 2, 3).shape
    (1, 2, 3, 1)
    """
    first = _format(data_format) == "channels_first"
    images = moveaxis(x, 1, -1) if first else as_operand(x)
    height, width = images.shape[1:3]
    found = resize(images, (height * height_factor, width * width_factor), interpolation)
    return moveaxis(found, -1, 1) if first else found


def resize_volumes(
    x: Any,
    depth_factor: int,
    height_factor: int,
    width_factor: int,
    data_format: str | None = None,
) -> Any:
    """Enlarge volumes by whole factors, which repeats their elements.

    >>> resize_volumes([[[[[1.0]]]]], 2, 3, 4).shape
    (1, 2, 3, 4, 1)
    """
    factors = depth_factor, height_factor, width_factor
    for axis, factor in zip(spatial_axes(_format(data_format), 3), factors, strict=True):
        x = repeat_elements(x, factor, axis)
    return x


def bias_add(x: Any, bias: Any, data_format: str | None = None) -> Any:
    """Add a bias for each channel, or one for each place and channel.

    >>> bias_add([[1.0, 2.0]], [3.0, 4.0]).tolist()
    [[4.0, 6.0]]
    """
    x, bias = as_operand(x), as_operand(bias)
    if len(bias.shape) not in (1, len(x.shape) - 1):
        raise ArgumentError(
            f"The bias must have 1 or {len(x.shape) - 1} dimensions. Got shape {bias.shape}."
        )
    if _format(data_format) == "channels_first" and len(x.shape) > 2:
        bias = moveaxis(bias, -1, 0)
        if len(bias.shape) == 1:
            bias = reshape(bias, (-1, *(1,) * (len(x.shape) - 2)))
    return x + bias


def batch_normalization(
    x: Any, mean: Any, var: Any, beta: Any, gamma: Any, axis: int = -1, epsilon: float = 1e-3
) -> Any:
    """Normalize by a mean and a variance, then scale by gamma and shift by beta.

    >>> batch_normalization([[3.0]], [1.0], [4.0], [0.5], [1.0], epsilon=0.0).tolist()
    [[1.5]]
    """
    return norms.batch_normalization(x, mean, var, beta, gamma, epsilon)
