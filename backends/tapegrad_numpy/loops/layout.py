"""Iteration spaces with merged axes, and their division into tasks."""

from __future__ import annotations

import math
from typing import NamedTuple

from tapegrad.core.trace.loop import INSIDE, Loop, LoopInput, Shape

TASK_ELEMENTS = 1 << 15
"""The approximate number of elements per task."""
MANY = 8 * TASK_ELEMENTS
"""The number of elements from which long reductions are sliced."""
SLICES = 64
"""The most slices of a long reduction; fixed, so that threads do not change results."""
ROWS = 128
"""The fewest rows of a slice of a reduction."""
COLUMNS = 1024
"""The number of adjacent results of a reduction along outer axes that a task computes."""


class Space(NamedTuple):
    """Merged axes, outermost first: their sizes and the strides of arrays in elements."""

    sizes: Shape
    combined: tuple[bool, ...]
    steps: tuple[Shape, ...]
    """The strides per input, 0 along axes that broadcast."""
    whole: Shape
    """The strides of an array of the full space."""
    members: tuple[tuple[int, ...], ...] = ()
    """The axes of the loop that each axis is made of."""

    @property
    def kept_outer(self) -> list[int]:
        return [axis for axis in range(len(self.sizes) - 1) if not self.combined[axis]]

    @property
    def combined_outer(self) -> list[int]:
        return [axis for axis in range(len(self.sizes) - 1) if self.combined[axis]]


def merge_axes(loop: Loop) -> Space:
    """Merge adjacent axes that are contiguous in all inputs.

    A kept axis and a reduced one are not merged. A loop of one element has one axis of length 1.
    A loop with stages has a reduced axis, if need be one of length 1 at the end.
    """
    rank = len(loop.shape)
    count = len(loop.inputs)
    own = [_steps_of(given, rank) for given in loop.inputs] + [_steps(loop.shape, rank)]
    own += _standing_alone(loop)
    sizes: list[int] = []
    members: list[tuple[int, ...]] = []
    combined: list[bool] = []
    steps: list[list[int]] = [[] for _ in own]
    for axis, size in enumerate(loop.shape):
        if size == 1:
            continue
        is_combined = axis in loop.axes
        follows = bool(sizes) and combined[-1] == is_combined
        if follows and all(s[-1] == o[axis] * size for s, o in zip(steps, own)):
            sizes[-1] *= size
            members[-1] += (axis,)
            for joined_steps, o in zip(steps, own):
                joined_steps[-1] = o[axis]
        else:
            sizes.append(size)
            members.append((axis,))
            combined.append(is_combined)
            for joined_steps, o in zip(steps, own):
                joined_steps.append(o[axis])
    if loop.stages and not any(combined):
        sizes.append(1)
        members.append(())
        combined.append(True)
        for joined_steps in steps:
            joined_steps.append(0)
    if not sizes:
        combines = any(output.combine for output in loop.outputs)
        return Space((1,), (combines,), tuple((0,) for _ in loop.inputs), (1,))
    return Space(
        tuple(sizes),
        tuple(combined),
        tuple(tuple(s) for s in steps[:count]),
        tuple(steps[count]),
        tuple(members),
    )


def _steps_of(read: LoopInput, rank: int) -> list[int]:
    """The strides of an input along the axes of the loop."""
    if read.window is None:
        return _steps(read.seen, rank)
    found = [0] * rank
    for k, one in enumerate(read.window):
        if one.axis is not None:
            found[one.axis] += math.prod(read.shape[k + 1 :]) * one.step
    return found


def _standing_alone(loop: Loop) -> list[list[int]]:
    """Strides that keep axes along which an input moves from being merged with others."""
    axes = {
        one.axis
        for read in loop.inputs
        for one in read.window or ()
        if one.axis is not None and one.mode != INSIDE
    }
    return [[int(axis == alone) for axis in range(len(loop.shape))] for alone in sorted(axes)]


def _steps(seen: Shape, rank: int) -> list[int]:
    steps, step = [], 1
    for size in reversed(seen):
        steps.append(0 if size == 1 else step)
        step *= size
    return [0] * (rank - len(seen)) + steps[::-1]


class Cut(NamedTuple):
    """The division of a space into tasks: the first integers that the C functions read."""

    inner: int
    """The length of the innermost axis."""
    piece: int
    """The length of a part of it that one task processes."""
    pieces: int
    rows: int
    """The product of the kept axes before the innermost."""
    rows_at_once: int
    """The number of rows per task."""
    deep: int
    """The product of the reduced axes before the innermost."""
    slices: int
    """The number of slices of a reduction."""
    share: int
    """The number of steps of a reduction per slice."""
    tasks: int
    results: int
    """The number of elements of a reduced output."""
    elements: int
    """The number of elements, times their weight: a measure of its time."""


def cut(space: Space, combines: bool, piece: int, may_slice: bool = True, weight: int = 1) -> Cut:
    """Divide a space into tasks, by its sizes and the weight of an element alone."""
    inner = space.sizes[-1]
    rows = math.prod(space.sizes[axis] for axis in space.kept_outer)
    deep = math.prod(space.sizes[axis] for axis in space.combined_outer)
    by_columns = combines and not space.combined[-1]
    by_rows = combines and space.combined[-1]
    piece = max(1, min(piece, COLUMNS if by_columns else inner, inner))
    pieces = -(-inner // piece)
    # The parts along the inner axis, and the steps of one reduction.
    parts, steps = (1, deep * pieces) if by_rows else (pieces, deep)
    elements = rows * deep * inner
    slices = 1
    if combines and may_slice and rows * parts < SLICES and elements >= MANY:
        slices = max(1, min(SLICES, steps if by_rows else steps // ROWS))
    row = deep * (inner if by_rows else piece)
    rows_at_once = 1 if slices > 1 else max(1, TASK_ELEMENTS // max(1, row * weight))
    return Cut(
        inner, piece, pieces, rows, rows_at_once, deep, slices,
        share=-(-steps // slices),
        tasks=-(-rows // rows_at_once) * parts * slices,
        results=rows * (inner if by_columns else 1),
        elements=elements * weight,
    )  # fmt: skip
