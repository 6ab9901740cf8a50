"""Random elementwise steps, reductions and scans along axes."""

from __future__ import annotations

from typing import Any

import numpy as np

import tapegrad as tf
import tapegrad.numpy as tnp
from tests.fuzz.drawing import Draw, Drawer, Step

UNARY = {
    "tanh": tf.tanh,
    "sin": tf.sin,
    "cos": tf.cos,
    "sigmoid": tf.sigmoid,
    "softplus": tf.nn.softplus,
    "square": tf.square,
    "relu": tf.nn.relu,
    "gelu": tf.nn.gelu,
    "elu": tf.nn.elu,
    "leaky_relu": tf.nn.leaky_relu,
    "abs": tf.abs,
    "atan": tf.atan,
    "erf": tf.math.erf,
    "negative": tf.negative,
    "softsign": tf.nn.softsign,
    "sign": tf.sign,
    "zeros_like": tf.zeros_like,
    "ones_like": tf.ones_like,
    "stop_gradient": tf.stop_gradient,
    "identity": tf.identity,
    "bell": lambda x: tf.exp(-tf.square(x)),
    "norm": lambda x: tf.sqrt(1.0 + tf.square(x)),
    "rsqrt": lambda x: tf.math.rsqrt(1.0 + x * x),
    "log1p": lambda x: tf.math.log1p(tf.abs(x)),
    "cube": lambda x: 0.1 * x**3,
    "inverse": lambda x: 1.0 / (2.0 + x * x),
    "lgamma": lambda x: tf.math.lgamma(1.5 + x * x),
    "digamma": lambda x: tf.math.digamma(1.5 + x * x),
    "floor": lambda x: tf.floor(3.0 * x + 0.1234567),
    "clip": lambda x: tf.clip_by_value(x, -0.73, 0.61),
    "half": lambda x: x * 0.5,
    "one minus": lambda x: 1.0 - x,
    "plus zero": lambda x: x + 0.0,
    "expm1": lambda x: tf.math.expm1(tf.minimum(x, 1.3)),
    "narrow cast": lambda x: tf.cast(tf.cast(x, "float32"), x.dtype),
    "whole cast": lambda x: tf.cast(tf.cast(5.0 * x + 0.1234567, "int32"), x.dtype),
    "complex": lambda x: tf.math.real(tf.complex(x, 0.5 * x) * tf.complex(0.3 * x, x)),
    "phase": lambda x: tf.math.angle(tf.complex(1.0 + x * x, x)),
}
BINARY = {
    "add": tf.add,
    "subtract": tf.subtract,
    "multiply": tf.multiply,
    "maximum": tf.maximum,
    "minimum": tf.minimum,
    "squared_difference": tf.math.squared_difference,
    "divide": lambda x, y: x / (tf.square(y) + 0.7),
    "where": lambda x, y: tf.where(x > y, x, 0.5 * (x + y)),  # continuous: rounding may decide
    "where not": lambda x, y: tf.where(tf.logical_or(x < 0.1, y < 0.2), x * y, y - x),
    "atan2": lambda x, y: tf.atan2(x, 1.1 + y * y),
    "power": lambda x, y: tf.pow(tf.abs(x) + 0.5, tf.tanh(y)),
    "logaddexp": tnp.logaddexp,
    "hypot": lambda x, y: tnp.hypot(x, 1.0 + tf.abs(y)),
    "floormod": lambda x, y: tf.math.floormod(x + 0.01234567, 1.5 + tf.sign(y)),
    "xlogy": lambda x, y: tf.math.xlogy(x, 0.4 + y * y),
    "divide_no_nan": lambda x, y: tf.math.divide_no_nan(x, tf.nn.relu(y) + tf.sign(tf.nn.relu(y))),
    "complex product": lambda x, y: tf.math.imag(tf.complex(x, y) * tf.complex(y, 1.0 - x)),
}


def unary(draw: Draw) -> Step | None:
    """One value."""
    x = draw.pick()
    name = draw.choice(list(UNARY))
    return None if x is None else Step(name, (x,), UNARY[name])


def binary(draw: Draw) -> Step | None:
    """Two values whose shapes broadcast."""
    x = draw.pick()
    if x is None:
        return None
    y = draw.partner(x)
    name = draw.choice(list(BINARY))
    operands = (x, y) if draw.coin() else (y, x)
    return None if y is None else Step(name, operands, BINARY[name])


def ternary(draw: Draw) -> Step | None:
    """Three values of one shape."""
    x = draw.pick()
    if x is None:
        return None
    shape, dtype = draw.shape(x), draw.values[x].dtype
    others = [
        draw.pick(lambda v: v.dtype == dtype and tuple(v.shape) in (shape, ())) for _ in range(2)
    ]
    name = draw.choice(["fma", "lerp", "where"])
    functions = {
        "fma": lambda a, b, c: a * b + c,
        "lerp": lambda a, b, c: a + tf.sigmoid(c) * (b - a),
        "where": lambda a, b, c: tf.where(a > 0.0, b, c),
    }
    return Step(name, (x, *others), functions[name])  # type: ignore[arg-type]


