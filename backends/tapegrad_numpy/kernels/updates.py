"""Optimizer steps with few temporaries. Operands are never written to.

Gradients have the dtype of their parameter. Slots have that dtype too, or single precision for half
precision parameters, so that operators give the dtype of the slots.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tapegrad.core.backend.registry import by_name
from tapegrad_numpy.kernels.half import accumulator

Array = Any


def sgd_update(p: Array, g: Array, rate: Array) -> tuple[Array]:
    step = np.multiply(g, -float(rate), dtype=accumulator(p.dtype))
    return (_moved(p, step),)


def sgd_rows_update(p: Array, rows: Array, indices: Array, rate: Array) -> tuple[Array]:
    new = np.array(p, order="C")
    step = np.multiply(rows, -float(rate), dtype=accumulator(p.dtype))
    _add_rows(new, indices, step.astype(p.dtype, copy=False))
    return (new,)


def momentum_update(
    p: Array, g: Array, rate: Array, m: Array, *, momentum: float, nesterov: bool
) -> tuple[Array, Array]:
    step = np.multiply(g, -float(rate), dtype=m.dtype)
    m = m * momentum
    m += step
    if not nesterov:
        return (p + m).astype(p.dtype, copy=False), m
    step += momentum * m
    return _moved(p, step), m


def adam_update(
    p: Array,
    g: Array,
    rate: Array,
    step: Array,
    m: Array,
    v: Array,
    *peak: Array,
    beta_1: float,
    beta_2: float,
    epsilon: float,
) -> tuple[Array, ...]:
    t = int(step)
    scale = float(rate) * math.sqrt(1.0 - beta_2**t) / (1.0 - beta_1**t)
    m = _toward(m, g, 1.0 - beta_1)
    v = _toward(v, _square(g, v.dtype), 1.0 - beta_2)
    peak = tuple([np.maximum(old, v) for old in peak])
    divisor = np.sqrt(peak[0] if peak else v)
    divisor += epsilon
    change = np.divide(m, divisor, out=divisor if m.dtype == divisor.dtype and m.ndim else None)
    change *= -scale
    return _moved(p, change), m, v, *peak


def rmsprop_update(
    p: Array,
    g: Array,
    rate: Array,
    v: Array,
    *others: Array,
    rho: float,
    momentum: float,
    epsilon: float,
    centered: bool,
) -> tuple[Array, ...]:
    v = _decayed(v, _square(g, v.dtype), rho)
    slots = [v]
    spread = v
    if centered:
        mean = _decayed(others[0], g, rho)
        spread = v - _square(mean, v.dtype)
        slots.append(mean)
    change = _scaled(g, rate, spread, epsilon)
    if momentum:
        total = others[-1] * momentum
        total -= change
        slots.append(total)
        return (p - total).astype(p.dtype, copy=False), *slots
    return _moved(p, change), *slots


def adagrad_update(
    p: Array, g: Array, rate: Array, total: Array, *, epsilon: float
) -> tuple[Array, Array]:
    total = total + _square(g, total.dtype)
    return _moved(p, _scaled(g, rate, total, epsilon)), total


def adagrad_rows_update(
    p: Array, rows: Array, indices: Array, rate: Array, total: Array, *, epsilon: float
) -> tuple[Array, Array]:
    new, total = np.array(p, order="C"), np.array(total, order="C")
    _add_rows(total, indices, _square(rows, total.dtype))
    change = _scaled(rows, rate, total[indices], epsilon)
    _add_rows(new, indices, change.astype(p.dtype, copy=False))
    return new, total


def adadelta_update(
    p: Array, g: Array, rate: Array, squares: Array, changes: Array, *, rho: float, epsilon: float
) -> tuple[Array, ...]:
    squares = _toward(squares, _square(g, squares.dtype), 1.0 - rho)
    change = np.sqrt(changes + epsilon)
    change /= np.sqrt(squares + epsilon)
    change *= g
    changes = _toward(changes, change * change, 1.0 - rho)
    change *= -float(rate)
    return _moved(p, change), squares, changes


def adamax_update(
    p: Array,
    g: Array,
    rate: Array,
    step: Array,
    m: Array,
    norm: Array,
    *,
    beta_1: float,
    beta_2: float,
    epsilon: float,
) -> tuple[Array, ...]:
    m = _toward(m, g, 1.0 - beta_1)
    norm = np.maximum(norm * beta_2, np.abs(g))
    change = m / (norm + epsilon)
    change *= -float(rate) / (1.0 - beta_1 ** int(step))
    return _moved(p, change), m, norm


def nadam_update(
    p: Array,
    g: Array,
    rate: Array,
    share_of_m: Array,
    share_of_g: Array,
    unbias: Array,
    m: Array,
    v: Array,
    *,
    beta_1: float,
    beta_2: float,
    epsilon: float,
) -> tuple[Array, ...]:
    m = _toward(m, g, 1.0 - beta_1)
    v = _toward(v, _square(g, v.dtype), 1.0 - beta_2)
    divisor = np.sqrt(v * float(unbias))
    divisor += epsilon
    change = m * (-float(rate) * float(share_of_m))
    change += np.multiply(g, -float(rate) * float(share_of_g), dtype=m.dtype)
    change /= divisor
    return _moved(p, change), m, v


def lion_update(
    p: Array, g: Array, rate: Array, m: Array, *, beta_1: float, beta_2: float
) -> tuple[Array, ...]:
    change = m * beta_1
    change += np.multiply(g, 1.0 - beta_1, dtype=m.dtype)
    change = np.sign(change)
    change *= -float(rate)
    return _moved(p, change), _toward(m, g, 1.0 - beta_2)


def ftrl_update(
    p: Array,
    g: Array,
    rate: Array,
    total: Array,
    linear: Array,
    *,
    power: float,
    beta: float,
    l1: float,
    l2: float,
    shrinkage: float,
) -> tuple[Array, ...]:
    x = p.astype(total.dtype, copy=False)
    new_total = total + _square(g, total.dtype)
    before, after = [np.sqrt(n) if power == 0.5 else n**power for n in (total, new_total)]
    linear = linear + g
    if shrinkage:
        linear += 2.0 * shrinkage * x
    linear -= (after - before) * x / float(rate)
    curve = (after + beta) / float(rate)
    curve += 2.0 * l2
    new = np.clip(linear, -l1, l1) - linear
    new /= curve
    return new.astype(p.dtype, copy=False), new_total, linear


def average_update(average: Array, p: Array, step: Array, *, share: float) -> tuple[Array]:
    if int(step) == 1:
        return (p.copy(),)
    wide = accumulator(p.dtype)
    new = _toward(average.astype(wide, copy=False), p.astype(wide, copy=False), share)
    return (new.astype(average.dtype, copy=False),)


def moments_update(
    mean: Array, variance: Array, seen_mean: Array, seen_variance: Array, *, share: float
) -> tuple[Array, ...]:
    pairs = (mean, seen_mean), (variance, seen_variance)
    wide, dtype = accumulator(mean.dtype), mean.dtype
    moved = [
        _toward(a.astype(wide, copy=False), x.astype(wide, copy=False), share) for a, x in pairs
    ]
    return tuple([new.astype(dtype, copy=False) for new in moved])


def tally_update(total: Array, count: Array, value: Array, *, weight: float) -> tuple[Array, ...]:
    wide, dtype = accumulator(total.dtype), total.dtype
    if wide is dtype:
        return np.asarray(total + value * weight), np.asarray(count + weight)
    total, count, value = [one.astype(wide) for one in (total, count, value)]
    return (total + value * weight).astype(dtype), (count + weight).astype(dtype)


def decay_update(p: Array, rate: Array, *, amount: float) -> tuple[Array]:
    return (_moved(p, np.multiply(p, -float(rate) * amount, dtype=accumulator(p.dtype))),)


def _moved(p: Array, change: Array) -> Array:
    """p + change in the parameter's dtype; reuses the buffer of `change` if the dtype is equal."""
    change += p
    return change if change.dtype == p.dtype else change.astype(p.dtype)


