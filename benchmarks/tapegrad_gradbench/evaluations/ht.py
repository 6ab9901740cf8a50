"""Distances of points from a hand model with 26 parameters, and their Jacobian.

Each point moves on a triangle of the hand by two numbers. They are independent of the other
points', so that the two columns of a common shift hold all their derivatives.
"""

from __future__ import annotations

from typing import Any

import tapegrad as tg
import tapegrad.numpy as np
from tapegrad_gradbench.evaluations import compiled, tensor, to_list
from tapegrad_gradbench.protocol import Entry

FINGERS, BONES_OF_A_FINGER = 5, 4


def poses(theta: Any, bones: int) -> Any:
    """Return the angles of all bones: three of each finger bend, the first also sideways."""
    angles = np.zeros((bones, 3), dtype=theta.dtype)
    for finger in range(FINGERS):
        first, bone = 6 + 4 * finger, 2 + BONES_OF_A_FINGER * finger
        angles[bone, :2] = theta[first : first + 2]
        angles[bone + 1, 0] = theta[first + 2]
        angles[bone + 2, 0] = theta[first + 3]
    return angles


def rotations(angles: Any) -> Any:
    """Return the rotations about z, y and x as 4x4 matrices."""
    cx, cz, cy = np.cos(angles).T
    sx, sz, sy = np.sin(angles).T
    zero, one = np.zeros_like(cx), np.ones_like(cx)
    rows = [
        [cz * cy, cz * sy * sx - sz * cx, cz * sy * cx + sz * sx, zero],
        [sz * cy, sz * sy * sx + cz * cx, sz * sy * cx - cz * sx, zero],
        [-sy, cy * sx, cy * cx, zero],
        [zero, zero, zero, one],
    ]
    return np.stack([np.stack(row, axis=-1) for row in rows], axis=-2)


def axis_rotation(axis: Any) -> Any:
    """Return the rotation about an axis by an angle, which is the length of the axis."""
    square = np.sum(axis**2)
    is_turned = square > 1e-8
    angle = np.sqrt(np.where(is_turned, square, 1.0))
    x, y, z = axis / angle
    zero = np.zeros_like(x)
    cross = np.stack([zero, -z, y, z, zero, -x, -y, x, zero]).reshape(3, 3)
    identity = np.eye(3, dtype=axis.dtype)
    turned = identity + np.sin(angle) * cross + (1 - np.cos(angle)) * (cross @ cross)
    return np.where(is_turned, turned, identity)


def vertices(theta: Any, model: Any, parents: tuple[int, ...]) -> Any:
    """Return the positions of the vertices of the hand."""
    relative = model["base_relatives"] @ rotations(poses(theta, len(parents)))
    absolute: list[Any] = []
    for bone, parent in enumerate(parents):
        absolute.append(relative[bone] if parent < 0 else absolute[parent] @ relative[bone])
    transforms = np.stack(absolute) @ model["inverse_base_absolutes"]
    posed = np.einsum("bij,vj,vb->vi", transforms[:, :3], model["base_positions"], model["weights"])
    return posed @ axis_rotation(theta[:3]).T + theta[3:6]


def distances(shift: Any, theta: Any, us: Any, data: Any, parents: tuple[int, ...]) -> Any:
    hand = vertices(theta, data["model"], parents)
    index = data["correspondences"]
    if us is None:
        return data["points"] - hand[index]
    a, b, c = (hand[data["triangles"][index, corner]] for corner in range(3))
    u, v = np.split(us + shift, 2, axis=1)
    return data["points"] - (u * a + v * b + (1 - u - v) * c)


@compiled
def objective(shift: Any, theta: Any, us: Any, data: Any, parents: tuple[int, ...]) -> Any:
    return distances(shift, theta, us, data, parents).reshape(-1)


@compiled
def jacobian(shift: Any, theta: Any, us: Any, data: Any, parents: tuple[int, ...]) -> Any:
    columns = tg.jacobian(objective, argnums=(0, 1), mode="forward")
    by_shift, by_theta = columns(shift, theta, us, data, parents)
    return by_theta if us is None else np.concatenate([by_shift, by_theta], axis=1)


def prepare(given: Any) -> tuple[Any, ...]:
    data, model = given["data"], given["data"]["model"]
    names = ("base_relatives", "inverse_base_absolutes", "base_positions", "weights")
    if model["is_mirrored"]:
        raise NotImplementedError(
            "Mirrored hands are not supported; no input of the suite has one."
        )
    arrays = {
        "model": {name: tensor(model[name]) for name in names},
        "points": tensor(data["points"]),
        "correspondences": tg.constant(data["correspondences"], dtype="int64"),
        "triangles": tg.constant(model["triangles"], dtype="int64"),
    }
    us = tensor(given["us"]) if given["us"] else None
    return tensor([0.0, 0.0]), tensor(given["theta"]), us, arrays, tuple(model["parents"])


FUNCTIONS = {
    "objective": Entry(prepare, objective, to_list),
    "jacobian": Entry(prepare, jacobian, to_list),
}
