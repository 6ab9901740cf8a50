"""Post-norm BERT that restores masked tokens of padded sentence pairs, with tied embeddings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Optimizer, Program, Values

EPSILON, HIDDEN = 1e-12, -1e9


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    width, tokens, words, size = dims["width"], dims["tokens"], dims["words"], dims["batch"]

    def weights(n: int, m: int) -> Any:
        return rng.standard_normal((n, m)) * n**-0.5

    def biases(n: int) -> Any:
        return rng.standard_normal(n) * 0.1

    params = {
        "words": rng.standard_normal((words, width)) * width**-0.5,
        "positions": rng.standard_normal((tokens, width)) * 0.1,
        "segments": rng.standard_normal((2, width)) * 0.1,
        "head": weights(width, width),
        "head_bias": biases(width),
        "word_bias": biases(words),
    }
    # Keys have no bias: it would add the same number to all scores of a query.
    for layer in range(dims["layers"]):
        params |= {
            f"{name}_{layer}": weights(width, width) for name in ("query", "key", "value", "out")
        }
        params |= {f"{name}_bias_{layer}": biases(width) for name in ("query", "value", "out")}
        params |= {
            f"up_{layer}": weights(width, 4 * width),
            f"up_bias_{layer}": biases(4 * width),
            f"down_{layer}": weights(4 * width, width),
            f"down_bias_{layer}": biases(width),
        }
    norms = ["first", "last", *(f"{k}_{layer}" for layer in range(dims["layers"]) for k in "am")]
    for name in norms:
        params |= {f"gain_{name}": 1 + biases(width), f"shift_{name}": biases(width)}
    shortest = tokens // 2 + 1
    places = rng.permuted(np.tile(np.arange(shortest), (size, 1)), axis=1)
    splits = rng.integers(1, shortest, (size, 1))
    batch = {
        "tokens": rng.integers(0, words, (size, tokens)),
        "segments": (np.arange(tokens) >= splits).astype(np.int64),
        "lengths": rng.integers(shortest, tokens + 1, size),
        "places": np.sort(places[:, : dims["masked"]], 1),
        "labels": rng.integers(0, words, (size, dims["masked"])),
    }
    return params, batch


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad as tf

    heads, width, tokens = dims["heads"], dims["width"], dims["tokens"]

    def norm(p: Arrays, name: str, x: Any) -> Any:
        gain, shift = p[f"gain_{name}"], p[f"shift_{name}"]
        x = tf.cast(x, gain.dtype)
        centred = x - tf.reduce_mean(x, -1, keepdims=True)
        variance = tf.reduce_mean(tf.square(centred), -1, keepdims=True)
        return half(centred / tf.sqrt(variance + EPSILON) * gain + shift)

    def dense(x: Any, w: Any, b: Any) -> Any:
        return tf.matmul(x, half(w)) + half(b)

    def split(x: Any) -> Any:
        return tf.transpose(tf.reshape(x, (-1, tokens, heads, width // heads)), (0, 2, 1, 3))

    def attention(p: Arrays, layer: int, x: Any, present: Any) -> Any:
        q = split(dense(x, p[f"query_{layer}"], p[f"query_bias_{layer}"]))
        k = split(tf.matmul(x, half(p[f"key_{layer}"])))
        v = split(dense(x, p[f"value_{layer}"], p[f"value_bias_{layer}"]))
        scores = tf.matmul(q, k, transpose_b=True) / (width // heads) ** 0.5
        scores = tf.where(present[:, None, None, :], scores, HIDDEN)
        mixed = tf.transpose(tf.matmul(tf.nn.softmax(scores, axis=-1), v), (0, 2, 1, 3))
        mixed = tf.reshape(mixed, (-1, tokens, width))
        return dense(mixed, p[f"out_{layer}"], p[f"out_bias_{layer}"])

    def loss(p: Arrays, batch: Arrays) -> Any:
        x = tf.nn.embedding_lookup(p["words"], batch["tokens"])
        x = x + p["positions"] + tf.gather(p["segments"], batch["segments"])
        x = norm(p, "first", x)
        present = tf.sequence_mask(batch["lengths"], tokens)
        for layer in range(dims["layers"]):
            x = norm(p, f"a_{layer}", x + attention(p, layer, x, present))
            hidden = tf.nn.gelu(dense(x, p[f"up_{layer}"], p[f"up_bias_{layer}"]))
            x = norm(
                p, f"m_{layer}", x + dense(hidden, p[f"down_{layer}"], p[f"down_bias_{layer}"])
            )
        x = tf.gather(x, batch["places"], batch_dims=1)
        x = norm(p, "last", tf.nn.gelu(dense(x, p["head"], p["head_bias"])))
        logits = tf.cast(tf.matmul(x, half(p["words"]), transpose_b=True), p["words"].dtype)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=batch["labels"], logits=logits + p["word_bias"]
        )
        return tf.reduce_mean(losses)

    return loss


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    heads, width, tokens = dims["heads"], dims["width"], dims["tokens"]

    def norm(p: Arrays, name: str, x: Any) -> Any:
        x = x.astype(p[f"gain_{name}"].dtype)
        return half(jax.nn.standardize(x, epsilon=EPSILON) * p[f"gain_{name}"] + p[f"shift_{name}"])

    def dense(x: Any, w: Any, b: Any) -> Any:
        return x @ half(w) + half(b)

    def attention(p: Arrays, layer: int, x: Any, present: Any) -> Any:
        shape = (*x.shape[:2], heads, width // heads)
        q = dense(x, p[f"query_{layer}"], p[f"query_bias_{layer}"]).reshape(shape)
        k = (x @ half(p[f"key_{layer}"])).reshape(shape)
        v = dense(x, p[f"value_{layer}"], p[f"value_bias_{layer}"]).reshape(shape)
        mixed = jax.nn.dot_product_attention(q, k, v, mask=present[:, None, None, :])
        return dense(mixed.reshape(x.shape), p[f"out_{layer}"], p[f"out_bias_{layer}"])

    def loss(p: Arrays, batch: Arrays) -> Any:
        x = p["words"][batch["tokens"]] + p["positions"] + p["segments"][batch["segments"]]
        x = norm(p, "first", x)
        present = jnp.arange(tokens) < batch["lengths"][:, None]
        for layer in range(dims["layers"]):
            x = norm(p, f"a_{layer}", x + attention(p, layer, x, present))
            hidden = dense(x, p[f"up_{layer}"], p[f"up_bias_{layer}"])
            hidden = jax.nn.gelu(hidden, approximate=False)
            x = norm(
                p, f"m_{layer}", x + dense(hidden, p[f"down_{layer}"], p[f"down_bias_{layer}"])
            )
        x = jnp.take_along_axis(x, batch["places"][..., None], 1)
        x = jax.nn.gelu(dense(x, p["head"], p["head_bias"]), approximate=False)
        logits = norm(p, "last", x) @ half(p["words"]).T
        logits = logits.astype(p["words"].dtype) + p["word_bias"]
        picked = jnp.take_along_axis(logits, batch["labels"][..., None], -1)[..., 0]
        return jnp.mean(jax.nn.logsumexp(logits, -1) - picked)

    return loss


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    heads, width, tokens = dims["heads"], dims["width"], dims["tokens"]

    def norm(p: Arrays, name: str, x: Any) -> Any:
        gain, shift = p[f"gain_{name}"], p[f"shift_{name}"]
        return half(functional.layer_norm(x.to(gain.dtype), (width,), gain, shift, EPSILON))

    def dense(x: Any, w: Any, b: Any) -> Any:
        return functional.linear(x, half(w).T, half(b))

    def split(x: Any) -> Any:
        return x.view(-1, tokens, heads, width // heads).transpose(1, 2)

    def attention(p: Arrays, layer: int, x: Any, present: Any) -> Any:
        q = split(dense(x, p[f"query_{layer}"], p[f"query_bias_{layer}"]))
        k = split(x @ half(p[f"key_{layer}"]))
        v = split(dense(x, p[f"value_{layer}"], p[f"value_bias_{layer}"]))
        mixed = functional.scaled_dot_product_attention(q, k, v, present[:, None, None, :])
        mixed = mixed.transpose(1, 2).reshape(x.shape)
        return dense(mixed, p[f"out_{layer}"], p[f"out_bias_{layer}"])

    def loss(p: Arrays, batch: Arrays) -> Any:
        x = functional.embedding(batch["tokens"], p["words"]) + p["positions"]
        x = norm(p, "first", x + functional.embedding(batch["segments"], p["segments"]))
        present = torch.arange(tokens, device=x.device) < batch["lengths"][:, None]
        for layer in range(dims["layers"]):
            x = norm(p, f"a_{layer}", x + attention(p, layer, x, present))
            hidden = functional.gelu(dense(x, p[f"up_{layer}"], p[f"up_bias_{layer}"]))
            x = norm(
                p, f"m_{layer}", x + dense(hidden, p[f"down_{layer}"], p[f"down_bias_{layer}"])
            )
        x = torch.take_along_dim(x, batch["places"][..., None], 1)
        x = norm(p, "last", functional.gelu(dense(x, p["head"], p["head_bias"])))
        logits = (x @ half(p["words"]).T).to(p["words"].dtype) + p["word_bias"]
        return functional.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten())

    return loss


def cost(dims: Dims) -> Cost:
    """Three passes over all products; Adam moves seven times the size of the weights."""
    width, tokens = dims["width"], dims["tokens"]
    weights = 12 * width**2 * dims["layers"]
    words = width * dims["words"]
    products = 2 * weights * tokens + 4 * dims["layers"] * tokens**2 * width
    products += 2 * dims["masked"] * (words + width**2)
    return Cost(bytes=28.0 * (weights + words), operations=3.0 * products * dims["batch"])


PROGRAM = Program(
    summary="BERT-base: 12 post-norm layers, 768 wide, 128 tokens of which 20 are masked, Adam",
    kind=Kind.TRAINING,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {
            "batch": 3,
            "tokens": 7,
            "masked": 2,
            "words": 11,
            "width": 10,
            "heads": 2,
            "layers": 2,
        },
        "cpu": {
            "batch": 8,
            "tokens": 48,
            "masked": 7,
            "words": 2000,
            "width": 96,
            "heads": 4,
            "layers": 2,
        },
        "cuda": {
            "batch": 64,
            "tokens": 128,
            "masked": 20,
            "words": 30522,
            "width": 768,
            "heads": 12,
            "layers": 12,
        },
    },
    cost=cost,
    optimizer=Optimizer("adam", 1e-4),
    dtypes={"cpu": "float32", "cuda": "bfloat16"},
    tolerance=1e-5,  # JAX's attention takes the softmax in single precision
)
