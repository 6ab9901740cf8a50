"""`elementwise`, `chain` and `scalar_chain`: arithmetic on vectors.

`elementwise` is a short formula on long vectors, bound by memory; the chains are many small
operations, the cost of recording and sweeping one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

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


def make_start(rng: np.random.Generator, dims: Dims) -> tuple[Arrays, Arrays]:
    """Draw the vector that the chain starts from."""
    return [rng.random(dims["n"]).astype(np.float32)], []


def follow(ops: Ops, dims: Dims, params: Sequence[Array], batch: Sequence[Array]) -> Array:
    """Return sum(z) after `links` times z = z * 1.001 + 0.01."""
    (z,) = params
    for _ in range(dims["links"]):
        z = z * 1.001 + 0.01
    return ops.sum(z)


def chain_size(dims: Dims) -> Size:
    """Label by elements, and by links where they are not the usual 50."""
    links = "" if dims["links"] == 50 else f" x {dims['links']} links"
    return Size(f"{dims['n']}{links}", dims["n"], depth=dims["links"])


def chain_cost(dims: Dims, dtype: str) -> Cost:
    """Read x, write its gradient."""
    return Cost(bytes=2 * ITEM_SIZE[dtype] * dims["n"], parameters=dims["n"])


# 1.001 is no number of bfloat16, and the chain raises it to the 50th power.
TOLERANCE = {"float64": 1e-10, "float32": 1e-4, "bfloat16": 0.1, "float16": 2e-2}


def _dims(n: int, links: int = 50) -> Dims:
    return {"n": n, "links": links}


CHAIN = replace(
    ELEMENTWISE,
    name="chain",
    summary="50 times z = z * 1.001 + 0.01 on 1024 elements, sum, gradient",
    defaults={"cpu": _dims(1024), "cuda": _dims(1024)},
    size=chain_size,
    cost=chain_cost,
    make=make_start,
    forward=follow,
    check=_dims(5, 50),
    scaling=(
        *(_dims(2**power) for power in (4, 7, 13, 16, 19, 22)),
        *(_dims(1024, links) for links in (10, 25, 100, 200)),
    ),
    tolerance=TOLERANCE,
)

SCALAR_CHAIN = replace(
    CHAIN,
    name="scalar_chain",
    summary="the same chain on one element: nothing but the cost per operation",
    defaults={"cpu": _dims(1), "cuda": _dims(1)},
    default_on=("cpu",),
    check=_dims(1, 7),
    scaling=tuple(_dims(1, links) for links in (10, 25, 100, 200)),
)
