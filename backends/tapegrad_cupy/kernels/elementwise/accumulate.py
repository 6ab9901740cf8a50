"""In-place addition, by which a reverse sweep accumulates cotangents."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import cupy
import numpy as np

from tapegrad.core.trace.expression import Expression, array_input
from tapegrad_cupy.kernels.elementwise.formula import (
    DTYPES,
    MOST_PLANS,
    batched_variants,
    single_kernel,
)
from tapegrad_cupy.kernels.elementwise.source import Operand
from tapegrad_cupy.launch.cuda_source import Source
from tapegrad_cupy.launch.strided_layout import full_vector_length

_current_device = cupy.cuda.runtime.getDevice
_launches: dict[Any, Callable[..., None]] = {}


def add_into(total: Any, addend: Any) -> None:
    """Add `addend` to `total` in place; both have one shape and dtype."""
    total_address, addend_address = total.data.ptr, addend.data.ptr
    dtype, size = total.dtype, total.size
    contiguous = total._c_contiguous and addend._c_contiguous and total.shape == addend.shape
    here = _current_device()
    if not contiguous or addend.dtype != dtype or not size or total.data.device_id != here:
        total += addend
        return
    key = (dtype, size, (total_address | addend_address) & 15, here)
    launch = _launches.get(key)
    if launch is None:
        if len(_launches) >= MOST_PLANS:
            _launches.clear()
        launch = _launches[key] = _launcher(dtype, size, aligned=not key[2])
    launch(total_address, addend_address, total_address, size)


def _launcher(dtype: Any, size: int, aligned: bool) -> Callable[..., None]:
    width = full_vector_length(dtype.itemsize) if aligned else 1
    return single_kernel(*_sum(dtype), width, size)


def _sum(dtype: Any) -> tuple[tuple[Expression, ...], list[Operand]]:
    inputs = (array_input(0, dtype), array_input(1, dtype))
    return (Expression("add", dtype, inputs),), [Operand(dtype, 1)] * 2


def variants() -> Iterator[Source]:
    """Yield all sources of this module."""
    yield from batched_variants("add", {dtype: [_sum(np.dtype(dtype))] for dtype in DTYPES})
