"""Gradient descent as the evaluations `particle` and `saddle` prescribe it, and their derivatives.

The code has Python's control flow only. It runs eagerly as well as inside a `tapegrad.function`,
where its loop is recorded, and can be differentiated itself.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tapegrad as tg
import tapegrad.numpy as np

Function = Callable[[Any], Any]
TOLERANCE, RATE = 1e-5, 1e-5


def reverse(f: Function) -> Function:
    """Return the gradient of `f`, by reverse mode."""
    return tg.grad(f)


def forward(f: Function) -> Function:
    """Return the gradient of `f`, by forward mode."""
    return tg.jacobian(f, mode="forward")


MODES = {"r": reverse, "f": forward}


def norm(x: Any) -> Any:
    return np.sqrt(np.sum(x * x))


def argmin(f: Function, mode: Callable[[Function], Function], x: Any) -> Any:
    """Go downhill from `x`; ten steps in a row double the rate, a step uphill halves it."""
    gradient = mode(f)
    value, slope = f(x), gradient(x)
    rate, steps = np.asarray(RATE, dtype=x.dtype), np.asarray(0)
    is_moving = norm(slope) > TOLERANCE
    while is_moving:
        if steps == 10:
            rate, steps = 2 * rate, 0 * steps
        candidate = x - rate * slope
        is_moving = norm(x - candidate) > TOLERANCE
        lower = f(candidate)
        if is_moving:
            if lower < value:
                x, value, slope, steps = candidate, lower, gradient(candidate), steps + 1
                is_moving = norm(slope) > TOLERANCE
            else:
                rate, steps = rate / 2, 0 * steps
    return x


def argmax(f: Function, mode: Callable[[Function], Function], x: Any) -> Any:
    """Go uphill from `x`."""
    return argmin(lambda x: -f(x), mode, x)
