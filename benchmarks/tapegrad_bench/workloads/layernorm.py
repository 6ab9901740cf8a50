"""`layernorm`: layer normalisation forward and backward for a given output gradient."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tapegrad_bench.precision import ITEM_SIZE
from tapegrad_bench.results import Size
from tapegrad_bench.workload import Array, Arrays, Cost, Dims, Kind, Ops, Workload


def make(rng: np.random.Generator, dims: Dims) -> tuple[Arrays, Arrays]:
    """Draw x, gain and bias, and the gradient of the output."""
    rows, width = dims["rows"], dims["width"]
    x, cotangent = (rng.standard_normal((rows, width), dtype=np.float32) for _ in range(2))
    gain, bias = (rng.standard_normal(width, dtype=np.float32) for _ in range(2))
    return [x, gain, bias], [cotangent]


def forward(ops: Ops, dims: Dims, params: Sequence[Array], batch: Sequence[Array]) -> Array:
    """Return the normalised, scaled and shifted x."""
    return ops.layer_norm(*params)


def size(dims: Dims) -> Size:
    """Label by rows and width."""
    rows, width = dims["rows"], dims["width"]
    return Size(f"{rows} x {width}", rows * width, batch=rows)


def cost(dims: Dims, dtype: str) -> Cost:
    """Forward reads x and writes y; backward reads x and y's gradient and writes x's."""
    elements = dims["rows"] * dims["width"]
    return Cost(bytes=5 * ITEM_SIZE[dtype] * elements, parameters=elements + 2 * dims["width"])


def _dims(rows: int, width: int) -> Dims:
    return {"rows": rows, "width": width}


LAYERNORM = Workload(
    name="layernorm",
    summary="layer normalisation and all three gradients for a given output gradient",
    kind=Kind.PULLBACK,
    defaults={"cpu": _dims(512, 1024), "cuda": _dims(16384, 4096)},
    dtypes={"cpu": "float32", "cuda": "bfloat16"},
    default_on=("cuda",),
    size=size,
    cost=cost,
    make=make,
    forward=forward,
    check=_dims(37, 96),
    scaling=tuple(_dims(rows, 4096) for rows in (16, 64, 256, 1024, 4096)),
)
