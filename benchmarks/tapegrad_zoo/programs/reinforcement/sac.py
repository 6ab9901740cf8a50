"""Soft actor-critic: two critics, a squashed Gaussian policy and a temperature in one step."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Program, Values

DISCOUNT, RATE, SLOWNESS = 0.99, 3e-2, 0.005
LOG_TAU, LOG_2 = float(np.log(2 * np.pi)), float(np.log(2))
CRITICS = ("critic_a", "critic_b")


def _layers(dims: Dims) -> dict[str, list[int]]:
    sight, actions, hidden = dims["sight"], dims["actions"], dims["hidden"]
    critic = [sight + actions, hidden, hidden, 1]
    return {
        "critic_a": critic,
        "critic_b": critic,
        "slow_a": critic,
        "slow_b": critic,
        "actor": [sight, hidden, hidden, 2 * actions],
    }


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    params: Values = {"log_temperature": np.array(-1.0)}
    for part, widths in _layers(dims).items():
        for layer in range(3):
            n, m = widths[layer], widths[layer + 1]
            params[f"{part}_w{layer}"] = rng.standard_normal((n, m)) * n**-0.5
            params[f"{part}_b{layer}"] = rng.standard_normal(m) * 0.1
    rows, sight, actions = dims["batch"], dims["sight"], dims["actions"]
    batch = {
        "seen": rng.standard_normal((rows, sight)),
        "action": np.tanh(rng.standard_normal((rows, actions))),
        "reward": rng.standard_normal(rows),
        "going": (rng.uniform(size=rows) > 0.1).astype(np.float64),
        "next": rng.standard_normal((rows, sight)),
        "noise": rng.standard_normal((rows, actions)),
        "next_noise": rng.standard_normal((rows, actions)),
    }
    return params, batch


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad as tf

    def network(p: Arrays, part: str, x: Any) -> Any:
        for layer in range(3):
            x = x @ p[f"{part}_w{layer}"] + p[f"{part}_b{layer}"]
            if layer < 2:
                x = tf.nn.relu(x)
        return x

    def worth(p: Arrays, part: str, seen: Any, action: Any) -> Any:
        return network(p, part, tf.concat([seen, action], axis=1))[:, 0]

    def act(p: Arrays, seen: Any, noise: Any) -> Any:
        mean, log_spread = tf.split(network(p, "actor", seen), 2, axis=1)
        log_spread = -5.0 + 3.5 * (tf.tanh(log_spread) + 1.0)
        free = mean + tf.exp(log_spread) * noise
        log_chance = -0.5 * tf.square(noise) - log_spread - 0.5 * LOG_TAU
        log_chance -= 2.0 * (LOG_2 - free - tf.nn.softplus(-2.0 * free))
        return tf.tanh(free), tf.reduce_sum(log_chance, axis=1)

    def step(params: Arrays, batch: Arrays) -> Arrays:
        p = {name: tf.convert_to_tensor(value) for name, value in params.items()}
        temperature = tf.exp(p["log_temperature"])
        action, log_chance = act(p, batch["next"], batch["next_noise"])
        later = tf.minimum(
            worth(p, "slow_a", batch["next"], action), worth(p, "slow_b", batch["next"], action)
        )
        later -= temperature * log_chance
        aim = batch["reward"] + DISCOUNT * batch["going"] * later

        names = [name for name in p if name.startswith(CRITICS)]
        with tf.GradientTape() as tape:
            tape.watch([p[name] for name in names])
            critic_loss = tf.add_n(
                [
                    tf.reduce_mean(tf.square(worth(p, part, batch["seen"], batch["action"]) - aim))
                    for part in CRITICS
                ]
            )
        found = tape.gradient(critic_loss, [p[name] for name in names])
        p |= {name: p[name] - RATE * g for name, g in zip(names, found)}

        names = [name for name in p if name.startswith("actor")]
        with tf.GradientTape() as tape:
            tape.watch([p[name] for name in names])
            action, log_chance = act(p, batch["seen"], batch["noise"])
            value = tf.minimum(
                worth(p, "critic_a", batch["seen"], action),
                worth(p, "critic_b", batch["seen"], action),
            )
            actor_loss = tf.reduce_mean(temperature * log_chance - value)
        found = tape.gradient(actor_loss, [p[name] for name in names])
        p |= {name: p[name] - RATE * g for name, g in zip(names, found)}

        with tf.GradientTape() as tape:
            tape.watch(p["log_temperature"])
            aimed = log_chance - float(dims["actions"])
            heat_loss = -tf.reduce_mean(tf.exp(p["log_temperature"]) * aimed)
        p["log_temperature"] -= RATE * tape.gradient(heat_loss, p["log_temperature"])

        for name in [name for name in p if name.startswith("slow")]:
            fast = p[name.replace("slow", "critic")]
            p[name] = (1 - SLOWNESS) * p[name] + SLOWNESS * fast
        losses = {"critic loss": critic_loss, "actor loss": actor_loss, "heat loss": heat_loss}
        return p | losses

    return step


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    def network(p: Arrays, part: str, x: Any) -> Any:
        h = jax.nn.relu(x @ p[f"{part}_w0"] + p[f"{part}_b0"])
        h = jax.nn.relu(h @ p[f"{part}_w1"] + p[f"{part}_b1"])
        return h @ p[f"{part}_w2"] + p[f"{part}_b2"]

    def both(p: Arrays, kind: str, seen: Any, action: Any) -> Any:
        # The two critics run as one batch of networks.
        tails = [f"{k}{layer}" for k in "wb" for layer in range(3)]
        pair = {f"q_{t}": jnp.stack([p[f"{kind}_a_{t}"], p[f"{kind}_b_{t}"]]) for t in tails}
        inputs = jnp.concatenate([seen, action], 1)
        return jax.vmap(lambda one: network(one, "q", inputs)[:, 0])(pair)

    def act(p: Arrays, seen: Any, noise: Any) -> Any:
        mean, log_spread = jnp.split(network(p, "actor", seen), 2, 1)
        log_spread = -5.0 + 3.5 * (jnp.tanh(log_spread) + 1.0)
        free = mean + jnp.exp(log_spread) * noise
        log_chance = -0.5 * noise**2 - log_spread - 0.5 * LOG_TAU
        log_chance = log_chance - 2.0 * (LOG_2 - free - jax.nn.softplus(-2.0 * free))
        return jnp.tanh(free), jnp.sum(log_chance, 1)

    def critic_loss(some: Arrays, aim: Any, batch: Arrays) -> Any:
        values = both(some, "critic", batch["seen"], batch["action"])
        return jnp.sum(jnp.mean((values - aim) ** 2, 1))

    def actor_loss(some: Arrays, p: Arrays, batch: Arrays) -> Any:
        action, log_chance = act(some, batch["seen"], batch["noise"])
        value = jnp.min(both(p, "critic", batch["seen"], action), 0)
        return jnp.mean(jnp.exp(p["log_temperature"]) * log_chance - value), log_chance

    def chosen(p: Arrays, prefix: str) -> Arrays:
        return {name: value for name, value in p.items() if name.startswith(prefix)}

    def step(p: Arrays, batch: Arrays) -> Arrays:
        action, log_chance = act(p, batch["next"], batch["next_noise"])
        later = jnp.min(both(p, "slow", batch["next"], action), 0)
        later = later - jnp.exp(p["log_temperature"]) * log_chance
        aim = batch["reward"] + DISCOUNT * batch["going"] * later
        first, found = jax.value_and_grad(critic_loss)(chosen(p, "critic"), aim, batch)
        p = p | {name: p[name] - RATE * g for name, g in found.items()}
        training = jax.value_and_grad(actor_loss, has_aux=True)
        (second, log_chance), found = training(chosen(p, "actor"), p, batch)
        p = p | {name: p[name] - RATE * g for name, g in found.items()}
        mean = jnp.mean(log_chance) - dims["actions"]
        third, slope = jax.value_and_grad(lambda log: -jnp.exp(log) * mean)(p["log_temperature"])
        p = p | {"log_temperature": p["log_temperature"] - RATE * slope}
        for name, slow in chosen(p, "slow").items():
            p[name] = slow + SLOWNESS * (p[name.replace("slow", "critic")] - slow)
        return p | {"critic loss": first, "actor loss": second, "heat loss": third}

    return step


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    def network(p: Arrays, part: str, x: Any) -> Any:
        h = torch.relu(torch.addmm(p[f"{part}_b0"], x, p[f"{part}_w0"]))
        h = torch.relu(torch.addmm(p[f"{part}_b1"], h, p[f"{part}_w1"]))
        return torch.addmm(p[f"{part}_b2"], h, p[f"{part}_w2"])

    def both(p: Arrays, kind: str, seen: Any, action: Any) -> Any:
        inputs = torch.cat([seen, action], 1)
        return [network(p, f"{kind}_{which}", inputs)[:, 0] for which in "ab"]

    def act(p: Arrays, seen: Any, noise: Any) -> Any:
        mean, log_spread = network(p, "actor", seen).chunk(2, 1)
        log_spread = -5.0 + 3.5 * (torch.tanh(log_spread) + 1.0)
        free = torch.addcmul(mean, torch.exp(log_spread), noise)
        log_chance = -0.5 * noise**2 - log_spread - 0.5 * LOG_TAU
        log_chance = log_chance + 2.0 * (free - LOG_2)
        log_chance = log_chance + 2.0 * functional.softplus(-2.0 * free, threshold=1e9)
        return torch.tanh(free), torch.sum(log_chance, 1)

    def critic_loss(critic: Arrays, aim: Any, batch: Arrays) -> Any:
        first, second = both(critic, "critic", batch["seen"], batch["action"])
        return functional.mse_loss(first, aim) + functional.mse_loss(second, aim)

    def actor_loss(actor: Arrays, p: Arrays, temperature: Any, batch: Arrays) -> Any:
        action, log_chance = act(actor, batch["seen"], batch["noise"])
        value = torch.minimum(*both(p, "critic", batch["seen"], action))
        return torch.mean(temperature * log_chance - value), log_chance

    def step(params: Arrays, batch: Arrays) -> Arrays:
        p = {name: value.detach() for name, value in params.items()}
        temperature = torch.exp(p["log_temperature"])
        action, log_chance = act(p, batch["next"], batch["next_noise"])
        later = torch.minimum(*both(p, "slow", batch["next"], action)) - temperature * log_chance
        aim = batch["reward"] + DISCOUNT * batch["going"] * later

        critic = {name: value for name, value in p.items() if name.startswith("critic")}
        found, first = torch.func.grad_and_value(critic_loss)(critic, aim, batch)
        p |= {name: torch.sub(p[name], g, alpha=RATE) for name, g in found.items()}

        actor = {name: value for name, value in p.items() if name.startswith("actor")}
        learn = torch.func.grad_and_value(actor_loss, has_aux=True)
        found, (second, log_chance) = learn(actor, p, temperature, batch)
        p |= {name: torch.sub(p[name], g, alpha=RATE) for name, g in found.items()}

        # The loss of the temperature is an exponential, which is its own derivative.
        heat_loss = -temperature * (torch.mean(log_chance) - dims["actions"])
        p["log_temperature"] = p["log_temperature"] - RATE * heat_loss
        for name in [name for name in p if name.startswith("slow")]:
            p[name] = torch.lerp(p[name], p[name.replace("slow", "critic")], SLOWNESS)
        return p | {"critic loss": first, "actor loss": second, "heat loss": heat_loss}

    return step


def cost(dims: Dims) -> Cost:
    """Critics run forward six times and backward four times; the actor three passes and one."""
    layers = {k: sum(n * m for n, m in itertools.pairwise(w)) for k, w in _layers(dims).items()}
    products = layers["critic_a"] * (2 + 6 + 4) + layers["actor"] * 4
    weights = 4 * layers["critic_a"] + layers["actor"]
    return Cost(bytes=8.0 * weights, operations=2.0 * products * dims["batch"])


PROGRAM = Program(
    summary="soft actor-critic: updates of critics, actor, temperature and targets in one step",
    kind=Kind.STEP,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {"batch": 5, "sight": 4, "actions": 3, "hidden": 7},
        "cpu": {"batch": 256, "sight": 17, "actions": 6, "hidden": 128},
        "cuda": {"batch": 4096, "sight": 376, "actions": 17, "hidden": 512},
    },
    cost=cost,
)
