"""AdaHessian: random signs estimate the diagonal of the Hessian, which scales the update."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Program, Values

RATE, FORGET, EPSILON = 0.05, 0.9, 1e-2


def _shapes(dims: Dims) -> dict[str, tuple[int, ...]]:
    return {
        "w1": (dims["inputs"], dims["hidden"]),
        "b1": (dims["hidden"],),
        "w2": (dims["hidden"], dims["hidden"]),
        "b2": (dims["hidden"],),
        "w3": (dims["hidden"], 1),
    }


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    params: Values = {}
    for name, shape in _shapes(dims).items():
        params[name] = rng.standard_normal(shape) * (shape[0] ** -0.5 if len(shape) > 1 else 0.1)
        params[f"curve_{name}"] = rng.uniform(0.05, 0.1, shape)
    batch: Values = {
        "x": rng.standard_normal((dims["batch"], dims["inputs"])),
        "y": rng.standard_normal(dims["batch"]),
    }
    for name, shape in _shapes(dims).items():
        batch[f"signs_{name}"] = rng.choice([-1.0, 1.0], (dims["samples"], *shape))
    return params, batch


def on_tapegrad(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad
    import tapegrad.numpy as np

    names = list(_shapes(dims))

    def step(params: Arrays, batch: Arrays) -> Arrays:
        def loss(p: Arrays) -> Any:
            h = np.sin(batch["x"] @ p["w1"] + p["b1"])
            h = np.sin(h @ p["w2"] + p["b2"])
            return np.mean(np.log(np.cosh((h @ p["w3"])[:, 0] - batch["y"])))

        p = {name: np.asarray(params[name]) for name in names}
        gradient = tapegrad.grad(loss)
        slope = gradient(p)

        def sample(signs: Arrays) -> Arrays:
            _, product = tapegrad.jvp(gradient, [p], [signs])
            return {name: signs[name] * product[name] for name in names}

        signs = {name: batch[f"signs_{name}"] for name in names}
        each = tapegrad.vmap(sample)(signs)
        new: Arrays = {}
        for name in names:
            diagonal = np.mean(each[name], axis=0)
            curve = np.sqrt(
                FORGET * np.asarray(params[f"curve_{name}"]) ** 2 + (1 - FORGET) * diagonal**2
            )
            new[f"diagonal_{name}"] = diagonal
            new[f"curve_{name}"] = curve
            new[name] = p[name] - RATE * slope[name] / (curve + EPSILON)
        return new

    return step


def on_jax(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    names = list(_shapes(dims))

    def step(params: Arrays, batch: Arrays) -> Arrays:
        def loss(p: Arrays) -> Any:
            h = jnp.sin(batch["x"] @ p["w1"] + p["b1"])
            h = jnp.sin(h @ p["w2"] + p["b2"])
            return jnp.mean(jnp.log(jnp.cosh((h @ p["w3"])[:, 0] - batch["y"])))

        p = {name: params[name] for name in names}
        signs = {name: batch[f"signs_{name}"] for name in names}
        slope, tangent = jax.linearize(jax.grad(loss), p)
        products = jax.vmap(tangent)(signs)
        new: Arrays = {}
        for name in names:
            diagonal = jnp.mean(signs[name] * products[name], 0)
            square = FORGET * params[f"curve_{name}"] ** 2 + (1 - FORGET) * diagonal**2
            curve = jnp.sqrt(square)
            new[f"diagonal_{name}"] = diagonal
            new[f"curve_{name}"] = curve
            new[name] = p[name] - RATE * slope[name] / (curve + EPSILON)
        return new

    return step


def on_torch(dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch

    names = list(_shapes(dims))

    def step(params: Arrays, batch: Arrays) -> Arrays:
        def loss(p: Arrays) -> Any:
            h = torch.sin(torch.addmm(p["b1"], batch["x"], p["w1"]))
            h = torch.sin(torch.addmm(p["b2"], h, p["w2"]))
            return torch.mean(torch.log(torch.cosh((h @ p["w3"])[:, 0] - batch["y"])))

        p = {name: params[name].detach() for name in names}
        signs = {name: batch[f"signs_{name}"] for name in names}
        gradient = torch.func.grad(loss)

        def product(direction: Arrays) -> Any:
            return torch.func.jvp(gradient, (p,), (direction,))

        slope, products = torch.func.vmap(product, out_dims=(None, 0))(signs)
        new: Arrays = {}
        for name in names:
            diagonal = torch.mean(signs[name] * products[name], 0)
            square = params[f"curve_{name}"].detach() ** 2
            curve = torch.sqrt(torch.lerp(diagonal**2, square, FORGET))
            new[f"diagonal_{name}"] = diagonal
            new[f"curve_{name}"] = curve
            new[name] = torch.addcdiv(p[name], slope[name], curve + EPSILON, value=-RATE)
        return new

    return step


def cost(dims: Dims) -> Cost:
    """A gradient takes three products per weight, and each sample four more; signs are read."""
    weights = sum(int(np.prod(shape)) for shape in _shapes(dims).values())
    passes = 3 + 4 * dims["samples"]
    return Cost(
        bytes=4.0 * weights * (dims["samples"] + 5),
        operations=2.0 * passes * weights * dims["batch"],
    )


PROGRAM = Program(
    summary="AdaHessian: diagonal of the Hessian from 8 samples by vmap of Hessian-vector products",
    kind=Kind.STEP,
    make=make,
    on_tapegrad=on_tapegrad,
    on_jax=on_jax,
    on_torch=on_torch,
    sizes={
        "check": {"batch": 6, "inputs": 4, "hidden": 5, "samples": 3},
        "cpu": {"batch": 256, "inputs": 32, "hidden": 64, "samples": 8},
        "cuda": {"batch": 2048, "inputs": 128, "hidden": 512, "samples": 8},
    },
    cost=cost,
)
