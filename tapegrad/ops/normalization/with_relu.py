"""Normalization followed by ReLU as one primitive.

It equals `relu` of `normalize_p` with gain and bias, but a backend can save one read and one write
of the array in each direction.
"""

from __future__ import annotations

from typing import Any

from tapegrad.core.primitive.primitive import Primitive
from tapegrad.ops.elementwise.selection import keep
from tapegrad.ops.normalization.primitives import (
    Axes,
    Shape,
    batch_rule,
    normalize_gradient,
    normalize_gradient_vjp,
    normalize_jvp,
    normalize_p,
    pull_moments,
)

_FULL: dict[str, Any] = {"center": True, "scaled": True}


def _normalize_relu(xp: Any, x: Any, gain: Any, bias: Any, **params: Any) -> tuple[Any, Any, Any]:
    assert normalize_p.forward is not None
    y, mean, variance = normalize_p.forward(xp, x, gain, bias, shifted=True, **params, **_FULL)
    return xp.maximum(y, xp.zeros_like(y)), mean, variance


def _normalize_relu_gradient(
    xp: Any, t: Any, x: Any, y: Any, gain: Any, mean: Any, variance: Any, **params: Any
) -> tuple[Any, Any, Any]:
    t = xp.where(y > 0, t, xp.zeros_like(t))
    return normalize_gradient(xp, t, x, gain, mean, variance, **params, **_FULL)


normalize_relu_p = Primitive("normalize_relu", _normalize_relu, many=True)
normalize_relu_p.real_only = True
normalize_relu_gradient_p = Primitive(
    "normalize_relu_gradient", _normalize_relu_gradient, many=True
)
normalize_relu_p.takes_none = True


@normalize_relu_p.vjp
def _normalize_relu_vjp(
    t: Any,
    x1: Any,
    x2: Any,
    x3_shape: Shape,
    y1: Any,
    y2: Any,
    y3: Any,
    *,
    axes: Axes,
    epsilon: float,
) -> Any:
    cotangents: tuple[Any, Any, Any] = (None, None, None)
    if t[0] is not None:
        cotangents = normalize_relu_gradient_p(
            t[0], x1, y1, x2, y2, y3, axes=axes, epsilon=epsilon, bias_shape=tuple(x3_shape)
        )
    for_x = pull_moments(cotangents[0], t[1], t[2], x1, axes, True)
    return for_x, cotangents[1], cotangents[2]


@normalize_relu_p.jvp
def _normalize_relu_jvp(ts: Any, x1: Any, x2: Any, y1: Any, *, axes: Axes, epsilon: float) -> Any:
    params = {"axes": axes, "epsilon": epsilon, "shifted": True, **_FULL}
    total, mean, variance = normalize_jvp(ts, x1, x2, **params)
    return None if total is None else keep(total, y1 > 0), mean, variance


@normalize_relu_gradient_p.vjp
def _normalize_relu_gradient_vjp(
    u: Any,
    x1: Any,
    x2: Any,
    x3: Any,
    x4: Any,
    *,
    axes: Axes,
    epsilon: float,
    needs: tuple[bool, ...],
) -> Any:
    is_kept = x3 > 0
    of_normalize = (needs[0], needs[1], needs[3])
    params: Any = {"axes": axes, "epsilon": epsilon, "needs": of_normalize, **_FULL}
    t, x, gain, *_ = normalize_gradient_vjp(u, keep(x1, is_kept), x2, x4, **params)
    return keep(t, is_kept), x, None, gain, None, None


for _primitive in (normalize_relu_p, normalize_relu_gradient_p):
    _primitive.batch(batch_rule(_primitive))
