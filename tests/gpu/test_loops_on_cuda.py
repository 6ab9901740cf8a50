"""Fused loops in CUDA against NumPy with the same formulas."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest

from tapegrad.core.trace.expression import Expression, array_input, choice, comparison, constant
from tapegrad.core.trace.loop import JoinedLoops, Loop, LoopInput, LoopOutput
from tests.rules.test_expressions import evaluate

cupy = pytest.importorskip("cupy")
loops = pytest.importorskip("tapegrad_cupy.kernels.loops.loops")
ml_dtypes = pytest.importorskip("ml_dtypes")

F4 = np.dtype(np.float32)
PRECISION = {"float16": 2e-3, "bfloat16": 2e-2, "float32": 2e-6, "float64": 1e-13}
COMBINE = {"add": np.add, "multiply": np.multiply, "maximum": np.maximum, "minimum": np.minimum}


def read(shape, dtype=F4, seen=None):
    return LoopInput(shape, shape if seen is None else seen, np.dtype(dtype))


def without(shape, axes):
    return tuple(n for axis, n in enumerate(shape) if axis not in axes)


def expected(loop, arrays):
    """What the loop computes, in double precision, rounded once."""
    wide = [np.asarray(a) if a.dtype.kind in "biu" else np.asarray(a, np.float64) for a in arrays]
    seen = [np.broadcast_to(a.reshape(i.seen), loop.shape) for a, i in zip(wide, loop.inputs)]
    found = []
    for output in loop.outputs:
        y = np.broadcast_to(evaluate(in_double(output.expression), seen), loop.shape)
        if output.combine is not None:
            y = COMBINE[output.combine].reduce(y, axis=output.axes)
            if output.finish is not None:
                y = evaluate(in_double(output.finish), [y])
        found.append(np.asarray(y).reshape(output.shape))
    return found


def in_double(node):
    """The same formula with double precision in place of every other."""
    is_float = node.dtype is not None and (node.dtype.kind == "f" or node.dtype.name == "bfloat16")
    dtype = np.dtype(np.float64) if is_float else node.dtype
    operands = tuple(in_double(operand) for operand in node.operands)
    return Expression(node.name, dtype, operands, node.value, node.weak)


def run(loop, arrays, targets=None, times=2):
    made = loops.CudaLoopCompiler().compile([loop])[0]
    on_device = [cupy.asarray(array) for array in arrays]
    for _ in range(times):  # the counters of the first launch must be back at 0 for the second
        results = made(on_device, targets or [None] * len(loop.outputs))
    return [cupy.asnumpy(result) for result in results]


def draw(loop, seed=0):
    rng = np.random.default_rng(seed)
    return [
        np.asarray(rng.normal(size=i.shape) * 4).astype(i.dtype)
        if i.dtype.kind in "biu"
        else np.asarray(rng.uniform(-1, 1, size=i.shape)).astype(i.dtype)
        for i in loop.inputs
    ]


def check(loop, precision, seed=0):
    arrays = draw(loop, seed)
    for found, wanted, output in zip(run(loop, arrays), expected(loop, arrays), loop.outputs):
        assert found.dtype == output.dtype
        assert found.shape == output.shape
        terms = prod(loop.shape[axis] for axis in output.axes) if output.combine == "add" else 1
        scale = precision * max(1.0, terms**0.5)
        np.testing.assert_allclose(np.asarray(found, np.float64), wanted, rtol=scale, atol=scale)


# Schedules

SPACES = {
    "one element": ((), ()),
    "flat": ((1000,), ()),
    "flat, odd": ((1023,), ()),
    "three axes": ((5, 7, 12), ()),
    "all": ((1000,), (0,)),
    "all of many": ((1 << 20,), (0,)),
    "all, odd": ((70001,), (0,)),
    "all of two axes": ((300, 77), (0, 1)),
    "short rows": ((1000, 10), (1,)),
    "rows of a warp": ((300, 128), (1,)),
    "rows of two warps": ((301, 260), (1,)),
    "rows of four warps": ((301, 516), (1,)),
    "long rows": ((37, 5000), (1,)),
    "few long rows": ((3, 1 << 17), (1,)),
    "short columns": ((64, 128), (0,)),
    "columns": ((8192, 96), (0,)),
    "odd columns": ((1000, 33), (0,)),
    "one column of ten": ((5000, 10), (0,)),
    "two leading axes": ((20, 30, 64), (0, 1)),
    "a middle axis": ((6, 50, 40), (1,)),
    "outer and inner": ((12, 5, 70), (0, 2)),
    "batch, not place": ((8, 16, 16, 24), (1, 2)),
}


@pytest.mark.parametrize("dtype", PRECISION)
@pytest.mark.parametrize("space", SPACES)
def test_elementwise_results_and_sums_together(space, dtype):
    shape, axes = SPACES[space]
    dtype = np.dtype(dtype)
    x, y = array_input(0, dtype), array_input(1, dtype)
    product = x * y
    outputs = [LoopOutput(product - x, shape)]
    if axes:
        kept = without(shape, axes)
        count = constant(prod(shape[axis] for axis in axes), dtype)
        mean = array_input(0, dtype) / count
        outputs += [
            LoopOutput(product, kept, "add", axes),
            LoopOutput(x, kept, "maximum", axes),
            LoopOutput(x + y, kept, "add", axes, mean),
        ]
    check(
        Loop(shape, (read(shape, dtype), read(shape, dtype)), tuple(outputs)), PRECISION[dtype.name]
    )


@pytest.mark.parametrize("combine", ["maximum", "minimum"])
def test_nan_comes_through(combine):
    x = array_input(0, F4)
    loop = Loop((40, 1000), (read((40, 1000)),), (LoopOutput(x, (40,), combine, (1,)),))
    array = np.ones((40, 1000), np.float32)
    array[7, 512] = np.nan

    (found,) = run(loop, [array])

    assert np.isnan(found[7])
    assert np.isnan(found).sum() == 1


# Arrays


@pytest.mark.parametrize("axes", [(), (0,), (1,), (2,), (0, 1), (1, 2), (0, 2), (0, 1, 2)])
@pytest.mark.parametrize(
    "seen", [(1, 1, 24), (1, 18, 1), (16, 1, 1), (16, 1, 24), (16, 18, 1), (1, 1, 1), (1, 18, 24)]
)
def test_arrays_that_broadcast(seen, axes):
    shape = (16, 18, 24)
    own = tuple(n for n in seen if n != 1)
    x, y = array_input(0, F4), array_input(1, F4)
    outputs = [LoopOutput(x * y, shape)]
    if axes:
        outputs.append(LoopOutput(x + y, without(shape, axes), "add", axes))
    check(Loop(shape, (read(shape), read(own, F4, seen)), tuple(outputs)), PRECISION["float32"])


def test_arrays_of_several_dtypes():
    half, truth = np.dtype(ml_dtypes.bfloat16), np.dtype(bool)
    x, y, z = array_input(0, F4), array_input(1, half), array_input(2, truth)
    kept = choice(z, x, 0.0)
    outputs = (
        LoopOutput(Expression("astype", half, (kept,)), (33, 64)),
        LoopOutput(comparison("greater", x, Expression("astype", F4, (y,))), (33, 64)),
        LoopOutput(kept, (64,), "add", (0,)),
    )
    reads = (read((33, 64)), read((64,), half, (1, 64)), read((33, 64), truth))
    check(Loop((33, 64), reads, outputs), PRECISION["bfloat16"])


@pytest.mark.parametrize("view", [lambda a: a.T, lambda a: a[::2, 1:41], lambda a: a[::-1, :40]])
@pytest.mark.parametrize("axes", [(), (0,), (1,)])
def test_arrays_that_do_not_lie_in_order(view, axes):
    base = (
        np.random.default_rng(0)
        .normal(size=(40, 80) if view(np.ones((2, 3))).shape[0] != 3 else (60, 20))
        .astype("float32")
    )
    array = view(base)
    x = array_input(0, F4)
    outputs = [LoopOutput(x * 2.0, array.shape)]
    if axes:
        outputs.append(LoopOutput(x, without(array.shape, axes), "add", axes))
    loop = Loop(array.shape, (read(array.shape),), tuple(outputs))
    made = loops.CudaLoopCompiler().compile([loop])[0]

    found = made([view(cupy.asarray(base))], [None] * len(outputs))

    for one, wanted in zip(found, expected(loop, [array])):
        np.testing.assert_allclose(cupy.asnumpy(one), wanted, rtol=1e-5, atol=1e-5)


def test_an_array_that_does_not_begin_at_16_bytes():
    x = array_input(0, F4)
    loop = Loop((1024,), (read((1024,)),), (LoopOutput(x + 1.0, (1024,)),))
    made = loops.CudaLoopCompiler().compile([loop])[0]
    array = cupy.arange(1025, dtype="float32")[1:]

    (found,) = made([array], [None])

    np.testing.assert_array_equal(cupy.asnumpy(found), np.arange(2, 1026))


def test_a_result_over_one_of_the_operands():
    x, y = array_input(0, F4), array_input(1, F4)
    outputs = (LoopOutput(x - y, (300, 64)), LoopOutput(x, (64,), "add", (0,)))
    loop = Loop((300, 64), (read((300, 64)), read((300, 64))), outputs)
    arrays = draw(loop)
    made = loops.CudaLoopCompiler().compile([loop])[0]
    on_device = [cupy.asarray(array) for array in arrays]

    difference, total = made(on_device, [on_device[0], None])

    assert difference is on_device[0]
    wanted = expected(loop, arrays)
    np.testing.assert_allclose(cupy.asnumpy(difference), wanted[0], rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(cupy.asnumpy(total), wanted[1], rtol=1e-5, atol=1e-4)


# Many loops in one launch


@pytest.mark.parametrize("count", [2, 5, 70])
def test_loops_of_one_formula_in_one_launch(count):
    shapes = [((7 * k) % 50 + 2, k + 2) for k in range(count)]
    x, y, rate = array_input(0, F4), array_input(1, F4), array_input(2, F4)
    joined = JoinedLoops(tuple(
        Loop(
            shape,
            (read(shape), read(shape), read((), F4, (1, 1))),
            (LoopOutput(x - rate * y, shape), LoopOutput(y * y, shape)),
        )
        for shape in shapes
    ))  # fmt: skip
    singles = [draw(loop, k) for k, loop in enumerate(joined.loops)]
    for arrays in singles:
        arrays[2] = np.float32(0.25)
    made = loops.CudaLoopCompiler().compile([joined])[0]
    on_device = [cupy.asarray(array) for arrays in singles for array in arrays]
    targets = [t for k in range(count) for t in (on_device[3 * k], None)]

    results = made(on_device, targets)

    for k, loop in enumerate(joined.loops):
        wanted = expected(loop, singles[k])
        assert results[2 * k] is on_device[3 * k]
        for one, other in zip(results[2 * k : 2 * k + 2], wanted):
            np.testing.assert_allclose(cupy.asnumpy(one), other, rtol=1e-6, atol=1e-6)


def joined_of_many_arrays(count, whole, single):
    """So many loops that add up arrays that they read whole, times single numbers."""
    shape = (3, 5)
    total = array_input(0, F4)
    for k in range(1, whole):
        total = total + array_input(k, F4)
    for k in range(whole, whole + single):
        total = total * array_input(k, F4)
    inputs = (*[read(shape)] * whole, *[read((), F4, (1, 1))] * single)
    return JoinedLoops((Loop(shape, inputs, (LoopOutput(total, shape),)),) * count)


@pytest.mark.parametrize(
    ("count", "whole", "single"), [(2, 34, 1), (20, 34, 1), (2, 120, 0), (40, 11, 23), (20, 3, 60)]
)
def test_loops_of_many_arrays_in_one_launch_or_several(count, whole, single):
    joined = joined_of_many_arrays(count, whole, single)
    numbers = [np.float32(1 + (k % 3 - 1) / 4) for k in range(single)]
    each = [[*draw(loop, k)[:whole], *numbers] for k, loop in enumerate(joined.loops)]
    on_device = [cupy.asarray(array) for arrays in each for array in arrays]

    made = loops.CudaLoopCompiler().compile([joined])[0](on_device, [None] * count)

    for arrays, one, loop in zip(each, made, joined.loops, strict=True):
        (wanted,) = expected(loop, arrays)
        np.testing.assert_allclose(cupy.asnumpy(one), wanted, rtol=1e-4, atol=1e-4)


def test_more_arrays_than_a_kernel_takes_are_left_to_others():
    assert loops.CudaLoopCompiler().compile([joined_of_many_arrays(2, 260, 0)]) == [None]


def test_a_loop_inside_a_captured_graph_again_and_again():
    shape = (1 << 20,)
    x = array_input(0, F4)
    loop = Loop(shape, (read(shape),), (LoopOutput(x, (), "add", (0,)),))
    made = loops.CudaLoopCompiler().compile([loop])[0]
    array = cupy.ones(shape, "float32")
    made([array], [None])
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        (total,) = made([array], [None])
        graph = stream.end_capture()
        for number in range(5):
            array.fill(number)
            graph.launch(stream)
            stream.synchronize()

            assert float(total) == number * shape[0]
