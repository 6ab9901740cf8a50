"""Optimizer steps as primitives, so that backends can fuse their arithmetic.

Each takes the parameter, its gradient, the learning rate, other numbers that the rule reads, and
the slots, all as arrays on one device. It returns the new parameter and slots. The arithmetic has
the precision of the slots, which is single for half-precision parameters.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.core.primitive.families import nondifferentiable
from tapegrad.ops.indexing.gather import scatter_sum


def _wide(xp: Any, x: Any) -> Any:
    """Return an array in single precision if it has half precision, which could overflow."""
    is_half = str(x.dtype).endswith("float16")  # so does "bfloat16"
    return xp.astype(x, np.dtype("float32")) if is_half else x


def _square(xp: Any, g: Any) -> Any:
    """Return |g|^2, which is real also for complex gradients."""
    if not xp.isdtype(g.dtype, "complex floating"):
        g = _wide(xp, g)
        return g * g
    real, imag = xp.real(g), xp.imag(g)
    return real * real + imag * imag


def _toward(x: Any, target: Any, share: float) -> Any:
    """Return x + share * (target - x)."""
    return x + (target - x) * share


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
    """Adam; with a third slot AMSGrad, which divides by the largest second moment so far."""
    # In single precision, 1 - beta_2**t has only four digits at first.
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
    """RMSprop; `others` are the mean gradient (if centered) and the momentum (if any)."""
    g = _wide(xp, g)
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


def _adadelta(
    xp: Any, p: Any, g: Any, rate: Any, squares: Any, changes: Any, *, rho: float, epsilon: float
) -> Any:
    g = _wide(xp, g)
    squares = _toward(squares, g * g, 1.0 - rho)
    change = g * xp.sqrt(changes + epsilon) / xp.sqrt(squares + epsilon)
    changes = _toward(changes, change * change, 1.0 - rho)
    return xp.astype(p - rate * change, p.dtype), squares, changes


def _adamax(
    xp: Any,
    p: Any,
    g: Any,
    rate: Any,
    step: Any,
    m: Any,
    norm: Any,
    *,
    beta_1: float,
    beta_2: float,
    epsilon: float,
) -> Any:
    g = _wide(xp, g)
    t = xp.astype(step, np.dtype("float64"))
    scale = xp.astype(rate / (1.0 - beta_1**t), m.dtype)
    m = _toward(m, g, 1.0 - beta_1)
    norm = xp.maximum(beta_2 * norm, xp.abs(g))
    return xp.astype(p - scale * m / (norm + epsilon), p.dtype), m, norm


def _nadam_momentum(count: Any, beta_1: float) -> Any:
    """Return the momentum of a step, which grows towards beta_1."""
    return beta_1 * (1.0 - 0.5 * 0.96**count)


def _nadam_product(xp: Any, product: Any, step: Any, *, beta_1: float, beta_2: float) -> Any:
    """Return the product of all momenta so far, and the numbers that all variables share.

    These are the factors of the running mean and of the gradient, and the bias correction of the
    running mean of squares.
    """
    t = xp.astype(step, np.dtype("float64"))
    now, later = _nadam_momentum(t, beta_1), _nadam_momentum(t + 1.0, beta_1)
    new = product * now
    numbers = (new, later / (1.0 - new * later), (1.0 - now) / (1.0 - new), 1.0 / (1.0 - beta_2**t))
    return tuple(xp.astype(number, product.dtype) for number in numbers)


def _nadam(
    xp: Any,
    p: Any,
    g: Any,
    rate: Any,
    share_of_m: Any,
    share_of_g: Any,
    unbias: Any,
    m: Any,
    v: Any,
    *,
    beta_1: float,
    beta_2: float,
    epsilon: float,
) -> Any:
    g = _wide(xp, g)
    from_m, from_g = [xp.astype(rate * share, m.dtype) for share in (share_of_m, share_of_g)]
    m = _toward(m, g, 1.0 - beta_1)
    v = _toward(v, g * g, 1.0 - beta_2)
    change = (from_m * m + from_g * g) / (xp.sqrt(v * xp.astype(unbias, v.dtype)) + epsilon)
    return xp.astype(p - change, p.dtype), m, v


def _lion(xp: Any, p: Any, g: Any, rate: Any, m: Any, *, beta_1: float, beta_2: float) -> Any:
    g = _wide(xp, g)
    direction = xp.sign(beta_1 * m + (1.0 - beta_1) * g)
    return xp.astype(p - rate * direction, p.dtype), _toward(m, g, 1.0 - beta_2)


def _lamb_change(
    xp: Any,
    p: Any,
    g: Any,
    step: Any,
    m: Any,
    v: Any,
    *,
    beta_1: float,
    beta_2: float,
    epsilon: float,
) -> Any:
    """Return the direction of Lamb's step in place of the parameter, and the new slots."""
    g = _wide(xp, g)
    t = xp.astype(step, np.dtype("float64"))
    unbias_1, unbias_2 = [xp.astype(1.0 / (1.0 - b**t), m.dtype) for b in (beta_1, beta_2)]
    m = _toward(m, g, 1.0 - beta_1)
    v = _toward(v, g * g, 1.0 - beta_2)
    change = m * unbias_1 / (xp.sqrt(v * unbias_2) + epsilon)
    return xp.astype(change, p.dtype), m, v


