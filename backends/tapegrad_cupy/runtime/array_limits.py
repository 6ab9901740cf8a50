"""Shapes that CUDA arrays cannot have. CuPy checks neither the number of axes nor that of bytes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tapegrad.core.argument_checks import check_elements
from tapegrad.errors import ShapeError

Shape = tuple[int, ...]

MOST_DIMENSIONS = 32


def check_dimensions(shape: Sequence[int]) -> None:
    """Raise an error if no array on a CUDA device has this many dimensions."""
    if len(shape) > MOST_DIMENSIONS:
        raise ShapeError(
            f"Arrays on a CUDA device have at most {MOST_DIMENSIONS} dimensions. Got "
            f"{len(shape)}. Merge some of them by reshape, or compute on the device 'cpu'."
        )


def broadcast_shape(shapes: Sequence[Shape]) -> Shape:
    """Return the common shape of operands, or raise an error if no array can have it."""
    for shape in shapes:
        check_dimensions(shape)
    found = np.broadcast_shapes(*shapes)
    check_elements("The operation", found)
    return found
