"""Normalization functions: batch, layer, RMS, group, instance and local response."""

from __future__ import annotations

from math import prod
from typing import Any

from tapegrad.core.argument_checks import check_count
from tapegrad.core.primitive.operand import as_operand, normalize_axes
from tapegrad.core.primitive.real_operands import require_real
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.ops.convolution.arguments import channels_to_end, channels_to_front, is_channels_first
from tapegrad.ops.convolution.pooling import avg_pool_p
from tapegrad.ops.creation import zeros_for
from tapegrad.ops.elementwise.powers import power, rsqrt
from tapegrad.ops.normalization.primitives import normalize_p
from tapegrad.ops.shape.primitives import reshape_p

Shape = tuple[int, ...]


def _normalize(
    x: Any, gain: Any, bias: Any, shape: Shape, axes: Shape, epsilon: float, center: bool
) -> Any:
    """Call the primitive with gain and bias broadcast to `shape`, which has the rank of x."""
    unused = zeros_for(x, (1,) * len(shape), x.dtype) if gain is None or bias is None else None
    return normalize_p(
        x,
        unused if gain is None else _fit_parameter(gain, shape, "gain"),
        unused if bias is None else _fit_parameter(bias, shape, "bias"),
        axes=axes,
        epsilon=float(epsilon),
        center=center,
        scaled=gain is not None,
        shifted=bias is not None,
    )


def _fit_parameter(value: Any, shape: Shape, what: str) -> Any:
    """Return a gain or bias as an operand that broadcasts to `shape`; it may be one number."""
    value = as_operand(value)
    own = tuple(value.shape)
    if own and (1,) * (len(shape) - len(own)) + own == shape:
        return value
    size = prod(own)
    if size == 1 and prod(shape) != 1:
        return reshape_p(value, shape=(1,) * len(shape))
    if size != prod(shape):
        expected = tuple(n for n in shape if n != 1)
        raise ShapeError(f"{what} must have shape {expected}. Got {own}.")
    return reshape_p(value, shape=shape)


def _axes_and_shape(shape: Shape, axis: Any, name: str) -> tuple[Shape, Shape]:
    """Return the normalized axes, and the shape of the gain for them."""
    axes = normalize_axes(axis, len(shape), name)
    return axes, tuple(n if i in axes else 1 for i, n in enumerate(shape))


def layer_norm(
    x: Any,
    gain: Any = None,
    bias: Any = None,
    epsilon: float = 1e-5,
    axis: Any = -1,
    name: str | None = None,
) -> Any:
    """Normalize to mean 0 and variance 1 over `axis`, then scale and shift.

    Gain and bias have the lengths of the normalized axes.

    >>> layer_norm([[1.0, 3.0]], gain=[1.0, 2.0], epsilon=0.0).tolist()
    [[-1.0, 2.0]]
    """
    x = as_operand(x)
    require_real("layer_norm", x, gain, bias)
    axes, shape = _axes_and_shape(x.shape, axis, "layer_norm")
    return _normalize(x, gain, bias, shape, axes, epsilon, center=True)[0]


def rms_norm(
    x: Any, gain: Any = None, epsilon: float = 1e-6, axis: Any = -1, name: str | None = None
) -> Any:
    """Divide by the root mean square over `axis`, then scale.

    >>> rms_norm([[3.0, -3.0]], epsilon=0.0).tolist()
    [[1.0, -1.0]]
    """
    x = as_operand(x)
    require_real("rms_norm", x, gain)
    axes, shape = _axes_and_shape(x.shape, axis, "rms_norm")
    return _normalize(x, gain, None, shape, axes, epsilon, center=False)[0]


def batch_norm(
    x: Any, gain: Any = None, bias: Any = None, epsilon: float = 1e-5, name: str | None = None
) -> Any:
    """Normalize each channel (the last axis) over all other axes, then scale and shift.

    Gain and bias may have single precision if `x` has half precision. `fused_batch_norm` also
    returns the moments.

    >>> batch_norm([[1.0], [3.0]], gain=[2.0], epsilon=0.0).numpy().ravel().tolist()
    [-2.0, 2.0]
    """
    x = as_operand(x)
    require_real("batch_norm", x, gain, bias)
    axes = tuple(range(len(x.shape) - 1))
    shape = (*[1] * len(axes), x.shape[-1])
    return _normalize(x, gain, bias, shape, axes, epsilon, center=True)[0]


def instance_norm(
    x: Any, gain: Any = None, bias: Any = None, epsilon: float = 1e-5, name: str | None = None
) -> Any:
    """Normalize each channel of each example of `[batch, *spatial, channels]` separately.

    >>> instance_norm([[[1.0], [3.0]]], epsilon=0.0).numpy().ravel().tolist()
    [-1.0, 1.0]
    """
    x = as_operand(x)
    require_real("instance_norm", x, gain, bias)
    if len(x.shape) < 3:
        raise ShapeError(
            "instance_norm takes [batch, *spatial, channels], at least 3 dimensions. "
            f"Got shape {x.shape}."
        )
    axes = tuple(range(1, len(x.shape) - 1))
    shape = (*[1] * (len(x.shape) - 1), x.shape[-1])
    return _normalize(x, gain, bias, shape, axes, epsilon, center=True)[0]


