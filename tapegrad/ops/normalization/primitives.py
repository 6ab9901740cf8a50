"""The fused primitive for layer, batch, group, instance and RMS normalization.

It computes `y = (x - mean) / sqrt(variance + epsilon) * gain + bias` with moments over `axes`. With
`center=False` the mean is 0 (RMS). Gain and bias broadcast to the shape of `x`. The moments are
further outputs, without the reduced axes. The backward pass uses them as auxiliary values; rules
treat them as functions of `x`.
"""

from __future__ import annotations

from math import prod
from typing import Any

from tapegrad.core.primitive.primitive import Primitive
from tapegrad.ops.reduction.axes import divide_by_count
from tapegrad.ops.reduction.primitives import mean_p
from tapegrad.ops.shape.primitives import (
    broadcast_p,
    reshape_p,
    stretched_axes,
    sum_p,
    sum_to_shape,
)

Axes = tuple[int, ...]
Shape = tuple[int, ...]


def _moments(xp: Any, x: Any, axes: Axes, center: bool) -> tuple[Any, Any, Any]:
    """Return x minus its mean (if `center`), the mean, and the mean square of the difference."""
    mean = xp.mean(x, axis=axes, keepdims=True)
    mean = mean if center else xp.zeros_like(mean)
    rest = x - mean
    return rest, mean, xp.mean(rest * rest, axis=axes, keepdims=True)


def _normalize(
    xp: Any,
    x: Any,
    gain: Any,
    bias: Any,
    *,
    axes: Axes,
    epsilon: float,
    center: bool,
    scaled: bool,
    shifted: bool,
) -> tuple[Any, Any, Any]:
    y, mean, variance = _moments(xp, x, axes, center)
    y = y / xp.sqrt(variance + epsilon)
    y = y * gain if scaled else y
    shape = _without(x.shape, axes)
    return (y + bias if shifted else y, xp.reshape(mean, shape), xp.reshape(variance, shape))


def _without(shape: Shape, axes: Axes) -> Shape:
    return tuple(n for i, n in enumerate(shape) if i not in axes)


def _with_ones(shape: Shape, axes: Axes) -> Shape:
    """Return the shape of moments that broadcast to arrays of `shape`."""
    return tuple(1 if i in axes else n for i, n in enumerate(shape))


def _sum_to(xp: Any, x: Any, shape: Shape) -> Any:
    axes = stretched_axes(x.shape, shape)
    total = xp.sum(x, axis=axes, keepdims=True, dtype=x.dtype) if axes else x
    return xp.reshape(total, shape) if len(shape) < x.ndim else total


def normalize_gradient(
    xp: Any,
    t: Any,
    x: Any,
    gain: Any,
    mean: Any,
    variance: Any,
    *,
    axes: Axes,
    epsilon: float,
    center: bool,
    scaled: bool,
    bias_shape: Shape,
) -> tuple[Any, Any, Any]:
    shape = _with_ones(x.shape, axes)
    scale = 1 / xp.sqrt(xp.reshape(variance, shape) + epsilon)
    unit = (x - xp.reshape(mean, shape)) * scale
    inner = t * gain if scaled else t
    g = inner - unit * xp.mean(inner * unit, axis=axes, keepdims=True)
    if center:
        g = g - xp.mean(inner, axis=axes, keepdims=True)
    return g * scale, _sum_to(xp, t * unit, gain.shape), _sum_to(xp, t, bias_shape)


def _standardize(xp: Any, x: Any, *, axes: Axes, epsilon: float, center: bool) -> tuple[Any, Any]:
    rest, _, variance = _moments(xp, x, axes, center)
    scale = 1 / xp.sqrt(variance + epsilon)
    return rest * scale, scale


normalize_p = Primitive("normalize", _normalize, many=True)
normalize_gradient_p = Primitive("normalize_gradient", normalize_gradient, many=True)
standardize_p = Primitive("standardize", _standardize, many=True)
normalize_p.real_only = standardize_p.real_only = True


def _average(x: Any, axes: Axes) -> Any:
    return mean_p(x, axis=axes, keepdims=True)


def _project(v: Any, unit: Any, axes: Axes, center: bool) -> Any:
    """Remove the components of `v` along `unit` and, if `center`, its mean; a symmetric map.

    With `unit, scale = standardize(x)`, the tangent of unit is `scale * project(dx)` and the
    tangent of scale is `-scale**2 * mean(unit * dx)`, for every epsilon.
    """
    rest = v - unit * _average(v * unit, axes)
    return rest - _average(v, axes) if center else rest


@standardize_p.vjp
def _standardize_vjp(t: Any, y1: Any, y2: Any, *, axes: Axes, center: bool) -> tuple[Any]:
    count = prod(y1.shape[a] for a in axes)
    return (y2 * _project(t[0], y1, axes, center) - divide_by_count(t[1] * y2 * y2, count) * y1,)


@standardize_p.jvp
def _standardize_jvp(ts: Any, y1: Any, y2: Any, *, axes: Axes, center: bool) -> tuple[Any, Any]:
    t = ts[0]
    return y2 * _project(t, y1, axes, center), -y2 * y2 * _average(y1 * t, axes)


normalize_p.takes_none = True


@normalize_p.vjp
def _normalize_vjp(
    t: Any,
    x1: Any,
    x2: Any,
    x3_shape: Shape,
    y2: Any,
    y3: Any,
    *,
    axes: Axes,
    epsilon: float,
    center: bool,
    scaled: bool,
) -> Any:
    cotangents: tuple[Any, Any, Any] = (None, None, None)
    if t[0] is not None:
        cotangents = normalize_gradient_p(
            t[0],
            x1,
            x2,
            y2,
            y3,
            axes=axes,
            epsilon=epsilon,
            center=center,
            scaled=scaled,
            bias_shape=tuple(x3_shape),
        )
    for_x = pull_moments(cotangents[0], t[1], t[2], x1, axes, center)
    return for_x, cotangents[1], cotangents[2]


