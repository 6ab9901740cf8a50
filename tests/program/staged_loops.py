"""Loops with stages, and what they compute in double precision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tapegrad.core.trace.expression import (
    Expression,
    array_input,
    choice,
    comparison,
    constant,
    floating,
)
from tapegrad.core.trace.loop import WRAPS, ZEROS, Along, Loop, LoopInput, LoopOutput
from tests.program.reference_loops import results_of

Shape = tuple[int, ...]
DType = np.dtype[Any]
Make = Callable[[Shape, int, DType], Loop]

F4, F8, I4 = np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.int32)


class Rows:
    """The shapes of inputs and outputs of a loop that reduces the last axes of a space."""

    def __init__(self, shape: Shape, reduced: int, dtype: DType) -> None:
        kept = len(shape) - reduced
        self.shape, self.dtype = shape, dtype
        self.rows, self.columns = shape[:kept], shape[kept:]
        self.axes = tuple(range(kept, len(shape)))
        self.length = int(np.prod(self.columns))

    def whole(self, dtype: DType | None = None) -> LoopInput:
        return LoopInput(self.shape, self.shape, dtype or self.dtype)

    def per_row(self, dtype: DType | None = None) -> LoopInput:
        seen = self.rows + (1,) * len(self.columns)
        return LoopInput(self.rows, seen, dtype or self.dtype)

    def per_column(self, dtype: DType | None = None) -> LoopInput:
        seen = (1,) * len(self.rows) + self.columns
        return LoopInput(self.columns, seen, dtype or self.dtype)

    def number(self) -> LoopInput:
        return LoopInput((), (1,) * len(self.shape), self.dtype)

    def stage(self, x: Expression, combine: str, finish: Expression | None = None) -> LoopOutput:
        return LoopOutput(x, self.rows, combine, self.axes, finish)

    def mean(self, x: Expression) -> LoopOutput:
        assert x.dtype is not None
        total = array_input(0, x.dtype) / constant(self.length, x.dtype)
        return self.stage(x, "add", total)

    def element(self, x: Expression) -> LoopOutput:
        return LoopOutput(x, self.shape)

    def row(self, x: Expression) -> LoopOutput:
        return LoopOutput(x, self.rows, None, self.axes)


def softmax(shape: Shape, reduced: int, dtype: DType) -> Loop:
    """One input; stages that read each other."""
    own = Rows(shape, reduced, dtype)
    x, top, total = (array_input(i, dtype) for i in range(3))
    powers = floating("exp", x - top)
    stages = (own.stage(x, "maximum"), own.stage(powers, "add"))
    return Loop(shape, (own.whole(),), (own.element(powers / total),), stages)


def log_softmax(shape: Shape, reduced: int, dtype: DType) -> Loop:
    """Outputs per element and per row, of a part that is constant along the row."""
    own = Rows(shape, reduced, dtype)
    x, top, total = (array_input(i, dtype) for i in range(3))
    shift = top + floating("log", total)
    stages = (own.stage(x, "maximum"), own.stage(floating("exp", x - top), "add"))
    outputs = (own.row(shift), own.element(x - shift), own.row(top))
    return Loop(shape, (own.whole(),), outputs, stages)


def variance(shape: Shape, reduced: int, dtype: DType) -> Loop:
    """No output per element."""
    own = Rows(shape, reduced, dtype)
    x, mean, spread = (array_input(i, dtype) for i in range(3))
    stages = (own.mean(x), own.mean((x - mean) * (x - mean)))
    outputs = (own.row(spread), own.row(mean + floating("sqrt", spread)))
    return Loop(shape, (own.whole(),), outputs, stages)


def normalization(shape: Shape, reduced: int, dtype: DType) -> Loop:
    """Weights per column, per row and for all, beside the operand."""
    own = Rows(shape, reduced, dtype)
    x, gain, bias, scale, epsilon = (array_input(i, dtype) for i in range(5))
    mean, spread = array_input(5, dtype), array_input(6, dtype)
    inputs = (own.whole(), own.per_column(), own.per_column(), own.per_row(), own.number())
    stages = (own.mean(x), own.mean((x - mean) * (x - mean)))
    deviation = floating("sqrt", spread + epsilon * epsilon + constant(0.1, dtype))
    normal = (x - mean) / deviation
    outputs = (own.element(normal * gain * scale + bias), own.row(scale / deviation))
    return Loop(shape, inputs, outputs, stages)


def normalization_gradient(shape: Shape, reduced: int, dtype: DType) -> Loop:
    """Two operands, and stages of which some do not read each other."""
    own = Rows(shape, reduced, dtype)
    x, g, gain = (array_input(i, dtype) for i in range(3))
    mean, along, spread, across = (array_input(3 + k, dtype) for k in range(4))
    weighted = g * gain
    deviation = floating("sqrt", spread + constant(0.1, dtype))
    normal = (x - mean) / deviation
    stages = (
        own.mean(x),
        own.mean(weighted),
        own.mean((x - mean) * (x - mean)),
        own.mean(weighted * normal),
    )
    inputs = (own.whole(), own.whole(), own.per_column())
    gradient = (weighted - along - normal * across) / deviation
    return Loop(shape, inputs, (own.element(gradient), own.element(normal * g)), stages)


def cross_entropy(shape: Shape, reduced: int, dtype: DType) -> Loop:
    """Losses and their gradient; labels and column numbers are integers."""
    own = Rows(shape, reduced, dtype)
    x, label, column, g = (
        array_input(0, dtype), array_input(1, I4), array_input(2, I4), array_input(3, dtype),
    )  # fmt: skip
    top, picked, total = (array_input(4 + k, dtype) for k in range(3))
    powers = floating("exp", x - top)
    is_label = comparison("equal", column, label)
    stages = (
        own.stage(x, "maximum"),
        own.stage(choice(is_label, x, constant(0, dtype)), "add"),
        own.stage(powers, "add"),
    )
    one = choice(is_label, constant(1, dtype), constant(0, dtype))
    outputs = (
        own.row(top + floating("log", total) - picked),
        own.element((powers / total - one) * g),
    )
    inputs = (own.whole(), own.per_row(I4), own.per_column(I4), own.per_row())
    return Loop(shape, inputs, outputs, stages)


def counts_and_extremes(shape: Shape, reduced: int, dtype: DType) -> Loop:
    """Stages of integers, a product, a minimum, and one that reads stages only."""
    own = Rows(shape, reduced, dtype)
    x, y = array_input(0, dtype), array_input(1, I4)
    count, least, product, most = (
        array_input(2, I4), array_input(3, dtype), array_input(4, dtype), array_input(5, I4),
    )  # fmt: skip
    positive = comparison("greater", x, constant(0, dtype))
    near_one = x * constant(2.0**-12, dtype) + constant(1, dtype)
    stages = (
        own.stage(choice(positive, constant(1, I4), constant(0, I4)), "add"),
        own.stage(x, "minimum"),
        own.stage(near_one, "multiply"),
        own.stage(y, "maximum"),
        own.stage(least * constant(1 / own.length, dtype), "add"),
    )
    repeated = array_input(6, dtype)
    shifted = (x - least) * product + Expression("astype", dtype, (most - y,))
    outputs = (own.row(count), own.element(shifted), own.row(repeated), own.row(most))
    return Loop(shape, (own.whole(), own.whole(I4)), outputs, stages)


LOOPS: dict[str, Make] = {
    "softmax": softmax,
    "log_softmax": log_softmax,
    "variance": variance,
    "normalization": normalization,
    "normalization_gradient": normalization_gradient,
    "cross_entropy": cross_entropy,
    "counts_and_extremes": counts_and_extremes,
}


def draw(loop: Loop, seed: int = 0) -> list[np.ndarray]:
    """Return arrays for the inputs; integers are at most the length of the last axis."""
    rng = np.random.default_rng(seed)
    return [
        rng.integers(0, max(loop.shape[-1], 2), size=read.shape).astype(read.dtype)
        if read.dtype.kind in "biu"
        else np.asarray(rng.uniform(-2, 2, size=read.shape)).astype(read.dtype)
        for read in loop.inputs
    ]


def precision_of(name: str, length: int, dtype: DType, usual: float) -> float:
    """Return the precision of a loop; in a product of a row the rounding errors add up."""
    if name != "counts_and_extremes":
        return usual
    unit = float(np.finfo(np.float64 if dtype.itemsize == 8 else np.float32).eps)
    return usual + 5 * unit * float(length) ** 0.5


def in_double(loop: Loop) -> Loop:
    """Return the same loop with double precision in place of every other."""

    def dtype_for(dtype: DType) -> DType:
        return F8 if dtype.kind == "f" or dtype.name == "bfloat16" else dtype

    def wide(node: Expression) -> Expression:
        operands = tuple(wide(operand) for operand in node.operands)
        dtype = None if node.dtype is None else dtype_for(node.dtype)
        return Expression(node.name, dtype, operands, node.value, node.weak)

    def wide_output(output: LoopOutput) -> LoopOutput:
        finish = None if output.finish is None else wide(output.finish)
        return replace(output, expression=wide(output.expression), finish=finish)

    inputs = tuple(replace(read, dtype=dtype_for(read.dtype)) for read in loop.inputs)
    outputs, stages = (tuple(map(wide_output, some)) for some in (loop.outputs, loop.stages))
    return Loop(loop.shape, inputs, outputs, stages)


def expected(loop: Loop, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return what a loop computes for arrays, in double precision."""
    double = in_double(loop)
    wide = [np.asarray(a, read.dtype) for a, read in zip(arrays, double.inputs, strict=True)]
    with np.errstate(all="ignore"):
        return results_of(double, wide)