def _toward(average: Array, value: Array, share: float) -> Array:
    """average + share * (value - average), in one new buffer."""
    result = value - average
    result *= share
    result += average
    return result


def _decayed(average: Array, value: Array, rho: float) -> Array:
    """rho * average + (1 - rho) * value. Unlike `_toward` it keeps an infinite average."""
    result = average * rho
    result += value * (1.0 - rho)
    return result


def _square(g: Array, dtype: np.dtype[Any]) -> Array:
    """|g|^2, which is real also for complex gradients."""
    if g.dtype is dtype:
        return g * g
    if g.dtype.kind != "c":
        return np.square(g, dtype=dtype)
    return (np.square(g.real) + np.square(g.imag)).astype(dtype, copy=False)


def _scaled(g: Array, rate: Array, total: Array, epsilon: float) -> Array:
    """-rate * g / sqrt(total + epsilon)."""
    change = np.divide(g, np.sqrt(total + epsilon))
    change *= -float(rate)
    return change


def _add_rows(array: Array, indices: Array, rows: Array) -> None:
    """Add rows in place; indices may repeat."""
    width = math.prod(array.shape[1:])
    places = indices.astype(np.intp)[:, None] * width + np.arange(width)
    # ufunc.at is fast for one-dimensional contiguous arrays.
    np.add.at(array.reshape(-1), places.reshape(-1), rows.reshape(-1))


KERNELS = by_name(
    adadelta_update,
    adagrad_rows_update,
    adagrad_update,
    adam_update,
    adamax_update,
    average_update,
    decay_update,
    ftrl_update,
    lion_update,
    moments_update,
    momentum_update,
    nadam_update,
    rmsprop_update,
    sgd_rows_update,
    sgd_update,
    tally_update,
)
