"""The squared error of a polynomial that approximates the sign, and its gradient."""

from __future__ import annotations

from typing import Any

import tapegrad as tg
import tapegrad.numpy as np
from tapegrad_gradbench.evaluations import compiled, tensor, to_list
from tapegrad_gradbench.protocol import Entry


def squared_error(x: Any, n: Any) -> Any:
    t = -1.0 + np.arange(n, dtype="float64") * 2.0 / (n - 1)
    powers = np.vander(t, x.shape[0], increasing=True)
    return 0.5 * np.sum((np.sign(t) - powers @ x) ** 2)


def prepare(given: Any) -> tuple[Any, ...]:
    return tensor(given["x"]), given["n"]


FUNCTIONS = {
    "primal": Entry(prepare, compiled(squared_error), float),
    "gradient": Entry(prepare, compiled(tg.grad(squared_error)), to_list),
}
