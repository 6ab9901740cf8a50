"""`mlp_small`, `mlp_mid` and `mlp_large`: dense networks, trained with Adam."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from tapegrad_bench.precision import ITEM_SIZE
from tapegrad_bench.results import Size
from tapegrad_bench.workload import Array, Arrays, Cost, Dims, Kind, Ops, Optimizer, Workload


def widths(dims: Dims) -> list[int]:
    """Return the width of the input and of each layer's output."""
    return [dims["inputs"], *[dims["hidden"]] * (dims["layers"] - 1), dims["outputs"]]


def _weights(rng: np.random.Generator, dims: Dims) -> Arrays:
    # Twice the variance of the output keeps the signal of a relu network at its size.
    return [
        rng.standard_normal((n, m), dtype=np.float32) * np.float32((2 / n) ** 0.5)
        for n, m in pairwise(widths(dims))
    ]


def make_classifier(rng: np.random.Generator, dims: Dims) -> tuple[Arrays, Arrays]:
    """Draw weights (biases are 0), inputs and labels."""
    weights = _weights(rng, dims)
    params = [array for w in weights for array in (w, np.zeros(w.shape[1], np.float32))]
    x = rng.standard_normal((dims["batch"], dims["inputs"]), dtype=np.float32)
    return params, [x, rng.integers(0, dims["outputs"], dims["batch"])]


def classify(ops: Ops, dims: Dims, params: Sequence[Array], batch: Sequence[Array]) -> Array:
    """Return the cross entropy of a dense network with relu between its layers."""
    h, labels = batch
    for i in range(0, len(params), 2):
        h = h @ ops.half(params[i]) + ops.half(params[i + 1])
        if i < len(params) - 2:
            h = ops.relu(h)
    return ops.cross_entropy(h, labels)


def make_plain(rng: np.random.Generator, dims: Dims) -> tuple[Arrays, Arrays]:
    """Draw weights and inputs."""
    weights = _weights(rng, dims)
    return weights, [rng.standard_normal((dims["batch"], dims["inputs"]), dtype=np.float32)]


def mean_square(ops: Ops, dims: Dims, params: Sequence[Array], batch: Sequence[Array]) -> Array:
    """Return the mean square of a network of matrices alone, with relu between them."""
    (h,) = batch
    for i, w in enumerate(params):
        h = h @ ops.half(w)
        if i < len(params) - 1:
            h = ops.relu(h)
    h = ops.single(h)
    return ops.mean(h * h)


def size(dims: Dims) -> Size:
    """Label by widths and batch."""
    label = f"{'-'.join(map(str, widths(dims)))}, batch {dims['batch']}"
    elements = dims["batch"] * dims["inputs"]
    return Size(label, elements, batch=dims["batch"], depth=dims["layers"])


def cost(dims: Dims, dtype: str) -> Cost:
    """Three products per layer, two in the first; Adam reads and writes weights and two moments."""
    layers = list(pairwise(widths(dims)))
    weights = sum(n * m for n, m in layers)
    products = 3 * weights - layers[0][0] * layers[0][1]
    inputs = ITEM_SIZE[dtype] * dims["batch"] * dims["inputs"]
    return Cost(bytes=inputs + 24 * weights, flops=2 * dims["batch"] * products, parameters=weights)


def classifier_cost(dims: Dims, dtype: str) -> Cost:
    """The same, with biases among the parameters."""
    biases = sum(widths(dims)[1:])
    plain = cost(dims, dtype)
    return replace(plain, parameters=plain.parameters + biases)


def _dims(inputs: int, hidden: int, outputs: int, batch: int, layers: int = 3) -> Dims:
    return {
        "inputs": inputs,
        "hidden": hidden,
        "outputs": outputs,
        "batch": batch,
        "layers": layers,
    }


ADAM = Optimizer("adam", rate=1e-3)

MLP_SMALL = Workload(
    name="mlp_small",
    summary="784-128-128-10, batch 64, relu, cross entropy, Adam",
    kind=Kind.TRAINING,
    defaults={"cpu": _dims(784, 128, 10, 64), "cuda": _dims(784, 128, 10, 64)},
    dtypes={"cpu": "float32", "cuda": "float32"},
    default_on=("cpu", "cuda"),
    size=size,
    cost=classifier_cost,
    make=make_classifier,
    forward=classify,
    check=_dims(20, 16, 5, 8),
    scaling=tuple(_dims(784, 128, 10, batch) for batch in (1, 8, 256, 1024, 4096)),
    optimizer=ADAM,
)

MLP_MID = replace(
    MLP_SMALL,
    name="mlp_mid",
    summary="1024-1024-1024-10, batch 256, relu, cross entropy, Adam",
    defaults={"cpu": _dims(1024, 1024, 10, 256), "cuda": _dims(1024, 1024, 10, 256)},
    default_on=("cpu",),
    check=_dims(24, 20, 10, 8),
    scaling=tuple(_dims(width, width, 10, 256) for width in (64, 128, 256, 512, 2048, 4096)),
)

MLP_LARGE = Workload(
    name="mlp_large",
    summary="4096-4096-4096-4096-4096, batch 4096, relu, mean square, Adam; f32 master weights",
    kind=Kind.TRAINING,
    defaults={
        "cpu": _dims(512, 512, 512, 512, layers=4),
        "cuda": _dims(4096, 4096, 4096, 4096, layers=4),
    },
    dtypes={"cpu": "float32", "cuda": "bfloat16"},
    default_on=("cuda",),
    size=size,
    cost=cost,
    make=make_plain,
    forward=mean_square,
    check=_dims(64, 64, 64, 32, layers=4),
    scaling=tuple(_dims(w, w, w, w, layers=4) for w in (256, 512, 1024, 2048)),
    optimizer=ADAM,
)
