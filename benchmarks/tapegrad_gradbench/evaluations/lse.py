"""The logarithm of a sum of exponentials, and its gradient."""

from __future__ import annotations

from typing import Any

import tapegrad as tg
import tapegrad.numpy as np
from tapegrad_gradbench.evaluations import compiled, tensor, to_list
from tapegrad_gradbench.protocol import Entry


def log_sum_exp(x: Any) -> Any:
    largest = np.max(x)
    return largest + np.log(np.sum(np.exp(x - largest)))


def prepare(given: Any) -> tuple[Any, ...]:
    return (tensor(given["x"]),)


FUNCTIONS = {
    "primal": Entry(prepare, compiled(log_sum_exp), float),
    "gradient": Entry(prepare, compiled(tg.grad(log_sum_exp)), to_list),
}
