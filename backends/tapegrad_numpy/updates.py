"""Optimizer steps with few temporaries. The arrays that come in are never written to."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

Array = Any


def sgd_update(p: Array, g: Array, rate: Array) -> tuple[Array]:
    step = np.asarray(g * float(rate), p.dtype)
    return (np.subtract(p, step, out=step if step.ndim else None),)


def momentum_update(
    p: Array, g: Array, m: Array, rate: Array, *, momentum: float, nesterov: bool
) -> tuple[Array, Array]:
    step = np.asarray(g * -float(rate), p.dtype)
    m = m * momentum
    m += step
    if not nesterov:
        return p + m, m
    step += momentum * m
    step += p
    return step, m


def adam_update(
    p: Array,
    g: Array,
    m: Array,
    v: Array,
    rate: Array,
    step: Array,
    *,
    beta_1: float,
    beta_2: float,
    epsilon: float,
) -> tuple[Array, Array, Array]:
    t = int(step)
    scale = float(rate) * math.sqrt(1.0 - beta_2**t) / (1.0 - beta_1**t)
    new_m = _toward(m, np.asarray(g, p.dtype), 1.0 - beta_1)
    new_v = _toward(v, np.square(g, dtype=p.dtype), 1.0 - beta_2)
    change = np.asarray(np.sqrt(new_v))
    change += epsilon
    np.divide(new_m, change, out=change)
    change *= -scale
    change += p
    return change, new_m, new_v


def _toward(average: Array, value: Array, share: float) -> Array:
    """average + share * (value - average), in one new buffer."""
    result = np.asarray(value - average)
    result *= share
    result += average
    return result


KERNELS: dict[str, Callable[..., Any]] = {
    "adam_update": adam_update,
    "momentum_update": momentum_update,
    "sgd_update": sgd_update,
}
