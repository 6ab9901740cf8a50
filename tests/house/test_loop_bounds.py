"""The bounds in the CUDA source of loops cover every element; no device is needed."""

from __future__ import annotations

import re
from dataclasses import replace
from math import prod

import numpy as np
import pytest

from tapegrad.core.trace.expression import array_input
from tapegrad.core.trace.loop import ZEROS, Along, Loop, LoopInput, LoopOutput
from tapegrad_cupy.kernels.loops.examples import SPACES, example, shifted_example
from tapegrad_cupy.kernels.loops.geometry import geometry
from tapegrad_cupy.kernels.loops.schedule import schedule
from tapegrad_cupy.kernels.loops.source import loop_source
from tapegrad_cupy.launch.strided_layout import row_major_strides


def bound(pattern: str, text: str) -> int:
    (found,) = set(re.findall(pattern, text))
    return int(found)


@pytest.mark.parametrize("is_aligned", [True, False])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("label", SPACES)
def test_every_element_is_visited(label, dtype, is_aligned):
    shape, axes = SPACES[label]
    loop = example(shape, axes, np.dtype(dtype))
    strides = [row_major_strides(read.shape, np.dtype(dtype).itemsize) for read in loop.inputs]
    walk = geometry(loop, strides, aligned=is_aligned)
    plan = schedule(walk, loop.writes)

    text = loop_source(loop, walk, plan, [None] * len(loop.outputs))

    kept = prod(n for axis, n in enumerate(shape) if axis not in axes)
    reduced = prod(shape) // kept
    assert is_aligned or walk.width == 1
    if plan.form == "flat":
        vectors = bound(r"if \(k >= \(I\)(\d+)\) return;", text)
        assert vectors * walk.width == prod(shape)
        # The last block has work to do.
        assert (plan.blocks - 1) * plan.threads < vectors <= plan.blocks * plan.threads
        return
    groups, beside = plan.blocks // plan.parts, plan.threads // plan.lanes
    results = bound(r"if \(k < \(I\)(\d+)\) \{", text)
    steps = bound(r"\? [^:]* : \(I\)(\d+);", text)
    per_part = bound(r"end = [^?]*?(\d+) < \(I\)\d+ \?", text)
    if plan.form == "rows":
        assert (results, steps * walk.width) == (kept, reduced)
        assert (groups - 1) * beside < results <= groups * beside
    else:
        assert (results * walk.width, steps) == (kept, reduced)
        assert (groups - 1) * plan.lanes < results <= groups * plan.lanes
    assert (plan.parts - 1) * per_part < steps <= plan.parts * per_part


@pytest.mark.parametrize("axis", [0, 1])
def test_zeros_outside_of_a_window_do_not_depend_on_the_strides(axis):
    """An array that was broadcast has a stride of 0 along the axis that is padded."""
    shape, dtype = (6, 8), np.dtype("float64")
    loop = shifted_example(shape, (), dtype)
    wrapped, padded = loop.inputs
    along = (Along(0), Along(1, 0, 1, ZEROS, -2, 5))
    padded = padded if axis == 0 else replace(padded, shape=(6, 5), window=along)
    strides = [(64, 8), (0, 8) if axis == 0 else (40, 0)]
    walk = geometry(replace(loop, inputs=(wrapped, padded)), strides, aligned=True)

    text = loop_source(loop, walk, schedule(walk, loop.writes), [None])

    size = 6 if axis == 0 else 5
    assert f"+ -2ll; {'there' if axis == 0 else 'inside'} =" in text
    assert f"m >= 0 && m < {size}ll" in text


@pytest.mark.parametrize(("rows", "lanes"), [(500, 256), (2200, 64), (9000, 32)])
def test_rows_that_read_small_arrays_only_are_reduced_by_fewer_threads(rows, lanes):
    """The sums of all products of x[i] and y[j] over j, by as many threads as fill the device."""
    f4, length = np.dtype("float32"), 1000
    x, y = (array_input(k, f4) for k in range(2))
    loop = Loop(
        (rows, length),
        (LoopInput((rows,), (rows, 1), f4), LoopInput((length,), (1, length), f4)),
        (LoopOutput(x * y, (rows,), "add", (1,)),),
    )
    walk = geometry(loop, [(4,), (8,)], aligned=False)

    plan = schedule(walk, writes=False)

    assert (plan.lanes, plan.parts) == (lanes, 1)
    assert plan.blocks * (plan.threads // plan.lanes) >= rows
