"""PPO for continuous actions: Adam steps with clipped gradients over minibatches of a rollout."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Program, Values

CLIP, VALUE_WEIGHT, ENTROPY_WEIGHT, LIMIT = 0.2, 0.5, 0.01, 0.5
RATE, BETA_1, BETA_2, EPSILON = 3e-4, 0.9, 0.999, 1e-5
LOG_TAU = float(np.log(2 * np.pi))


def _shapes(dims: Dims) -> dict[str, tuple[int, ...]]:
    sight, hidden, actions = dims["sight"], dims["hidden"], dims["actions"]
    shapes: dict[str, tuple[int, ...]] = {"log_spread": (actions,)}
    for part, outputs in (("policy", actions), ("value", 1)):
        shapes[f"{part}_1"] = sight, hidden
        shapes[f"{part}_2"] = hidden, hidden
        shapes[f"{part}_3"] = hidden, outputs
    return shapes


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    params: Values = {}
    for name, shape in _shapes(dims).items():
        params[name] = rng.standard_normal(shape) * (shape[0] ** -0.5 if len(shape) > 1 else 0.1)
        params[f"m_{name}"] = np.zeros(shape)
        params[f"v_{name}"] = np.zeros(shape)
    rows = dims["minibatches"], dims["batch"]
    action = rng.standard_normal((*rows, dims["actions"]))
    batch = {
        "seen": rng.standard_normal((*rows, dims["sight"])),
        "action": action,
        "log_chance": -0.5 * np.sum(action**2 + LOG_TAU, -1) + 0.1 * rng.standard_normal(rows),
        "advantage": rng.standard_normal(rows),
        "value": 0.5 * rng.standard_normal(rows),
        "return": rng.standard_normal(rows),
    }
    return params, batch


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad
    import tapegrad.numpy as np

    def network(p: Arrays, part: str, x: Any) -> Any:
        h = np.tanh(x @ p[f"{part}_1"])
        h = np.tanh(h @ p[f"{part}_2"])
        return h @ p[f"{part}_3"]

    def loss(p: Arrays, b: Arrays) -> Any:
        mean = network(p, "policy", b["seen"])
        spread = np.exp(p["log_spread"])
        z = (b["action"] - mean) / spread
        log_chance = np.sum(-0.5 * z**2 - p["log_spread"] - 0.5 * LOG_TAU, axis=-1)
        ratio = np.exp(log_chance - b["log_chance"])
        advantage = b["advantage"]
        advantage = (advantage - np.mean(advantage)) / (np.std(advantage) + EPSILON)
        clipped = np.clip(ratio, 1 - CLIP, 1 + CLIP)
        policy = -np.mean(np.minimum(ratio * advantage, clipped * advantage))
        value = network(p, "value", b["seen"])[:, 0]
        near = b["value"] + np.clip(value - b["value"], -CLIP, CLIP)
        errors = np.maximum((value - b["return"]) ** 2, (near - b["return"]) ** 2)
        entropy = np.sum(p["log_spread"] + 0.5 + 0.5 * LOG_TAU)
        return policy + VALUE_WEIGHT * np.mean(errors) - ENTROPY_WEIGHT * entropy

    def step(params: Arrays, batch: Arrays) -> Arrays:
        names = list(_shapes(dims))
        p = {name: np.asarray(params[name]) for name in names}
        m = {name: np.asarray(params[f"m_{name}"]) for name in names}
        v = {name: np.asarray(params[f"v_{name}"]) for name in names}
        losses = []
        for count in range(dims["minibatches"]):
            minibatch = {name: values[count] for name, values in batch.items()}
            value, g = tapegrad.value_and_grad(loss)(p, minibatch)
            norm = np.sqrt(sum(np.sum(each**2) for each in g.values()))
            factor = np.minimum(1.0, LIMIT / (norm + EPSILON))
            for name in names:
                scaled = g[name] * factor
                m[name] = BETA_1 * m[name] + (1 - BETA_1) * scaled
                v[name] = BETA_2 * v[name] + (1 - BETA_2) * scaled**2
                first = m[name] / (1 - BETA_1 ** (count + 1))
                second = v[name] / (1 - BETA_2 ** (count + 1))
                p[name] = p[name] - RATE * first / (np.sqrt(second) + EPSILON)
            losses.append(value)
        slots = {f"m_{name}": m[name] for name in names} | {f"v_{name}": v[name] for name in names}
        return {**p, **slots, "losses": np.stack(losses)}

    return step


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    def network(p: Arrays, part: str, x: Any) -> Any:
        return jnp.tanh(jnp.tanh(x @ p[f"{part}_1"]) @ p[f"{part}_2"]) @ p[f"{part}_3"]

    def loss(p: Arrays, b: Arrays) -> Any:
        mean, spread = network(p, "policy", b["seen"]), jnp.exp(p["log_spread"])
        log_chance = jnp.sum(jax.scipy.stats.norm.logpdf(b["action"], mean, spread), -1)
        ratio = jnp.exp(log_chance - b["log_chance"])
        advantage = b["advantage"] - jnp.mean(b["advantage"])
        advantage = advantage / (jnp.std(advantage) + EPSILON)
        clipped = jnp.clip(ratio, 1 - CLIP, 1 + CLIP)
        policy = -jnp.mean(jnp.minimum(ratio * advantage, clipped * advantage))
        value = network(p, "value", b["seen"])[:, 0]
        near = b["value"] + jnp.clip(value - b["value"], -CLIP, CLIP)
        errors = jnp.maximum((value - b["return"]) ** 2, (near - b["return"]) ** 2)
        entropy = jnp.sum(p["log_spread"] + 0.5 + 0.5 * LOG_TAU)
        return policy + VALUE_WEIGHT * jnp.mean(errors) - ENTROPY_WEIGHT * entropy

    def learn(state: Any, minibatch: Any) -> Any:
        p, m, v, count = state
        value, g = jax.value_and_grad(loss)(p, minibatch)
        norm = jnp.sqrt(sum(jnp.vdot(each, each) for each in g.values()))
        factor = jnp.minimum(1.0, LIMIT / (norm + EPSILON))
        g = jax.tree.map(lambda each: each * factor, g)
        m = jax.tree.map(lambda old, new: BETA_1 * old + (1 - BETA_1) * new, m, g)
        v = jax.tree.map(lambda old, new: BETA_2 * old + (1 - BETA_2) * new**2, v, g)
        count = count + 1
        first, second = 1 / (1 - BETA_1**count), 1 / (1 - BETA_2**count)

        def moved(x: Any, mean: Any, square: Any) -> Any:
            return x - RATE * first * mean / (jnp.sqrt(square * second) + EPSILON)

        return (jax.tree.map(moved, p, m, v), m, v, count), value

    def step(params: Arrays, batch: Arrays) -> Arrays:
        names = list(_shapes(dims))
        p = {name: params[name] for name in names}
        m = {name: params[f"m_{name}"] for name in names}
        v = {name: params[f"v_{name}"] for name in names}
        count = jnp.zeros((), batch["return"].dtype)
        (p, m, v, _), losses = jax.lax.scan(learn, (p, m, v, count), batch)
        slots = {f"m_{name}": m[name] for name in names} | {f"v_{name}": v[name] for name in names}
        return {**p, **slots, "losses": losses}

    return step


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch

    def network(p: Arrays, part: str, x: Any) -> Any:
        return torch.tanh(torch.tanh(x @ p[f"{part}_1"]) @ p[f"{part}_2"]) @ p[f"{part}_3"]

    def loss(p: Arrays, b: Arrays) -> Any:
        z = (b["action"] - network(p, "policy", b["seen"])) * torch.exp(-p["log_spread"])
        log_chance = torch.sum(-0.5 * z**2 - p["log_spread"] - 0.5 * LOG_TAU, -1)
        ratio = torch.exp(log_chance - b["log_chance"])
        advantage = b["advantage"] - torch.mean(b["advantage"])
        advantage = advantage / (torch.std(advantage, correction=0) + EPSILON)
        clipped = torch.clamp(ratio, 1 - CLIP, 1 + CLIP)
        policy = -torch.mean(torch.minimum(ratio * advantage, clipped * advantage))
        value = network(p, "value", b["seen"])[:, 0]
        near = b["value"] + torch.clamp(value - b["value"], -CLIP, CLIP)
        errors = torch.maximum((value - b["return"]) ** 2, (near - b["return"]) ** 2)
        entropy = torch.sum(p["log_spread"] + 0.5 + 0.5 * LOG_TAU)
        return policy + VALUE_WEIGHT * torch.mean(errors) - ENTROPY_WEIGHT * entropy

    def step(params: Arrays, batch: Arrays) -> Arrays:
        names = list(_shapes(dims))
        p = [params[name].detach() for name in names]
        m = [params[f"m_{name}"].detach() for name in names]
        v = [params[f"v_{name}"].detach() for name in names]
        losses = []
        for count in range(1, dims["minibatches"] + 1):
            minibatch = {name: values[count - 1] for name, values in batch.items()}
            found, value = torch.func.grad_and_value(loss)(dict(zip(names, p)), minibatch)
            g = [found[name] for name in names]
            norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(g)))
            factor = torch.clamp(LIMIT / (norm + EPSILON), max=1.0)
            g = torch._foreach_mul(g, factor)
            m = torch._foreach_lerp(m, g, 1 - BETA_1)
            v = torch._foreach_addcmul(torch._foreach_mul(v, BETA_2), g, g, 1 - BETA_2)
            size = torch._foreach_sqrt(torch._foreach_div(v, 1 - BETA_2**count))
            size = torch._foreach_add(size, EPSILON)
            p = torch._foreach_addcdiv(p, m, size, -RATE / (1 - BETA_1**count))
            losses.append(value)
        new = dict(zip(names, p))
        new |= {f"m_{name}": value for name, value in zip(names, m)}
        new |= {f"v_{name}": value for name, value in zip(names, v)}
        return {**new, "losses": torch.stack(losses)}

    return step


def cost(dims: Dims) -> Cost:
    """Three products per weight and minibatch; Adam reads and writes three arrays."""
    weights = sum(int(np.prod(shape)) for shape in _shapes(dims).values())
    steps, rows = dims["minibatches"], dims["batch"]
    seen = rows * (dims["sight"] + dims["actions"])
    return Cost(
        bytes=steps * (28.0 * weights + 4.0 * seen), operations=6.0 * steps * rows * weights
    )


PROGRAM = Program(
    summary="PPO: 16 minibatches of 2048 transitions, two dense networks, clipped Adam in one step",
    kind=Kind.STEP,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {"minibatches": 3, "batch": 7, "sight": 5, "hidden": 6, "actions": 2},
        "cpu": {"minibatches": 8, "batch": 256, "sight": 17, "hidden": 64, "actions": 6},
        "cuda": {"minibatches": 16, "batch": 2048, "sight": 60, "hidden": 256, "actions": 12},
    },
    cost=cost,
)
