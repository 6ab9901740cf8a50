"""Bundle adjustment: gradients of robust reprojection errors by all cameras and points."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Program, Values

ROBUST = 1.0


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    cameras, points, seen = dims["cameras"], dims["points"], dims["observations"]
    # All batches see one scene, whatever their seed.
    fixed = np.random.default_rng(1)
    rotation = fixed.standard_normal((cameras, 3)) * 0.2
    shift = np.concatenate(
        [0.3 * fixed.standard_normal((cameras, 2)), np.full((cameras, 1), -6.0)], 1
    )
    lens = np.stack(
        [
            fixed.uniform(450, 550, cameras),
            fixed.standard_normal(cameras) * 1e-2,
            fixed.standard_normal(cameras) * 1e-3,
        ],
        1,
    )
    params = {
        "rotation": rotation,
        "shift": shift,
        "lens": lens,
        "points": fixed.uniform(-1, 1, (points, 3)),
    }
    camera, point = rng.integers(0, cameras, seen), rng.integers(0, points, seen)
    # What each camera sees of its points, as the model itself projects them, and noise.
    projected = _projected(params, camera, point)
    batch = {
        "camera": camera,
        "point": point,
        "pixel": projected + 2.0 * rng.standard_normal((seen, 2)),
        "confidence": rng.uniform(0.5, 1.5, seen),
    }
    return params, batch


def _projected(params: Values, camera: np.ndarray, point: np.ndarray) -> np.ndarray:
    r, x = params["rotation"][camera], params["points"][point]
    angle = np.linalg.norm(r, axis=1, keepdims=True)
    axis = r / angle
    turned = x * np.cos(angle) + np.cross(axis, x) * np.sin(angle)
    turned += axis * np.sum(axis * x, 1, keepdims=True) * (1 - np.cos(angle))
    local = turned + params["shift"][camera]
    flat = -local[:, :2] / local[:, 2:]
    lens = params["lens"][camera]
    square = np.sum(flat**2, 1, keepdims=True)
    found: np.ndarray = lens[:, :1] * (1 + square * (lens[:, 1:2] + square * lens[:, 2:])) * flat
    return found


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad.numpy as np

    def rotate(r: Any, x: Any) -> Any:
        angle = np.sqrt(np.sum(r * r, axis=1, keepdims=True) + 1e-12)
        axis = r / angle
        sine, cosine = np.sin(angle), np.cos(angle)
        along = np.sum(axis * x, axis=1, keepdims=True)
        return x * cosine + np.cross(axis, x) * sine + axis * along * (1 - cosine)

    def loss(p: Arrays, batch: Arrays) -> Any:
        camera, point = batch["camera"], batch["point"]
        lens = p["lens"][camera]
        local = rotate(p["rotation"][camera], p["points"][point]) + p["shift"][camera]
        flat = -local[:, :2] / local[:, 2:3]
        square = np.sum(flat**2, axis=1)
        bent = 1 + lens[:, 1] * square + lens[:, 2] * square**2
        pixel = flat * (lens[:, 0] * bent)[:, None]
        error = np.linalg.norm(pixel - batch["pixel"], axis=1)
        robust = np.where(error < ROBUST, 0.5 * error**2, ROBUST * (error - 0.5 * ROBUST))
        return np.mean(batch["confidence"] * robust)

    return loss


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    def matrix(r: Any) -> Any:
        angle = jnp.sqrt(jnp.vdot(r, r) + 1e-12)
        x, y, z = r / angle
        cross = jnp.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]], r.dtype)
        axis = jnp.array([x, y, z])
        # The axis is not exactly of length one, so that the formula keeps its outer product.
        outer = (1 - jnp.cos(angle)) * jnp.outer(axis, axis)
        return jnp.cos(angle) * jnp.eye(3, dtype=r.dtype) + jnp.sin(angle) * cross + outer

    def project(turn: Any, shift: Any, lens: Any, x: Any) -> Any:
        local = turn @ x + shift
        flat = -local[:2] / local[2]
        square = jnp.vdot(flat, flat)
        return lens[0] * (1 + square * (lens[1] + square * lens[2])) * flat

    def loss(p: Arrays, batch: Arrays) -> Any:
        # One rotation matrix per camera serves all of its observations.
        turns = jax.vmap(matrix)(p["rotation"])
        camera = batch["camera"]
        pixel = jax.vmap(project)(
            turns[camera], p["shift"][camera], p["lens"][camera], p["points"][batch["point"]]
        )
        error = jnp.linalg.norm(pixel - batch["pixel"], axis=1)
        near = jnp.minimum(error, ROBUST)
        robust = 0.5 * near**2 + ROBUST * (error - near)
        return jnp.mean(batch["confidence"] * robust)

    return loss


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    def matrices(r: Any) -> Any:
        angle = torch.sqrt(torch.sum(r * r, 1) + 1e-12)
        axis = r / angle[:, None]
        x, y, z = axis.unbind(1)
        zero = torch.zeros_like(x)
        cross = torch.stack([zero, -z, y, z, zero, -x, -y, x, zero], 1).view(-1, 3, 3)
        sine, cosine = torch.sin(angle)[:, None, None], torch.cos(angle)[:, None, None]
        eye = torch.eye(3, dtype=r.dtype, device=r.device)
        outer = axis[:, :, None] * axis[:, None, :]
        return cosine * eye + sine * cross + (1 - cosine) * outer

    def loss(p: Arrays, batch: Arrays) -> Any:
        camera = batch["camera"]
        x = p["points"].index_select(0, batch["point"])
        turned = torch.bmm(matrices(p["rotation"]).index_select(0, camera), x[:, :, None])
        local = turned[:, :, 0] + p["shift"].index_select(0, camera)
        focal, second, fourth = p["lens"].index_select(0, camera).unbind(1)
        flat = -local[:, :2] / local[:, 2:]
        square = torch.sum(flat**2, 1)
        pixel = flat * (focal * (1 + square * (second + square * fourth)))[:, None]
        error = torch.linalg.vector_norm(pixel - batch["pixel"], dim=1)
        robust = functional.huber_loss(
            error, torch.zeros_like(error), reduction="none", delta=ROBUST
        )
        return torch.mean(batch["confidence"] * robust)

    return loss


def cost(dims: Dims) -> Cost:
    """An observation reads 12 parameters and adds 12 gradients, with some 200 operations."""
    seen = dims["observations"]
    return Cost(bytes=8.0 * seen * (2 + 3 + 12), operations=200.0 * seen)


PROGRAM = Program(
    summary="bundle adjustment: 1 million observations by 1000 cameras, Huber loss, float64",
    kind=Kind.GRADIENT,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {"cameras": 4, "points": 11, "observations": 37},
        "cpu": {"cameras": 100, "points": 10_000, "observations": 100_000},
        "cuda": {"cameras": 1000, "points": 200_000, "observations": 1_000_000},
    },
    cost=cost,
    dtypes={"cpu": "float64", "cuda": "float64"},
)
