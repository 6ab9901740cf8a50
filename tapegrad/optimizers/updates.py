"""The arithmetic of one optimizer step as primitives, so that backends can fuse them.

Each takes the parameter, its gradient, the optimizer's slots, the learning rate and the step
count as arrays on one device, and returns the new parameter and slots. Nothing is read back.
"""

from __future__ import annotations

from typing import Any

from tapegrad.core.families import nondifferentiable


def _sgd(xp: Any, p: Any, g: Any, rate: Any) -> Any:
    return (xp.astype(p - rate * g, p.dtype),)


def _momentum(
    xp: Any, p: Any, g: Any, m: Any, rate: Any, *, momentum: float, nesterov: bool
) -> Any:
    m = xp.astype(momentum * m - rate * g, p.dtype)
    step = momentum * m - rate * g if nesterov else m
    return xp.astype(p + step, p.dtype), m


def _adam(
    xp: Any,
    p: Any,
    g: Any,
    m: Any,
    v: Any,
    rate: Any,
    step: Any,
    *,
    beta_1: float,
    beta_2: float,
    epsilon: float,
) -> Any:
    t = xp.astype(step, rate.dtype)
    m = m + (g - m) * (1.0 - beta_1)
    v = v + (g * g - v) * (1.0 - beta_2)
    scale = rate * xp.sqrt(1.0 - beta_2**t) / (1.0 - beta_1**t)
    p = xp.astype(p - scale * m / (xp.sqrt(v) + epsilon), p.dtype)
    return p, xp.astype(m, p.dtype), xp.astype(v, p.dtype)


def _adam_max(
    xp: Any,
    p: Any,
    g: Any,
    m: Any,
    v: Any,
    peak: Any,
    rate: Any,
    step: Any,
    *,
    beta_1: float,
    beta_2: float,
    epsilon: float,
) -> Any:
    """Adam with the AMSGrad denominator: the largest second moment so far."""
    t = xp.astype(step, rate.dtype)
    m = m + (g - m) * (1.0 - beta_1)
    v = v + (g * g - v) * (1.0 - beta_2)
    peak = xp.maximum(peak, v)
    scale = rate * xp.sqrt(1.0 - beta_2**t) / (1.0 - beta_1**t)
    new = xp.astype(p - scale * m / (xp.sqrt(peak) + epsilon), p.dtype)
    return new, *(xp.astype(slot, p.dtype) for slot in (m, v, peak))


def _rmsprop(
    xp: Any,
    p: Any,
    g: Any,
    v: Any,
    average: Any,
    m: Any,
    rate: Any,
    *,
    rho: float,
    momentum: float,
    epsilon: float,
    centered: bool,
) -> Any:
    v = rho * v + (1.0 - rho) * g * g
    denominator = v
    if centered:
        average = rho * average + (1.0 - rho) * g
        denominator = v - average * average
    step = rate * g / xp.sqrt(denominator + epsilon)
    if momentum:
        m = momentum * m + step
        step = m
    new = xp.astype(p - step, p.dtype)
    return new, *(xp.astype(slot, p.dtype) for slot in (v, average, m))


def _adagrad(xp: Any, p: Any, g: Any, total: Any, rate: Any, *, epsilon: float) -> Any:
    total = total + g * g
    new = xp.astype(p - rate * g / xp.sqrt(total + epsilon), p.dtype)
    return new, xp.astype(total, p.dtype)


def _decay(xp: Any, p: Any, rate: Any, *, amount: float) -> Any:
    return (xp.astype(p - rate * amount * p, p.dtype),)


sgd_update = nondifferentiable("sgd_update", _sgd, many=True)
momentum_update = nondifferentiable("momentum_update", _momentum, many=True)
adam_update = nondifferentiable("adam_update", _adam, many=True)
adam_max_update = nondifferentiable("adam_max_update", _adam_max, many=True)
rmsprop_update = nondifferentiable("rmsprop_update", _rmsprop, many=True)
adagrad_update = nondifferentiable("adagrad_update", _adagrad, many=True)
decay_update = nondifferentiable("decay_update", _decay, many=True)
