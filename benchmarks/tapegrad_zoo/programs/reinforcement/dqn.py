"""Double DQN on frames of games: a slow target network, weights of samples and the Huber loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Program, Values

DISCOUNT, RATE, SLOWNESS, DELTA = 0.99, 0.05, 0.005, 1.0
FRAMES, STRIDES = 4, (4, 2, 1)


def _sides(dims: Dims) -> list[int]:
    sides = [dims["side"]]
    for kernel, stride in zip((8, 4, 3), STRIDES):
        sides.append((sides[-1] - kernel) // stride + 1)
    return sides


def _shapes(dims: Dims) -> dict[str, tuple[int, ...]]:
    width, hidden = dims["width"], dims["hidden"]
    return {
        "conv0": (8, 8, FRAMES, width),
        "conv1": (4, 4, width, 2 * width),
        "conv2": (3, 3, 2 * width, 2 * width),
        "dense": (_sides(dims)[-1] ** 2 * 2 * width, hidden),
        "values": (hidden, dims["actions"]),
    }


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    params: Values = {}
    for name, shape in _shapes(dims).items():
        params[name] = rng.standard_normal(shape) * (2 / np.prod(shape[:-1])) ** 0.5
        params[f"target_{name}"] = params[name] + 0.02 * rng.standard_normal(shape)
    rows, side = dims["batch"], dims["side"]
    batch: Values = {
        "seen": rng.integers(0, 256, (rows, side, side, FRAMES)).astype(np.uint8),
        "next": rng.integers(0, 256, (rows, side, side, FRAMES)).astype(np.uint8),
        "action": rng.integers(0, dims["actions"], rows),
        "reward": rng.standard_normal(rows),
        "done": (rng.uniform(size=rows) < 0.1).astype(np.float64),
        "weight": rng.uniform(0.2, 1.0, rows),
    }
    return params, batch


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad as tf

    names = list(_shapes(dims))

    def network(p: Arrays, prefix: str, frames: Any) -> Any:
        h = half(tf.cast(frames, p["values"].dtype) / 255.0 - 0.5)
        for layer, stride in enumerate(STRIDES):
            h = tf.nn.relu(tf.nn.conv2d(h, half(p[f"{prefix}conv{layer}"]), stride, "VALID"))
        h = tf.reshape(h, (h.shape[0], -1))
        h = tf.nn.relu(h @ half(p[f"{prefix}dense"])) @ half(p[f"{prefix}values"])
        return tf.cast(h, p["values"].dtype)

    def step(params: Arrays, batch: Arrays) -> Arrays:
        p = {name: tf.convert_to_tensor(value) for name, value in params.items()}
        best = tf.argmax(network(p, "", batch["next"]), axis=1)
        later = network(p, "target_", batch["next"])
        worth = tf.gather(later, best, batch_dims=1)
        aim = batch["reward"] + DISCOUNT * (1 - batch["done"]) * worth
        online = [p[name] for name in names]
        with tf.GradientTape() as tape:
            tape.watch(online)
            values = network(p, "", batch["seen"])
            chosen = tf.reduce_sum(
                values * tf.one_hot(batch["action"], dims["actions"], dtype=values.dtype), axis=1
            )
            error = chosen - aim
            size = tf.abs(error)
            huber = tf.where(size < DELTA, 0.5 * error * error, DELTA * (size - 0.5 * DELTA))
            loss = tf.reduce_mean(batch["weight"] * huber)
        results = {"loss": loss, "priority": tf.abs(error) + 1e-3}
        for name, value, g in zip(names, online, tape.gradient(loss, online)):
            new = value - RATE * g
            slow = p[f"target_{name}"]
            results[name] = new
            results[f"target_{name}"] = slow + SLOWNESS * (new - slow)
        return results

    return step


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    names = list(_shapes(dims))

    def network(p: Arrays, frames: Any) -> Any:
        h = half(frames.astype(p["values"].dtype) / 255.0 - 0.5)
        for layer, stride in enumerate(STRIDES):
            h = jax.lax.conv_general_dilated(
                h,
                half(p[f"conv{layer}"]),
                (stride, stride),
                "VALID",
                dimension_numbers=("NHWC", "HWIO", "NHWC"),
            )
            h = jax.nn.relu(h)
        h = jax.nn.relu(h.reshape(len(h), -1) @ half(p["dense"])) @ half(p["values"])
        return h.astype(p["values"].dtype)

    def loss(p: Arrays, aim: Any, batch: Arrays) -> Any:
        values = network(p, batch["seen"])
        chosen = jnp.take_along_axis(values, batch["action"][:, None], 1)[:, 0]
        error = chosen - aim
        size = jnp.abs(error)
        near = jnp.minimum(size, DELTA)
        huber = 0.5 * near**2 + DELTA * (size - near)
        return jnp.mean(batch["weight"] * huber), size

    def step(params: Arrays, batch: Arrays) -> Arrays:
        online = {name: params[name] for name in names}
        target = {name: params[f"target_{name}"] for name in names}
        best = jnp.argmax(network(online, batch["next"]), 1)
        worth = jnp.take_along_axis(network(target, batch["next"]), best[:, None], 1)[:, 0]
        aim = batch["reward"] + DISCOUNT * (1 - batch["done"]) * worth
        (value, size), found = jax.value_and_grad(loss, has_aux=True)(online, aim, batch)
        new = {name: online[name] - RATE * found[name] for name in names}
        slow = {f"target_{k}": target[k] + SLOWNESS * (new[k] - target[k]) for k in names}
        return {**new, **slow, "loss": value, "priority": size + 1e-3}

    return step


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    names = list(_shapes(dims))

    def network(p: Arrays, frames: Any) -> Any:
        h = half(frames.to(p["values"].dtype) / 255.0 - 0.5).permute(0, 3, 1, 2)
        for layer, stride in enumerate(STRIDES):
            kernel = half(p[f"conv{layer}"]).permute(3, 2, 0, 1)
            h = torch.relu(functional.conv2d(h, kernel, stride=stride))
        h = h.permute(0, 2, 3, 1).flatten(1)
        h = torch.relu(h @ half(p["dense"])) @ half(p["values"])
        return h.to(p["values"].dtype)

    def loss(online: Arrays, aim: Any, batch: Arrays) -> Any:
        chosen = network(online, batch["seen"]).gather(1, batch["action"][:, None])[:, 0]
        huber = functional.huber_loss(chosen, aim, reduction="none", delta=DELTA)
        return torch.mean(batch["weight"] * huber), torch.abs(chosen - aim) + 1e-3

    def step(params: Arrays, batch: Arrays) -> Arrays:
        online = {name: params[name].detach() for name in names}
        target = {name: params[f"target_{name}"].detach() for name in names}
        best = network(online, batch["next"]).argmax(1, keepdim=True)
        worth = network(target, batch["next"]).gather(1, best)[:, 0]
        aim = batch["reward"] + DISCOUNT * (1 - batch["done"]) * worth
        learn = torch.func.grad_and_value(loss, has_aux=True)
        found, (value, priority) = learn(online, aim, batch)
        new = {name: torch.sub(online[name], found[name], alpha=RATE) for name in names}
        slow = {f"target_{k}": torch.lerp(target[k], new[k], SLOWNESS) for k in names}
        return {**new, **slow, "loss": value, "priority": priority}

    return step


def cost(dims: Dims) -> Cost:
    """Two passes choose and value the next actions; training takes three products per layer."""
    places = [side**2 for side in _sides(dims)[1:]] + [1, 1]
    sizes = [int(np.prod(shape)) for shape in _shapes(dims).values()]
    products = sum(n * size for n, size in zip(places, sizes))
    frames = 2 * dims["batch"] * dims["side"] ** 2 * FRAMES
    return Cost(bytes=frames + 16.0 * sum(sizes), operations=2.0 * 5 * products * dims["batch"])


PROGRAM = Program(
    summary="double DQN on frames of 84 by 84: target network, weights of samples, Huber loss",
    kind=Kind.STEP,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {"batch": 3, "side": 44, "width": 3, "hidden": 7, "actions": 5},
        "cpu": {"batch": 16, "side": 84, "width": 16, "hidden": 128, "actions": 6},
        "cuda": {"batch": 512, "side": 84, "width": 32, "hidden": 512, "actions": 18},
    },
    cost=cost,
    dtypes={"cpu": "float32", "cuda": "bfloat16"},
)
