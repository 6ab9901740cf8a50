"""A causal language model with rotary positions, root-mean-square norms and SwiGLU layers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Optimizer, Program, Values

EPSILON, BASE = 1e-5, 10000.0


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    width, hidden, words = dims["width"], dims["hidden"], dims["words"]

    def weights(n: int, m: int) -> Any:
        return rng.standard_normal((n, m)) * n**-0.5

    params = {"embedding": rng.standard_normal((words, width)), "norm": np.ones(width)}
    for layer in range(dims["layers"]):
        params |= {f"{name}{layer}": weights(width, width) for name in ("wq", "wk", "wv", "wo")}
        params |= {
            f"gate{layer}": weights(width, hidden),
            f"up{layer}": weights(width, hidden),
            f"down{layer}": weights(hidden, width),
            f"attention_norm{layer}": 1 + 0.1 * rng.standard_normal(width),
            f"hidden_norm{layer}": 1 + 0.1 * rng.standard_normal(width),
        }
    params["output"] = weights(width, words)
    batch = {"text": rng.integers(0, words, (dims["batch"], dims["tokens"] + 1))}
    return params, batch


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad.numpy as np

    heads, width, tokens = dims["heads"], dims["width"], dims["tokens"]
    size = width // heads

    def norm(x: Any, gain: Any) -> Any:
        x = np.astype(x, gain.dtype)
        return half(x / np.sqrt(np.mean(x**2, axis=-1, keepdims=True) + EPSILON) * gain)

    def rotated(x: Any) -> Any:
        frequencies = BASE ** (-np.arange(0, size, 2) / size)
        angles = np.arange(tokens)[:, None] * frequencies
        cos, sin = np.astype(np.cos(angles), x.dtype), np.astype(np.sin(angles), x.dtype)
        left, right = x[..., : size // 2], x[..., size // 2 :]
        return np.concatenate([left * cos - right * sin, right * cos + left * sin], axis=-1)

    def softmax(x: Any) -> Any:
        e = np.exp(x - np.max(x, axis=-1, keepdims=True))
        return e / np.sum(e, axis=-1, keepdims=True)

    def attention(x: Any, wq: Any, wk: Any, wv: Any, wo: Any) -> Any:
        def split(w: Any) -> Any:
            return np.swapaxes(np.reshape(x @ half(w), (-1, tokens, heads, size)), 1, 2)

        q, k, v = rotated(split(wq)), rotated(split(wk)), split(wv)
        scores = q @ np.swapaxes(k, -1, -2) / size**0.5
        scores = np.where(np.tril(np.ones((tokens, tokens), dtype=bool)), scores, -np.inf)
        mixed = np.swapaxes(softmax(scores) @ v, 1, 2)
        return np.reshape(mixed, (-1, tokens, width)) @ half(wo)

    def swiglu(x: Any, gate: Any, up: Any, down: Any) -> Any:
        g = x @ half(gate)
        return (g / (1 + np.exp(-g)) * (x @ half(up))) @ half(down)

    def loss(p: Arrays, batch: Arrays) -> Any:
        x = half(p["embedding"][batch["text"][:, :-1]])
        for i in range(dims["layers"]):
            y = norm(x, p[f"attention_norm{i}"])
            x = x + attention(y, p[f"wq{i}"], p[f"wk{i}"], p[f"wv{i}"], p[f"wo{i}"])
            y = norm(x, p[f"hidden_norm{i}"])
            x = x + swiglu(y, p[f"gate{i}"], p[f"up{i}"], p[f"down{i}"])
        logits = np.astype(norm(x, p["norm"]) @ half(p["output"]), p["output"].dtype)
        logits = logits - np.max(logits, axis=-1, keepdims=True)
        log_probabilities = logits - np.log(np.sum(np.exp(logits), axis=-1, keepdims=True))
        targets = batch["text"][:, 1:, None]
        return -np.mean(np.take_along_axis(log_probabilities, targets, axis=-1))

    return loss


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    heads, width, tokens = dims["heads"], dims["width"], dims["tokens"]
    size = width // heads

    def norm(x: Any, gain: Any) -> Any:
        x = x.astype(gain.dtype)
        return half(x * jax.lax.rsqrt(jnp.mean(x**2, -1, keepdims=True) + EPSILON) * gain)

    def rotated(x: Any) -> Any:
        angles = jnp.arange(tokens)[:, None] * BASE ** (-jnp.arange(0, size, 2) / size)
        cos, sin = (f(angles).astype(x.dtype)[:, None] for f in (jnp.cos, jnp.sin))
        left, right = jnp.split(x, 2, -1)
        return jnp.concatenate([left * cos - right * sin, right * cos + left * sin], -1)

    def loss(p: Arrays, batch: Arrays) -> Any:
        x = half(p["embedding"][batch["text"][:, :-1]])
        split = (*x.shape[:2], heads, size)
        for i in range(dims["layers"]):
            y = norm(x, p[f"attention_norm{i}"])
            q, k, v = ((y @ half(p[f"{name}{i}"])).reshape(split) for name in ("wq", "wk", "wv"))
            mixed = jax.nn.dot_product_attention(rotated(q), rotated(k), v, is_causal=True)
            x = x + mixed.reshape(x.shape) @ half(p[f"wo{i}"])
            y = norm(x, p[f"hidden_norm{i}"])
            hidden = jax.nn.silu(y @ half(p[f"gate{i}"])) * (y @ half(p[f"up{i}"]))
            x = x + hidden @ half(p[f"down{i}"])
        logits = (norm(x, p["norm"]) @ half(p["output"])).astype(p["output"].dtype)
        picked = jnp.take_along_axis(logits, batch["text"][:, 1:, None], -1)[..., 0]
        return jnp.mean(jax.nn.logsumexp(logits, -1) - picked)

    return loss


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    heads, width, tokens = dims["heads"], dims["width"], dims["tokens"]
    size = width // heads

    def norm(x: Any, gain: Any) -> Any:
        return half(functional.rms_norm(x.to(gain.dtype), (width,), gain, EPSILON))

    def rotated(x: Any, cos: Any, sin: Any) -> Any:
        left, right = x.chunk(2, -1)
        return torch.cat([left * cos - right * sin, right * cos + left * sin], -1)

    def loss(p: Arrays, batch: Arrays) -> Any:
        x = half(functional.embedding(batch["text"][:, :-1], p["embedding"]))
        steps = torch.arange(0, size, 2, device=x.device, dtype=torch.float64) / size
        places = torch.arange(tokens, device=x.device, dtype=torch.float64)
        angles = torch.outer(places, BASE**-steps)
        cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
        for i in range(dims["layers"]):
            y = norm(x, p[f"attention_norm{i}"])
            q, k, v = (
                (y @ half(p[f"{name}{i}"])).view(-1, tokens, heads, size).transpose(1, 2)
                for name in ("wq", "wk", "wv")
            )
            q, k = rotated(q, cos, sin), rotated(k, cos, sin)
            mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + mixed.transpose(1, 2).reshape(x.shape) @ half(p[f"wo{i}"])
            y = norm(x, p[f"hidden_norm{i}"])
            hidden = functional.silu(y @ half(p[f"gate{i}"])) * (y @ half(p[f"up{i}"]))
            x = x + hidden @ half(p[f"down{i}"])
        logits = (norm(x, p["norm"]) @ half(p["output"])).to(p["output"].dtype)
        return functional.cross_entropy(logits.flatten(0, 1), batch["text"][:, 1:].flatten())

    return loss


def cost(dims: Dims) -> Cost:
    """Three passes over all products, half of the scores; Adam moves seven arrays of weights."""
    width, tokens, layers = dims["width"], dims["tokens"], dims["layers"]
    weights = layers * (4 * width**2 + 3 * width * dims["hidden"])
    words = width * dims["words"]
    products = 2 * (weights + words) * tokens + 2 * layers * tokens**2 * width
    return Cost(bytes=28.0 * (weights + 2 * words), operations=3.0 * products * dims["batch"])


PROGRAM = Program(
    summary="a small LLaMA: 8 layers, 1024 wide, 16 heads, 1024 tokens, batch 4, Adam",
    kind=Kind.TRAINING,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {
            "batch": 2,
            "tokens": 5,
            "words": 9,
            "width": 12,
            "hidden": 14,
            "heads": 3,
            "layers": 2,
        },
        "cpu": {
            "batch": 4,
            "tokens": 64,
            "words": 1000,
            "width": 96,
            "hidden": 256,
            "heads": 4,
            "layers": 2,
        },
        "cuda": {
            "batch": 4,
            "tokens": 1024,
            "words": 32000,
            "width": 1024,
            "hidden": 2816,
            "heads": 16,
            "layers": 8,
        },
    },
    cost=cost,
    optimizer=Optimizer("adam", 3e-4),
    dtypes={"cpu": "float32", "cuda": "bfloat16"},
    tolerance=1e-5,  # JAX's attention takes the softmax in single precision
)
