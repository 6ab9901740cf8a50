"""WaveNet: dilated causal convolutions with gates predict the next level of a quantised wave."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Optimizer, Program, Values


def _dilations(dims: Dims) -> list[int]:
    return [1 << i for _ in range(dims["stacks"]) for i in range(dims["layers"])]


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    channels, skip, levels = dims["channels"], dims["skip"], dims["levels"]

    def weights(n: int, *shape: int) -> Any:
        return rng.standard_normal(shape) * n**-0.5

    params = {"first": rng.standard_normal((levels, channels))}
    last = len(_dilations(dims)) - 1
    for i in range(last + 1):
        params |= {
            f"filter{i}": weights(2 * channels, 2, channels, channels),
            f"gate{i}": weights(2 * channels, 2, channels, channels),
            f"filter_bias{i}": rng.standard_normal(channels) * 0.1,
            f"gate_bias{i}": rng.standard_normal(channels) * 0.1,
            f"skip{i}": weights(channels, channels, skip),
        }
        if i < last:
            params[f"residual{i}"] = weights(channels, channels, channels)
    params |= {
        "hidden": weights(skip, skip, skip),
        "hidden_bias": rng.standard_normal(skip) * 0.1,
        "output": weights(skip, skip, levels),
        "output_bias": rng.standard_normal(levels) * 0.1,
    }
    return params, {"wave": rng.integers(0, levels, (dims["batch"], dims["length"] + 1))}


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad.numpy as np

    dilations = _dilations(dims)

    def causal(x: Any, taps: Any, bias: Any, dilation: int) -> Any:
        earlier = np.pad(x, ((0, 0), (dilation, 0), (0, 0)))[:, :-dilation]
        return earlier @ half(taps[0]) + x @ half(taps[1]) + half(bias)

    def sigmoid(x: Any) -> Any:
        return 1 / (1 + np.exp(-x))

    def loss(p: Arrays, batch: Arrays) -> Any:
        x = half(p["first"][batch["wave"][:, :-1]])
        total = 0
        for i, dilation in enumerate(dilations):
            f = causal(x, p[f"filter{i}"], p[f"filter_bias{i}"], dilation)
            g = causal(x, p[f"gate{i}"], p[f"gate_bias{i}"], dilation)
            z = np.tanh(f) * sigmoid(g)
            total = total + z @ half(p[f"skip{i}"])
            if i < len(dilations) - 1:
                x = x + z @ half(p[f"residual{i}"])
        y = np.maximum(total, 0) @ half(p["hidden"]) + half(p["hidden_bias"])
        y = np.maximum(y, 0) @ half(p["output"])
        y = np.astype(y, p["output"].dtype) + p["output_bias"]
        y = y - np.max(y, axis=-1, keepdims=True)
        right = np.take_along_axis(y, batch["wave"][:, 1:, None], axis=-1)[..., 0]
        return np.mean(np.log(np.sum(np.exp(y), axis=-1)) - right)

    return loss


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    dilations = _dilations(dims)

    def gated(p: Arrays, i: int, x: Any, dilation: int) -> Any:
        taps = half(jnp.concatenate([p[f"filter{i}"], p[f"gate{i}"]], -1))
        bias = half(jnp.concatenate([p[f"filter_bias{i}"], p[f"gate_bias{i}"]]))
        both = bias + jax.lax.conv_general_dilated(
            x,
            taps,
            (1,),
            [(dilation, 0)],
            rhs_dilation=(dilation,),
            dimension_numbers=("NWC", "WIO", "NWC"),
        )
        f, g = jnp.split(both, 2, -1)
        return jnp.tanh(f) * jax.nn.sigmoid(g)

    def loss(p: Arrays, batch: Arrays) -> Any:
        x = half(p["first"][batch["wave"][:, :-1]])
        total = jnp.zeros((*x.shape[:2], dims["skip"]), x.dtype)
        for i, dilation in enumerate(dilations):
            z = gated(p, i, x, dilation)
            total = total + z @ half(p[f"skip{i}"])
            if i < len(dilations) - 1:
                x = x + z @ half(p[f"residual{i}"])
        y = jax.nn.relu(total) @ half(p["hidden"]) + half(p["hidden_bias"])
        y = (jax.nn.relu(y) @ half(p["output"])).astype(p["output"].dtype) + p["output_bias"]
        right = jnp.take_along_axis(y, batch["wave"][:, 1:, None], -1)[..., 0]
        return jnp.mean(jax.nn.logsumexp(y, -1) - right)

    return loss


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    dilations = _dilations(dims)

    def gated(p: Arrays, i: int, x: Any, dilation: int) -> Any:
        taps = half(torch.cat([p[f"filter{i}"], p[f"gate{i}"]], 2)).permute(2, 1, 0)
        bias = half(torch.cat([p[f"filter_bias{i}"], p[f"gate_bias{i}"]]))
        x = functional.pad(x, (dilation, 0))
        f, g = functional.conv1d(x, taps, bias, dilation=dilation).chunk(2, 1)
        return torch.tanh(f) * torch.sigmoid(g)

    def point(x: Any, w: Any, b: Any = None) -> Any:
        return functional.conv1d(x, half(w).T[..., None], b if b is None else half(b))

    def loss(p: Arrays, batch: Arrays) -> Any:
        x = half(functional.embedding(batch["wave"][:, :-1], p["first"])).transpose(1, 2)
        total = 0
        for i, dilation in enumerate(dilations):
            z = gated(p, i, x, dilation)
            total = total + point(z, p[f"skip{i}"])
            if i < len(dilations) - 1:
                x = x + point(z, p[f"residual{i}"])
        y = torch.relu(point(torch.relu(total), p["hidden"], p["hidden_bias"]))
        y = point(y, p["output"]).to(p["output"].dtype) + p["output_bias"][:, None]
        return functional.cross_entropy(y, batch["wave"][:, 1:])

    return loss


def cost(dims: Dims) -> Cost:
    """Three passes over the products; inputs and gated values of a layer move five times."""
    channels, skip, samples = dims["channels"], dims["skip"], dims["batch"] * dims["length"]
    layers = len(_dilations(dims))
    weights = layers * (5 * channels**2 + channels * skip) + skip**2 + skip * dims["levels"]
    values = layers * 2 * channels
    return Cost(bytes=28.0 * weights + 10.0 * samples * values, operations=6.0 * weights * samples)


PROGRAM = Program(
    summary="two stacks of 10 gated dilated convolutions over 4 x 8192 samples, Adam",
    kind=Kind.TRAINING,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {
            "batch": 2,
            "length": 11,
            "channels": 5,
            "skip": 7,
            "levels": 9,
            "layers": 3,
            "stacks": 2,
        },
        "cpu": {
            "batch": 2,
            "length": 512,
            "channels": 32,
            "skip": 48,
            "levels": 64,
            "layers": 5,
            "stacks": 2,
        },
        "cuda": {
            "batch": 4,
            "length": 8192,
            "channels": 128,
            "skip": 256,
            "levels": 256,
            "layers": 10,
            "stacks": 2,
        },
    },
    cost=cost,
    optimizer=Optimizer("adam", 1e-3),
    dtypes={"cpu": "float32", "cuda": "bfloat16"},
)
