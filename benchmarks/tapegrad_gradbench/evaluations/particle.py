"""Steer a charged particle to the origin: gradient descent through a simulation with gradients."""

from __future__ import annotations

from typing import Any

import tapegrad.numpy as np
from tapegrad_gradbench.evaluations import compiled, tensor
from tapegrad_gradbench.evaluations.descent import MODES, Function, argmin
from tapegrad_gradbench.protocol import Entry

STEP = 0.1


def potential(w: Any) -> Function:
    """Return the potential of two charges, of which `w` moves one."""
    zero = 0 * w
    charges = np.stack([np.stack([zero + 10, 10 - w]), np.stack([zero + 10, zero])])

    def at(x: Any) -> Any:
        return np.sum(1 / np.sqrt(np.sum((charges - x) ** 2, axis=1)))

    return at


def miss(w: Any, mode: Any) -> Any:
    """Return the squared distance from the origin where the particle meets the axis."""
    slope = mode(potential(w))
    x, speed = tensor([0.0, 8.0]), tensor([0.75, 0.0])
    after = x + STEP * speed
    while after[1] > 0:
        speed = speed - STEP * slope(x)
        x = after
        after = x + STEP * speed
    meeting = after - after[1] / speed[1] * speed
    return meeting[0] ** 2


def control(w: Any, modes: str) -> Any:
    """Return the best `w`; `modes` has the letters of the outer and of the inner derivative."""
    outer, inner = (MODES[letter] for letter in modes)
    return argmin(lambda w: miss(w, inner), outer, w)


compute = compiled(control)


def entry(modes: str) -> Entry:
    return Entry(lambda given: (tensor(given["w"]), modes), compute, float)


FUNCTIONS = {modes: entry(modes) for modes in ("ff", "fr", "rf", "rr")}
