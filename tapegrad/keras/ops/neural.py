"""Neural network functions with Keras signatures."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.core.primitive.operand import as_operand
from tapegrad.errors import ArgumentError
from tapegrad.keras import activations
from tapegrad.keras.layers.spatial_arguments import axes_in_letters, spatial_axes, transposed_size
from tapegrad.keras.losses import crossentropy_functions as losses
from tapegrad.keras.losses.crossentropy_functions import EPSILON
from tapegrad.ops import creation
from tapegrad.ops.attention.functions import scaled_dot_product_attention
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.convolution.functions import conv_transpose as transposed, convolution
from tapegrad.ops.convolution.pooling import avg_pool, max_pool as pool_max
from tapegrad.ops.elementwise.comparison import logical_and
from tapegrad.ops.elementwise.exponential import log
from tapegrad.ops.elementwise.powers import squared_difference
from tapegrad.ops.elementwise.selection import maximum, where
from tapegrad.ops.indexing.gather import place_next_to
from tapegrad.ops.linalg.norms import vector_norm
from tapegrad.ops.normalization import functions as norms
from tapegrad.ops.reduction import statistics
from tapegrad.ops.reduction.functions import reduce_max, reduce_mean
from tapegrad.ops.shape.functions import expand_dims, reshape, swapaxes


class _Layout:
    """The data format of an input, and the expansion of arguments to one per dimension."""

    def __init__(self, x: Any, data_format: str | None) -> None:
        self.x = as_operand(x)
        self.rank = len(self.x.shape) - 2
        self.format = data_format or "channels_last"
        if self.rank not in (1, 2, 3) or self.format not in ("channels_last", "channels_first"):
            raise ArgumentError(
                "Convolution and pooling in keras.ops take inputs of 3 to 5 dimensions and "
                "data_format 'channels_last' or 'channels_first'. Got shape "
                f"{self.x.shape} and {data_format!r}."
            )
        self.letters = axes_in_letters(self.format, self.rank)

    def each(self, value: Any) -> tuple[int, ...]:
        return (value,) * self.rank if isinstance(value, int) else tuple(value)

    @property
    def sizes(self) -> list[int]:
        return [self.x.shape[axis] for axis in spatial_axes(self.format, self.rank)]


def _pooling(name: str, pool: Callable[..., Any]) -> Callable[..., Any]:
    def run(
        inputs: Any,
        pool_size: Any,
        strides: Any = None,
        padding: str = "valid",
        data_format: str | None = None,
    ) -> Any:
        at = _Layout(inputs, data_format)
        sizes, steps = at.each(pool_size), at.each(pool_size if strides is None else strides)
        return pool(at.x, sizes, steps, padding.upper(), at.letters, rank=at.rank)

    run.__doc__ = f"Return the {name} of each window."
    return run


max_pool = _pooling("maximum", pool_max)
average_pool = _pooling("mean", avg_pool)


def conv(
    inputs: Any,
    kernel: Any,
    strides: Any = 1,
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: Any = 1,
) -> Any:
    """Convolve sequences, images or volumes with filters `[*sizes, channels, filters]`.

    >>> conv(creation.ones([1, 4, 1]), creation.ones([2, 1, 1])).shape
    (1, 3, 1)
    """
    at = _Layout(inputs, data_format)
    steps, gaps = at.each(strides), at.each(dilation_rate)
    return convolution(at.x, kernel, steps, padding.upper(), at.letters, gaps)


def depthwise_conv(
    inputs: Any,
    kernel: Any,
    strides: Any = 1,
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: Any = 1,
) -> Any:
    """Convolve each channel separately with filters `[*sizes, channels, depth_multiplier]`.

    >>> depthwise_conv(creation.ones([1, 4, 2]), creation.ones([2, 2, 3])).shape
    (1, 3, 6)
    """
    filters = as_operand(kernel)
    *sizes, channels, each = filters.shape
    grouped = reshape(filters, (*sizes, 1, channels * each))
    return conv(inputs, grouped, strides, padding, data_format, dilation_rate)


def separable_conv(
    inputs: Any,
    depthwise_kernel: Any,
    pointwise_kernel: Any,
    strides: Any = 1,
    padding: str = "valid",
    data_format: str | None = None,
    dilation_rate: Any = 1,
) -> Any:
    """Convolve each channel separately, then mix the channels.

    >>> kernels = creation.ones([2, 2, 3]), creation.ones([1, 6, 4])
    >>> separable_conv(creation.ones([1, 4, 2]), *kernels).shape
    (1, 3, 4)
    """
    x = depthwise_conv(inputs, depthwise_kernel, strides, padding, data_format, dilation_rate)
    return conv(x, pointwise_kernel, data_format=data_format)


def conv_transpose(
    inputs: Any,
    kernel: Any,
    strides: Any = 1,
    padding: str = "valid",
    output_padding: Any = None,
    data_format: str | None = None,
    dilation_rate: Any = 1,
) -> Any:
    """Apply a transposed convolution with filters `[*sizes, filters, channels]`.

    >>> conv_transpose(creation.ones([1, 4, 1]), creation.ones([2, 1, 1]), strides=2).shape
    (1, 8, 1)
    """
    at, filters = _Layout(inputs, data_format), as_operand(kernel)
    steps, gaps = at.each(strides), at.each(dilation_rate)
    more = (None,) * at.rank if output_padding is None else at.each(output_padding)
    reaches = [(n - 1) * gap + 1 for n, gap in zip(filters.shape, gaps)]
    sizes = [
        transposed_size(size, reach, step, padding.lower(), extra)
        for size, reach, step, extra in zip(at.sizes, reaches, steps, more)
    ]
    count = filters.shape[-2]
    first = at.format == "channels_first"
    shape = (at.x.shape[0], count, *sizes) if first else (at.x.shape[0], *sizes, count)
    return transposed(at.x, filters, shape, steps, padding.upper(), at.letters, gaps)


def binary_crossentropy(target: Any, output: Any, from_logits: bool = False) -> Any:
    """Return the cross entropy of each binary label.

    >>> [f"{x:.4f}" for x in binary_crossentropy([0.0, 1.0], [0.5, 0.5]).tolist()]
    ['0.6931', '0.6931']
    """
    true, predicted = expand_dims(as_operand(target), -1), expand_dims(as_operand(output), -1)
    return losses.binary_crossentropy(true, predicted, from_logits)


def categorical_crossentropy(
    target: Any, output: Any, from_logits: bool = False, axis: int = -1
) -> Any:
    """Return the cross entropy of class probabilities, such as one-hot labels.

    >>> f"{float(categorical_crossentropy([0.0, 1.0], [0.5, 0.5])):.4f}"
    '0.6931'
    """
    return losses.categorical_crossentropy(target, output, from_logits, axis=axis)


def sparse_categorical_crossentropy(
    target: Any, output: Any, from_logits: bool = False, axis: int = -1
) -> Any:
    """Return the cross entropy of class numbers.

    >>> f"{sparse_categorical_crossentropy([1], [[0.5, 0.5]]).tolist()[0]:.4f}"
    '0.6931'
    """
    return losses.sparse_categorical_crossentropy(target, output, from_logits, axis=axis)


def one_hot(
    x: Any, num_classes: int, axis: int = -1, dtype: Any = None, sparse: bool = False
) -> Any:
    """Return the one-hot encoding of integers.

    >>> one_hot([0, 2], 3).tolist()
    [[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]
    """
    if sparse:
        raise ArgumentError("keras.ops.one_hot returns dense tensors. Use sparse=False.")
    x = as_operand(x)
    if x.dtype.is_floating:
        x = cast(x, "int32")  # labels read from a file are often floats; Keras rounds them down
    return creation.one_hot(x, num_classes, axis=axis, dtype=dtype or "float32")


def multi_hot(
    inputs: Any, num_classes: int, axis: int = -1, dtype: Any = None, sparse: bool = False
) -> Any:
    """Return the multi-hot encoding of the integers of each example.

    >>> multi_hot([0, 2], 3).tolist()
    [1.0, 0.0, 1.0]
    """
    rows = one_hot(inputs, num_classes, axis, dtype, sparse)
    return reduce_max(rows, 1 if len(rows.shape) > 2 else 0)


def gelu(x: Any, approximate: bool = True) -> Any:
    """Return x times the standard normal distribution function of x, by default approximately.

    >>> gelu([0.0]).tolist()
    [0.0]
    """
    return activations.gelu(x, approximate)


def moments(
    x: Any, axes: Any, keepdims: bool = False, synchronized: bool = False
) -> tuple[Any, Any]:
    """Return the mean and the variance along axes.

    >>> [float(part) for part in moments([1.0, 3.0], [0])]
    [2.0, 1.0]
    """
    return statistics.moments(x, axes, keepdims=keepdims)


def batch_normalization(
    x: Any,
    mean: Any,
    variance: Any,
    axis: int,
    offset: Any = None,
    scale: Any = None,
    epsilon: float = 1e-3,
) -> Any:
    """Normalize x by a mean and a variance for each index along `axis`.

    >>> batch_normalization([[3.0, 5.0]], [1.0, 1.0], [4.0, 16.0], -1, epsilon=0.0).tolist()
    [[1.0, 1.0]]
    """
    value = as_operand(x)
    shape = [1] * len(value.shape)
    shape[axis] = value.shape[axis]
    centre, spread, shift, factor = (
        None if numbers is None else reshape(as_operand(numbers), shape)
        for numbers in (mean, variance, offset, scale)
    )
    return norms.batch_normalization(value, centre, spread, shift, factor, epsilon)


def layer_normalization(
    x: Any, gamma: Any = None, beta: Any = None, axis: Any = -1, epsilon: float | None = None
) -> Any:
    """Normalize x to mean 0 and variance 1 along axes, then scale by gamma and shift by beta.

    >>> layer_normalization([[1.0, 3.0]], epsilon=0.0).tolist()
    [[-1.0, 1.0]]
    """
    return norms.layer_norm(x, gamma, beta, EPSILON if epsilon is None else epsilon, axis)


def rms_normalization(
    x: Any, scale: Any = None, axis: Any = -1, epsilon: float | None = None
) -> Any:
    """Divide x by its root mean square along axes, then multiply by the scale.

    >>> rms_normalization([[3.0, 3.0]], 2.0, epsilon=0.0).tolist()
    [[2.0, 2.0]]
    """
    return norms.rms_norm(x, scale, EPSILON if epsilon is None else epsilon, axis)


def normalize(x: Any, axis: Any = -1, order: Any = 2, epsilon: float | None = None) -> Any:
    """Divide x by its norm along an axis.

    >>> normalize([[3.0, 4.0]]).tolist() == [[0.6000000238418579, 0.800000011920929]]
    True
    """
    value = as_operand(x)
    norm = vector_norm(value, order, axis, keepdims=True)
    return value / maximum(norm, EPSILON if epsilon is None else epsilon)


def psnr(x1: Any, x2: Any, max_val: float) -> Any:
    """Return the peak signal-to-noise ratio of two images in decibels.

    >>> float(psnr([0.0], [1.0], 10.0))
    20.0
    """
    error = reduce_mean(squared_difference(as_operand(x1), as_operand(x2)))
    return 20 * math.log10(max_val) - log(error) * (10 / math.log(10))


def dot_product_attention(
    query: Any,
    key: Any,
    value: Any,
    bias: Any = None,
    mask: Any = None,
    scale: float | None = None,
    is_causal: bool = False,
    flash_attention: bool | None = None,
    attn_logits_soft_cap: float | None = None,
) -> Any:
    """Return dot-product attention over `[batch, length, heads, depth]`.

    Keys and values may have fewer heads. `bias` is added to the scores, and `mask` selects the
    visible keys. With `is_causal`, query i sees the keys 0 to i, also if there are more keys than
    queries. A query without visible keys gets 0.

    >>> x = creation.ones([2, 5, 3, 4])
    >>> dot_product_attention(x, x, x, is_causal=True).shape
    (2, 5, 3, 4)
    """
    if attn_logits_soft_cap is not None:
        raise ArgumentError(
            "keras.ops.dot_product_attention does not support attn_logits_soft_cap. Omit it."
        )
    q, k, v = (swapaxes(as_operand(x), -3, -2) for x in (query, key, value))
    seen = None if mask is None else as_operand(mask) != 0
    queries, keys = q.shape[-2], k.shape[-2]
    if is_causal and queries != keys:
        # scaled_dot_product_attention aligns the last query with the last key.
        earlier = place_next_to(q, np.tri(queries, keys, dtype=bool))
        seen = earlier if seen is None else logical_and(seen, earlier)
        is_causal = False
    if bias is not None:
        added = as_operand(bias)
        seen = added if seen is None else where(seen, added, -math.inf)
    y = scaled_dot_product_attention(q, k, v, seen, is_causal, scale)
    return swapaxes(y, -3, -2)
