"""The iteration space of a loop with collapsed dimensions, and the steps of its arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import prod
from typing import NamedTuple

from tapegrad.core.trace.loop import INDEXED, INSIDE, Along, Loop, LoopInput, LoopOutput
from tapegrad_cupy.kernels.loops.invariants import inputs_of
from tapegrad_cupy.launch.strided_layout import collapse_dimensions, full_vector_length

Shape = tuple[int, ...]


class Window(NamedTuple):
    """Where an input is read: the first position, and the axes along which it moves."""

    first: int
    moved: Mapping[int, Along]


class Row(NamedTuple):
    """An axis of an array along which the index expression with a number is the position."""

    number: int
    step: int
    size: int


class Gathered(NamedTuple):
    """An input that is read through indices: the first position, and the axes with indices.

    `varies` tells whether an index differs between neighbouring elements. Otherwise neighbours are
    read as a vector, at an address that depends on the index.
    """

    first: int
    rows: tuple[Row, ...]
    inputs: frozenset[int]
    """The inputs that the index expressions read."""
    varies: bool


class Added(NamedTuple):
    """An output that adds values into rows: its steps, the row, and whether neighbours differ.

    `inputs` are those that the index expression reads.
    """

    steps: Shape
    row: Row
    inputs: frozenset[int]
    varies: bool


class Geometry(NamedTuple):
    """The sizes of the axes, innermost last, which of them are reduced, and steps in elements.

    `reads` has the steps of each input, `writes` those of elementwise results, and `combined` those
    of reductions, which are 0 along the reduced axes. A thread processes `width` neighbours.
    `windows` has the inputs that are read elsewhere, by their positions, and `gathers` those that
    are read through indices. `added` has the outputs that add values into rows.
    """

    sizes: Shape
    is_combined: tuple[bool, ...]
    reads: tuple[Shape, ...]
    writes: Shape
    combined: Shape
    width: int
    windows: Mapping[int, Window]
    gathers: Mapping[int, Gathered]
    added: Mapping[int, Added]

    @property
    def by_columns(self) -> bool:
        """Whether neighbouring elements belong to different results of a reduction."""
        return any(self.is_combined) and not self.is_combined[-1]

    @property
    def reads_whole(self) -> bool:
        """Whether an input has an element for each element of the space, or is read by a window."""
        return bool(self.windows) or any(
            all(step for step, size in zip(steps, self.sizes) if size > 1) for steps in self.reads
        )

    def count(self, combined: bool) -> int:
        """Return the number of elements along the reduced axes, or along the others."""
        return prod(n for n, flag in zip(self.sizes, self.is_combined) if flag == combined)


def in_order_of_indices(geometry: Geometry, inputs: Iterable[int]) -> list[int]:
    """Return inputs, and those that their indices read, before the inputs that need them."""
    found: dict[int, None] = {}
    waiting = [*inputs][::-1]
    while waiting:
        gathered = geometry.gathers.get(waiting[-1])
        missing = sorted(gathered.inputs - found.keys()) if gathered is not None else []
        if missing:
            waiting += missing
        else:
            found[waiting.pop()] = None
    return list(found)


def geometry(loop: Loop, strides: Sequence[Shape], aligned: bool) -> Geometry | None:
    """Return the geometry of a loop, given the strides of all inputs in bytes.

    Return None if a stride is not a multiple of the item size.
    """
    steps = []
    for read, own in zip(loop.inputs, strides):
        if any(stride % read.dtype.itemsize for stride in own):
            return None
        steps.append(_steps(read, own, len(loop.shape)))
    whole = _steps_in_order(loop.shape, ())
    combined = _steps_in_order(loop.shape, loop.axes)
    rows = [*steps, whole, combined] if loop.axes else [*steps, whole]
    alone = _standing_alone(loop)
    sums = {k: _row_steps(loop, output) for k, output in enumerate(loop.outputs) if output.rows}
    layout = collapse_dimensions(loop.shape, [*rows, *alone.values(), *sums.values()])
    own_steps = layout.steps[: len(rows)]
    flags = tuple(step == 0 for step in own_steps[-1]) if loop.axes else ()
    count = len(loop.inputs)
    flags = flags or (False,) * len(layout.sizes)
    gathers = _gathers(loop, strides, own_steps)
    after = layout.steps[len(rows) + len(alone) :]
    added = {k: _added(loop, k, own, own_steps, gathers) for k, own in zip(sums, after)}
    width = _width(loop, layout.sizes, own_steps[: count + 1], aligned, gathers, added)
    if loop.stages and not flags[-1]:
        width = 1  # rows of one element: neighbours belong to other rows
    last = own_steps[-1] if loop.axes else (0,) * len(layout.sizes)
    places = {
        axis: own.index(1)
        for axis, own in zip(alone, layout.steps[len(rows) : len(rows) + len(alone)])
    }
    windows = {
        k: _window(read, own, places)
        for k, (read, own) in enumerate(zip(loop.inputs, strides))
        if read.window is not None and not _is_gathered(read)
    }
    reads, writes = own_steps[:count], own_steps[count]
    return Geometry(layout.sizes, flags, reads, writes, last, width, windows, gathers, added)


_STILL = (INSIDE, INDEXED)


def _is_gathered(read: LoopInput) -> bool:
    return any(one.mode == INDEXED for one in read.window or ())


def _gathers(loop: Loop, strides: Sequence[Shape], steps: Sequence[Shape]) -> dict[int, Gathered]:
    """Return the inputs that are read through indices; `steps` are those of all inputs."""
    found: dict[int, Gathered] = {}
    for k, (read, own) in enumerate(zip(loop.inputs, strides)):
        if not _is_gathered(read):
            continue
        each = list(zip([stride // read.dtype.itemsize for stride in own], read.window or ()))
        rows = tuple(
            Row(one.index, step * one.step, one.size) for step, one in each if one.mode == INDEXED
        )
        first = sum(step * one.offset for step, one in each)
        inputs = frozenset(inputs_of([loop.indices[row.number] for row in rows]))
        found[k] = Gathered(first, rows, inputs, False)
    waiting = True
    while waiting:  # an index may be read through another one
        varying = {k for k, one in found.items() if one.varies}
        new = [
            k
            for k, one in found.items()
            if not one.varies and any(i in varying or steps[i][-1] for i in one.inputs)
        ]
        found.update({k: found[k]._replace(varies=True) for k in new})
        waiting = bool(new)
    return found


def _row_steps(loop: Loop, output: LoopOutput) -> list[int]:
    """Return the steps of an output that adds rows; they are 0 along the axes of its index."""
    assert output.rows is not None
    steps, step = [0] * len(loop.shape), 1
    for axis in range(len(loop.shape) - 1, -1, -1):
        if axis in output.axes:
            continue
        if axis in output.rows.axes:
            step *= output.rows.size if axis == output.rows.axes[-1] else 1
        else:
            steps[axis] = step
            step *= loop.shape[axis]
    return steps


def _added(
    loop: Loop,
    k: int,
    steps: Shape,
    reads: Sequence[Shape],
    gathers: Mapping[int, Gathered],
) -> Added:
    rows = loop.outputs[k].rows
    assert rows is not None
    inputs = frozenset(inputs_of([loop.indices[rows.index]]))
    varies = any(reads[i][-1] or (i in gathers and gathers[i].varies) for i in inputs)
    without = (*loop.outputs[k].axes, *range(rows.axes[-1] + 1))
    step = prod(n for axis, n in enumerate(loop.shape) if axis not in without)
    return Added(steps, Row(rows.index, step, rows.size), inputs, varies or steps[-1] != 1)


def _standing_alone(loop: Loop) -> dict[int, list[int]]:
    """Return steps that keep axes along which an input moves from being merged with others."""
    moved = [one for read in loop.inputs for one in read.window or () if one.mode not in _STILL]
    axes = sorted({one.axis for one in moved if one.axis is not None})
    return {alone: [int(axis == alone) for axis in range(len(loop.shape))] for alone in axes}


def _window(read: LoopInput, strides: Shape, places: Mapping[int, int]) -> Window:
    assert read.window is not None
    steps = [stride // read.dtype.itemsize for stride in strides]
    first = sum(step * one.offset for step, one in zip(steps, read.window))
    moved = [(one.axis, one) for one in read.window if one.mode != INSIDE]
    return Window(first, {places[axis]: one for axis, one in moved if axis is not None})


def _steps(read: LoopInput, strides: Shape, rank: int) -> list[int]:
    """Return the steps of an array along the axes of the iteration space."""
    if read.window is not None:
        found = [0] * rank
        for stride, one in zip(strides, read.window):
            if one.axis is not None:
                found[one.axis] += stride // read.dtype.itemsize * one.step
        return found
    own = iter([s // read.dtype.itemsize for s, n in zip(strides, read.shape) if n != 1])
    return [next(own) if size != 1 else 0 for size in read.seen]


def _steps_in_order(shape: Shape, without: Sequence[int]) -> list[int]:
    """Return the steps of a contiguous array that lacks some axes of the iteration space."""
    steps, step = [0] * len(shape), 1
    for axis in range(len(shape) - 1, -1, -1):
        if axis not in without:
            steps[axis] = step
            step *= shape[axis]
    return steps


def _width(
    loop: Loop,
    sizes: Shape,
    steps: Sequence[Shape],
    aligned: bool,
    gathers: Mapping[int, Gathered],
    added: Mapping[int, Added],
) -> int:
    """Return how many neighbours a thread processes at once."""
    # Broadcast arrays are read from the cache, so their item sizes do not limit the width.
    # The elements of windows are read one by one, and so are those that have indices of their own.
    plain = [k for k, read in enumerate(loop.inputs) if read.window is None]
    rows = {k: one for k, one in gathers.items() if not one.varies}
    steps = [
        *[steps[k] for k in plain],
        *[(*[row.step for row in rows[k].rows], rows[k].first, *steps[k]) for k in rows],
        *[(one.row.step, *one.steps) for one in added.values()],
        steps[-1],
    ]
    dtypes = [loop.inputs[k].dtype for k in plain if loop.inputs[k].seen == loop.shape]
    stored = [out for out in loop.outputs if out.combine is None and not out.axes]
    dtypes += [output.dtype for output in stored]
    # Broadcast arrays alone are read in vectors too, so that fewer offsets are computed.
    dtypes = dtypes or [loop.inputs[k].dtype for k, own in zip(plain, steps) if own[-1] == 1]
    width = full_vector_length(max((dtype.itemsize for dtype in dtypes), default=8))
    while width > 1:
        along = all(own[-1] != 1 or not any(s % width for s in own[:-1]) for own in steps)
        if aligned and along and sizes[-1] % width == 0:
            return width
        width //= 2
    return 1