def group_norm(
    x: Any,
    groups: int,
    gain: Any = None,
    bias: Any = None,
    epsilon: float = 1e-5,
    name: str | None = None,
) -> Any:
    """Normalize each group of channels of each example of `[batch, *spatial, channels]`.

    >>> group_norm([[1.0, 3.0, 10.0, 30.0]], groups=2, epsilon=0.0).tolist()
    [[-1.0, 1.0, -1.0, 1.0]]
    """
    x = as_operand(x)
    require_real("group_norm", x, gain, bias)
    *lead, channels = x.shape
    if groups < 1 or channels % groups:
        raise ArgumentError(
            f"group_norm takes a number of groups that divides the channels. "
            f"Got {groups} groups for {channels} channels."
        )
    split = reshape_p(x, shape=(*lead, groups, channels // groups))
    axes = (*range(1, len(lead)), len(lead) + 1)
    shape = (*[1] * len(lead), groups, channels // groups)
    y = _normalize(split, gain, bias, shape, axes, epsilon, center=True)[0]
    return reshape_p(y, shape=tuple(x.shape))


def batch_normalization(
    x: Any,
    mean: Any,
    variance: Any,
    offset: Any,
    scale: Any,
    variance_epsilon: float,
    name: str | None = None,
) -> Any:
    """Normalize with the given moments, then scale and shift unless these are None.

    >>> float(batch_normalization(3.0, 1.0, 4.0, None, None, 0.0))
    1.0
    """
    factor = rsqrt(as_operand(variance) + variance_epsilon)
    if scale is not None:
        factor = factor * scale
    shift = -mean * factor if offset is None else offset - mean * factor
    return as_operand(x) * factor + shift


def fused_batch_norm(
    x: Any,
    scale: Any,
    offset: Any,
    mean: Any = None,
    variance: Any = None,
    epsilon: float = 0.001,
    data_format: str = "NHWC",
    is_training: bool = True,
    name: str | None = None,
    exponential_avg_factor: float = 1.0,
) -> tuple[Any, Any, Any]:
    """Normalize each channel over the batch; return the result and the running moments.

    In training, the moments of the batch are used. They are mixed into `mean` and `variance` with
    the weight `exponential_avg_factor`; the returned variance is unbiased. Otherwise, `mean` and
    `variance` are used and returned.

    >>> import numpy as np
    >>> y, mean, variance = fused_batch_norm(np.array([[1.0], [3.0]]), [1.0], [0.0], epsilon=0.0)
    >>> y.numpy().ravel().tolist(), float(mean[0]), float(variance[0])
    ([-1.0, 1.0], 2.0, 2.0)
    """
    x = as_operand(x)
    require_real("fused_batch_norm", x, scale, offset)
    rank = len(x.shape)
    first = rank > 2 and is_channels_first(data_format, rank - 2, "fused_batch_norm")
    x = channels_to_end(x) if first else x
    if is_training:
        y, new_mean, new_variance = _batch_moments(x, scale, offset, epsilon)
        if exponential_avg_factor != 1.0:
            new_mean = mean + (new_mean - mean) * exponential_avg_factor
            new_variance = variance + (new_variance - variance) * exponential_avg_factor
    else:
        if mean is None or variance is None:
            raise ArgumentError("fused_batch_norm needs mean and variance for is_training=False.")
        y = batch_normalization(x, mean, variance, offset, scale, epsilon)
        new_mean, new_variance = mean, variance
    return (channels_to_front(y) if first else y), new_mean, new_variance


def _batch_moments(x: Any, scale: Any, offset: Any, epsilon: float) -> tuple[Any, Any, Any]:
    *lead, channels = x.shape
    axes = tuple(range(len(lead)))
    shape = (*[1] * len(axes), channels)
    y, mean, variance = _normalize(x, scale, offset, shape, axes, epsilon, center=True)
    count = prod(lead)
    return y, mean, variance * (count / max(count - 1, 1))


def local_response_normalization(
    input: Any,
    depth_radius: int = 5,
    bias: float = 1.0,
    alpha: float = 1.0,
    beta: float = 0.5,
    name: str | None = None,
) -> Any:
    """Divide by (bias + alpha * sum of squares of the adjacent channels) ** beta.

    >>> y = local_response_normalization([[3.0, 4.0]], bias=0.0).numpy()
    >>> [f"{number:.3f}" for number in y[0]]
    ['0.600', '0.800']
    """
    x = as_operand(input)
    require_real("local_response_normalization", x)
    if not x.shape:
        raise ShapeError("local_response_normalization needs an axis of channels. Got a scalar.")
    radius = check_count("depth_radius", depth_radius, "local_response_normalization")
    depth_radius = min(radius, x.shape[-1])  # a larger one reaches no more channels
    window = 2 * depth_radius + 1
    rows = reshape_p(x * x, shape=(prod(x.shape[:-1]), x.shape[-1], 1))
    averages = avg_pool_p(
        rows,
        window=(window,),
        strides=(1,),
        padding=((depth_radius, depth_radius),),
        count_padding=True,
    )
    sums = reshape_p(averages, shape=tuple(x.shape)) * float(window)
    return x / power(bias + alpha * sums, beta)


def batch_norm_with_global_normalization(
    input: Any,  # TensorFlow's name
    mean: Any,
    variance: Any,
    beta: Any,
    gamma: Any,
    variance_epsilon: Any,
    scale_after_normalization: bool,
    name: str | None = None,
) -> Any:
    """Return `batch_normalization`, with the scale `gamma` only if the last argument says so.

    >>> x = [[[[1.0, 3.0]]]]
    >>> batch_norm_with_global_normalization(x, 1.0, 4.0, 0.5, 2.0, 0.0, False).tolist()
    [[[[0.5, 1.5]]]]
    """
    scale = gamma if scale_after_normalization else None
    return batch_normalization(input, mean, variance, beta, scale, variance_epsilon)
