"""What row and column kernels ask of arrays, and the way out to the generic kernels."""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np

from tapegrad.core.primitive import PRIMITIVES
from tapegrad_cupy.elementwise.conversions import converted
from tapegrad_cupy.namespace import CupyNamespace
from tapegrad_cupy.replay import refuse
from tapegrad_cupy.rows.row_launch import LABELS, TYPES

Array = Any

_xp = CupyNamespace()


def generic(name: str, *arrays: Array, **params: Any) -> Any:
    """Run the generic kernel of the primitive."""
    refuse()
    forward: Any = PRIMITIVES[name].forward
    return forward(_xp, *arrays, **params)


def fits(*arrays: Array) -> bool:
    """Tell whether the arrays have one dtype, and one that the kernels take."""
    dtype = arrays[0].dtype
    return dtype.name in TYPES and all([array.dtype == dtype for array in arrays])


def compact(x: Array) -> Array:
    """Return x in row order, itself where it is."""
    if x.flags.c_contiguous:
        return x
    refuse()
    return cupy.ascontiguousarray(x)


def class_numbers(labels: Array) -> tuple[Array, str]:
    """Return class numbers of a dtype that the kernels read, and the name of its CUDA type."""
    if labels.dtype.name not in LABELS:
        labels = converted(labels, np.int64)
    return compact(labels), LABELS[labels.dtype.name]


def wide(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """Return the dtype that kernels compute with."""
    return np.dtype(np.float64 if dtype == np.float64 else np.float32)
