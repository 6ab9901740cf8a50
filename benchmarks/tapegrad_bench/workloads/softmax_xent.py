"""`softmax_xent`: cross entropy over a large vocabulary and the gradient of the logits."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tapegrad_bench.precision import ITEM_SIZE
from tapegrad_bench.results import Size
from tapegrad_bench.workload import Array, Arrays, Cost, Dims, Kind, Ops, Workload


def make(rng: np.random.Generator, dims: Dims) -> tuple[Arrays, Arrays]:
    """Draw logits and labels."""
    rows, classes = dims["rows"], dims["classes"]
    logits = rng.standard_normal((rows, classes), dtype=np.float32)
    return [logits], [rng.integers(0, classes, rows)]


def forward(ops: Ops, dims: Dims, params: Sequence[Array], batch: Sequence[Array]) -> Array:
    """Return the mean cross entropy."""
    return ops.cross_entropy(params[0], batch[0])


def size(dims: Dims) -> Size:
    """Label by rows and classes."""
    rows, classes = dims["rows"], dims["classes"]
    return Size(f"{rows} x {classes}", rows * classes, batch=rows)


def cost(dims: Dims, dtype: str) -> Cost:
    """Read the logits, write their gradient."""
    elements = dims["rows"] * dims["classes"]
    return Cost(bytes=2 * ITEM_SIZE[dtype] * elements, parameters=elements)


def _dims(rows: int, classes: int) -> Dims:
    return {"rows": rows, "classes": classes}


SOFTMAX_XENT = Workload(
    name="softmax_xent",
    summary="mean cross entropy of logits and integer labels; gradient of the logits",
    kind=Kind.GRADIENT,
    defaults={"cpu": _dims(256, 5030), "cuda": _dims(8192, 50304)},
    dtypes={"cpu": "float32", "cuda": "bfloat16"},
    default_on=("cuda",),
    size=size,
    cost=cost,
    make=make,
    forward=forward,
    check=_dims(33, 257),
    scaling=tuple(_dims(rows, 50304) for rows in (64, 256, 1024, 4096)),
)
