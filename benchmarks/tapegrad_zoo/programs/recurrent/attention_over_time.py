"""Translation with additive attention: the decoder looks at all encoder states at each step."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Optimizer, Program, Values

HIDDEN = -1e9


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    n, words, size = dims["units"], dims["words"], dims["batch"]

    def weights(n: int, m: int) -> Any:
        return rng.standard_normal((n, m)) * n**-0.5

    params = {
        "source_words": rng.standard_normal((words, n)),
        "target_words": rng.standard_normal((words, n)),
        "encoder_inputs": weights(n, n),
        "encoder_states": weights(n, n),
        "encoder_bias": rng.standard_normal(n) * 0.1,
        "keys": weights(n, n),
        "queries": weights(n, n),
        "energy": rng.standard_normal(n) * n**-0.5,
        "forget": weights(3 * n, n),
        "forget_bias": 1 + rng.standard_normal(n) * 0.1,
        "candidate": weights(3 * n, n),
        "candidate_bias": rng.standard_normal(n) * 0.1,
        "output": weights(2 * n, words),
        "output_bias": rng.standard_normal(words) * 0.1,
    }
    source, target = dims["source"], dims["target"]
    batch = {
        "source": rng.integers(0, words, (size, source)),
        "lengths": rng.integers(source // 2, source + 1, size),
        "target": rng.integers(0, words, (size, target + 1)),
    }
    return params, batch


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad as tf

    def encoded(p: Arrays, source: Any) -> Any:
        xs = tf.nn.embedding_lookup(p["source_words"], source)
        h = tf.zeros_like(xs[:, 0])
        states = []
        for x in tf.unstack(xs, axis=1):
            h = tf.tanh(x @ p["encoder_inputs"] + h @ p["encoder_states"] + p["encoder_bias"])
            states.append(h)
        return tf.stack(states, axis=1)

    def attend(p: Arrays, h: Any, memory: Any, keys: Any, present: Any) -> Any:
        query = tf.expand_dims(h @ p["queries"], 1)
        scores = tf.reduce_sum(p["energy"] * tf.tanh(keys + query), axis=-1)
        weights = tf.nn.softmax(tf.where(present, scores, HIDDEN), axis=-1)
        return tf.reduce_sum(weights[:, :, None] * memory, axis=1)

    def loss(p: Arrays, batch: Arrays) -> Any:
        memory = encoded(p, batch["source"])
        keys = memory @ p["keys"]
        present = tf.sequence_mask(batch["lengths"], dims["source"])
        h = tf.reduce_mean(memory, axis=1)
        total = 0.0
        for t in range(dims["target"]):
            x = tf.nn.embedding_lookup(p["target_words"], batch["target"][:, t])
            context = attend(p, h, memory, keys, present)
            f = tf.sigmoid(tf.concat([x, context, h], axis=1) @ p["forget"] + p["forget_bias"])
            inputs = tf.concat([x, context, f * h], axis=1)
            new = tf.tanh(inputs @ p["candidate"] + p["candidate_bias"])
            h = f * h + (1 - f) * new
            logits = tf.concat([h, context], axis=1) @ p["output"] + p["output_bias"]
            right = batch["target"][:, t + 1]
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(right, logits)
            total = total + tf.reduce_mean(losses)
        return total / dims["target"]

    return loss


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    def encoded(p: Arrays, source: Any) -> Any:
        inputs = p["source_words"][source.T] @ p["encoder_inputs"] + p["encoder_bias"]

        def step(h: Any, x: Any) -> Any:
            h = jnp.tanh(x + h @ p["encoder_states"])
            return h, h

        return jax.lax.scan(step, jnp.zeros_like(inputs[0]), inputs)[1].swapaxes(0, 1)

    def loss(p: Arrays, batch: Arrays) -> Any:
        memory = encoded(p, batch["source"])
        keys = memory @ p["keys"]
        present = jnp.arange(dims["source"]) < batch["lengths"][:, None]
        both = jnp.concatenate([p["forget"], p["candidate"]], 1)
        n = dims["units"]

        def step(h: Any, x: Any) -> Any:
            scores = jnp.tanh(keys + (h @ p["queries"])[:, None]) @ p["energy"]
            weights = jax.nn.softmax(jnp.where(present, scores, HIDDEN))
            context = jnp.einsum("bs,bsn->bn", weights, memory)
            f, new = jnp.split(x + context @ both[n : 2 * n], 2, 1)
            f = jax.nn.sigmoid(f + h @ p["forget"][2 * n :])
            h = f * h + (1 - f) * jnp.tanh(new + (f * h) @ p["candidate"][2 * n :])
            return h, jnp.concatenate([h, context], 1)

        words = p["target_words"][batch["target"][:, :-1].T] @ both[:n]
        words = words + jnp.concatenate([p["forget_bias"], p["candidate_bias"]])
        found = jax.lax.scan(step, jnp.mean(memory, 1), words)[1]
        logits = found @ p["output"] + p["output_bias"]
        right = jnp.take_along_axis(logits, batch["target"][:, 1:].T[..., None], -1)[..., 0]
        return jnp.mean(jax.nn.logsumexp(logits, -1) - right)

    return loss


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    def encoded(p: Arrays, source: Any) -> Any:
        xs, bias = functional.embedding(source, p["source_words"]), p["encoder_bias"]
        # cuDNN takes no transposed views.
        matrices = [p[f"encoder_{kind}"].T.contiguous() for kind in ("inputs", "states")]
        weights = [*matrices, bias, torch.zeros_like(bias)]
        start = xs.new_zeros(1, xs.shape[0], dims["units"])
        return torch.rnn_tanh(xs, start, weights, True, 1, 0.0, True, False, True)[0]

    def loss(p: Arrays, batch: Arrays) -> Any:
        memory = encoded(p, batch["source"])
        keys, n = memory @ p["keys"], dims["units"]
        places = torch.arange(dims["source"], device=memory.device)
        absent = places >= batch["lengths"][:, None]
        both = torch.cat([p["forget"][: 2 * n], p["candidate"][: 2 * n]], 1)
        bias = torch.cat([p["forget_bias"], p["candidate_bias"]])
        words = functional.embedding(batch["target"][:, :-1], p["target_words"])
        words = functional.linear(words, both[:n].T, bias).unbind(1)
        h, found = memory.mean(1), []
        for x in words:
            scores = torch.tanh(keys + (h @ p["queries"])[:, None]) @ p["energy"]
            weights = torch.softmax(scores.masked_fill(absent, HIDDEN), -1)
            context = torch.bmm(weights[:, None], memory)[:, 0]
            f, new = torch.addmm(x, context, both[n:]).chunk(2, 1)
            f = torch.sigmoid(torch.addmm(f, h, p["forget"][2 * n :]))
            new = torch.tanh(torch.addmm(new, f * h, p["candidate"][2 * n :]))
            h = torch.lerp(new, h, f)
            found.append(torch.cat([h, context], 1))
        logits = torch.stack(found, 1) @ p["output"] + p["output_bias"]
        return functional.cross_entropy(logits.flatten(0, 1), batch["target"][:, 1:].flatten())

    return loss


def cost(dims: Dims) -> Cost:
    """Three passes over the products; the states and keys of the encoder are moved three times."""
    n, source, target = dims["units"], dims["source"], dims["target"]
    products = source * 3 * n**2 + target * (7 * n**2 + 2 * n * dims["words"] + 2 * source * n)
    weights = 11 * n**2 + 4 * n * dims["words"]
    memory = 24.0 * dims["batch"] * source * n
    return Cost(bytes=28.0 * weights + memory, operations=6.0 * products * dims["batch"])


PROGRAM = Program(
    summary="an encoder of 50 and a decoder of 50 steps with additive attention, Adam",
    kind=Kind.TRAINING,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {"batch": 3, "source": 6, "target": 4, "units": 5, "words": 9},
        "cpu": {"batch": 8, "source": 20, "target": 16, "units": 48, "words": 300},
        "cuda": {"batch": 64, "source": 50, "target": 50, "units": 512, "words": 8000},
    },
    cost=cost,
    optimizer=Optimizer("adam", 1e-3),
)
