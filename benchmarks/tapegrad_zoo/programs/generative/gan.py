"""A Wasserstein GAN: the critic's update with a gradient penalty, then the generator's update."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Program, Values

RATE, FORGET, EPSILON, PENALTY, SLOPE = 1e-3, 0.9, 1e-6, 10.0, 0.2
CHANNELS = 3


def _shapes(dims: Dims) -> dict[str, tuple[int, ...]]:
    width, low = dims["width"], dims["side"] // 4
    return {
        "critic_1": (4, 4, CHANNELS, width),
        "critic_2": (4, 4, width, 2 * width),
        "critic_3": (low * low * 2 * width, 1),
        "maker_1": (dims["code"], low * low * 2 * width),
        "maker_2": (4, 4, width, 2 * width),
        "maker_3": (4, 4, CHANNELS, width),
    }


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    params: Values = {}
    for name, shape in _shapes(dims).items():
        # A transposed convolution with stride 2 sums over a quarter of its window.
        inputs = 4 * shape[-1] if name in ("maker_2", "maker_3") else int(np.prod(shape[:-1]))
        params[name] = rng.standard_normal(shape) * (2 / inputs) ** 0.5
        params[f"square_{name}"] = rng.uniform(0.5, 1.5, shape)
    images = dims["batch"], dims["side"], dims["side"], CHANNELS
    batch = {
        "real": np.tanh(rng.standard_normal(images)),
        "code": rng.standard_normal((dims["batch"], dims["code"])),
        "next_code": rng.standard_normal((dims["batch"], dims["code"])),
        "share": rng.uniform(size=(dims["batch"], 1, 1, 1)),
    }
    return params, batch


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad as tf

    width, side, low, batch_size = dims["width"], dims["side"], dims["side"] // 4, dims["batch"]

    def generate(p: Arrays, code: Any) -> Any:
        h = tf.nn.relu(tf.matmul(half(code), half(p["maker_1"])))
        h = tf.reshape(h, (batch_size, low, low, 2 * width))
        shape = (batch_size, 2 * low, 2 * low, width)
        h = tf.nn.relu(tf.nn.conv2d_transpose(h, half(p["maker_2"]), shape, 2, "SAME"))
        shape = (batch_size, side, side, CHANNELS)
        h = tf.nn.conv2d_transpose(h, half(p["maker_3"]), shape, 2, "SAME")
        return tf.tanh(tf.cast(h, code.dtype))

    def criticize(p: Arrays, image: Any) -> Any:
        h = tf.nn.conv2d(half(image), half(p["critic_1"]), 2, "SAME")
        h = tf.nn.leaky_relu(h, SLOPE)
        h = tf.nn.conv2d(h, half(p["critic_2"]), 2, "SAME")
        h = tf.nn.leaky_relu(h, SLOPE)
        h = tf.reshape(h, (batch_size, low * low * 2 * width))
        return tf.cast(tf.matmul(h, half(p["critic_3"])), image.dtype)

    def update(p: Arrays, names: list[str], gradients: list[Any]) -> Arrays:
        new = dict(p)
        for name, g in zip(names, gradients):
            square = FORGET * p[f"square_{name}"] + (1 - FORGET) * tf.square(g)
            new[f"square_{name}"] = square
            new[name] = p[name] - RATE * g / (tf.sqrt(square) + EPSILON)
        return new

    def step(params: Arrays, batch: Arrays) -> Arrays:
        p = {name: tf.convert_to_tensor(value) for name, value in params.items()}
        names = ["critic_1", "critic_2", "critic_3"]
        fake = generate(p, batch["code"])
        between = batch["share"] * batch["real"] + (1 - batch["share"]) * fake
        with tf.GradientTape() as tape:
            tape.watch([p[name] for name in names])
            gap = tf.reduce_mean(criticize(p, fake)) - tf.reduce_mean(criticize(p, batch["real"]))
            with tf.GradientTape() as inner:
                inner.watch(between)
                total = tf.reduce_sum(criticize(p, between))
            slope = inner.gradient(total, between)
            norms = tf.sqrt(tf.reduce_sum(tf.square(slope), axis=[1, 2, 3]) + EPSILON)
            critic_loss = gap + PENALTY * tf.reduce_mean(tf.square(norms - 1))
        p = update(p, names, tape.gradient(critic_loss, [p[name] for name in names]))

        names = ["maker_1", "maker_2", "maker_3"]
        with tf.GradientTape() as tape:
            tape.watch([p[name] for name in names])
            maker_loss = -tf.reduce_mean(criticize(p, generate(p, batch["next_code"])))
        p = update(p, names, tape.gradient(maker_loss, [p[name] for name in names]))
        return {**p, "critic loss": critic_loss, "maker loss": maker_loss}

    return step


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    width, low = dims["width"], dims["side"] // 4
    layout = ("NHWC", "HWIO", "NHWC")

    def enlarge(x: Any, kernel: Any) -> Any:
        return jax.lax.conv_transpose(
            x, half(kernel), (2, 2), "SAME", dimension_numbers=layout, transpose_kernel=True
        )

    def shrink(x: Any, kernel: Any) -> Any:
        h = jax.lax.conv_general_dilated(x, half(kernel), (2, 2), "SAME", dimension_numbers=layout)
        return jax.nn.leaky_relu(h, SLOPE)

    def generate(maker: Arrays, code: Any) -> Any:
        h = jax.nn.relu(half(code) @ half(maker["maker_1"])).reshape(-1, low, low, 2 * width)
        h = enlarge(jax.nn.relu(enlarge(h, maker["maker_2"])), maker["maker_3"])
        return jnp.tanh(h.astype(code.dtype))

    def criticize(critic: Arrays, image: Any) -> Any:
        h = shrink(shrink(half(image), critic["critic_1"]), critic["critic_2"])
        return (h.reshape(len(h), -1) @ half(critic["critic_3"])).astype(image.dtype)

    def critic_loss(critic: Arrays, fake: Any, batch: Arrays) -> Any:
        scores = criticize(critic, jnp.concatenate([fake, batch["real"]]))
        gap = jnp.mean(scores[: len(fake)]) - jnp.mean(scores[len(fake) :])
        between = fake + batch["share"] * (batch["real"] - fake)
        slope = jax.grad(lambda image: jnp.sum(criticize(critic, image)))(between)
        norms = jnp.sqrt(jnp.sum(slope**2, (1, 2, 3)) + EPSILON)
        return gap + PENALTY * jnp.mean((norms - 1) ** 2)

    def maker_loss(maker: Arrays, critic: Arrays, code: Any) -> Any:
        return -jnp.mean(criticize(critic, generate(maker, code)))

    def update(p: Arrays, gradients: Arrays) -> Arrays:
        new = {}
        for name, g in gradients.items():
            square = FORGET * p[f"square_{name}"] + (1 - FORGET) * g**2
            new[f"square_{name}"] = square
            new[name] = p[name] - RATE * g / (jnp.sqrt(square) + EPSILON)
        return new

    def step(p: Arrays, batch: Arrays) -> Arrays:
        critic = {name: value for name, value in p.items() if name.startswith("critic")}
        maker = {name: value for name, value in p.items() if name.startswith("maker")}
        fake = generate(maker, batch["code"])
        first, found = jax.value_and_grad(critic_loss)(critic, fake, batch)
        p = p | update(p, found)
        critic = {name: p[name] for name in critic}
        second, found = jax.value_and_grad(maker_loss)(maker, critic, batch["next_code"])
        return p | update(p, found) | {"critic loss": first, "maker loss": second}

    return step


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    width, low = dims["width"], dims["side"] // 4

    def generate(p: Arrays, code: Any) -> Any:
        h = torch.relu(half(code) @ half(p["maker_1"]))
        h = h.view(-1, low, low, 2 * width).permute(0, 3, 1, 2)
        for name in ("maker_2", "maker_3"):
            kernel = half(p[name]).permute(3, 2, 0, 1)
            h = functional.conv_transpose2d(h, kernel, stride=2, padding=1)
            h = torch.relu(h) if name == "maker_2" else h
        return torch.tanh(h.to(code.dtype))

    def criticize(p: Arrays, image: Any) -> Any:
        h = half(image)
        for name in ("critic_1", "critic_2"):
            kernel = half(p[name]).permute(3, 2, 0, 1)
            h = functional.leaky_relu(functional.conv2d(h, kernel, stride=2, padding=1), SLOPE)
        return (h.permute(0, 2, 3, 1).flatten(1) @ half(p["critic_3"])).to(image.dtype)

    def critic_loss(critic: Arrays, fake: Any, real: Any, share: Any) -> Any:
        scores = criticize(critic, torch.cat([fake, real]))
        gap = torch.mean(scores[: len(fake)]) - torch.mean(scores[len(fake) :])
        between = torch.lerp(fake, real, share)
        slope = torch.func.grad(lambda image: criticize(critic, image).sum())(between)
        norms = torch.sqrt(torch.sum(slope**2, (1, 2, 3)) + EPSILON)
        return gap + PENALTY * torch.mean((norms - 1) ** 2)

    def maker_loss(maker: Arrays, critic: Arrays, code: Any) -> Any:
        return -torch.mean(criticize(critic, generate(maker, code)))

    def update(p: Arrays, gradients: Arrays) -> None:
        for name, g in gradients.items():
            square = torch.lerp(g * g, p[f"square_{name}"], FORGET)
            p[f"square_{name}"] = square
            p[name] = torch.addcdiv(p[name], g, square.sqrt() + EPSILON, value=-RATE)

    def step(params: Arrays, batch: Arrays) -> Arrays:
        p = {name: value.detach() for name, value in params.items()}
        critic = {name: value for name, value in p.items() if name.startswith("critic")}
        maker = {name: value for name, value in p.items() if name.startswith("maker")}
        real, fake = batch["real"].permute(0, 3, 1, 2), generate(maker, batch["code"])
        learn = torch.func.grad_and_value(critic_loss)
        found, first = learn(critic, fake, real, batch["share"])
        update(p, found)
        critic = {name: p[name] for name in critic}
        found, second = torch.func.grad_and_value(maker_loss)(maker, critic, batch["next_code"])
        update(p, found)
        return {**p, "critic loss": first, "maker loss": second}

    return step


def cost(dims: Dims) -> Cost:
    """The critic sees three images and one gradient, and the generator works twice."""
    width, low = dims["width"], dims["side"] // 4
    first, second = 4 * low**2 * 16 * CHANNELS * width, low**2 * 32 * width**2
    pass_of_one = first + second + low**2 * 2 * width * dims["code"]
    weights = sum(int(np.prod(shape)) for shape in _shapes(dims).values())
    return Cost(bytes=16.0 * weights, operations=2.0 * 18 * pass_of_one * dims["batch"])


PROGRAM = Program(
    summary="WGAN-GP on images of 64 by 64: two updates in one step, each with its own gradient",
    kind=Kind.STEP,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {"batch": 3, "side": 12, "width": 5, "code": 4},
        "cpu": {"batch": 8, "side": 32, "width": 16, "code": 16},
        "cuda": {"batch": 128, "side": 64, "width": 128, "code": 128},
    },
    cost=cost,
    dtypes={"cpu": "float32", "cuda": "bfloat16"},
)
