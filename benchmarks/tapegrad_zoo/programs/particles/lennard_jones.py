"""Molecular dynamics with a Lennard-Jones energy, whose gradient is the force, fitted to data."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Program, Values

STEP, CUTOFF, SPACING, TYPES = 0.004, 1.9, 1.2, 2


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    """Atoms near a lattice; the 26 lattice neighbours of an atom are within reach."""
    counts = dims["side"], dims["side"], dims["side"] + 1
    box = SPACING * np.array(counts)
    lattice = SPACING * np.stack(np.meshgrid(*map(np.arange, counts), indexing="ij"), -1)
    lattice = lattice.reshape(-1, 3).astype(float)
    atoms = len(lattice)
    numbers = np.arange(atoms).reshape(counts)
    offsets = [o for o in itertools.product((-1, 0, 1), repeat=3) if o > (0, 0, 0)]
    seconds = [np.roll(numbers, offset, (0, 1, 2)).ravel() for offset in offsets]
    params = {
        "log_depth": 0.1 * rng.standard_normal((TYPES, TYPES)),
        "log_size": 0.02 * rng.standard_normal((TYPES, TYPES)),
    }
    batch = {
        "box": box,
        "position": lattice + 0.05 * rng.standard_normal((atoms, 3)),
        "velocity": 0.5 * rng.standard_normal((atoms, 3)),
        "type": rng.integers(0, TYPES, atoms),
        "first": np.tile(numbers.ravel(), len(offsets)),
        "second": np.concatenate(seconds),
        "later": lattice + 0.1 * rng.standard_normal((atoms, 3)),
    }
    return params, batch


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad as tf

    def loss(params: Arrays, batch: Arrays) -> Any:
        first, second, box = batch["first"], batch["second"], batch["box"]
        kinds = tf.gather(batch["type"], first) * TYPES + tf.gather(batch["type"], second)
        depth = tf.gather(tf.reshape(tf.exp(params["log_depth"]), [-1]), kinds)
        size = tf.gather(tf.reshape(tf.exp(params["log_size"]), [-1]), kinds)
        at_cutoff = (size / CUTOFF) ** 6

        def energy(x: Any) -> Any:
            apart = tf.gather(x, first) - tf.gather(x, second)
            apart = apart - box * tf.round(apart / box)
            square = tf.reduce_sum(apart**2, axis=1)
            sixth = (size**2 / square) ** 3
            pair = 4.0 * depth * (sixth**2 - sixth - at_cutoff**2 + at_cutoff)
            return tf.reduce_sum(tf.where(square < CUTOFF**2, pair, tf.zeros_like(pair)))

        x, v = batch["position"], batch["velocity"]
        force = -tf.grad(energy)(x)
        for _ in range(dims["steps"]):
            v = v + 0.5 * STEP * force
            x = x + STEP * v
            force = -tf.grad(energy)(x)
            v = v + 0.5 * STEP * force
        return tf.reduce_mean(tf.reduce_sum((x - batch["later"]) ** 2, axis=1))

    return loss


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    def loss(params: Arrays, batch: Arrays) -> Any:
        first, second, box = batch["first"], batch["second"], batch["box"]
        kinds = batch["type"][first], batch["type"][second]
        depth, size = jnp.exp(params["log_depth"])[kinds], jnp.exp(params["log_size"])[kinds]
        end = (size / CUTOFF) ** 6

        def energy(x: Any) -> Any:
            apart = x[first] - x[second]
            apart = apart - box * jnp.round(apart / box)
            square = jnp.sum(apart**2, axis=1)
            sixth = (size**2 / square) ** 3
            pair = 4 * depth * (sixth**2 - sixth - end**2 + end)
            return jnp.sum(jnp.where(square < CUTOFF**2, pair, 0))

        slope = jax.grad(energy)

        def step(carry: Any, _: Any) -> Any:
            x, v, down = carry
            v = v - 0.5 * STEP * down
            x = x + STEP * v
            down = slope(x)
            return (x, v - 0.5 * STEP * down, down), None

        start = batch["position"], batch["velocity"], slope(batch["position"])
        (x, _, _), _ = jax.lax.scan(step, start, None, length=dims["steps"])
        return jnp.mean(jnp.sum((x - batch["later"]) ** 2, axis=1))

    return loss


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch

    def loss(params: Arrays, batch: Arrays) -> Any:
        first, second, box = batch["first"], batch["second"], batch["box"]
        kinds = batch["type"][first], batch["type"][second]
        depth, size = torch.exp(params["log_depth"])[kinds], torch.exp(params["log_size"])[kinds]
        end = (size / CUTOFF) ** 6

        def energy(x: Any) -> Any:
            apart = x.index_select(0, first) - x.index_select(0, second)
            apart = apart - box * torch.round(apart / box)
            square = apart.square().sum(1)
            sixth = (size**2 / square) ** 3
            pair = 4 * depth * (sixth**2 - sixth - end**2 + end)
            return torch.where(square < CUTOFF**2, pair, 0.0).sum()

        slope = torch.func.grad(energy)
        x, v = batch["position"], batch["velocity"]
        down = slope(x)
        for _ in range(dims["steps"]):
            v = v - 0.5 * STEP * down
            x = x + STEP * v
            down = slope(x)
            v = v - 0.5 * STEP * down
        return (x - batch["later"]).square().sum(1).mean()

    return loss


def cost(dims: Dims) -> Cost:
    """Each atom has 13 pairs of its own, whose indices are read forth and back."""
    atoms = dims["side"] ** 2 * (dims["side"] + 1)
    pairs = 13.0 * atoms * (dims["steps"] + 1)
    return Cost(bytes=2 * 8.0 * pairs, operations=5 * 30.0 * pairs)


PROGRAM = Program(
    summary="Lennard-Jones dynamics, forces from the energy; gradient by the energy's constants",
    kind=Kind.GRADIENT,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {"side": 4, "steps": 2},
        "cpu": {"side": 8, "steps": 10},
        "cuda": {"side": 24, "steps": 30},
    },
    cost=cost,
)