REDUCTIONS = {
    "reduce_sum": tf.reduce_sum,
    "reduce_mean": tf.reduce_mean,
    "reduce_max": tf.reduce_max,
    "reduce_min": tf.reduce_min,
    "reduce_logsumexp": tf.reduce_logsumexp,
    "reduce_variance": tf.math.reduce_variance,
    "any": lambda x, axis, keepdims: tf.cast(tf.reduce_any(x > 0.9, axis, keepdims), x.dtype),
    "all": lambda x, axis, keepdims: tf.cast(tf.reduce_all(x > -0.9, axis, keepdims), x.dtype),
    "sum of squares": lambda x, axis, keepdims: tf.reduce_sum(x * x, axis, keepdims),
    "norm": lambda x, axis, keepdims: tf.sqrt(1.0 + tf.reduce_sum(x * x, axis, keepdims)),
    "product": lambda x, axis, keepdims: tf.reduce_prod(tf.tanh(x), axis, keepdims),
}


def reduction(draw: Draw) -> Step | None:
    """Some axes of a value."""
    x = draw.pick()
    if x is None:
        return None
    ndim = len(draw.shape(x))
    axes: Any = None
    if ndim and draw.whole(0, 4):
        count = draw.whole(1, ndim + 1)
        axes = [int(k) - ndim * draw.whole(0, 2) for k in draw.rng.permutation(ndim)[:count]]
        axes = axes[0] if count == 1 and draw.coin() else axes
    keepdims = draw.coin()
    name = draw.choice(list(REDUCTIONS))
    return Step(
        f"{name} axis={axes} keepdims={keepdims}",
        (x,),
        lambda value: REDUCTIONS[name](value, axis=axes, keepdims=keepdims),
    )


ALONG_AXIS = {
    "cumsum": lambda x, axis: tf.cumsum(x, axis=axis),
    "cumsum reverse": lambda x, axis: tf.cumsum(x, axis=axis, reverse=True, exclusive=True),
    "cumprod": lambda x, axis: tf.math.cumprod(tf.tanh(x), axis=axis),
    "softmax": lambda x, axis: tf.nn.softmax(x, axis=axis),
    "log_softmax": lambda x, axis: tf.nn.log_softmax(x, axis=axis),
    "sort": lambda x, axis: tf.sort(x, axis=axis),
    "argsort": lambda x, axis: tf.cast(tf.argsort(x, axis=axis, stable=True), x.dtype),
    "argmax": lambda x, axis: tf.cast(tf.argmax(x, axis=axis), x.dtype),
    "flip": lambda x, axis: tf.reverse(x, [axis]),
    "diff": lambda x, axis: tnp.diff(x, axis=axis),
    "l2_normalize": lambda x, axis: tf.nn.l2_normalize(x + 2.0, axis=axis),
    "centered": lambda x, axis: x - tf.reduce_mean(x, axis=axis, keepdims=True),
    "standardized": lambda x, axis: (
        (x - tf.reduce_mean(x, axis, True))
        * tf.math.rsqrt(tf.math.reduce_variance(x, axis, True) + 0.1)
    ),
    "roll": lambda x, axis: tf.roll(x, 1, axis),
    "median": lambda x, axis: tnp.median(x, axis=axis),
    "cummax": lambda x, axis: tnp.maximum.accumulate(x, axis=axis),
}


def along_axis(draw: Draw) -> Step | None:
    """One axis of a value."""
    x = draw.pick(lambda value: value.ndim > 0)
    if x is None:
        return None
    ndim = len(draw.shape(x))
    axis = draw.whole(-ndim, ndim)
    name = draw.choice(list(ALONG_AXIS))
    return Step(f"{name} axis={axis}", (x,), lambda value: ALONG_AXIS[name](value, axis))


def constant(draw: Draw) -> Step | None:
    """An elementwise call with an array of the host."""
    x = draw.pick()
    if x is None:
        return None
    shape = list(draw.shape(x))
    for k in range(len(shape)):
        if draw.whole(0, 3) == 0:
            shape[k] = 1
    shape = shape[draw.whole(0, len(shape) + 1) :]
    values = np.round(draw.rng.normal(size=shape), 2) * draw.whole(0, 3)
    dtype = draw.values[x].dtype.as_numpy_dtype
    array = values.astype(dtype)
    if draw.coin():
        return Step(f"multiply constant{shape}", (x,), lambda value: value * array)
    return Step(f"add constant{shape}", (x,), lambda value: array + value)


DRAWERS: tuple[Drawer, ...] = (
    unary, unary, unary, binary, binary, binary, ternary, reduction, reduction, along_axis,
    constant,
)  # fmt: skip
