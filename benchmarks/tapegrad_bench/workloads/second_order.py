"""`hvp` and `jacobian`: derivatives of derivatives, and of every output."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tapegrad_bench.precision import ITEM_SIZE
from tapegrad_bench.results import Size
from tapegrad_bench.workload import Array, Arrays, Cost, Dims, Kind, Ops, Workload


def make(rng: np.random.Generator, dims: Dims) -> tuple[Arrays, Arrays]:
    """Draw x, the matrix and a direction."""
    n = dims["n"]
    matrix = rng.standard_normal((n, n), dtype=np.float32) * np.float32(n**-0.5)
    x, direction = (rng.standard_normal(n, dtype=np.float32) for _ in range(2))
    return [x], [matrix, direction]


def vector(ops: Ops, dims: Dims, params: Sequence[Array], batch: Sequence[Array]) -> Array:
    """Return tanh(A tanh(A x))."""
    (x,), matrix = params, batch[0]
    return ops.tanh(ops.matvec(matrix, ops.tanh(ops.matvec(matrix, x))))


def scalar(ops: Ops, dims: Dims, params: Sequence[Array], batch: Sequence[Array]) -> Array:
    """Return the sum of that vector."""
    return ops.sum(vector(ops, dims, params, batch))


def size(dims: Dims) -> Size:
    """Label by the length of x."""
    return Size(str(dims["n"]), dims["n"] ** 2)


def hvp_cost(dims: Dims, dtype: str) -> Cost:
    """Two products with vectors forward, two backward, and the derivatives of all four."""
    n = dims["n"]
    return Cost(bytes=ITEM_SIZE[dtype] * n * n, flops=14 * n * n, parameters=n)


def jacobian_cost(dims: Dims, dtype: str) -> Cost:
    """One product of matrices is enough: diag(1 - b^2) A diag(1 - a^2) A."""
    n = dims["n"]
    return Cost(bytes=2 * ITEM_SIZE[dtype] * n * n, flops=2 * n**3, parameters=n)


HVP = Workload(
    name="hvp",
    summary="the Hessian of sum(tanh(A tanh(A x))) times a vector",
    kind=Kind.HVP,
    defaults={"cpu": {"n": 256}, "cuda": {"n": 256}},
    dtypes={"cpu": "float32", "cuda": "float32"},
    default_on=("cpu",),
    size=size,
    cost=hvp_cost,
    make=make,
    forward=scalar,
    check={"n": 24},
    scaling=tuple({"n": n} for n in (32, 64, 128, 512, 1024, 2048)),
)

JACOBIAN = replace(
    HVP,
    name="jacobian",
    summary="all derivatives of tanh(A tanh(A x))",
    kind=Kind.JACOBIAN,
    defaults={"cpu": {"n": 64}, "cuda": {"n": 64}},
    cost=jacobian_cost,
    forward=vector,
    check={"n": 12},
    scaling=tuple({"n": n} for n in (16, 32, 128, 256)),
)
