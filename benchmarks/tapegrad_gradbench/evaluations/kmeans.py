"""The cost of clusters and the Newton step of their centroids; the Hessian is diagonal."""

from __future__ import annotations

from typing import Any

import tapegrad as tg
import tapegrad.numpy as np
from tapegrad_gradbench.evaluations import compiled, tensor, to_list
from tapegrad_gradbench.protocol import Entry


def cost(points: Any, centroids: Any) -> Any:
    squares = np.sum(points**2, axis=1)[:, None] + np.sum(centroids**2, axis=1)
    return np.sum(np.min(squares - 2 * points @ centroids.T, axis=1))


def direction(points: Any, centroids: Any) -> Any:
    gradient = tg.grad(lambda centroids: cost(points, centroids))
    slope, curvature = tg.jvp(gradient, [centroids], [np.ones_like(centroids)])
    return slope / curvature


def prepare(given: Any) -> tuple[Any, ...]:
    return tensor(given["points"]), tensor(given["centroids"])


FUNCTIONS = {
    "cost": Entry(prepare, compiled(cost), float),
    "dir": Entry(prepare, compiled(direction), to_list),
}
