"""A perceiver: a few latents read many inputs by cross attention, in rounds that share weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Optimizer, Program, Values

CLASSES, BANDS, EPSILON = 10, 6, 1e-5


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    width, channels = dims["width"], dims["channels"] + 2 * BANDS + 1

    def weights(n: int, m: int) -> Any:
        return rng.standard_normal((n, m)) * n**-0.5

    def norm(n: int) -> Any:
        return np.stack([1 + 0.1 * rng.standard_normal(n), 0.1 * rng.standard_normal(n)])

    params = {
        "latents": rng.standard_normal((dims["latents"], width)),
        "read_norm": norm(width),
        "input_norm": norm(channels),
        "read_query": weights(width, width),
        "read_key": weights(channels, width),
        "read_value": weights(channels, width),
        "read_out": weights(width, width),
        "last_norm": norm(width),
        "classes": weights(width, CLASSES),
    }
    for name in ("read", *(f"self{i}" for i in range(dims["layers"]))):
        params |= {
            f"{name}_mlp_norm": norm(width),
            f"{name}_up": weights(width, 2 * width),
            f"{name}_down": weights(2 * width, width),
        }
    for i in range(dims["layers"]):
        params |= {
            f"self{i}_norm": norm(width),
            f"self{i}_qkv": rng.standard_normal((3, width, width)) * width**-0.5,
            f"self{i}_out": weights(width, width),
        }
    batch = {
        "signal": rng.standard_normal((dims["batch"], dims["inputs"], dims["channels"])),
        "labels": rng.integers(0, CLASSES, dims["batch"]),
    }
    return params, batch


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad.numpy as np

    heads, width = dims["heads"], dims["width"]

    def norm(x: Any, w: Any) -> Any:
        x = np.astype(x, w.dtype)
        scaled = (x - x.mean(-1, keepdims=True)) / (x.var(-1, keepdims=True) + EPSILON) ** 0.5
        return half(scaled * w[0] + w[1])

    def softmax(x: Any) -> Any:
        e = np.exp(x - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)

    def with_positions(signal: Any) -> Any:
        places = np.linspace(-1, 1, dims["inputs"])[:, None]
        angles = np.pi * places * 2.0 ** np.arange(BANDS)
        features = np.concatenate([places, np.sin(angles), np.cos(angles)], axis=1)
        features = np.broadcast_to(features, (dims["batch"], *features.shape))
        return np.concatenate([signal, np.astype(features, signal.dtype)], axis=2)

    def mlp(p: Arrays, name: str, x: Any) -> Any:
        y = norm(x, p[f"{name}_mlp_norm"]) @ half(p[f"{name}_up"])
        y = 0.5 * y * (1 + np.tanh((2 / np.pi) ** 0.5 * (y + 0.044715 * y**3)))
        return x + y @ half(p[f"{name}_down"])

    def read(p: Arrays, x: Any, inputs: Any) -> Any:
        q = norm(x, p["read_norm"]) @ half(p["read_query"])
        k, v = inputs @ half(p["read_key"]), inputs @ half(p["read_value"])
        weights = softmax(np.einsum("bnd,bmd->bnm", q, k) / width**0.5)
        return mlp(p, "read", x + np.einsum("bnm,bmd->bnd", weights, v) @ half(p["read_out"]))

    def attend(p: Arrays, name: str, x: Any) -> Any:
        y = norm(x, p[f"{name}_norm"])
        q, k, v = np.einsum("bnd,kde->kbne", y, half(p[f"{name}_qkv"]))
        q, k, v = (z.reshape(*x.shape[:2], heads, width // heads) for z in (q, k, v))
        weights = softmax(np.einsum("bnhd,bmhd->bhnm", q, k) / (width // heads) ** 0.5)
        mixed = np.einsum("bhnm,bmhd->bnhd", weights, v).reshape(x.shape)
        return mlp(p, name, x + mixed @ half(p[f"{name}_out"]))

    def loss(p: Arrays, batch: Arrays) -> Any:
        inputs = norm(with_positions(batch["signal"]), p["input_norm"])
        x = half(np.broadcast_to(p["latents"], (dims["batch"], dims["latents"], width)))
        for _ in range(dims["rounds"]):
            x = read(p, x, inputs)
            for i in range(dims["layers"]):
                x = attend(p, f"self{i}", x)
        x = np.mean(norm(x, p["last_norm"]), axis=1)
        logits = np.astype(x @ half(p["classes"]), p["classes"].dtype)
        right = logits[np.arange(dims["batch"]), batch["labels"]]
        top = logits.max(-1)
        return np.mean(np.log(np.exp(logits - top[:, None]).sum(-1)) + top - right)

    return loss


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    heads, width = dims["heads"], dims["width"]

    def norm(x: Any, w: Any) -> Any:
        return half(jax.nn.standardize(x.astype(w.dtype), epsilon=EPSILON) * w[0] + w[1])

    def with_positions(signal: Any) -> Any:
        places = jnp.linspace(-1, 1, dims["inputs"], dtype=signal.dtype)[:, None]
        angles = jnp.pi * places * 2.0 ** jnp.arange(BANDS)
        features = jnp.concatenate([places, jnp.sin(angles), jnp.cos(angles)], 1)
        features = jnp.broadcast_to(features, (len(signal), *features.shape))
        return jnp.concatenate([signal, features.astype(signal.dtype)], 2)

    def mlp(p: Arrays, name: str, x: Any) -> Any:
        y = jax.nn.gelu(norm(x, p[f"{name}_mlp_norm"]) @ half(p[f"{name}_up"]))
        return x + y @ half(p[f"{name}_down"])

    def read(p: Arrays, x: Any, k: Any, v: Any) -> Any:
        q = norm(x, p["read_norm"]) @ half(p["read_query"])
        mixed = jax.nn.dot_product_attention(q[:, :, None], k[:, :, None], v[:, :, None])
        return mlp(p, "read", x + mixed[:, :, 0] @ half(p["read_out"]))

    def attend(p: Arrays, name: str, x: Any) -> Any:
        rows = jnp.einsum("bnd,kde->kbne", norm(x, p[f"{name}_norm"]), half(p[f"{name}_qkv"]))
        q, k, v = rows.reshape(3, *x.shape[:2], heads, width // heads)
        mixed = jax.nn.dot_product_attention(q, k, v).reshape(x.shape)
        return mlp(p, name, x + mixed @ half(p[f"{name}_out"]))

    def loss(p: Arrays, batch: Arrays) -> Any:
        inputs = norm(with_positions(batch["signal"]), p["input_norm"])
        k, v = inputs @ half(p["read_key"]), inputs @ half(p["read_value"])
        x = half(jnp.broadcast_to(p["latents"], (len(inputs), dims["latents"], width)))

        def one_round(x: Any, _: Any) -> Any:
            x = read(p, x, k, v)
            for i in range(dims["layers"]):
                x = attend(p, f"self{i}", x)
            return x, None

        x, _ = jax.lax.scan(one_round, x, length=dims["rounds"])
        x = jnp.mean(norm(x, p["last_norm"]), 1)
        logits = (x @ half(p["classes"])).astype(p["classes"].dtype)
        picked = jnp.take_along_axis(jax.nn.log_softmax(logits), batch["labels"][:, None], 1)
        return -jnp.mean(picked)

    return loss


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    heads, width = dims["heads"], dims["width"]

    def norm(x: Any, w: Any) -> Any:
        return half(functional.layer_norm(x.to(w.dtype), x.shape[-1:], w[0], w[1], EPSILON))

    def with_positions(signal: Any) -> Any:
        kind = {"dtype": signal.dtype, "device": signal.device}
        places = torch.linspace(-1, 1, dims["inputs"], **kind)[:, None]
        angles = torch.pi * places * torch.exp2(torch.arange(BANDS, **kind))
        features = torch.cat([places, angles.sin(), angles.cos()], 1)
        return torch.cat([signal, features.expand(len(signal), -1, -1)], 2)

    def mlp(p: Arrays, name: str, x: Any) -> Any:
        y = norm(x, p[f"{name}_mlp_norm"]) @ half(p[f"{name}_up"])
        return x + functional.gelu(y, approximate="tanh") @ half(p[f"{name}_down"])

    def read(p: Arrays, x: Any, k: Any, v: Any) -> Any:
        q = norm(x, p["read_norm"]) @ half(p["read_query"])
        mixed = functional.scaled_dot_product_attention(q[:, None], k[:, None], v[:, None])
        return mlp(p, "read", x + mixed[:, 0] @ half(p["read_out"]))

    def attend(p: Arrays, name: str, x: Any) -> Any:
        y = norm(x, p[f"{name}_norm"])
        q, k, v = (
            (y @ w).view(*x.shape[:2], heads, width // heads).transpose(1, 2)
            for w in half(p[f"{name}_qkv"])
        )
        mixed = functional.scaled_dot_product_attention(q, k, v)
        return mlp(p, name, x + mixed.transpose(1, 2).reshape(x.shape) @ half(p[f"{name}_out"]))

    def loss(p: Arrays, batch: Arrays) -> Any:
        inputs = norm(with_positions(batch["signal"]), p["input_norm"])
        k, v = inputs @ half(p["read_key"]), inputs @ half(p["read_value"])
        x = half(p["latents"].expand(len(inputs), -1, -1))
        for _ in range(dims["rounds"]):
            x = read(p, x, k, v)
            for i in range(dims["layers"]):
                x = attend(p, f"self{i}", x)
        x = norm(x, p["last_norm"]).mean(1)
        logits = (x @ half(p["classes"])).to(p["classes"].dtype)
        return functional.cross_entropy(logits, batch["labels"])

    return loss


def cost(dims: Dims) -> Cost:
    """Three passes over all products; keys and values of the inputs are made once."""
    width, inputs, latents = dims["width"], dims["inputs"], dims["latents"]
    channels = dims["channels"] + 2 * BANDS + 1
    read = 6 * width**2 * latents + 2 * inputs * latents * width
    attend = 8 * width**2 * latents + 2 * latents**2 * width
    products = 2 * channels * width * inputs + dims["rounds"] * (read + dims["layers"] * attend)
    weights = 6 * width**2 + 2 * channels * width + 8 * width**2 * dims["layers"]
    return Cost(bytes=28.0 * weights, operations=6.0 * products * dims["batch"])


PROGRAM = Program(
    summary="256 latents read 8192 inputs in 4 rounds of shared weights, 4 layers each, Adam",
    kind=Kind.TRAINING,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {
            "batch": 3,
            "inputs": 11,
            "channels": 2,
            "latents": 5,
            "width": 12,
            "heads": 3,
            "layers": 2,
            "rounds": 2,
        },
        "cpu": {
            "batch": 4,
            "inputs": 512,
            "channels": 8,
            "latents": 24,
            "width": 64,
            "heads": 4,
            "layers": 2,
            "rounds": 2,
        },
        "cuda": {
            "batch": 16,
            "inputs": 8192,
            "channels": 64,
            "latents": 256,
            "width": 512,
            "heads": 8,
            "layers": 4,
            "rounds": 4,
        },
    },
    cost=cost,
    optimizer=Optimizer("adam", 3e-4),
    dtypes={"cpu": "float32", "cuda": "bfloat16"},
    tolerance=1e-5,  # JAX's attention takes the softmax in single precision
)