def _lamb(xp: Any, p: Any, change: Any, rate: Any, size: Any, length: Any) -> Any:
    """Make a step scaled by the ratio of the norms of parameter and step; 0 / 0 counts as 1."""
    is_scaled = (size > 0.0) & (length > 0.0)
    ratio = xp.where(is_scaled, size, xp.ones_like(size)) / xp.where(
        is_scaled, length, xp.ones_like(length)
    )
    return xp.astype(p - rate * ratio * change, p.dtype)


def _ftrl(
    xp: Any,
    p: Any,
    g: Any,
    rate: Any,
    total: Any,
    linear: Any,
    *,
    power: float,
    beta: float,
    l1: float,
    l2: float,
    shrinkage: float,
) -> Any:
    g, x = _wide(xp, g), _wide(xp, p)
    per_rate = xp.astype(1.0 / xp.astype(rate, np.dtype("float64")), total.dtype)
    before, total = total, total + g * g
    before, after = [xp.sqrt(n) if power == 0.5 else n**power for n in (before, total)]
    linear = linear + (g + 2.0 * shrinkage * x) - (after - before) * per_rate * x
    # The curvature at the parameters; beta raises it in early steps.
    curve = (after + beta) * per_rate + 2.0 * l2
    new = (xp.clip(linear, -l1, l1) - linear) / curve
    return xp.astype(new, p.dtype), total, linear


def _adagrad_rows(
    xp: Any, p: Any, rows: Any, indices: Any, rate: Any, total: Any, *, epsilon: float
) -> Any:
    g = scatter_sum(xp, rows, indices, axis=0, size=p.shape[0])
    return _adagrad(xp, p, g, rate, total, epsilon=epsilon)


def _decay(xp: Any, p: Any, rate: Any, *, amount: float) -> Any:
    # rate * amount first would round to single precision, because the rate has it.
    return (xp.astype(p - rate * p * amount, p.dtype),)


def _average(xp: Any, average: Any, p: Any, step: Any, *, share: float) -> Any:
    """Return the average after a step; it starts at the value of the first step."""
    x = _wide(xp, p)
    new = xp.where(step == 1, x, _toward(_wide(xp, average), x, share))
    return (xp.astype(new, average.dtype),)


def _moments(
    xp: Any, mean: Any, variance: Any, seen_mean: Any, seen_variance: Any, *, share: float
) -> Any:
    """Return both moving averages after a batch, in one launch."""
    pairs = (mean, seen_mean), (variance, seen_variance)
    moved = [_toward(_wide(xp, average), _wide(xp, seen), share) for average, seen in pairs]
    return tuple([xp.astype(new, mean.dtype) for new in moved])


def _tally(xp: Any, total: Any, count: Any, value: Any, *, weight: float) -> Any:
    """Return the total and the count of a running mean after a value with a weight."""
    new = _wide(xp, total) + _wide(xp, value) * weight, _wide(xp, count) + weight
    return tuple([xp.astype(one, total.dtype) for one in new])


count_update = nondifferentiable("count_update", lambda xp, count: count + 1, by_element=True)
sgd_update = nondifferentiable("sgd_update", _sgd, by_element=True, many=True)
sgd_rows_update = nondifferentiable("sgd_rows_update", _sgd_rows, many=True)
momentum_update = nondifferentiable("momentum_update", _momentum, by_element=True, many=True)
adam_update = nondifferentiable("adam_update", _adam, by_element=True, many=True)
rmsprop_update = nondifferentiable("rmsprop_update", _rmsprop, by_element=True, many=True)
adagrad_update = nondifferentiable("adagrad_update", _adagrad, by_element=True, many=True)
adadelta_update = nondifferentiable("adadelta_update", _adadelta, by_element=True, many=True)
adamax_update = nondifferentiable("adamax_update", _adamax, by_element=True, many=True)
nadam_product_update = nondifferentiable(
    "nadam_product_update", _nadam_product, by_element=True, many=True
)
nadam_update = nondifferentiable("nadam_update", _nadam, by_element=True, many=True)
lion_update = nondifferentiable("lion_update", _lion, by_element=True, many=True)
lamb_change_update = nondifferentiable(
    "lamb_change_update", _lamb_change, by_element=True, many=True
)
lamb_update = nondifferentiable("lamb_update", _lamb, broadcasts=True)
ftrl_update = nondifferentiable("ftrl_update", _ftrl, by_element=True, many=True)
# Rows must not repeat, except rows of zeros.
adagrad_rows_update = nondifferentiable("adagrad_rows_update", _adagrad_rows, many=True)
adagrad_rows_update.overwritten = (0, 4)
decay_update = nondifferentiable("decay_update", _decay, by_element=True, many=True)
average_update = nondifferentiable("average_update", _average, by_element=True, many=True)
moments_update = nondifferentiable("moments_update", _moments, by_element=True, many=True)
tally_update = nondifferentiable("tally_update", _tally, by_element=True, many=True)
