"""The space of a loop in as few axes as possible, and how it is cut into tasks."""

from __future__ import annotations

import math
from typing import NamedTuple

from tapegrad.core.loop import Loop, Shape

TASK_ELEMENTS = 1 << 15
"""About how many elements a thread takes at once."""
MANY = 8 * TASK_ELEMENTS
"""From how many elements on several threads are worth their start."""
SLICES = 64
"""Into how many parts a long combination is cut at most; fixed, so that threads change nothing."""
ROWS = 128
"""How many rows a slice of such a combination has at least."""
COLUMNS = 1024
"""How many results of a combination along leading axes are gathered side by side."""


class Space(NamedTuple):
    """Joined axes, outermost first: their sizes, and the steps of arrays in elements along them."""

    sizes: Shape
    combined: tuple[bool, ...]
    steps: tuple[Shape, ...]
    """Per input; 0 along axes that it is repeated along."""
    whole: Shape
    """The steps of an array that has an element for every one of the space."""

    @property
    def kept_outer(self) -> list[int]:
        return [axis for axis in range(len(self.sizes) - 1) if not self.combined[axis]]

    @property
    def combined_outer(self) -> list[int]:
        return [axis for axis in range(len(self.sizes) - 1) if self.combined[axis]]


def joined(loop: Loop) -> Space:
    """Join neighbouring axes that all inputs walk through in one go.

    A kept axis and a combined one stay apart. A loop of one element has one axis of length 1.
    """
    rank = len(loop.shape)
    own = [_steps(given.seen, rank) for given in loop.inputs] + [_steps(loop.shape, rank)]
    sizes: list[int] = []
    combined: list[bool] = []
    steps: list[list[int]] = [[] for _ in own]
    for axis, size in enumerate(loop.shape):
        if size == 1:
            continue
        is_combined = axis in loop.axes
        follows = bool(sizes) and combined[-1] == is_combined
        if follows and all(s[-1] == o[axis] * size for s, o in zip(steps, own)):
            sizes[-1] *= size
            for joined_steps, o in zip(steps, own):
                joined_steps[-1] = o[axis]
        else:
            sizes.append(size)
            combined.append(is_combined)
            for joined_steps, o in zip(steps, own):
                joined_steps.append(o[axis])
    if not sizes:
        combines = any(output.combine for output in loop.outputs)
        return Space((1,), (combines,), tuple((0,) for _ in loop.inputs), (1,))
    return Space(
        tuple(sizes), tuple(combined), tuple(tuple(s) for s in steps[:-1]), tuple(steps[-1])
    )


def _steps(seen: Shape, rank: int) -> list[int]:
    steps, step = [], 1
    for size in reversed(seen):
        steps.append(0 if size == 1 else step)
        step *= size
    return [0] * (rank - len(seen)) + steps[::-1]


class Cut(NamedTuple):
    """How the space is cut: the first of the numbers that the C functions read, in this order."""

    inner: int
    """The length of the innermost axis."""
    piece: int
    """How much of it is walked through at once."""
    pieces: int
    rows: int
    """The product of the kept axes before the innermost."""
    rows_at_once: int
    """How many of them a task takes."""
    deep: int
    """The product of the combined axes before the innermost."""
    slices: int
    """Into how many parts a combination is cut."""
    share: int
    """How many steps of a combination each slice has."""
    tasks: int
    results: int
    """How many elements a combined output has."""
    elements: int


def cut(space: Space, combines: bool, piece: int) -> Cut:
    """Cut a space into tasks that depend on nothing but its sizes."""
    inner = space.sizes[-1]
    rows = math.prod(space.sizes[axis] for axis in space.kept_outer)
    deep = math.prod(space.sizes[axis] for axis in space.combined_outer)
    by_columns = combines and not space.combined[-1]
    by_rows = combines and space.combined[-1]
    piece = max(1, min(COLUMNS if by_columns else piece, inner))
    pieces = -(-inner // piece)
    # The parts that tasks can take along the inner axis, and the steps of one combination.
    parts, steps = (1, deep * pieces) if by_rows else (pieces, deep)
    elements = rows * deep * inner
    slices = 1
    if combines and rows * parts < SLICES and elements >= MANY:
        slices = max(1, min(SLICES, steps if by_rows else steps // ROWS))
    row = deep * (inner if by_rows else piece)
    rows_at_once = 1 if slices > 1 else max(1, TASK_ELEMENTS // max(1, row))
    return Cut(
        inner, piece, pieces, rows, rows_at_once, deep, slices,
        share=-(-steps // slices),
        tasks=-(-rows // rows_at_once) * parts * slices,
        results=rows * (inner if by_columns else 1),
        elements=elements,
    )  # fmt: skip
