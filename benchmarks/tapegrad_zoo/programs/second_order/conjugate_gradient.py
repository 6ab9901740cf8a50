"""Newton's method without the Hessian: conjugate gradients on damped Hessian-vector products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Program, Values

DAMPING, DECAY, RATE = 0.5, 1e-2, 0.8


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    inputs, hidden, classes = dims["inputs"], dims["hidden"], dims["classes"]
    params = {
        "w1": rng.standard_normal((inputs, hidden)) * inputs**-0.5,
        "b1": rng.standard_normal(hidden) * 0.1,
        "w2": rng.standard_normal((hidden, classes)) * hidden**-0.5,
        "b2": rng.standard_normal(classes) * 0.1,
    }
    batch = {
        "x": rng.standard_normal((dims["batch"], inputs)),
        "labels": rng.integers(0, classes, dims["batch"]),
    }
    return params, batch


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad as tf

    def dot(a: Arrays, b: Arrays) -> Any:
        return tf.add_n([tf.reduce_sum(a[name] * b[name]) for name in a])

    def step(params: Arrays, batch: Arrays) -> Arrays:
        p = {name: tf.convert_to_tensor(value) for name, value in params.items()}

        def loss(p: Arrays) -> Any:
            h = tf.tanh(tf.matmul(batch["x"], p["w1"]) + p["b1"])
            logits = tf.matmul(h, p["w2"]) + p["b2"]
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(batch["labels"], logits)
            decay = tf.reduce_sum(tf.square(p["w1"])) + tf.reduce_sum(tf.square(p["w2"]))
            return tf.reduce_mean(losses) + 0.5 * DECAY * decay

        def curvature(v: Arrays) -> Arrays:
            product = tf.hvp(loss, p, v)
            return {name: product[name] + DAMPING * v[name] for name in v}

        value, gradient = tf.value_and_grad(loss)(p)
        move = {name: tf.zeros_like(g) for name, g in gradient.items()}
        residual = {name: -g for name, g in gradient.items()}
        direction = dict(residual)
        size = dot(residual, residual)
        for _ in range(dims["iterations"]):
            product = curvature(direction)
            length = size / dot(direction, product)
            move = {name: x + length * direction[name] for name, x in move.items()}
            residual = {name: r - length * product[name] for name, r in residual.items()}
            new_size = dot(residual, residual)
            share = new_size / size
            direction = {name: r + share * direction[name] for name, r in residual.items()}
            size = new_size
        new = {name: p[name] + RATE * move[name] for name in p}
        return {**new, "loss": value, "residual": tf.sqrt(size)}

    return step


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp
    from jax.flatten_util import ravel_pytree

    def step(params: Arrays, batch: Arrays) -> Arrays:
        start, shaped = ravel_pytree(params)

        def loss(flat: Any) -> Any:
            p = shaped(flat)
            h = jnp.tanh(batch["x"] @ p["w1"] + p["b1"])
            logs = jax.nn.log_softmax(h @ p["w2"] + p["b2"])
            fit = -jnp.mean(jnp.take_along_axis(logs, batch["labels"][:, None], 1))
            return fit + 0.5 * DECAY * (jnp.sum(p["w1"] ** 2) + jnp.sum(p["w2"] ** 2))

        value, gradient = jax.value_and_grad(loss)(start)
        # The part of the products that does not depend on the direction is computed once.
        _, tangent = jax.linearize(jax.grad(loss), start)

        def iterate(_: Any, state: Any) -> Any:
            move, residual, direction, size = state
            product = tangent(direction) + DAMPING * direction
            length = size / jnp.vdot(direction, product)
            residual = residual - length * product
            new_size = jnp.vdot(residual, residual)
            turned = residual + new_size / size * direction
            return move + length * direction, residual, turned, new_size

        state = jnp.zeros_like(gradient), -gradient, -gradient, jnp.vdot(gradient, gradient)
        move, _, _, size = jax.lax.fori_loop(0, dims["iterations"], iterate, state)
        return {**shaped(start + RATE * move), "loss": value, "residual": jnp.sqrt(size)}

    return step


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    def step(params: Arrays, batch: Arrays) -> Arrays:
        p = {name: value.detach() for name, value in params.items()}
        sizes = [value.numel() for value in p.values()]

        def shaped(flat: Any) -> Arrays:
            pieces = flat.split(sizes)
            return {name: piece.view(p[name].shape) for name, piece in zip(p, pieces)}

        def loss(flat: Any) -> Any:
            q = shaped(flat)
            h = torch.tanh(torch.addmm(q["b1"], batch["x"], q["w1"]))
            fit = functional.cross_entropy(torch.addmm(q["b2"], h, q["w2"]), batch["labels"])
            return fit + 0.5 * DECAY * (torch.sum(q["w1"] ** 2) + torch.sum(q["w2"] ** 2))

        start = torch.cat([value.flatten() for value in p.values()])
        # The Hessian is symmetric: the pullback of the gradient is the product with it.
        learn = torch.func.grad_and_value(loss)
        gradient, pull, value = torch.func.vjp(learn, start, has_aux=True)
        move, residual = torch.zeros_like(gradient), -gradient
        direction, size = residual, torch.dot(gradient, gradient)
        for _ in range(dims["iterations"]):
            product = pull(direction)[0] + DAMPING * direction
            length = size / torch.dot(direction, product)
            move = torch.addcmul(move, length, direction)
            residual = residual - length * product
            new_size = torch.dot(residual, residual)
            direction = residual + new_size / size * direction
            size = new_size
        new = shaped(start + RATE * move)
        return {**new, "loss": value, "residual": torch.sqrt(size)}

    return step


def cost(dims: Dims) -> Cost:
    """A product with the Hessian takes four products per weight, if the values are kept."""
    weights = dims["hidden"] * (dims["inputs"] + dims["classes"])
    passes = 3 + 4 * dims["iterations"]
    return Cost(
        bytes=4.0 * dims["batch"] * dims["inputs"] + 16.0 * weights * dims["iterations"],
        operations=2.0 * passes * weights * dims["batch"],
    )


PROGRAM = Program(
    summary="Newton step of a dense network by 20 conjugate gradients on Hessian-vector products",
    kind=Kind.STEP,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {"batch": 9, "inputs": 5, "hidden": 6, "classes": 3, "iterations": 4},
        "cpu": {"batch": 256, "inputs": 64, "hidden": 64, "classes": 10, "iterations": 10},
        "cuda": {"batch": 4096, "inputs": 784, "hidden": 512, "classes": 10, "iterations": 20},
    },
    cost=cost,
)
