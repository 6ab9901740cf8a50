"""Smooth activation functions: sigmoid, softplus, SiLU, mish, GELU and related functions."""

from __future__ import annotations

import math
from typing import Any

from tapegrad.core.primitive.families import Function, elementwise, unary
from tapegrad.core.primitive.operand import as_operand
from tapegrad.core.primitive.primitive import PRIMITIVES, Primitive
from tapegrad.ops.casting.cast import as_float
from tapegrad.ops.elementwise.arithmetic import multiply
from tapegrad.ops.elementwise.exponential import exp, expm1
from tapegrad.ops.elementwise.magnitude import abs
from tapegrad.ops.elementwise.no_nan import xdivy
from tapegrad.ops.elementwise.powers import sqrt, square
from tapegrad.ops.elementwise.special_functions import ndtr
from tapegrad.ops.elementwise.trigonometric import tanh

_CUBIC = 0.044715
_ROOT = math.sqrt(2 / math.pi)
_DENSITY = 1 / math.sqrt(2 * math.pi)


def _sigmoid(xp: Any, x: Any) -> Any:
    if xp.isdtype(x.dtype, "complex floating"):
        is_left = xp.real(x) < 0  # where exp(-x) may overflow
        small = xp.exp(xp.where(is_left, x, -x))
        return xp.where(is_left, small, xp.ones_like(x)) / (1 + small)
    small = xp.exp(-xp.abs(x))
    return xp.where(x < 0, small, xp.ones_like(x)) / (1 + small)


def _softplus(xp: Any, x: Any) -> Any:
    return xp.maximum(x, xp.zeros_like(x)) + xp.log1p(xp.exp(-xp.abs(x)))


def _log_sigmoid(xp: Any, x: Any) -> Any:
    return xp.minimum(x, xp.zeros_like(x)) - xp.log1p(xp.exp(-xp.abs(x)))


sigmoid: Function = unary(
    "sigmoid", lambda t, y: t * (y * (1 - y)), forward=_sigmoid, doc="Return 1 / (1 + exp(-x))."
)
logit: Function = unary(
    "logit",
    lambda t, x: xdivy(t, x * (1 - x)),
    forward=lambda xp, x: xp.log(x) - xp.log1p(-x),
    doc="Return log(x / (1 - x)), the inverse of the sigmoid.",
)
softplus: Function = unary(
    "softplus",
    lambda t, x: t * sigmoid(x),
    forward=_softplus,
    real_only=True,
    doc="Return log(1 + exp(x)) without overflow.",
    names=("features",),
)
log_sigmoid: Function = unary(
    "log_sigmoid",
    lambda t, x: t * sigmoid(-x),
    forward=_log_sigmoid,
    real_only=True,
    doc="Return the logarithm of the sigmoid without underflow.",
)
softsign: Function = unary(
    "softsign",
    lambda t, x: t / square(abs(x) + 1),
    forward=lambda xp, x: x / (xp.abs(x) + 1),
    real_only=True,
    doc="Return x / (1 + |x|).",
    names=("features",),
)


def _log1mexp(xp: Any, x: Any) -> Any:
    # Each formula is accurate on its side of log 2; see Mächler, "Accurately computing
    # log(1 - exp(-|a|))".
    is_small, one = x < math.log(2), xp.ones_like(x)
    small, large = xp.where(is_small, x, one), xp.where(is_small, one, x)
    return xp.where(is_small, xp.log(-xp.expm1(-small)), xp.log1p(-xp.exp(-large)))


log1mexp: Function = unary(
    "log1mexp",
    lambda t, x: xdivy(t, expm1(x)),
    forward=_log1mexp,
    doc="Return log(1 - exp(-x)) for positive x.",
)


def _silu_slope(xp: Any, x: Any, *, beta: float) -> Any:
    s = _sigmoid(xp, beta * x)
    return s * (beta * x * (1 - s) + 1)


def _silu_slope_rule(t: Any, x: Any, *, beta: float) -> Any:
    """Return t times beta s (1 - s) (2 + beta x (1 - 2 s)) with s = sigmoid(beta x)."""
    s = sigmoid(beta * x)
    return t * (beta * s * (1 - s) * (beta * x * (1 - 2 * s) + 2))


silu_p: Primitive = elementwise(
    "silu",
    lambda t, x, *, beta: t * silu_slope_p(x, beta=beta),
    forward=lambda xp, x, *, beta: x * _sigmoid(xp, beta * x),
)
# The slopes are primitives so that a backend can compute each in one kernel.
silu_slope_p: Primitive = elementwise("silu_slope", _silu_slope_rule, forward=_silu_slope)


