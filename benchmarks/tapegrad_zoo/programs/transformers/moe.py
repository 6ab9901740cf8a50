"""A mixture of experts: each token goes to its two best experts, if these have room for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Optimizer, Program, Values

EPSILON, BALANCE, CHOICES = 1e-6, 0.01, 2


def _room(dims: Dims) -> int:
    """The tokens of one sequence that an expert takes: a quarter more than its share."""
    return -(-5 * CHOICES * dims["tokens"] // (4 * dims["experts"]))


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    width, hidden, experts = dims["width"], dims["hidden"], dims["experts"]

    def weights(*shape: int) -> Any:
        return rng.standard_normal(shape) * shape[-2] ** -0.5

    params = {
        "words": rng.standard_normal((dims["words"], width)),
        "places": rng.standard_normal((dims["tokens"], width)) * 0.1,
        "head": weights(width, dims["words"]),
    }
    for layer in range(dims["layers"]):
        params |= {
            f"norm_a{layer}": 1 + 0.1 * rng.standard_normal(width),
            f"norm_e{layer}": 1 + 0.1 * rng.standard_normal(width),
            f"qkv{layer}": weights(width, 3 * width),
            f"out{layer}": weights(width, width),
            f"router{layer}": weights(width, experts),
            f"up{layer}": weights(experts, width, hidden),
            f"down{layer}": weights(experts, hidden, width),
        }
    batch = {"text": rng.integers(0, dims["words"], (dims["batch"], dims["tokens"] + 1))}
    return params, batch


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad as tf

    heads, width, tokens = dims["heads"], dims["width"], dims["tokens"]
    experts, room = dims["experts"], _room(dims)

    def norm(x: Any, gain: Any) -> Any:
        x = tf.cast(x, gain.dtype)
        mean, variance = tf.nn.moments(x, axes=[-1], keepdims=True)
        return (x - mean) * tf.math.rsqrt(variance + EPSILON) * gain

    def attention(x: Any, qkv: Any, out: Any) -> Any:
        q, k, v = tf.split(x @ half(qkv), 3, axis=-1)
        q, k, v = (tf.reshape(z, (-1, tokens, heads, width // heads)) for z in (q, k, v))
        scores = tf.einsum("bihd,bjhd->bhij", q, k) * (width // heads) ** -0.5
        visible = tf.range(tokens)[:, None] >= tf.range(tokens)
        scores = tf.where(visible, scores, -1e9)
        mixed = tf.einsum("bhij,bjhd->bihd", tf.nn.softmax(scores), v)
        return tf.reshape(mixed, (-1, tokens, width)) @ half(out)

    def mixture(x: Any, router: Any, up: Any, down: Any) -> Any:
        gates = tf.nn.softmax(x @ router)
        best, chosen = tf.nn.top_k(gates, CHOICES)
        best = best / tf.reduce_sum(best, axis=-1, keepdims=True)
        combine, taken = 0.0, 0.0
        for choice in range(CHOICES):  # all first choices are served before the second ones
            hot = tf.one_hot(chosen[..., choice], experts, dtype=x.dtype)
            slot = tf.reduce_sum((tf.cumsum(hot, axis=1, exclusive=True) + taken) * hot, axis=-1)
            taken = taken + tf.reduce_sum(hot, axis=1, keepdims=True)
            slot = tf.one_hot(tf.cast(slot, tf.int32), room, dtype=x.dtype)
            pair = hot[..., :, None] * slot[..., None, :]
            combine = combine + best[..., choice, None, None] * pair
        dispatch = half(tf.cast(combine > 0, x.dtype))
        inputs = tf.einsum("btec,btd->ebcd", dispatch, half(x))
        hidden = tf.nn.relu(tf.einsum("ebcd,edf->ebcf", inputs, half(up)))
        outputs = tf.einsum("ebcf,efd->ebcd", hidden, half(down))
        share = tf.reduce_mean(tf.one_hot(chosen[..., 0], experts, dtype=x.dtype), axis=1)
        share = tf.reduce_sum(share * tf.reduce_mean(gates, axis=1), axis=-1)
        return tf.einsum("btec,ebcd->btd", half(combine), outputs), experts * tf.reduce_mean(share)

    def loss(p: Arrays, batch: Arrays) -> Any:
        x = half(tf.gather(p["words"], batch["text"][:, :-1]) + p["places"])
        total = 0.0
        for i in range(dims["layers"]):
            x = x + attention(half(norm(x, p[f"norm_a{i}"])), p[f"qkv{i}"], p[f"out{i}"])
            normed = norm(x, p[f"norm_e{i}"])
            y, balance = mixture(normed, p[f"router{i}"], p[f"up{i}"], p[f"down{i}"])
            x, total = x + y, total + BALANCE * balance
        logits = tf.cast(x @ half(p["head"]), p["head"].dtype)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(batch["text"][:, 1:], logits)
        return tf.reduce_mean(losses) + total

    return loss


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    heads, width, tokens = dims["heads"], dims["width"], dims["tokens"]
    experts, room = dims["experts"], _room(dims)

    def norm(x: Any, gain: Any) -> Any:
        return jax.nn.standardize(x.astype(gain.dtype), epsilon=EPSILON) * gain

    def attention(x: Any, qkv: Any, out: Any) -> Any:
        rows = (x @ half(qkv)).reshape(*x.shape[:2], 3, heads, width // heads)
        q, k, v = (rows[:, :, i] for i in range(3))
        mixed = jax.nn.dot_product_attention(q, k, v, is_causal=True)
        return mixed.reshape(x.shape) @ half(out)

    def routes(chosen: Any) -> Any:
        """Return the place of each choice among all rooms, or one behind them."""
        order = chosen.T.reshape(-1)
        hot = jax.nn.one_hot(order, experts, dtype=jnp.int32)
        slot = jnp.take_along_axis(jnp.cumsum(hot, 0), order[:, None], 1)[:, 0] - 1
        return jnp.where(slot < room, order * room + slot, experts * room)

    def mixture(x: Any, router: Any, up: Any, down: Any) -> Any:
        gates = jax.nn.softmax(x @ router)
        best, chosen = jax.lax.top_k(gates, CHOICES)
        best = best / jnp.sum(best, -1, keepdims=True)
        place = jax.vmap(routes)(chosen)
        copies = jnp.tile(half(x), (1, CHOICES, 1))
        empty = jnp.zeros((experts * room, width), copies.dtype)
        rooms = jax.vmap(lambda at, rows: empty.at[at].set(rows, mode="drop"))(place, copies)
        rooms = rooms.reshape(-1, experts, room, width)
        hidden = jax.nn.relu(jnp.einsum("becd,edf->becf", rooms, half(up)))
        outputs = jnp.einsum("becf,efd->becd", hidden, half(down)).reshape(-1, len(empty), width)
        found = jax.vmap(lambda y, at: y.at[at].get(mode="fill", fill_value=0))(outputs, place)
        found = found.reshape(-1, CHOICES, tokens, width)
        share = jnp.mean(jax.nn.one_hot(chosen[..., 0], experts, dtype=x.dtype), 1)
        balance = experts * jnp.mean(jnp.sum(share * jnp.mean(gates, 1), -1))
        return jnp.einsum("bctd,btc->btd", found, half(best)), balance

    def loss(p: Arrays, batch: Arrays) -> Any:
        x = half(p["words"][batch["text"][:, :-1]] + p["places"])
        total = 0.0
        for i in range(dims["layers"]):
            x = x + attention(half(norm(x, p[f"norm_a{i}"])), p[f"qkv{i}"], p[f"out{i}"])
            normed = norm(x, p[f"norm_e{i}"])
            y, balance = mixture(normed, p[f"router{i}"], p[f"up{i}"], p[f"down{i}"])
            x, total = x + y, total + BALANCE * balance
        logits = (x @ half(p["head"])).astype(p["head"].dtype)
        picked = jnp.take_along_axis(logits, batch["text"][:, 1:, None], -1)[..., 0]
        return jnp.mean(jax.nn.logsumexp(logits, -1) - picked) + total

    return loss


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    heads, width, tokens = dims["heads"], dims["width"], dims["tokens"]
    experts, room = dims["experts"], _room(dims)

    def norm(x: Any, gain: Any) -> Any:
        return functional.layer_norm(x.to(gain.dtype), (width,), gain, eps=EPSILON)

    def attention(x: Any, qkv: Any, out: Any) -> Any:
        rows = (x @ half(qkv)).view(-1, tokens, 3, heads, width // heads)
        q, k, v = rows.permute(2, 0, 3, 1, 4)
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return mixed.transpose(1, 2).reshape(x.shape) @ half(out)

    def mixture(x: Any, router: Any, up: Any, down: Any) -> Any:
        size = x.shape[0]
        gates = torch.softmax(x @ router, -1)
        best, chosen = torch.topk(gates, CHOICES, -1)
        best = best / best.sum(-1, keepdim=True)
        order = chosen.transpose(1, 2).reshape(size, -1)
        hot = functional.one_hot(order, experts)
        slot = hot.cumsum(1).gather(2, order[..., None])[..., 0] - 1
        place = torch.where(slot < room, order * room + slot, experts * room)
        place = place[..., None].expand(-1, -1, width)
        copies = half(x).repeat(1, CHOICES, 1)
        rooms = copies.new_zeros(size, experts * room + 1, width).scatter(1, place, copies)
        rooms = rooms[:, :-1].view(size, experts, room, width).transpose(0, 1).flatten(1, 2)
        outputs = torch.bmm(torch.relu(torch.bmm(rooms, half(up))), half(down))
        outputs = outputs.view(experts, size, room, width).transpose(0, 1).flatten(1, 2)
        found = functional.pad(outputs, (0, 0, 0, 1)).gather(1, place)
        found = found.view(size, CHOICES, tokens, width)
        share = functional.one_hot(chosen[..., 0], experts).to(x.dtype).mean(1)
        balance = experts * (share * gates.mean(1)).sum(-1).mean()
        return torch.einsum("bctd,btc->btd", found, half(best)), balance

    def loss(p: Arrays, batch: Arrays) -> Any:
        x = half(functional.embedding(batch["text"][:, :-1], p["words"]) + p["places"])
        total = 0.0
        for i in range(dims["layers"]):
            x = x + attention(half(norm(x, p[f"norm_a{i}"])), p[f"qkv{i}"], p[f"out{i}"])
            normed = norm(x, p[f"norm_e{i}"])
            y, balance = mixture(normed, p[f"router{i}"], p[f"up{i}"], p[f"down{i}"])
            x, total = x + y, total + BALANCE * balance
        logits = (x @ half(p["head"])).to(p["head"].dtype)
        return (
            functional.cross_entropy(logits.flatten(0, 1), batch["text"][:, 1:].flatten()) + total
        )

    return loss


def cost(dims: Dims) -> Cost:
    """Three passes over the products of the chosen experts; Adam moves seven arrays of weights."""
    width, tokens, layers = dims["width"], dims["tokens"], dims["layers"]
    expert = 2 * width * dims["hidden"]
    used = layers * (4 * width**2 + CHOICES * expert) + width * dims["words"]
    stored = layers * (4 * width**2 + dims["experts"] * expert) + 2 * width * dims["words"]
    products = 2 * used * tokens + 2 * layers * tokens**2 * width
    return Cost(bytes=28.0 * stored, operations=3.0 * products * dims["batch"])


PROGRAM = Program(
    summary="a language model with 8 experts per layer, top-2 routing and limited room, Adam",
    kind=Kind.TRAINING,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {
            "batch": 2,
            "tokens": 9,
            "words": 13,
            "width": 10,
            "hidden": 7,
            "heads": 2,
            "layers": 2,
            "experts": 3,
        },
        "cpu": {
            "batch": 4,
            "tokens": 64,
            "words": 500,
            "width": 64,
            "hidden": 128,
            "heads": 4,
            "layers": 2,
            "experts": 4,
        },
        "cuda": {
            "batch": 8,
            "tokens": 512,
            "words": 32000,
            "width": 768,
            "hidden": 2048,
            "heads": 12,
            "layers": 4,
            "experts": 8,
        },
    },
    cost=cost,
    optimizer=Optimizer("adam", 3e-4),
    dtypes={"cpu": "float32", "cuda": "bfloat16"},
    tolerance=1e-5,  # JAX's attention takes the softmax in single precision
)
