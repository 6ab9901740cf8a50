"""Example loops, by which a machine without a GPU tests that the sources of loops compile.

A program can contain any formula. The elementwise kernels cover the formulas of all primitives. The
examples cover all schedules, reductions and final expressions.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod
from typing import Any

import numpy as np

from tapegrad.core.trace.expression import array_input, constant
from tapegrad.core.trace.loop import (
    INDEXED,
    PIECES,
    WRAPS,
    ZEROS,
    Along,
    Loop,
    LoopInput,
    LoopOutput,
    Piece,
    Rows,
)
from tapegrad_cupy.kernels.loops.geometry import geometry
from tapegrad_cupy.kernels.loops.joined import joined_source
from tapegrad_cupy.kernels.loops.scheduled import scheduled_source
from tapegrad_cupy.kernels.loops.stages_examples import (
    STAGED_SPACES,
    normalization_example,
    softmax_example,
)
from tapegrad_cupy.launch.cuda_prelude import FLOATS
from tapegrad_cupy.launch.cuda_source import Source
from tapegrad_cupy.launch.strided_layout import row_major_strides

_INT64 = np.dtype(np.int64)

SPACES: dict[str, tuple[tuple[int, ...], tuple[int, ...]]] = {
    "one element": ((), ()),
    "flat": ((1000,), ()),
    "odd": ((1023,), ()),
    "three axes": ((5, 7, 12), ()),
    "all": ((1 << 20,), (0,)),
    "short rows": ((1000, 10), (1,)),
    "rows of two warps": ((301, 260), (1,)),
    "few long rows": ((3, 1 << 17), (1,)),
    "columns": ((8192, 96), (0,)),
    "middle": ((6, 50, 40), (1,)),
    "very many": ((1 << 16, 1 << 16), (0,)),
}
"""Iteration spaces by their special property, with the reduced axes."""


def example(shape: tuple[int, ...], axes: tuple[int, ...], dtype: np.dtype[Any]) -> Loop:
    """Return a loop that stores one value per element and has reductions of several kinds."""
    x, y = array_input(0, dtype), array_input(1, dtype)
    outputs = [LoopOutput(x * y - x, shape)]
    if axes:
        kept = tuple(n for axis, n in enumerate(shape) if axis not in axes)
        count = constant(prod(shape[axis] for axis in axes), dtype)
        outputs += [
            LoopOutput(x * y, kept, "add", axes, array_input(0, dtype) / count),
            LoopOutput(x, kept, "maximum", axes),
            LoopOutput(y, kept, "multiply", axes),
        ]
    row = tuple(1 if axis < len(shape) - 1 else n for axis, n in enumerate(shape))
    own = tuple(n for n in row if n != 1)
    inputs = (LoopInput(shape, shape, dtype), LoopInput(own, row, dtype))
    return Loop(shape, inputs, tuple(outputs))


def shifted_example(shape: tuple[int, ...], axes: tuple[int, ...], dtype: np.dtype[Any]) -> Loop:
    """Return the same loop with an input that wraps along one axis, and one with zeros outside."""
    loop, last = example(shape, axes, dtype), len(shape) - 1
    wrapped = [Along(axis) for axis in range(len(shape))]
    wrapped[last] = Along(last, 0, 1, WRAPS, 3, shape[last])
    padded = [Along(axis) for axis in range(len(shape))]
    padded[0] = Along(0, 0, 1, ZEROS, -2, shape[0])
    windows = (tuple(wrapped), tuple(padded))
    inputs = tuple(LoopInput(shape, shape, dtype, window) for window in windows)
    return Loop(shape, inputs, loop.outputs)


def pieced_example(shape: tuple[int, ...], axes: tuple[int, ...], dtype: np.dtype[Any]) -> Loop:
    """Return the same loop with an input that turns round at its ends, and one with a gap."""
    loop, last = example(shape, axes, dtype), len(shape) - 1
    turned = [Along(axis) for axis in range(len(shape))]
    pieces = (Piece(0, 2, -1), Piece(2, 1), Piece(shape[last] - 1, 0, 0))
    turned[last] = Along(last, 0, 1, PIECES, 0, shape[last], pieces=pieces)
    gap = [Along(axis) for axis in range(len(shape))]
    gap[0] = Along(0, 0, 1, PIECES, 0, shape[0], pieces=(Piece(0, 1), Piece(1, None), Piece(2, 0)))
    inputs = tuple(LoopInput(shape, shape, dtype, tuple(window)) for window in (turned, gap))
    return Loop(shape, inputs, loop.outputs)


def _shifted_source(label: str, loop: Loop) -> Source:
    shape, dtype = loop.shape, loop.inputs[0].dtype
    walk = geometry(loop, [row_major_strides(shape, dtype.itemsize)] * 2, aligned=True)
    assert walk is not None
    return Source(label, scheduled_source(loop, walk, [None] * len(loop.outputs))[1])


def gathered_example(dtype: np.dtype[Any], rows: int, is_vector: bool) -> Loop:
    """Return a loop that gathers rows, or single elements, and adds them into others."""
    index, x, w = array_input(0, _INT64), array_input(1, dtype), array_input(2, dtype)
    shape, size = (rows, 64) if is_vector else (rows,), 50
    seen = (rows, 1) if is_vector else (rows,)
    table = (size, 64) if is_vector else (size,)
    window = (Along(None, 0, 1, INDEXED, 0, size, 0), *[Along(1)] * is_vector)
    inputs = (
        LoopInput((rows,), seen, _INT64),
        LoopInput(table, shape, dtype, window),
        LoopInput((rows,), seen, dtype),
    )
    outputs = [LoopOutput(x * w, shape)]
    if dtype.name in ("float32", "float64"):
        outputs.append(LoopOutput(x * w, table, rows=Rows(0, size, (0,))))
    return Loop(shape, inputs, tuple(outputs), indices=(index,))


def _gathered_sources(dtype: np.dtype[Any]) -> Iterator[Source]:
    for rows, is_vector in product((100, 1 << 20), (False, True)):
        loop = gathered_example(dtype, rows, is_vector)
        strides = [row_major_strides(read.shape, read.dtype.itemsize) for read in loop.inputs]
        walk = geometry(loop, strides, aligned=True)
        assert walk is not None
        text = scheduled_source(loop, walk, [None] * len(loop.outputs))[1]
        yield Source(f"loop {dtype.name} gathers {rows} {'rows' if is_vector else 'numbers'}", text)


def _staged_sources(dtype: np.dtype[Any]) -> Iterator[Source]:
    made = {"softmax": softmax_example, "normalization": normalization_example}
    for (label, (shape, reduced)), (name, make) in product(STAGED_SPACES.items(), made.items()):
        loop = make(shape, reduced, dtype)
        strides = [row_major_strides(read.shape, dtype.itemsize) for read in loop.inputs]
        walk = geometry(loop, strides, aligned=True)
        assert walk is not None
        in_place = [0, *[None] * (len(loop.outputs) - 1)]
        text = scheduled_source(loop, walk, in_place)[1]
        yield Source(f"loop {dtype.name} {label} {name}", text)


def variants() -> Iterator[Source]:
    """Yield a source for every schedule and dtype."""
    for name in FLOATS:
        dtype = np.dtype(name)
        for label, (shape, axes) in SPACES.items():
            loop = example(shape, axes, dtype)
            strides = [row_major_strides(read.shape, dtype.itemsize) for read in loop.inputs]
            walk = geometry(loop, strides, aligned=True)
            assert walk is not None
            in_place = [0, *[None] * (len(loop.outputs) - 1)]
            text = scheduled_source(loop, walk, in_place)[1]
            yield Source(f"loop {name} {label}", text)
            if shape:
                shifted, pieced = (
                    make(shape, axes, dtype) for make in (shifted_example, pieced_example)
                )
                yield _shifted_source(f"loop {name} {label} shifted", shifted)
                yield _shifted_source(f"loop {name} {label} in pieces", pieced)
        yield from _staged_sources(dtype)
        yield from _gathered_sources(dtype)
        width = 16 // dtype.itemsize if dtype.itemsize < 8 else 1
        text = joined_source(example((1000,), (), dtype), [], width, 16, [0])
        yield Source(f"loop {name} joined", text)
