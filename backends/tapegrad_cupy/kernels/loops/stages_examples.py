"""Example loops with stages: a softmax, and the gradient of a layer normalization.

Tests compile and run them. Both have outputs per element and per row.
"""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from tapegrad.core.trace.expression import array_input, constant, floating
from tapegrad.core.trace.loop import Loop, LoopInput, LoopOutput

Shape = tuple[int, ...]

STAGED_SPACES: dict[str, tuple[Shape, int]] = {
    "rows of one": ((1000, 1), 1),
    "parts of warps": ((1001, 40), 1),
    "warps": ((8192, 256), 1),
    "odd warps": ((5001, 123), 1),
    "blocks": ((8192, 4096), 1),
    "half blocks": ((8192, 16384), 1),
    "full blocks": ((8192, 32768), 1),
    "odd blocks": ((300, 5001), 1),
    "few rows": ((3, 5000), 1),
    "long rows": ((200, 100000), 1),
    "two axes": ((64, 8, 100), 2),
    "very many": ((1 << 17, 1 << 15), 1),
}
"""Iteration spaces by their schedule, with the number of reduced axes."""


def softmax_example(shape: Shape, reduced: int, dtype: np.dtype[Any]) -> Loop:
    """Return a softmax along the last axes, with its logarithms of sums."""
    x, top, total = (array_input(i, dtype) for i in range(3))
    rows, axes = _rows(shape, reduced)
    powers = floating("exp", x - top)
    stages = (
        LoopOutput(x, rows, "maximum", axes),
        LoopOutput(powers, rows, "add", axes),
    )
    outputs = (
        LoopOutput(powers / total, shape),
        LoopOutput(top + floating("log", total), rows, None, axes),
    )
    return Loop(shape, (LoopInput(shape, shape, dtype),), outputs, stages)


def normalization_example(shape: Shape, reduced: int, dtype: np.dtype[Any]) -> Loop:
    """Return the gradient of a layer normalization with a weight per column and one per row.

    Its inputs are the operand, the gradient of the result, and the weights.
    """
    x, g, columns, per_row = (array_input(i, dtype) for i in range(4))
    mean, variance, scaled, projected = (array_input(4 + k, dtype) for k in range(4))
    rows, axes = _rows(shape, reduced)
    count = constant(prod(shape[axis] for axis in axes), dtype)
    average = array_input(0, dtype) / count
    deviation = floating("sqrt", variance + constant(1e-3, dtype))
    centred = x - mean
    weighted = g * columns * per_row
    stages = (
        LoopOutput(x, rows, "add", axes, average),
        LoopOutput(centred * centred, rows, "add", axes, average),
        LoopOutput(weighted, rows, "add", axes, average),
        LoopOutput(weighted * centred / deviation, rows, "add", axes, average),
    )
    normal = centred / deviation
    outputs = (
        LoopOutput((weighted - scaled - normal * projected) / deviation, shape),
        LoopOutput(mean, rows, None, axes),
        LoopOutput(per_row / deviation, rows, None, axes),
    )
    column, row = _broadcast(shape, reduced)
    inputs = (
        LoopInput(shape, shape, dtype),
        LoopInput(shape, shape, dtype),
        LoopInput(shape[len(shape) - reduced :], column, dtype),
        LoopInput(rows, row, dtype),
    )
    return Loop(shape, inputs, outputs, stages)


def _rows(shape: Shape, reduced: int) -> tuple[Shape, Shape]:
    """Return the shape of one value per row, and the reduced axes."""
    kept = len(shape) - reduced
    return shape[:kept], tuple(range(kept, len(shape)))


def _broadcast(shape: Shape, reduced: int) -> tuple[Shape, Shape]:
    """Return the shapes of one value per column and of one per row, with axes of length 1."""
    kept = len(shape) - reduced
    return (1,) * kept + shape[kept:], shape[:kept] + (1,) * reduced
