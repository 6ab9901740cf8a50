"""`convnet`: six blocks of convolution, batch normalisation and relu on small images."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tapegrad_bench.precision import ITEM_SIZE
from tapegrad_bench.results import Size
from tapegrad_bench.workload import Array, Arrays, Cost, Dims, Kind, Ops, Optimizer, Workload

BLOCKS = ((1, 1), (1, 1), (2, 2), (2, 1), (4, 2), (4, 1))
"""Output channels, in units of `width`, and stride of each block."""


def _channels(dims: Dims) -> list[tuple[int, int]]:
    outputs = [factor * dims["width"] for factor, _ in BLOCKS]
    return list(zip([3, *outputs], outputs))


def make(rng: np.random.Generator, dims: Dims) -> tuple[Arrays, Arrays]:
    """Draw filters (gains are 1, biases 0), the last layer, images and labels."""
    params: Arrays = []
    for before, after in _channels(dims):
        filters = rng.standard_normal((3, 3, before, after), dtype=np.float32)
        filters *= np.float32((2 / (9 * before)) ** 0.5)
        params += [filters, np.ones(after, np.float32), np.zeros(after, np.float32)]
    features = _channels(dims)[-1][1]
    dense = rng.standard_normal((features, 10), dtype=np.float32) * np.float32(features**-0.5)
    params += [dense, np.zeros(10, np.float32)]
    shape = (dims["batch"], dims["side"], dims["side"], 3)
    images = rng.standard_normal(shape, dtype=np.float32)
    return params, [images, rng.integers(0, 10, dims["batch"])]


def forward(ops: Ops, dims: Dims, params: Sequence[Array], batch: Sequence[Array]) -> Array:
    """Return the cross entropy of the network."""
    x, labels = batch
    for block, (_, stride) in enumerate(BLOCKS):
        filters, gain, bias = params[3 * block : 3 * block + 3]
        x = ops.relu(ops.batch_norm(ops.conv(x, ops.half(filters), stride), gain, bias))
    logits = ops.spatial_mean(x) @ ops.half(params[-2]) + ops.half(params[-1])
    return ops.cross_entropy(logits, labels)


def size(dims: Dims) -> Size:
    """Label by batch, side and width."""
    label = f"batch {dims['batch']}, {dims['side']}x{dims['side']}, width {dims['width']}"
    elements = dims["batch"] * dims["side"] ** 2 * 3
    return Size(label, elements, batch=dims["batch"], depth=len(BLOCKS))


def cost(dims: Dims, dtype: str) -> Cost:
    """Three convolutions per block, two in the first; momentum reads and writes two arrays.

    Every activation is written once forward and read once backward.
    """
    side, flops, activations, parameters = dims["side"], 0, 0, 0
    for block, ((before, after), (_, stride)) in enumerate(zip(_channels(dims), BLOCKS)):
        side //= stride
        weights, places = 9 * before * after, dims["batch"] * side * side
        flops += (3 if block else 2) * 2 * places * weights
        activations += places * after
        parameters += weights + 2 * after
    moved = 2 * activations * ITEM_SIZE[dtype] + 16 * parameters
    return Cost(bytes=moved, flops=flops, parameters=parameters + 10 * after + 10)


def _dims(batch: int, side: int = 32, width: int = 64) -> Dims:
    return {"batch": batch, "side": side, "width": width}


CONVNET = Workload(
    name="convnet",
    summary="6 conv-bn-relu blocks 3-64-64-128(s2)-128-256(s2)-256, pool, dense 10, SGD momentum",
    kind=Kind.TRAINING,
    defaults={"cpu": _dims(8, 32, 16), "cuda": _dims(256)},
    dtypes={"cpu": "float32", "cuda": "bfloat16"},
    default_on=("cuda",),
    size=size,
    cost=cost,
    make=make,
    forward=forward,
    check=_dims(16, 16, 8),
    scaling=tuple(_dims(batch) for batch in (8, 32, 64, 128)),
    optimizer=Optimizer("momentum", rate=0.01),
    # Most of a gradient cancels in batch normalisation, and rounding does not: PyTorch and JAX in
    # bfloat16 are 10 to 30 percent off as well. A wrong formula is off by more than its size.
    tolerance={"float64": 1e-8, "float32": 1e-3, "bfloat16": 0.4, "float16": 0.1},
)
