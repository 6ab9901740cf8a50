"""Checks and conversions of the arrays that row kernels take."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad_cupy.kernels.elementwise.conversions import converted
from tapegrad_cupy.kernels.rows.row_launch import LABELS, TYPES
from tapegrad_cupy.launch.cuda_source import contiguous

Array = Any


def fits(*arrays: Array) -> bool:
    """Return whether the arrays have one dtype that the kernels take."""
    dtype = arrays[0].dtype
    return dtype.name in TYPES and all([array.dtype == dtype for array in arrays])


def class_numbers(labels: Array) -> tuple[Array, str]:
    """Return contiguous labels in a dtype that the kernels take, and its CUDA type."""
    if labels.dtype.name not in LABELS:
        labels = converted(labels, np.int64)
    return contiguous(labels), LABELS[labels.dtype.name]