def pull_moments(
    cotangent: Any, for_mean: Any, for_variance: Any, x: Any, axes: Axes, center: bool
) -> Any:
    """Add the contributions of the cotangents of the moments to the cotangent of `x`.

    Each may be None; the result is None if all are.
    """
    if for_mean is not None and center:
        cotangent = _plus(cotangent, _mean_cotangent(for_mean, tuple(x.shape), axes))
    if for_variance is not None:
        rest = x - _average(x, axes) if center else x
        cotangent = _plus(cotangent, 2 * _mean_cotangent(for_variance, tuple(x.shape), axes) * rest)
    return cotangent


def _mean_cotangent(t: Any, shape: Shape, axes: Axes) -> Any:
    """Return the cotangent of the operand of a mean."""
    count = prod(shape[a] for a in axes)
    return broadcast_p(
        reshape_p(divide_by_count(t, count), shape=_with_ones(shape, axes)), shape=shape
    )


def _plus(first: Any, second: Any) -> Any:
    return second if first is None else first + second


@normalize_p.jvp
def normalize_jvp(
    ts: Any,
    x1: Any,
    x2: Any,
    *,
    axes: Axes,
    epsilon: float,
    center: bool,
    scaled: bool,
    shifted: bool,
) -> Any:
    unit, scale = standardize_p(x1, axes=axes, epsilon=epsilon, center=center)
    total = mean = variance = None
    if ts[0] is not None:
        total = scale * _project(ts[0], unit, axes, center)
        total = total * x2 if scaled else total
        shape = _without(x1.shape, axes)
        mean = mean_p(ts[0], axis=axes, keepdims=False) if center else None
        variance = reshape_p(2 * _average(unit * ts[0], axes) / scale, shape=shape)
    if ts[1] is not None and scaled:
        total = _plus(total, ts[1] * unit)
    if ts[2] is not None and shifted:
        total = _plus(total, broadcast_p(ts[2], shape=tuple(x1.shape)))
    return total, mean, variance


@normalize_gradient_p.vjp
def normalize_gradient_vjp(
    u: Any,
    x1: Any,
    x2: Any,
    x3: Any,
    *,
    axes: Axes,
    epsilon: float,
    center: bool,
    scaled: bool,
    needs: tuple[bool, ...],
) -> Any:
    """Transpose (dx, dgain, dbias) = (scale * project(t * gain), sum(t * unit), sum(t))."""
    for_x, for_gain, for_bias = u
    unit, scale = standardize_p(x2, axes=axes, epsilon=epsilon, center=center)
    inner = x1 * x3 if scaled else x1
    pulled = scale * _project(for_x, unit, axes, center)
    t_cotangent = (pulled * x3 if scaled else pulled) + for_gain * unit + for_bias
    gain_cotangent = sum_to_shape(x1 * pulled, x3.shape) if scaled and needs[2] else None
    x_cotangent = None
    if needs[1]:
        mixed = for_x * _average(inner * unit, axes) + inner * _average(for_x * unit, axes)
        for_unit = for_gain * x1 - scale * mixed
        for_scale = sum_p(for_x * _project(inner, unit, axes, center), axis=axes, keepdims=True)
        count = prod(x2.shape[a] for a in axes)
        x_cotangent = scale * _project(for_unit, unit, axes, center)
        x_cotangent = x_cotangent - divide_by_count(for_scale * scale * scale, count) * unit
    return t_cotangent, x_cotangent, gain_cotangent, None, None


def batch_rule(primitive: Primitive) -> Any:
    """Return a batching rule: every operand gets a leading batch axis, and `axes` shift by one.

    The last operands of a gradient primitive are the gain and the two moments.
    """

    def batch(size: int, batched: Any, *args: Any, axes: Axes, **params: Any) -> Any:
        rank = max(len(arg.shape) - flag for arg, flag in zip(args, batched, strict=True))
        is_gradient = "bias_shape" in params
        ranks = [rank] * len(args)
        if is_gradient:
            ranks[-2:] = [rank - len(axes)] * 2
        lifted = list(map(_lift, args, [size] * len(args), batched, ranks))
        axes = tuple(a + 1 for a in axes)
        if not is_gradient:
            return primitive(*lifted, axes=axes, **params)
        bias_shape = params.pop("bias_shape")
        full = (size, *[1] * (rank - len(bias_shape)), *bias_shape)
        g, for_gain, for_bias = primitive(*lifted, axes=axes, bias_shape=full, **params)
        gain_shape = tuple(args[-3].shape[1 if batched[-3] else 0 :])
        return (
            g,
            reshape_p(for_gain, shape=(size, *gain_shape)),
            reshape_p(for_bias, shape=(size, *bias_shape)),
        )

    return batch


def _lift(arg: Any, size: int, is_batched: bool, rank: int) -> Any:
    """Return an operand with a leading batch axis followed by `rank` axes."""
    shape = tuple(arg.shape)
    own = shape[1:] if is_batched else shape
    full = (*[1] * (rank - len(own)), *own)
    if is_batched:
        return arg if len(own) == rank else reshape_p(arg, shape=(size, *full))
    return broadcast_p(arg, shape=(size, *full))


for _primitive in (normalize_p, normalize_gradient_p, standardize_p):
    _primitive.batch(batch_rule(_primitive))
