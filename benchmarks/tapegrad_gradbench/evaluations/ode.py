"""A linear differential equation by the method of Runge and Kutta; the last value's gradient."""

from __future__ import annotations

from typing import Any

import tapegrad as tg
import tapegrad.numpy as np
from tapegrad_gradbench.evaluations import compiled, tensor, to_list
from tapegrad_gradbench.protocol import Entry

END = 2.0


def solution(x: Any, steps: int) -> Any:
    h = END / steps
    first = np.ones_like(x[:1])

    def slope(y: Any) -> Any:
        return x * np.concatenate([first, y[:-1]])

    y = np.zeros_like(x)
    for _ in range(steps):
        k1 = slope(y)
        k2 = slope(y + h / 2 * k1)
        k3 = slope(y + h / 2 * k2)
        k4 = slope(y + h * k3)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return y


def last(x: Any, steps: int) -> Any:
    return solution(x, steps)[-1]


def prepare(given: Any) -> tuple[Any, ...]:
    return tensor(given["x"]), given["s"]


FUNCTIONS = {
    "primal": Entry(prepare, compiled(solution), to_list),
    "gradient": Entry(prepare, compiled(tg.grad(last)), to_list),
}
