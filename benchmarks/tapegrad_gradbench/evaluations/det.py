"""The determinant by expansion in all minors, and its gradient.

The expansion has the cost of n! products on purpose: no minor is shared.
"""

from __future__ import annotations

from typing import Any

import tapegrad as tg
import tapegrad.numpy as np
from tapegrad_gradbench.evaluations import compiled, tensor, to_list
from tapegrad_gradbench.protocol import Entry


def determinant(a: Any) -> Any:
    """Return the determinants of a stack of matrices."""
    n = a.shape[-1]
    if n == 1:
        return a[..., 0, 0]
    others = [[j for j in range(n) if j != left_out] for left_out in range(n)]
    minors = np.moveaxis(a[..., 1:, others], -3, -2)  # one per column that is left out
    signs = (-1.0) ** np.arange(n)
    return np.sum(signs * a[..., 0, :] * determinant(minors), axis=-1)


def prepare(given: Any) -> tuple[Any, ...]:
    return (tensor(given["A"]).reshape(given["ell"], given["ell"]),)


def flat(gradient: Any) -> Any:
    return to_list(gradient.reshape(-1))


FUNCTIONS = {
    "primal": Entry(prepare, compiled(determinant), float),
    "gradient": Entry(prepare, compiled(tg.grad(determinant)), flat),
}
