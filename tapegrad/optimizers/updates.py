"""The arithmetic of one optimizer step as primitives, so that backends can fuse them.

Each takes the parameter, its gradient, the learning rate and the optimizer's slots as arrays on
one device, and returns the new parameter and slots. Nothing is read back. The arithmetic has the
precision of the slots, which for parameters in half precision is single.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.core.families import nondifferentiable
from tapegrad.ops.gather import scatter_sum


def _square(xp: Any, g: Any) -> Any:
    """|g|^2, which is real also for complex gradients."""
    if not xp.isdtype(g.dtype, "complex floating"):
        return g * g
    real, imag = xp.real(g), xp.imag(g)
    return real * real + imag * imag


def _sgd(xp: Any, p: Any, g: Any, rate: Any) -> Any:
    return (xp.astype(p - rate * g, p.dtype),)


def _sgd_rows(xp: Any, p: Any, rows: Any, indices: Any, rate: Any) -> Any:
    return _sgd(xp, p, scatter_sum(xp, rows, indices, axis=0, size=p.shape[0]), rate)


def _momentum(
    xp: Any, p: Any, g: Any, rate: Any, m: Any, *, momentum: float, nesterov: bool
) -> Any:
    m = xp.astype(momentum * m - rate * g, m.dtype)
    step = momentum * m - rate * g if nesterov else m
    return xp.astype(p + step, p.dtype), m


def _adam(
    xp: Any,
    p: Any,
    g: Any,
    rate: Any,
    step: Any,
    m: Any,
    v: Any,
    *peak: Any,
    beta_1: float,
    beta_2: float,
    epsilon: float,
) -> Any:
    """Adam; with a third slot its AMSGrad form, which divides by the largest moment so far."""
    # In single precision 1 - beta_2 has only four digits at first.
    t = xp.astype(step, np.dtype("float64"))
    scale = xp.astype(rate * xp.sqrt(1.0 - beta_2**t) / (1.0 - beta_1**t), v.dtype)
    m = xp.astype(m + (g - m) * (1.0 - beta_1), m.dtype)
    v = xp.astype(v + (_square(xp, g) - v) * (1.0 - beta_2), v.dtype)
    peak = tuple(xp.maximum(old, v) for old in peak)
    divisor = xp.sqrt(peak[0] if peak else v) + epsilon
    return xp.astype(p - scale * m / divisor, p.dtype), m, v, *peak


def _rmsprop(
    xp: Any,
    p: Any,
    g: Any,
    rate: Any,
    v: Any,
    *others: Any,
    rho: float,
    momentum: float,
    epsilon: float,
    centered: bool,
) -> Any:
    """RMSprop; the further slots are the mean gradient (if centered) and the momentum (if any)."""
    v = xp.astype(rho * v + (1.0 - rho) * _square(xp, g), v.dtype)
    spread, slots = v, [v]
    if centered:
        mean = xp.astype(rho * others[0] + (1.0 - rho) * g, others[0].dtype)
        spread = v - _square(xp, mean)
        slots.append(mean)
    step = rate * g / xp.sqrt(spread + epsilon)
    if momentum:
        step = xp.astype(momentum * others[-1] + step, others[-1].dtype)
        slots.append(step)
    return xp.astype(p - step, p.dtype), *slots


def _adagrad(xp: Any, p: Any, g: Any, rate: Any, total: Any, *, epsilon: float) -> Any:
    total = xp.astype(total + _square(xp, g), total.dtype)
    return xp.astype(p - rate * g / xp.sqrt(total + epsilon), p.dtype), total


def _adagrad_rows(
    xp: Any, p: Any, rows: Any, indices: Any, rate: Any, total: Any, *, epsilon: float
) -> Any:
    g = scatter_sum(xp, rows, indices, axis=0, size=p.shape[0])
    return _adagrad(xp, p, g, rate, total, epsilon=epsilon)


def _decay(xp: Any, p: Any, rate: Any, *, amount: float) -> Any:
    return (xp.astype(p - rate * amount * p, p.dtype),)


count_update = nondifferentiable("count_update", lambda xp, count: count + 1, by_element=True)
sgd_update = nondifferentiable("sgd_update", _sgd, by_element=True, many=True)
sgd_rows_update = nondifferentiable("sgd_rows_update", _sgd_rows, many=True)
momentum_update = nondifferentiable("momentum_update", _momentum, by_element=True, many=True)
adam_update = nondifferentiable("adam_update", _adam, by_element=True, many=True)
rmsprop_update = nondifferentiable("rmsprop_update", _rmsprop, by_element=True, many=True)
adagrad_update = nondifferentiable("adagrad_update", _adagrad, by_element=True, many=True)
# The rows must be different, but for rows of zeros.
adagrad_rows_update = nondifferentiable("adagrad_rows_update", _adagrad_rows, many=True)
decay_update = nondifferentiable("decay_update", _decay, by_element=True, many=True)
