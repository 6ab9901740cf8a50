"""Inverse rendering: rays march through a distance field of blended spheres and a floor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Program, Values

BLEND, SHARPNESS, DELTA, FAR = 8.0, 20.0, 1e-3, 12.0
FLOOR = -1.2


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    rows, columns, spheres = dims["rows"], dims["columns"], dims["spheres"]
    params = {
        "centers": 0.8 * rng.standard_normal((spheres, 3)),
        "log_radii": np.log(0.5) + 0.1 * rng.standard_normal(spheres),
        "colors": rng.standard_normal((spheres, 3)),
        "light": np.array([0.5, 1.0, -0.7]),
    }
    y, x = np.meshgrid(np.linspace(0.6, -0.7, rows), np.linspace(-0.9, 0.9, columns), indexing="ij")
    rays = np.stack([x, y, np.full_like(x, 1.5)], -1).reshape(-1, 3)
    batch = {
        "eye": np.array([0.0, 0.3, -4.0]) + 0.1 * rng.standard_normal(3),
        "rays": rays / np.linalg.norm(rays, axis=1, keepdims=True),
        "image": rng.random((rows * columns, 3)),
    }
    return params, batch


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad.numpy as np

    def sphere_distances(p: Arrays, points: Any) -> Any:
        apart = points[:, None, :] - p["centers"][None, :, :]
        return np.sqrt(np.sum(apart**2, axis=-1)) - np.exp(p["log_radii"])

    def distance(p: Arrays, points: Any) -> Any:
        each = np.concatenate([sphere_distances(p, points), points[:, 1:2] - FLOOR], axis=1)
        smallest = np.min(each, axis=1, keepdims=True)
        blended = np.log(np.sum(np.exp(-BLEND * (each - smallest)), axis=1))
        return smallest[:, 0] - blended / BLEND

    def normals(p: Arrays, points: Any) -> Any:
        slopes = []
        for axis in range(3):
            shift = np.zeros((3,), dtype=points.dtype)
            shift[axis] = DELTA
            slopes.append(distance(p, points + shift) - distance(p, points - shift))
        slope = np.stack(slopes, axis=1)
        return slope / np.sqrt(np.sum(slope**2, axis=1, keepdims=True))

    def loss(p: Arrays, batch: Arrays) -> Any:
        rays = batch["rays"]
        depth = np.zeros((len(rays),), dtype=rays.dtype)
        for _ in range(dims["steps"]):
            points = batch["eye"] + depth[:, None] * rays
            depth = np.minimum(depth + distance(p, points), FAR)
        points = batch["eye"] + depth[:, None] * rays
        near = -SHARPNESS * sphere_distances(p, points)
        near = np.exp(near - np.max(near, axis=1, keepdims=True))
        share = near / np.sum(near, axis=1, keepdims=True)
        albedo = share @ (1 / (1 + np.exp(-p["colors"])))
        light = p["light"] / np.sqrt(np.sum(p["light"] ** 2))
        bright = 0.2 + 0.8 * np.maximum(normals(p, points) @ light, 0.0)
        hit = 1 / (1 + np.exp(SHARPNESS * (distance(p, points) - 0.1)))
        image = (hit * bright)[:, None] * albedo
        return np.mean((image - batch["image"]) ** 2)

    return loss


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    def loss(p: Arrays, batch: Arrays) -> Any:
        radii, light = jnp.exp(p["log_radii"]), p["light"] / jnp.linalg.norm(p["light"])
        colors, eye = jax.nn.sigmoid(p["colors"]), batch["eye"]
        shifts = DELTA * jnp.eye(3, dtype=eye.dtype)

        def spheres(point: Any) -> Any:
            return jnp.sqrt(jnp.sum((point - p["centers"]) ** 2, axis=-1)) - radii

        def distance(point: Any) -> Any:
            each = jnp.append(spheres(point), point[1] - FLOOR)
            return -jax.nn.logsumexp(-BLEND * each) / BLEND

        def pixel(ray: Any) -> Any:
            def march(_: Any, depth: Any) -> Any:
                return jnp.minimum(depth + distance(eye + depth * ray), FAR)

            start = jnp.zeros((), ray.dtype)
            point = eye + jax.lax.fori_loop(0, dims["steps"], march, start) * ray
            albedo = jax.nn.softmax(-SHARPNESS * spheres(point)) @ colors
            ahead, behind = jax.vmap(distance)(point + shifts), jax.vmap(distance)(point - shifts)
            slope = ahead - behind
            normal = slope * jax.lax.rsqrt(jnp.sum(slope**2))
            bright = 0.2 + 0.8 * jax.nn.relu(normal @ light)
            return jax.nn.sigmoid(-SHARPNESS * (distance(point) - 0.1)) * bright * albedo

        return jnp.mean((jax.vmap(pixel)(batch["rays"]) - batch["image"]) ** 2)

    return loss


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    def loss(p: Arrays, batch: Arrays) -> Any:
        radii, light = torch.exp(p["log_radii"]), functional.normalize(p["light"], dim=0)
        rays, eye = batch["rays"], batch["eye"]

        def spheres(points: Any) -> Any:
            apart = points[..., None, :] - p["centers"]
            return torch.linalg.vector_norm(apart, dim=-1) - radii

        def distance(points: Any) -> Any:
            each = torch.cat([spheres(points), points[..., 1:2] - FLOOR], -1)
            return -torch.logsumexp(-BLEND * each, -1) / BLEND

        depth = torch.zeros_like(rays[:, 0])
        for _ in range(dims["steps"]):
            depth = torch.clamp(depth + distance(eye + depth[:, None] * rays), max=FAR)
        points = eye + depth[:, None] * rays
        albedo = torch.softmax(-SHARPNESS * spheres(points), -1) @ torch.sigmoid(p["colors"])
        shifts = DELTA * torch.eye(3, dtype=rays.dtype, device=rays.device)
        slope = distance(points[:, None] + shifts) - distance(points[:, None] - shifts)
        bright = 0.2 + 0.8 * torch.relu(functional.normalize(slope, dim=1) @ light)
        hit = torch.sigmoid(-SHARPNESS * (distance(points) - 0.1))
        return functional.mse_loss((hit * bright)[:, None] * albedo, batch["image"])

    return loss


def cost(dims: Dims) -> Cost:
    """Each step takes the distance to all spheres, once forth and twice back; nothing is stored."""
    rays = dims["rows"] * dims["columns"]
    distances = (dims["steps"] + 8.0) * rays * (dims["spheres"] + 1)
    return Cost(bytes=24.0 * rays, operations=3 * 14.0 * distances)


PROGRAM = Program(
    summary="sphere tracing of blended spheres with shading; gradient by shapes, colors and light",
    kind=Kind.GRADIENT,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {"rows": 5, "columns": 7, "spheres": 4, "steps": 6},
        "cpu": {"rows": 48, "columns": 64, "spheres": 6, "steps": 16},
        "cuda": {"rows": 256, "columns": 384, "spheres": 16, "steps": 48},
    },
    cost=cost,
)
