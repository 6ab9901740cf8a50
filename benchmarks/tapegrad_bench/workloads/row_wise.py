"""`softmax_xent` and `layernorm`: every row of a matrix by itself, and its gradient."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tapegrad_bench.precision import ITEM_SIZE
from tapegrad_bench.results import Size
from tapegrad_bench.workload import Array, Arrays, Cost, Dims, Kind, Ops, Workload


def _dims(rows: int, width: int) -> Dims:
    return {"rows": rows, "width": width}


def size(dims: Dims) -> Size:
    """Label by rows and width."""
    rows, width = dims["rows"], dims["width"]
    return Size(f"{rows} x {width}", rows * width, batch=rows)


def make_logits(rng: np.random.Generator, dims: Dims) -> tuple[Arrays, Arrays]:
    """Draw logits and labels."""
    rows, classes = dims["rows"], dims["width"]
    logits = rng.standard_normal((rows, classes), dtype=np.float32)
    return [logits], [rng.integers(0, classes, rows)]


def cross_entropy(ops: Ops, dims: Dims, params: Sequence[Array], batch: Sequence[Array]) -> Array:
    """Return the mean cross entropy."""
    return ops.cross_entropy(params[0], batch[0])


def cross_entropy_cost(dims: Dims, dtype: str) -> Cost:
    """Read the logits, write their gradient."""
    elements = dims["rows"] * dims["width"]
    return Cost(bytes=2 * ITEM_SIZE[dtype] * elements, parameters=elements)


SOFTMAX_XENT = Workload(
    name="softmax_xent",
    summary="mean cross entropy of logits and integer labels; gradient of the logits",
    kind=Kind.GRADIENT,
    defaults={"cpu": _dims(256, 5030), "cuda": _dims(8192, 50304)},
    dtypes={"cpu": "float32", "cuda": "bfloat16"},
    default_on=("cuda",),
    size=size,
    cost=cross_entropy_cost,
    make=make_logits,
    forward=cross_entropy,
    check=_dims(33, 257),
    scaling=tuple(_dims(rows, 50304) for rows in (64, 256, 1024, 4096)),
)


def make_rows(rng: np.random.Generator, dims: Dims) -> tuple[Arrays, Arrays]:
    """Draw x, gain and bias, and the gradient of the output."""
    rows, width = dims["rows"], dims["width"]
    x, cotangent = (rng.standard_normal((rows, width), dtype=np.float32) for _ in range(2))
    gain, bias = (rng.standard_normal(width, dtype=np.float32) for _ in range(2))
    return [x, gain, bias], [cotangent]


def normalize(ops: Ops, dims: Dims, params: Sequence[Array], batch: Sequence[Array]) -> Array:
    """Return the normalised, scaled and shifted x."""
    return ops.layer_norm(*params)


def normalization_cost(dims: Dims, dtype: str) -> Cost:
    """Forward reads x and writes y; backward reads x and y's gradient and writes x's."""
    elements = dims["rows"] * dims["width"]
    return Cost(bytes=5 * ITEM_SIZE[dtype] * elements, parameters=elements + 2 * dims["width"])


LAYERNORM = replace(
    SOFTMAX_XENT,
    name="layernorm",
    summary="layer normalisation and all three gradients for a given output gradient",
    kind=Kind.PULLBACK,
    defaults={"cpu": _dims(512, 1024), "cuda": _dims(16384, 4096)},
    cost=normalization_cost,
    make=make_rows,
    forward=normalize,
    check=_dims(37, 96),
    scaling=tuple(_dims(rows, 4096) for rows in (16, 64, 256, 1024, 4096)),
)
