"""Row kernels of loops with stages: their code runs on the host, and has the expected shape."""

from __future__ import annotations

import re
import shutil
from math import prod

import numpy as np
import pytest

from tapegrad.core.trace.expression import array_input, floating
from tapegrad.core.trace.loop import Loop, LoopInput
from tapegrad_cupy.kernels.loops.geometry import geometry
from tapegrad_cupy.kernels.loops.loops import CudaLoopCompiler
from tapegrad_cupy.kernels.loops.scheduled import scheduled_source
from tapegrad_cupy.kernels.loops.stages_source import rounds
from tapegrad_cupy.launch.strided_layout import row_major_strides
from tests.house.host_cuda import between_nans, run_on_host
from tests.program.staged_loops import (
    F4,
    F8,
    LOOPS,
    Rows,
    assert_close,
    cross_entropy,
    draw,
    expected,
    log_softmax,
    normalization_gradient,
    precision_of,
    softmax,
    windowed,
)

runs_here = pytest.mark.skipif(shutil.which("g++") is None, reason="Needs a C++ compiler.")

PRECISION = {"bfloat16": 8e-3, "float32": 2e-6, "float64": 1e-13}


def check_on_host(loop, arrays=None, precision=2e-6, in_place=None, backwards=False, least=1.0):
    arrays = draw(loop) if arrays is None else arrays
    wanted = expected(loop, arrays)
    copies = [between_nans(array) for array in arrays]
    in_place = in_place or [None] * len(loop.outputs)

    plan, found = run_on_host(loop, copies, in_place, backwards)

    assert_close(found, wanted, precision, least)
    return plan


# What the kernels compute

SPACES = {
    "rows of one": ((7, 1), 1),
    "part of a warp": ((33, 3), 1),
    "a warp": ((9, 33), 1),
    "two warps": ((3, 1000), 1),
    "a block": ((2, 4104), 1),
    "too long for registers": ((2, 40000), 1),
    "two axes": ((2, 3, 5, 24), 2),
}


@runs_here
@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize("name", LOOPS)
def test_results_on_the_host(name, space):
    shape, reduced = SPACES[space]
    length = prod(shape[-reduced:])
    precision = precision_of(name, length, F4, PRECISION["float32"])
    check_on_host(LOOPS[name](shape, reduced, F4), precision=precision)


@runs_here
@pytest.mark.parametrize("dtype", ["bfloat16", "float64"])
@pytest.mark.parametrize("space", ["part of a warp", "two warps", "too long for registers"])
def test_other_dtypes_on_the_host(space, dtype):
    pytest.importorskip("ml_dtypes")
    loop = cross_entropy(*SPACES[space], np.dtype(dtype))
    check_on_host(loop, precision=PRECISION[dtype], backwards=True)


@runs_here
@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("space", ["rows of one", "part of a warp", "two warps", "a block"])
def test_a_result_over_one_of_the_operands(space, place, backwards):
    """The threads of a block run in either order, so that a missing barrier is noticed."""
    loop = normalization_gradient(*SPACES[space], F4)
    check_on_host(loop, in_place=[place, None], backwards=backwards)


@runs_here
@pytest.mark.parametrize("space", ["part of a warp", "two warps", "too long for registers"])
def test_arrays_that_do_not_begin_at_16_bytes(space):
    loop = softmax(*SPACES[space], F4)
    (array,) = draw(loop)

    _, found = run_on_host(loop, [between_nans(array, unaligned=True)], [None], False)

    assert_close(found, expected(loop, [array]), 2e-6, least=0.0)


@runs_here
@pytest.mark.parametrize(
    "view", [lambda a: a.T, lambda a: a[::2, 1:41], lambda a: a[::-1, :40], lambda a: a[:, ::-2]]
)
def test_arrays_that_do_not_lie_in_order(view):
    array = view(np.random.default_rng(0).normal(size=(60, 80)).astype("float32"))
    loop = log_softmax(array.shape, 1, F4)

    _, found = run_on_host(loop, [array], [None] * 3, False)

    assert_close(found, expected(loop, [array]), 2e-6)


@runs_here
@pytest.mark.parametrize("reduced", [1, 2, 3])
@pytest.mark.parametrize("seen", [(6, 1, 24), (6, 5, 1), (1, 5, 24), (1, 5, 1), (1, 1, 1)])
def test_arrays_that_broadcast(seen, reduced):
    own = Rows((6, 5, 24), reduced, F4)
    x, y, top, total = (array_input(i, F4) for i in range(4))
    powers = floating("exp", x * y - top)
    loop = Loop(
        own.shape,
        (own.whole(), LoopInput(tuple(n for n in seen if n != 1), seen, F4)),
        (own.element(powers / total * y), own.row(total)),
        (own.stage(x * y, "maximum"), own.stage(powers, "add")),
    )
    check_on_host(loop)


@runs_here
@pytest.mark.parametrize(("rows", "length"), [(33, 10), (5, 3000), (3, 40000)])
def test_windows(rows, length):
    check_on_host(windowed(rows, length))


