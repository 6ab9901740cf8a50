"""Normalisation and its gradient with few passes; products are summed without being stored."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tapegrad.core.backend.registry import by_name
from tapegrad_numpy.kernels.elementwise import keep
from tapegrad_numpy.kernels.half import accumulator, refuse_complex

Array = NDArray[Any]
Axes = tuple[int, ...]
Shape = tuple[int, ...]


def _sum_products(a: Array, b: Array, axes: Axes) -> Array:
    """Return sum(a * b) over the axes, which are kept."""
    if axes == (a.ndim - 1,):
        return np.asarray(np.vecdot(a, b))[..., None]
    labels = list(range(a.ndim))
    kept = [i for i in labels if i not in axes]
    shape = tuple(1 if i in axes else n for i, n in enumerate(a.shape))
    return np.asarray(np.einsum(a, labels, b, labels, kept)).reshape(shape)


def _stretched(x: Array, shape: Shape) -> Axes:
    """Return the axes along which an array of `shape` broadcasts to `x`."""
    extra = x.ndim - len(shape)
    ones = [i for i, n in enumerate(shape, extra) if n == 1 and x.shape[i] != 1]
    return (*range(extra), *ones)


def normalize(
    x: Array,
    gain: Array,
    bias: Array,
    *,
    axes: Axes,
    epsilon: float,
    center: bool,
    scaled: bool,
    shifted: bool,
) -> tuple[Array, Array, Array]:
    """Return the normalised array, and the mean and variance for the backward pass."""
    refuse_complex(x)
    wide = x.astype(accumulator(x.dtype), copy=False)
    count = math.prod(x.shape[a] for a in axes)
    if center:
        mean = wide.mean(axis=axes, keepdims=True)
        y = np.subtract(wide, mean)
        variance = _sum_products(y, y, axes)
    else:
        y = np.empty(x.shape, wide.dtype)
        variance = _sum_products(wide, wide, axes)
        mean = np.zeros_like(variance)
    variance /= count
    scale = 1 / np.sqrt(variance + epsilon)
    np.multiply(y if center else wide, scale, out=y)
    if scaled:
        y *= gain
    if shifted:
        y += bias
    left = tuple(n for i, n in enumerate(x.shape) if i not in axes)
    return y.astype(x.dtype, copy=False), mean.reshape(left), variance.reshape(left)


def normalize_gradient(
    t: Array,
    x: Array,
    gain: Array,
    mean: Array,
    variance: Array,
    *,
    axes: Axes,
    epsilon: float,
    center: bool,
    scaled: bool,
    bias_shape: Shape,
) -> tuple[Array, Array, Array]:
    """Return the cotangents of x, gain and bias."""
    shape = tuple(1 if i in axes else n for i, n in enumerate(x.shape))
    scale = 1 / np.sqrt(variance.reshape(shape) + epsilon)
    count = math.prod(x.shape[a] for a in axes)
    unit = np.subtract(x, mean.reshape(shape))
    unit *= scale
    t = t.astype(unit.dtype, copy=False)
    for_gain = _sum_products(t, unit, _stretched(t, gain.shape))
    for_bias = t.sum(axis=_stretched(t, bias_shape), keepdims=True)
    inner = t * gain if scaled else t
    unit *= _sum_products(inner, unit, axes) / count
    g = np.subtract(inner, unit, out=unit)
    if center:
        g -= inner.mean(axis=axes, keepdims=True)
    g *= scale
    return (
        g.astype(x.dtype, copy=False),
        for_gain.reshape(gain.shape).astype(gain.dtype, copy=False),
        # Gains and biases may have single precision with data in half precision.
        for_bias.reshape(bias_shape).astype(gain.dtype if scaled else x.dtype, copy=False),
    )


def normalize_relu(
    x: Array, gain: Array, bias: Array, *, axes: Axes, epsilon: float
) -> tuple[Array, Array, Array]:
    """Return the normalised array with gain, bias and ReLU, and the mean and variance."""
    params: Any = {"center": True, "scaled": True, "shifted": True}
    y, mean, variance = normalize(x, gain, bias, axes=axes, epsilon=epsilon, **params)
    return np.maximum(y, y.dtype.type(0), out=y), mean, variance


def normalize_relu_gradient(
    t: Array, x: Array, y: Array, *others: Array, **params: Any
) -> tuple[Array, Array, Array]:
    """Return the cotangents of x, gain and bias."""
    return normalize_gradient(keep(t, y > 0), x, *others, center=True, scaled=True, **params)


KERNELS = by_name(normalize, normalize_gradient, normalize_relu, normalize_relu_gradient)