def silu(features: Any, beta: Any = 1.0, name: str | None = None) -> Any:
    """Return x * sigmoid(beta * x), also called swish.

    >>> f"{float(silu(1.0)):.4f}"
    '0.7311'
    """
    x = as_float(features)
    if isinstance(beta, int | float):
        return silu_p(x, beta=float(beta))
    return x * sigmoid(multiply(x, beta))


def _mish_rule(t: Any, x: Any) -> Any:
    w = tanh(softplus(x))
    return t * (w + x * sigmoid(x) * (1 - w * w))


mish: Function = unary(
    "mish",
    _mish_rule,
    forward=lambda xp, x: x * xp.tanh(_softplus(xp, x)),
    real_only=True,
    doc="Return x * tanh(softplus(x)).",
)


def _gelu_tanh(xp: Any, x: Any) -> Any:
    # The sigmoid keeps the precision of the tail for negative x, 1 + tanh does not.
    return x * _sigmoid(xp, 2 * _ROOT * x * (1 + _CUBIC * x * x))


def _gelu_tanh_slope(xp: Any, x: Any) -> Any:
    if xp.isdtype(x.dtype, "complex floating"):
        s = _sigmoid(xp, 2 * _ROOT * x * (1 + _CUBIC * x * x))
        return s + s * (1 - s) * (2 * _ROOT * (1 + 3 * _CUBIC * x * x)) * x
    squared = xp.clip(x * x, None, 900)  # from |x| = 30 on, the sigmoid is 0 or 1
    v = 2 * _ROOT * x * (1 + _CUBIC * squared)
    small = xp.exp(-xp.abs(v))
    s = xp.where(v < 0, small, xp.ones_like(x)) / (1 + small)
    slope_of_s = small / ((1 + small) * (1 + small))
    return s + slope_of_s * (2 * _ROOT * (1 + 3 * _CUBIC * squared)) * x


def _gelu_tanh_slope_rule(t: Any, x: Any) -> Any:
    """Return t times the second derivative, with w = tanh(u) and u = sqrt(2 / π) (x + c x³)."""
    cubic = 3 * _CUBIC * x * x
    w = tanh(_ROOT * x * (1 + _CUBIC * x * x))
    return t * (_ROOT * (1 - w * w) * (1 + 2 * cubic - _ROOT * x * w * square(1 + cubic)))


gelu_tanh: Function = unary(
    "gelu_tanh",
    lambda t, x: t * gelu_tanh_slope(x),
    forward=_gelu_tanh,
    doc="Return GELU, approximated with tanh.",
)
gelu_tanh_slope: Function = unary(
    "gelu_tanh_slope", _gelu_tanh_slope_rule, forward=_gelu_tanh_slope
)


def _gelu(xp: Any, x: Any) -> Any:
    return x * _ndtr(x)


def _gelu_slope(xp: Any, x: Any) -> Any:
    return _ndtr(x) + x * (_DENSITY * xp.exp(-0.5 * x * x))


def _ndtr(x: Any) -> Any:
    """Return the normal distribution function of a backend array."""
    return PRIMITIVES[ndtr.__name__].kernel(type(x))(x)


gelu_exact: Function = unary(
    "gelu",
    lambda t, x: t * gelu_slope(x),
    forward=_gelu,
    real_only=True,
    doc="Return GELU, computed with the normal distribution function.",
)
gelu_slope: Function = unary(
    "gelu_slope",
    lambda t, x: t * (_DENSITY * exp(-0.5 * x * x) * (2 - x * x)),
    forward=_gelu_slope,
    real_only=True,
)


def gelu(features: Any, approximate: bool = False, name: str | None = None) -> Any:
    """Return x * Φ(x) with the normal distribution function Φ, or an approximation with tanh.

    >>> f"{float(gelu(1.0)):.4f}"
    '0.8413'
    """
    x = as_operand(features)
    return gelu_tanh(x) if approximate else gelu_exact(x)


def tanh_shrink(x: Any, name: str | None = None) -> Any:
    """Return x - tanh(x).

    >>> float(tanh_shrink(0.0))
    0.0
    """
    x = as_operand(x)
    return x - tanh(x)


def squareplus(x: Any, b: float = 4.0, name: str | None = None) -> Any:
    """Return (x + sqrt(x² + b)) / 2, a smooth approximation of ReLU.

    >>> float(squareplus(0.0))
    1.0
    """
    x = as_operand(x)
    return 0.5 * (x + sqrt(square(x) + b))
