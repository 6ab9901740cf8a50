"""`import` and `install`: what a library costs before it computes anything."""

from __future__ import annotations

from dataclasses import replace

from tapegrad_bench.results import Size
from tapegrad_bench.workload import Cost, Dims, Kind, Workload


def size(dims: Dims) -> Size:
    """There is one size only; the label says what the figure does not count."""
    return Size("beyond NumPy", 0)


def cost(dims: Dims, dtype: str) -> Cost:
    """Nothing is needed."""
    return Cost()


IMPORT = Workload(
    name="import",
    summary="seconds of importing the library beyond NumPy, in a fresh process",
    kind=Kind.FOOTPRINT,
    defaults={"cpu": {}, "cuda": {}},
    dtypes={"cpu": "-", "cuda": "-"},
    default_on=("cpu",),
    size=size,
    cost=cost,
)

INSTALL = replace(
    IMPORT,
    name="install",
    summary="megabytes that the library and what it needs take on disk, beyond NumPy",
)
