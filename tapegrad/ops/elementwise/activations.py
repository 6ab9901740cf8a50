"""Piecewise activation functions: the ReLU family and hard approximations of smooth functions.

Smooth activations are in sigmoids.py. Softmax, which reduces over an axis, is in nn/softmax.py.
"""

from __future__ import annotations

from typing import Any

from tapegrad.core.primitive.families import Function, elementwise, unary
from tapegrad.core.primitive.operand import as_operand, normalize_axis
from tapegrad.core.primitive.primitive import Primitive
from tapegrad.errors import ShapeError
from tapegrad.ops.elementwise.selection import clip, keep, minimum, where
from tapegrad.ops.elementwise.sigmoids import sigmoid
from tapegrad.ops.indexing.primitives import expand_ellipsis, slice_p
from tapegrad.ops.shape.joining import concat

_SELU_SCALE = 1.0507009873554805
_SELU_ALPHA = 1.6732632423543772

relu: Function = unary(
    "relu",
    lambda t, y: keep(t, y > 0),
    forward=lambda xp, x: xp.maximum(x, xp.zeros_like(x)),
    selects=True,
    doc="Return max(x, 0); the gradient at 0 is 0.",
    names=("features",),
)
relu6: Function = unary(
    "relu6",
    lambda t, y: keep(t, (y > 0) & (y < 6)),
    forward=lambda xp, x: xp.clip(x, 0, 6),
    selects=True,
    doc="Return x clipped to [0, 6]; the gradient at both ends is 0.",
    names=("features",),
)

leaky_relu_p: Primitive = elementwise(
    "leaky_relu",
    lambda t, x, *, alpha: where(x > 0, t, alpha * t),
    forward=lambda xp, x, *, alpha: xp.where(x > 0, x, alpha * x),
)


def leaky_relu(features: Any, alpha: Any = 0.2, name: str | None = None) -> Any:
    """Return x where it is positive and alpha * x elsewhere.

    >>> leaky_relu([-1.0, 2.0], alpha=0.5).tolist()
    [-0.5, 2.0]
    """
    if isinstance(alpha, int | float):
        return leaky_relu_p(as_operand(features), alpha=float(alpha))
    x = as_operand(features)
    return where(x > 0, x, x * alpha)


def _elu_rule(t: Any, y: Any, *, scale: float, alpha: float, width: float) -> Any:
    """Compute the slope from y: for x < 0 it is scale * alpha * exp(x / width) / width."""
    if alpha == width:
        return t * (minimum(y, 0) / width + scale)
    return t * where(y >= 0, scale, (y + scale * alpha) / width)


def _elu(xp: Any, x: Any, *, scale: float, alpha: float, width: float) -> Any:
    below = xp.where(x >= 0, xp.zeros_like(x), x)  # also for -0.0, and NaN stays
    return scale * xp.where(x > 0, x, alpha * xp.expm1(below / width))


elu_p: Primitive = elementwise("elu", _elu_rule, forward=_elu)


def elu(features: Any, alpha: float = 1.0, name: str | None = None) -> Any:
    """Return x where it is positive and alpha * (exp(x) - 1) elsewhere.

    >>> f"{float(elu(-1.0)):.4f}"
    '-0.6321'
    """
    return elu_p(as_operand(features), scale=1.0, alpha=float(alpha), width=1.0)


def selu(features: Any, name: str | None = None) -> Any:
    """Return the scaled ELU, which preserves mean 0 and variance 1.

    >>> f"{float(selu(-1.0)):.4f}"
    '-1.1113'
    """
    return elu_p(as_operand(features), scale=_SELU_SCALE, alpha=_SELU_ALPHA, width=1.0)


def celu(features: Any, alpha: float = 1.0, name: str | None = None) -> Any:
    """Return x where it is positive and alpha * (exp(x / alpha) - 1) elsewhere.

    >>> f"{float(celu(-1.0, alpha=2.0)):.4f}"
    '-0.7869'
    """
    return elu_p(as_operand(features), scale=1.0, alpha=float(alpha), width=float(alpha))


def crelu(features: Any, axis: int = -1, name: str | None = None) -> Any:
    """Return relu(x) and relu(-x) concatenated along `axis`.

    >>> crelu([-1.0, 2.0]).tolist()
    [0.0, 2.0, 1.0, 0.0]
    """
    x = as_operand(features)
    return relu(concat([x, -x], axis))


def hard_sigmoid(x: Any, name: str | None = None) -> Any:
    """Return relu6(x + 3) / 6.

    >>> hard_sigmoid([-4.0, 0.0, 3.0]).tolist()
    [0.0, 0.5, 1.0]
    """
    return relu6(as_operand(x) + 3) / 6


def hard_tanh(x: Any, name: str | None = None) -> Any:
    """Return x clipped to [-1, 1].

    >>> hard_tanh([-4.0, 0.5]).tolist()
    [-1.0, 0.5]
    """
    return clip(x, -1, 1)


def hard_swish(x: Any, name: str | None = None) -> Any:
    """Return x * relu6(x + 3) / 6.

    >>> hard_swish([-4.0, 3.0]).tolist()
    [-0.0, 3.0]
    """
    x = as_operand(x)
    return x * (relu6(x + 3) / 6)


def hard_shrink(x: Any, threshold: float = 0.5, name: str | None = None) -> Any:
    """Return x where |x| is above `threshold` and 0 elsewhere.

    >>> hard_shrink([-2.0, 0.1]).tolist()
    [-2.0, 0.0]
    """
    x = as_operand(x)
    return keep(x, abs(x) > threshold)


def soft_shrink(x: Any, threshold: float = 0.5, name: str | None = None) -> Any:
    """Return x moved towards 0 by `threshold`, and 0 where |x| <= threshold.

    >>> soft_shrink([-2.0, 0.1]).tolist()
    [-1.5, 0.0]
    """
    x = as_operand(x)
    return x - clip(x, -threshold, threshold)


def threshold(x: Any, threshold: float, default_value: float, name: str | None = None) -> Any:
    """Return x where it is above `threshold` and `default_value` elsewhere.

    >>> threshold([-2.0, 1.0], 0.0, 5.0).tolist()
    [5.0, 1.0]
    """
    x = as_operand(x)
    return where(x > threshold, x, default_value)


def _sparse_plus(xp: Any, x: Any) -> Any:
    one = xp.ones_like(x)  # has the dtype of x; NumPy's clip would promote bfloat16
    inner = xp.minimum(xp.maximum(x, -one), one) + one
    return xp.where(x >= 1, x, inner * inner / 4)


sparse_plus: Function = unary(
    "sparse_plus",
    lambda t, x: t * (clip(x, -1, 1) + 1) * 0.5,
    forward=_sparse_plus,
    doc="Return 0 for x <= -1, x for x >= 1, and (x + 1)² / 4 in between.",
)


def glu(x: Any, axis: int = -1, name: str | None = None) -> Any:
    """Return the first half of `x` along `axis` times the sigmoid of the second half.

    >>> glu([4.0, 0.0]).tolist()
    [2.0]
    """
    x = as_operand(x)
    ndim = len(x.shape)
    axis = normalize_axis(axis, ndim, "glu")
    half, rest = divmod(x.shape[axis], 2)
    if rest:
        raise ShapeError(f"glu needs an even length along axis {axis}. Got {x.shape[axis]}.")
    first, second = (
        slice_p(x, index=expand_ellipsis((*[slice(None)] * axis, part), ndim))
        for part in (slice(0, half), slice(half, 2 * half))
    )
    return first * sigmoid(second)
