"""`elementwise`: a short formula on long vectors, bound by memory."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tapegrad_bench.precision import ITEM_SIZE
from tapegrad_bench.results import Size
from tapegrad_bench.workload import Array, Arrays, Cost, Dims, Kind, Ops, Workload


def make(rng: np.random.Generator, dims: Dims) -> tuple[Arrays, Arrays]:
    """Draw x, w and b; b is not centred, so that the sum has no cancellation to be judged by."""
    x, w, b = (rng.standard_normal(dims["n"], dtype=np.float32) for _ in range(3))
    return [x, w, b + np.float32(0.5)], []


def forward(ops: Ops, dims: Dims, params: Sequence[Array], batch: Sequence[Array]) -> Array:
    """Return sum(tanh(x * w + b))."""
    x, w, b = params
    return ops.sum(ops.tanh(x * w + b))


def size(dims: Dims) -> Size:
    """Label powers of two as such."""
    n = dims["n"]
    is_power = n >= 1024 and n & (n - 1) == 0
    return Size(f"2^{n.bit_length() - 1}" if is_power else str(n), n)


def cost(dims: Dims, dtype: str) -> Cost:
    """Read three vectors, write three gradients."""
    return Cost(bytes=6 * ITEM_SIZE[dtype] * dims["n"], parameters=3 * dims["n"])


ELEMENTWISE = Workload(
    name="elementwise",
    summary="sum(tanh(x * w + b)) and its three gradients",
    kind=Kind.GRADIENT,
    defaults={"cpu": {"n": 2**20}, "cuda": {"n": 2**26}},
    dtypes={"cpu": "float32", "cuda": "float32"},
    default_on=("cpu", "cuda"),
    size=size,
    cost=cost,
    make=make,
    forward=forward,
    check={"n": 1000},
    scaling=tuple({"n": 2**power} for power in (10, 12, 14, 16, 18, 20, 22, 24)),
)
