"""Convert arrays to another dtype by a kernel whose launches can be replayed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tapegrad.core.trace.expression import Expression, array_input
from tapegrad_cupy.kernels.elementwise.formula import (
    Formula,
    Formulas,
    batched_variants,
    whole_operands,
)
from tapegrad_cupy.launch.cuda_prelude import FLOATS
from tapegrad_cupy.launch.cuda_source import Source

Array = Any


def converted(x: Array, dtype: Any) -> Array:
    """Return `x` in another dtype, without a copy if it has that dtype."""
    wanted = np.dtype(dtype)
    return x if x.dtype == wanted else _convert(x, dtype=wanted)


def _as_dtype(x: Expression, *, dtype: np.dtype[Any]) -> Expression:
    return Expression("astype", dtype, (x,))


_convert = Formula(_as_dtype, lambda x, *, dtype: x.astype(dtype))


def variants() -> Iterator[Source]:
    """Yield all sources of this module."""
    formulas: dict[str, Formulas] = {}
    for dtype in FLOATS:
        x = array_input(0, np.dtype(dtype))
        others = [np.dtype(other) for other in (*FLOATS, "int64") if other != dtype]
        formulas[dtype] = [((_as_dtype(x, dtype=o),), whole_operands([x])) for o in others]
    yield from batched_variants("convert", formulas)
