"""The likelihood of time series by a Kalman filter, whose noise differs by series and time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Program, Values

LOG_TWO_PI = float(np.log(2 * np.pi))


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    states, outputs = dims["states"], dims["outputs"]
    params = {
        "dynamics": 0.9 * np.eye(states) + 0.05 * rng.standard_normal((states, states)),
        "readout": rng.standard_normal((outputs, states)) * states**-0.5,
        "log_process": np.log(0.3) + 0.1 * rng.standard_normal(states),
        "log_noise": np.log(0.5) + 0.1 * rng.standard_normal(outputs),
    }
    shape = dims["batch"], dims["steps"]
    batch = {
        "series": rng.standard_normal((*shape, outputs)),
        "trust": np.exp(0.3 * rng.standard_normal(shape)),
    }
    return params, batch


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad as tf

    def loss(p: Arrays, batch: Arrays) -> Any:
        a, c = tf.convert_to_tensor(p["dynamics"]), tf.convert_to_tensor(p["readout"])
        q, r = tf.linalg.diag(tf.exp(p["log_process"])), tf.linalg.diag(tf.exp(p["log_noise"]))
        series, trust = batch["series"], batch["trust"]
        mean = tf.zeros([dims["batch"], dims["states"]], dtype=series.dtype)
        eye = tf.eye(dims["states"], dtype=series.dtype)
        spread = tf.tile(eye[None], [dims["batch"], 1, 1])
        total = 0.0
        for t in range(dims["steps"]):
            mean = tf.linalg.matvec(a, mean)
            spread = a @ spread @ tf.transpose(a) + q
            surprise = series[:, t] - tf.linalg.matvec(c, mean)
            expected = c @ spread @ tf.transpose(c) + r / trust[:, t, None, None]
            factor = tf.linalg.cholesky(expected)
            gain = tf.linalg.matrix_transpose(tf.linalg.cholesky_solve(factor, c @ spread))
            white = tf.linalg.triangular_solve(factor, surprise[:, :, None])[:, :, 0]
            mean = mean + tf.linalg.matvec(gain, surprise)
            rest = eye - gain @ c
            noise = gain @ (r / trust[:, t, None, None]) @ tf.linalg.matrix_transpose(gain)
            spread = rest @ spread @ tf.linalg.matrix_transpose(rest) + noise
            scale = tf.reduce_sum(tf.math.log(tf.linalg.diag_part(factor)), axis=1)
            density = 0.5 * tf.reduce_sum(white**2, axis=1) + scale
            total = total + tf.reduce_mean(density) + 0.5 * dims["outputs"] * LOG_TWO_PI
        return total / dims["steps"]

    return loss


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp
    from jax.scipy.linalg import cho_solve, solve_triangular

    def loss(p: Arrays, batch: Arrays) -> Any:
        a, c = p["dynamics"], p["readout"]
        q, r = jnp.diag(jnp.exp(p["log_process"])), jnp.diag(jnp.exp(p["log_noise"]))

        def step(carry: Any, seen: Any) -> Any:
            mean, spread = carry
            values, trust = seen
            mean, spread = a @ mean, a @ spread @ a.T + q
            noise, surprise = r / trust, values - c @ mean
            factor = jnp.linalg.cholesky(c @ spread @ c.T + noise)
            gain = cho_solve((factor, True), c @ spread).T
            white = solve_triangular(factor, surprise, lower=True)
            rest = jnp.eye(dims["states"], dtype=a.dtype) - gain @ c
            spread = rest @ spread @ rest.T + gain @ noise @ gain.T
            density = 0.5 * white @ white + jnp.sum(jnp.log(jnp.diagonal(factor)))
            return (mean + gain @ surprise, spread), density

        def one(series: Any, trust: Any) -> Any:
            start = jnp.zeros(dims["states"], a.dtype), jnp.eye(dims["states"], dtype=a.dtype)
            return jnp.mean(jax.lax.scan(step, start, (series, trust))[1])

        found = jax.vmap(one)(batch["series"], batch["trust"])
        return jnp.mean(found) + 0.5 * dims["outputs"] * LOG_TWO_PI

    return loss


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch

    def loss(p: Arrays, batch: Arrays) -> Any:
        a, c = p["dynamics"], p["readout"]
        q, r = torch.diag(torch.exp(p["log_process"])), torch.diag(torch.exp(p["log_noise"]))
        series = batch["series"]
        mean = series.new_zeros(dims["batch"], dims["states"], 1)
        eye = torch.eye(dims["states"], dtype=a.dtype, device=a.device)
        spread = eye.expand(dims["batch"], -1, -1)
        total = []
        for values, trust in zip(series.unbind(1), batch["trust"].unbind(1)):
            mean, spread = a @ mean, a @ spread @ a.T + q
            surprise, noise = values[:, :, None] - c @ mean, r / trust[:, None, None]
            factor = torch.linalg.cholesky_ex(c @ spread @ c.T + noise).L
            gain = torch.cholesky_solve(c @ spread, factor).mT
            white = torch.linalg.solve_triangular(factor, surprise, upper=False)
            mean = torch.baddbmm(mean, gain, surprise)
            rest = eye - gain @ c
            spread = torch.baddbmm(rest @ spread @ rest.mT, gain @ noise, gain.mT)
            scale = torch.log(factor.diagonal(dim1=1, dim2=2)).sum(1)
            total.append(0.5 * white.square().sum((1, 2)) + scale)
        return torch.stack(total).mean() + 0.5 * dims["outputs"] * LOG_TWO_PI

    return loss


def cost(dims: Dims) -> Cost:
    """About ten products of small matrices per series and time, and twice as many going back."""
    steps = dims["batch"] * dims["steps"]
    states, outputs = dims["states"], dims["outputs"]
    products = 2.0 * states**2 * (4 * states + 5 * outputs)
    return Cost(bytes=8.0 * steps * (outputs + states**2), operations=3 * steps * products)


PROGRAM = Program(
    summary="Kalman filter with Cholesky factors and Joseph's form; gradient by all matrices",
    kind=Kind.GRADIENT,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {"batch": 3, "steps": 4, "states": 4, "outputs": 2},
        "cpu": {"batch": 8, "steps": 25, "states": 6, "outputs": 3},
        "cuda": {"batch": 256, "steps": 50, "states": 8, "outputs": 4},
    },
    cost=cost,
)
