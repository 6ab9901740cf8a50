"""Advantage actor-critic: generalised advantages run backwards in time over many environments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Optimizer, Program, Values

DISCOUNT, TRACE, VALUE_WEIGHT, ENTROPY_WEIGHT = 0.99, 0.95, 0.5, 0.01


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    sight, hidden, actions = dims["sight"], dims["hidden"], dims["actions"]
    steps, actors = dims["steps"], dims["actors"]

    def weights(n: int, m: int) -> Any:
        return rng.standard_normal((n, m)) * n**-0.5

    params = {
        "w1": weights(sight, hidden),
        "b1": rng.standard_normal(hidden) * 0.1,
        "w2": weights(hidden, hidden),
        "b2": rng.standard_normal(hidden) * 0.1,
        "policy": weights(hidden, actions),
        "value": weights(hidden, 1),
    }
    batch = {
        "seen": rng.standard_normal((steps + 1, actors, sight)),
        "action": rng.integers(0, actions, (steps, actors)),
        "reward": rng.standard_normal((steps, actors)),
        "going": (rng.uniform(size=(steps, actors)) > 0.05).astype(np.float64),
    }
    return params, batch


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad
    import tapegrad.numpy as np

    steps = dims["steps"]

    def loss(p: Arrays, batch: Arrays) -> Any:
        h = np.maximum(batch["seen"] @ p["w1"] + p["b1"], 0)
        h = np.maximum(h @ p["w2"] + p["b2"], 0)
        values = (h @ p["value"])[..., 0]
        logits = (h @ p["policy"])[:-1]
        known = tapegrad.stop_gradient(values)
        advantages = []
        last = np.zeros_like(known[0])
        for t in reversed(range(steps)):
            going = batch["going"][t]
            surprise = batch["reward"][t] + DISCOUNT * known[t + 1] * going - known[t]
            last = surprise + DISCOUNT * TRACE * going * last
            advantages.append(last)
        advantage = np.stack(advantages[::-1])
        returns = advantage + known[:-1]
        shifted = logits - np.max(logits, axis=-1, keepdims=True)
        logs = shifted - np.log(np.sum(np.exp(shifted), axis=-1, keepdims=True))
        chosen = np.take_along_axis(logs, batch["action"][..., None], axis=-1)[..., 0]
        entropy = -np.mean(np.sum(np.exp(logs) * logs, axis=-1))
        errors = np.mean((values[:-1] - returns) ** 2)
        return -np.mean(chosen * advantage) + VALUE_WEIGHT * errors - ENTROPY_WEIGHT * entropy

    return loss


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    def loss(p: Arrays, batch: Arrays) -> Any:
        h = jax.nn.relu(batch["seen"] @ p["w1"] + p["b1"])
        h = jax.nn.relu(h @ p["w2"] + p["b2"])
        values = (h @ p["value"])[..., 0]
        known, going = jax.lax.stop_gradient(values), batch["going"]
        surprises = batch["reward"] + DISCOUNT * known[1:] * going - known[:-1]

        def back(last: Any, now: Any) -> Any:
            surprise, goes_on = now
            last = surprise + DISCOUNT * TRACE * goes_on * last
            return last, last

        start = jnp.zeros_like(known[0])
        _, advantage = jax.lax.scan(back, start, (surprises, going), reverse=True)
        logs = jax.nn.log_softmax((h @ p["policy"])[:-1])
        chosen = jnp.take_along_axis(logs, batch["action"][..., None], -1)[..., 0]
        entropy = -jnp.mean(jnp.sum(jnp.exp(logs) * logs, -1))
        errors = jnp.mean((values[:-1] - known[:-1] - advantage) ** 2)
        return -jnp.mean(chosen * advantage) + VALUE_WEIGHT * errors - ENTROPY_WEIGHT * entropy

    return loss


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    def loss(p: Arrays, batch: Arrays) -> Any:
        h = torch.relu(functional.linear(batch["seen"], p["w1"].T, p["b1"]))
        h = torch.relu(functional.linear(h, p["w2"].T, p["b2"]))
        values = (h @ p["value"])[..., 0]
        with torch.no_grad():
            surprises = batch["reward"] + DISCOUNT * values[1:] * batch["going"] - values[:-1]
            factors = DISCOUNT * TRACE * batch["going"]
            advantage = torch.empty_like(surprises)
            last = torch.zeros_like(surprises[0])
            for t in range(dims["steps"] - 1, -1, -1):
                last = torch.addcmul(surprises[t], factors[t], last)
                advantage[t] = last
            returns = advantage + values[:-1]
        logs = functional.log_softmax((h @ p["policy"])[:-1], -1)
        chosen = logs.gather(-1, batch["action"][..., None])[..., 0]
        entropy = -torch.mean(torch.sum(torch.exp(logs) * logs, -1))
        errors = functional.mse_loss(values[:-1], returns)
        return -torch.mean(chosen * advantage) + VALUE_WEIGHT * errors - ENTROPY_WEIGHT * entropy

    return loss


def cost(dims: Dims) -> Cost:
    """Three products per weight and observation; observations are read once."""
    hidden = dims["hidden"]
    weights = hidden * (dims["sight"] + hidden + dims["actions"] + 1)
    rows = (dims["steps"] + 1) * dims["actors"]
    return Cost(bytes=28.0 * weights + 4.0 * rows * dims["sight"], operations=6.0 * rows * weights)


PROGRAM = Program(
    summary="actor-critic with generalised advantages: 128 steps of 256 environments, Adam",
    kind=Kind.TRAINING,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {"steps": 6, "actors": 3, "sight": 5, "hidden": 7, "actions": 4},
        "cpu": {"steps": 64, "actors": 32, "sight": 32, "hidden": 64, "actions": 6},
        "cuda": {"steps": 128, "actors": 256, "sight": 128, "hidden": 512, "actions": 15},
    },
    cost=cost,
    optimizer=Optimizer("adam", 7e-4),
)
