"""Errors of observed points under cameras, and their sparse Jacobian."""

from __future__ import annotations

from typing import Any

import numpy as np

import tapegrad as tg
from tapegrad_gradbench.evaluations import compiled, tensor, to_list
from tapegrad_gradbench.protocol import Entry

CAMERA = 11
"""Rotation (3), centre (3), focal length, principal point (2), radial distortion (2)."""
SHOWN = 30
"""How many entries of the Jacobian are reported, beside the last one."""


def rotate(rotation: Any, x: Any) -> Any:
    """Return `x` turned about an axis by an angle, which is the length of the axis."""
    square = np.sum(rotation**2)
    is_turned = square > 0
    angle = np.sqrt(np.where(is_turned, square, 1.0))
    axis = rotation / angle
    turned = (
        x * np.cos(angle)
        + np.cross(axis, x) * np.sin(angle)
        + axis * np.sum(axis * x) * (1 - np.cos(angle))
    )
    return np.where(is_turned, turned, x + np.cross(rotation, x))


def projection_error(camera: Any, point: Any, weight: Any, feature: Any) -> Any:
    x = rotate(camera[:3], point - camera[3:6])
    flat = x[:2] / x[2]
    square = np.sum(flat**2)
    distorted = flat * (1 + camera[9] * square + camera[10] * square**2)
    return weight * (distorted * camera[6] + camera[7:9] - feature)


def weight_error(weight: Any) -> Any:
    return 1 - weight**2


@compiled
def errors(cameras: Any, points: Any, weights: Any, features: Any, seen: Any) -> Any:
    by, what = seen
    projected = tg.vmap(projection_error)(cameras[by], points[what], weights, features)
    return projected, weight_error(weights)


@compiled
def values(cameras: Any, points: Any, weights: Any, features: Any, seen: Any) -> Any:
    """Return the entries of the Jacobian, row by row."""
    by, what = seen
    block = tg.vmap(tg.jacobian(projection_error, argnums=(0, 1, 2)))
    camera, point, weight = block(cameras[by], points[what], weights, features)
    rows = np.concatenate([camera, point, weight[..., None]], axis=-1)
    return np.concatenate([rows.reshape(-1), tg.vmap(tg.grad(weight_error))(weights)])


def jacobian(cameras: Any, points: Any, weights: Any, features: Any, seen: Any) -> Any:
    """Return the rows' starts, the columns and the values of the Jacobian."""
    width, observations = CAMERA + 4, len(weights)
    by, what = (np.asarray(index)[:, None] for index in seen)
    first_point = CAMERA * len(cameras)
    first_weight = first_point + 3 * len(points)
    weight_columns = first_weight + np.arange(observations)[:, None]
    block = np.concatenate(
        [
            CAMERA * by + np.arange(CAMERA),
            first_point + 3 * what + np.arange(3),
            weight_columns,
        ],
        axis=1,
    )
    columns = np.concatenate([np.repeat(block, 2, axis=0).ravel(), weight_columns[:, 0]])
    lengths = np.concatenate([[0], np.full(2 * observations, width), np.ones(observations)])
    rows = np.cumsum(lengths, dtype=int)
    return rows, columns, values(cameras, points, weights, features, seen)


def prepare(given: Any) -> tuple[Any, ...]:
    n, m, p = given["n"], given["m"], given["p"]
    order = np.arange(p)
    return (
        tensor(np.tile(given["cam"], (n, 1))),
        tensor(np.tile(given["x"], (m, 1))),
        tensor(np.full(p, given["w"])),
        tensor(np.tile(given["feat"], (p, 1))),
        (tg.constant(order % n), tg.constant(order % m)),
    )


def shown_errors(found: Any) -> Any:
    projected, weights = found
    return {
        "reproj_error": {"elements": to_list(projected[0]), "repeated": len(projected)},
        "w_err": {"element": float(weights[0]), "repeated": len(weights)},
    }


def shown_entries(found: Any) -> Any:
    parts = dict(zip(("rows", "cols", "vals"), found))
    return {
        name: [*to_list(tg.constant(part[:SHOWN])), to_list(tg.constant(part[-1]))]
        for name, part in parts.items()
    }


FUNCTIONS = {
    "objective": Entry(prepare, errors, shown_errors),
    "jacobian": Entry(prepare, jacobian, shown_entries),
}