@runs_here
@pytest.mark.parametrize("length", [10, 3000])
def test_nan_and_infinity(length):
    loop = log_softmax((6, length), 1, F4)
    (array,) = draw(loop)
    array[1, length // 2] = np.nan
    array[2, length - 1] = np.inf
    array[3, 0] = -np.inf
    array[4] = -np.inf
    array[5] += 100  # the exponential of it is infinite

    check_on_host(loop, [array])


@runs_here
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int16", "int64", "uint64"])
def test_extremes_of_integers(dtype):
    own = Rows((5, 9), 1, np.dtype(dtype))
    x, least, most = (array_input(i, own.dtype) for i in range(3))
    stages = (own.stage(x, "minimum"), own.stage(x, "maximum"))
    loop = Loop(own.shape, (own.whole(),), (own.row(least), own.row(most)), stages)
    limits = (0, 1) if dtype == "bool" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    array = np.full((5, 9), limits[0], dtype)
    array[1] = limits[1]
    array[2, 3] = limits[1]

    _, (smallest, largest) = run_on_host(loop, [array], [None, None], False)

    np.testing.assert_array_equal(smallest, array.min(axis=1))
    np.testing.assert_array_equal(largest, array.max(axis=1))


# The shape of the code


def source_of(loop):
    strides = [row_major_strides(read.shape, read.dtype.itemsize) for read in loop.inputs]
    walk = geometry(loop, strides, aligned=True)
    plan, text = scheduled_source(loop, walk, [None] * len(loop.outputs))
    return walk, plan, text


@pytest.mark.parametrize("dtype", [F4, F8])
@pytest.mark.parametrize("length", [1, 2, 3, 7, 32, 33, 100, 257, 1024, 5000, 16384, 40000])
@pytest.mark.parametrize("rows", [1, 3, 129, 5000])
@pytest.mark.parametrize("name", ["softmax", "normalization_gradient"])
def test_threads_cover_every_row(name, rows, length, dtype):
    walk, plan, _ = source_of(LOOPS[name]((rows, length), 1, dtype))

    beside = plan.threads // plan.lanes
    assert (plan.blocks - 1) * beside < rows <= plan.blocks * beside
    assert plan.lanes & (plan.lanes - 1) == 0
    assert plan.lanes <= 32 or plan.threads == plan.lanes
    vectors = length // walk.width
    if plan.held:
        assert (plan.held - 1) * plan.lanes < vectors <= plan.held * plan.lanes
    else:
        assert vectors >= plan.lanes


def test_stages_that_do_not_read_each_other_share_a_pass():
    assert rounds(normalization_gradient((4, 8), 1, F4)) == [[0, 1], [2], [3]]
    assert rounds(cross_entropy((4, 8), 1, F4)) == [[0, 1], [2]]


@pytest.mark.parametrize(("length", "barriers"), [(100, 0), (512, 0), (4096, 3), (100000, 3)])
def test_a_pass_of_a_block_has_one_barrier(length, barriers):
    _, plan, text = source_of(normalization_gradient((8192, length), 1, F4))

    assert (plan.lanes > 32) == (barriers > 0)
    assert text.count("__syncthreads();") == barriers


@pytest.mark.parametrize(("length", "loads"), [(512, [1, 1]), (4096, [1, 1]), (100000, [4, 3])])
def test_a_row_that_fits_into_registers_is_read_once(length, loads):
    _, plan, text = source_of(normalization_gradient((8192, length), 1, F4))

    # All four passes read the first operand. The variance does not read the second one.
    assert bool(plan.held) == (loads == [1, 1])
    assert [len(re.findall(rf"\(p{i} \+ o{i}\)", text)) for i in (0, 1)] == loads


def function(text, name):
    return text.partition(f"void {name}(")[2].partition("\n}\n")[0]


def test_passes_share_exponentials_in_registers():
    _, _, held = source_of(softmax((8192, 4096), 1, F4))
    _, _, long = source_of(softmax((8192, 100000), 1, F4))

    assert "exp(" in function(held, "pass1")
    assert "exp(" not in function(held, "pass2")
    assert "exp(" in function(long, "pass2")


def test_what_is_constant_along_a_row_is_computed_before_the_pass():
    _, _, text = source_of(log_softmax((8192, 4096), 1, F4))

    assert "log(" in function(text, "parts2")
    assert "log(" not in function(text, "pass2")


def test_complex_rows_are_left_to_others():
    own = Rows((300, 64), 1, np.dtype(np.complex64))
    x, total = array_input(0, own.dtype), array_input(1, own.dtype)
    stages = (own.stage(x, "add"),)
    loop = Loop(own.shape, (own.whole(),), (own.element(x - total),), stages)

    assert CudaLoopCompiler().compile([loop]) == [None]


@pytest.mark.parametrize(
    ("rows", "length", "taken"),
    [(8192, 32768, True), (128, 1 << 20, True), (1, 8192, True), (1, 16384, True), (5, 10, True),
     (3, 100000, False), (1, 1 << 20, False), (64, 16384, False)],
)  # fmt: skip
def test_few_long_rows_are_left_to_several_launches(rows, length, taken):
    assert CudaLoopCompiler().takes_stages(rows, length) is taken
