"""A saddle point: the minimum over x of the maximum over y, each by gradient descent."""

from __future__ import annotations

from typing import Any

import tapegrad.numpy as np
from tapegrad_gradbench.evaluations import compiled, tensor, to_list
from tapegrad_gradbench.evaluations.descent import MODES, argmax, argmin
from tapegrad_gradbench.protocol import Entry


def height(x: Any, y: Any) -> Any:
    return np.sum(x * x) - np.sum(y * y)


def saddle_point(start: Any, modes: str) -> Any:
    """Return x and y; `modes` has the letters of the outer and of the inner derivative."""
    outer, inner = (MODES[letter] for letter in modes)

    def best_y(x: Any) -> Any:
        return argmax(lambda y: height(x, y), inner, start)

    x = argmin(lambda x: height(x, best_y(x)), outer, start)
    return np.concatenate([x, best_y(x)])


compute = compiled(saddle_point)


def entry(modes: str) -> Entry:
    return Entry(lambda given: (tensor(given["start"]), modes), compute, to_list)


FUNCTIONS = {modes: entry(modes) for modes in ("ff", "fr", "rf", "rr")}