def assert_close(
    found: Sequence[Any], wanted: Sequence[np.ndarray], precision: float, least: float = 1.0
) -> None:
    """Compare results with expected ones; integers must be equal.

    Errors may be in proportion to the largest of the results, or to `least`, if that is larger.
    """
    for one, other in zip(found, wanted, strict=True):
        if other.dtype.kind in "biu":
            np.testing.assert_array_equal(one, other)
            continue
        finite = np.abs(other[np.isfinite(other)])
        size = max(least, float(finite.max(initial=0.0)))
        np.testing.assert_allclose(
            np.asarray(one, np.float64), other, rtol=precision, atol=precision * size
        )


def windowed(rows: int, length: int) -> Loop:
    """Return a softmax of an array that is rolled along rows, times weights from other rows.

    The weights of the first two rows are 0, and are also added to an output per row.
    """
    own = Rows((rows, length), 1, F4)
    rolled = (Along(0), Along(1, 0, 1, WRAPS, 3, length))
    moved = (Along(0, 0, 1, ZEROS, -2, rows),)
    inputs = (
        LoopInput(own.shape, own.shape, F4, rolled),
        replace(own.per_row(), window=moved),
        own.whole(),
    )
    x, weight, y, top, total = (array_input(i, F4) for i in range(5))
    powers = floating("exp", x * y - top)
    stages = (own.stage(x * y, "maximum"), own.stage(powers, "add"))
    outputs = (own.element(powers / total * weight), own.row(total + weight))
    return Loop(own.shape, inputs, outputs, stages)
