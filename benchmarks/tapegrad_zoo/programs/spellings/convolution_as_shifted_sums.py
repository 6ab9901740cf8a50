"""A 3 x 3 convolution of periodic images; gradients by images and filters."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tapegrad_zoo.program import Arrays, Cost, Dims, Half, Kind, Program, Values

OFFSETS = [(i, j) for i in range(3) for j in range(3)]
SUMMARIES = {
    "library": "by the library's function on padded images",
    "slices": "as a sum of nine slices times matrices",
    "rolled": "as a sum of nine rolled images times matrices",
    "gathered": "as one product with gathered patches",
}


def make(rng: np.random.Generator, dims: Dims) -> tuple[Values, Values]:
    shape = dims["batch"], dims["height"], dims["width"]
    fan = 9 * dims["inputs"]
    params = {
        "images": 0.5 + rng.standard_normal((*shape, dims["inputs"])),
        "filters": (0.2 + rng.standard_normal((3, 3, dims["inputs"], dims["outputs"]))) * fan**-0.5,
    }
    return params, {"weights": 0.5 + rng.standard_normal((*shape, dims["outputs"]))}


def on_tapegrad(spelling: str, dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import tapegrad.numpy as np
    from tapegrad import nn

    h, w = dims["height"], dims["width"]

    def wrapped(x: Any) -> Any:
        return np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)), mode="wrap")

    def library(x: Any, filters: Any) -> Any:
        return nn.conv2d(wrapped(x), filters, 1, "VALID")

    def slices(x: Any, filters: Any) -> Any:
        around = wrapped(x)
        return sum(around[:, i : i + h, j : j + w] @ filters[i, j] for i, j in OFFSETS)

    def rolled(x: Any, filters: Any) -> Any:
        return sum(np.roll(x, (1 - i, 1 - j), axis=(1, 2)) @ filters[i, j] for i, j in OFFSETS)

    def gathered(x: Any, filters: Any) -> Any:
        rows = np.arange(h)[:, None] + np.arange(3)
        columns = np.arange(w)[:, None] + np.arange(3)
        patches = wrapped(x)[:, rows[:, None, :, None], columns[None, :, None, :]]
        flat = patches.reshape(-1, h, w, 9 * dims["inputs"])
        return flat @ filters.reshape(9 * dims["inputs"], dims["outputs"])

    spellings: dict[str, Callable[..., Any]] = {
        "library": library,
        "slices": slices,
        "rolled": rolled,
        "gathered": gathered,
    }
    convolution = spellings[spelling]

    def loss(params: Arrays, batch: Arrays) -> Any:
        result = convolution(half(params["images"]), half(params["filters"]))
        return np.mean(result.astype(batch["weights"].dtype) * batch["weights"])

    return loss


def on_jax(spelling: str, dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import jax
    import jax.numpy as jnp

    h, w = dims["height"], dims["width"]

    def wrapped(x: Any) -> Any:
        return jnp.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)), mode="wrap")

    def library(x: Any, filters: Any) -> Any:
        layout = ("NHWC", "HWIO", "NHWC")
        return jax.lax.conv_general_dilated(
            wrapped(x), filters, (1, 1), "VALID", dimension_numbers=layout
        )

    def slices(x: Any, filters: Any) -> Any:
        around = wrapped(x)
        return sum(around[:, i : i + h, j : j + w] @ filters[i, j] for i, j in OFFSETS)

    def rolled(x: Any, filters: Any) -> Any:
        return sum(jnp.roll(x, (1 - i, 1 - j), axis=(1, 2)) @ filters[i, j] for i, j in OFFSETS)

    def gathered(x: Any, filters: Any) -> Any:
        rows = jnp.arange(h)[:, None] + jnp.arange(3)
        columns = jnp.arange(w)[:, None] + jnp.arange(3)
        patches = wrapped(x)[:, rows[:, None, :, None], columns[None, :, None, :]]
        flat = patches.reshape(-1, h, w, 9 * dims["inputs"])
        return flat @ filters.reshape(9 * dims["inputs"], dims["outputs"])

    spellings: dict[str, Callable[..., Any]] = {
        "library": library,
        "slices": slices,
        "rolled": rolled,
        "gathered": gathered,
    }
    convolution = spellings[spelling]

    def loss(params: Arrays, batch: Arrays) -> Any:
        result = convolution(half(params["images"]), half(params["filters"]))
        return jnp.mean(result.astype(batch["weights"].dtype) * batch["weights"])

    return loss


def on_torch(spelling: str, dims: Dims, half: Half) -> Callable[[Arrays, Arrays], Any]:
    import torch
    from torch.nn import functional

    h, w = dims["height"], dims["width"]

    def wrapped(x: Any) -> Any:
        tall = torch.cat([x[:, -1:], x, x[:, :1]], 1)
        return torch.cat([tall[:, :, -1:], tall, tall[:, :, :1]], 2)

    def library(x: Any, filters: Any) -> Any:
        first = wrapped(x).permute(0, 3, 1, 2)  # the memory keeps its order, as torch prefers
        return functional.conv2d(first, filters.permute(3, 2, 0, 1)).permute(0, 2, 3, 1)

    def slices(x: Any, filters: Any) -> Any:
        around = wrapped(x)
        return sum(around[:, i : i + h, j : j + w] @ filters[i, j] for i, j in OFFSETS)

    def rolled(x: Any, filters: Any) -> Any:
        return sum(torch.roll(x, (1 - i, 1 - j), (1, 2)) @ filters[i, j] for i, j in OFFSETS)

    def gathered(x: Any, filters: Any) -> Any:
        offsets = torch.arange(3, device=x.device)
        rows = torch.arange(h, device=x.device)[:, None] + offsets
        columns = torch.arange(w, device=x.device)[:, None] + offsets
        patches = wrapped(x)[:, rows[:, None, :, None], columns[None, :, None, :]]
        flat = patches.reshape(-1, h, w, 9 * dims["inputs"])
        return flat @ filters.reshape(9 * dims["inputs"], dims["outputs"])

    spellings: dict[str, Callable[..., Any]] = {
        "library": library,
        "slices": slices,
        "rolled": rolled,
        "gathered": gathered,
    }
    convolution = spellings[spelling]

    def loss(params: Arrays, batch: Arrays) -> Any:
        result = convolution(half(params["images"]), half(params["filters"]))
        return torch.mean(result.to(batch["weights"].dtype) * batch["weights"])

    return loss


def cost(dims: Dims) -> Cost:
    """Images and weights are read and a gradient is written once; three passes of products."""
    pixels = dims["batch"] * dims["height"] * dims["width"]
    products = 18.0 * pixels * dims["inputs"] * dims["outputs"]
    return Cost(
        bytes=pixels * (8.0 * dims["inputs"] + 4.0 * dims["outputs"]), operations=3 * products
    )


SPELLINGS = {
    spelling: Program(
        summary=f"a periodic 3 x 3 convolution and its gradients, {summary}",
        kind=Kind.GRADIENT,
        make=make,
        on_tapegrad=partial(on_tapegrad, spelling),
        on_jax=partial(on_jax, spelling),
        on_torch=partial(on_torch, spelling),
        sizes={
            "check": {"batch": 2, "height": 5, "width": 7, "inputs": 3, "outputs": 4},
            "cpu": {"batch": 8, "height": 28, "width": 28, "inputs": 32, "outputs": 32},
            "cuda": {"batch": 32, "height": 56, "width": 56, "inputs": 64, "outputs": 64},
        },
        cost=cost,
        dtypes={"cpu": "float32", "cuda": "bfloat16"},
    )
    for spelling, summary in SUMMARIES.items()
}
