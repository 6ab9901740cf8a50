"""Loops with stages in CUDA against the reference in double precision."""

from __future__ import annotations

import numpy as np
import pytest

from tapegrad.core.trace.expression import Expression, array_input, floating
from tapegrad.core.trace.loop import Loop, LoopInput, LoopOutput
from tests.program.staged_loops import (
    F4,
    LOOPS,
    Rows,
    assert_close,
    draw,
    expected,
    log_softmax,
    normalization_gradient,
    precision_of,
    softmax,
    windowed,
)

cupy = pytest.importorskip("cupy")
loops = pytest.importorskip("tapegrad_cupy.kernels.loops.loops")
ml_dtypes = pytest.importorskip("ml_dtypes")

PRECISION = {"float16": 2e-3, "bfloat16": 1.6e-2, "float32": 3e-6, "float64": 1e-13}


def compiled(loop):
    return loops.CudaLoopCompiler().compile([loop])[0]


def check(loop, precision, least=1.0):
    arrays = draw(loop)
    made = compiled(loop)

    results = made([cupy.asarray(array) for array in arrays], [None] * len(loop.outputs))

    for result, output in zip(results, loop.outputs, strict=True):
        assert (result.shape, result.dtype) == (output.shape, output.dtype)
    assert_close([cupy.asnumpy(result) for result in results], expected(loop, arrays), precision,
                 least)  # fmt: skip


# Schedules

LENGTHS = (1, 2, 3, 7, 31, 32, 33, 64, 100, 257, 1000, 1024, 4096, 5000, 8192, 16384, 40000)
SPACES = [(3, length) for length in LENGTHS]
SPACES += [(1, length) for length in (1, 33, 1000, 5000, 40000)]
SPACES += [(129, length) for length in LENGTHS if length <= 5000]
SPACES += [(5000, length) for length in (1, 3, 10, 33, 64, 100, 257, 1000)]
SPACES += [(150, 32768), (40, 40001), (2000, 1023), (1100, 2048)]
CASES = [(*space, dtype) for dtype in ("bfloat16", "float32") for space in SPACES]
CASES += [(*space, dtype) for dtype in ("float16", "float64") for space in SPACES[::3]]


@pytest.mark.parametrize(("rows", "length", "dtype"), CASES)
def test_softmax_of_rows(rows, length, dtype):
    # Entries of long rows are small, so that errors are compared with the largest one.
    check(softmax((rows, length), 1, np.dtype(dtype)), PRECISION[dtype], least=0.0)


@pytest.mark.parametrize(("rows", "length", "dtype"), CASES)
def test_the_gradient_of_a_normalization(rows, length, dtype):
    check(normalization_gradient((rows, length), 1, np.dtype(dtype)), PRECISION[dtype])


OTHERS = [name for name in LOOPS if name not in ("softmax", "normalization_gradient")]


@pytest.mark.parametrize("dtype", PRECISION)
@pytest.mark.parametrize(
    ("rows", "length"),
    [(7, 1), (129, 7), (5000, 33), (129, 100), (3, 1000), (129, 4096), (3, 40000)],
)
@pytest.mark.parametrize("name", OTHERS)
def test_other_loops(name, rows, length, dtype):
    own = np.dtype(dtype)
    check(LOOPS[name]((rows, length), 1, own), precision_of(name, length, own, PRECISION[dtype]))


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize(
    ("shape", "reduced"),
    [((2, 3, 5, 24), 2), ((40, 6, 7), 2), ((6, 50, 40), 1), ((3, 4, 5, 6), 3), ((130, 16, 64), 2),
     ((4, 1, 9), 2), ((4, 9, 1), 2), ((4, 1, 1), 2), ((20, 30), 2), ((3000,), 1)],
)  # fmt: skip
@pytest.mark.parametrize("name", LOOPS)
def test_several_axes(name, shape, reduced, dtype):
    own, length = np.dtype(dtype), int(np.prod(shape[-reduced:]))
    check(LOOPS[name](shape, reduced, own), precision_of(name, length, own, PRECISION[dtype]))


def test_more_elements_than_an_index_of_32_bits_counts():
    shape = (1 << 17, 1 << 14)
    made = compiled(softmax(shape, 1, np.dtype(np.float16)))
    array = cupy.zeros(shape, np.float16)
    array[-1, -1] = 1.0

    (found,) = made([array], [None])

    row = cupy.asnumpy(found[-1]).astype(float)
    assert row[-1] == pytest.approx(np.e / (2**14 - 1 + np.e), rel=2e-3)
    assert row[0] == pytest.approx(1 / (2**14 - 1 + np.e), rel=2e-3)
    assert bool((found[:-1] == 2.0**-14).all())


# Arrays


@pytest.mark.parametrize(
    "seen",
    [(1, 1, 24), (1, 18, 1), (16, 1, 1), (16, 1, 24), (16, 18, 1), (1, 1, 1), (1, 18, 24)],
)
@pytest.mark.parametrize("reduced", [1, 2, 3])
def test_arrays_that_broadcast(seen, reduced):
    shape = (16, 18, 24)
    own = Rows(shape, reduced, F4)
    x, y, top, total = (array_input(i, F4) for i in range(4))
    powers = floating("exp", x * y - top)
    loop = Loop(
        shape,
        (own.whole(), LoopInput(tuple(n for n in seen if n != 1), seen, F4)),
        (own.element(powers / total * y), own.row(total)),
        (own.stage(x * y, "maximum"), own.stage(powers, "add")),
    )
    check(loop, PRECISION["float32"])


def test_computed_in_another_precision_than_stored():
    half = np.dtype(ml_dtypes.bfloat16)
    own = Rows((300, 1024), 1, F4)
    top, total = array_input(1, F4), array_input(2, F4)
    x = Expression("astype", F4, (array_input(0, half),))
    powers = floating("exp", x - top)
    loop = Loop(
        own.shape,
        (own.whole(half),),
        (own.element(Expression("astype", half, (powers / total,))), own.row(total)),
        (own.stage(x, "maximum"), own.stage(powers, "add")),
    )
    arrays = draw(loop)

    found = compiled(loop)([cupy.asarray(arrays[0])], [None, None])

    wanted = expected(loop, arrays)
    assert_close([cupy.asnumpy(found[0])], wanted[:1], 8e-3, least=0.0)
    assert_close([cupy.asnumpy(found[1])], wanted[1:], PRECISION["float32"])


@pytest.mark.parametrize(
    "view",
    [lambda a: a.T, lambda a: a[::2, 1:41], lambda a: a[::-1, :40], lambda a: a[:, ::-2],
     lambda a: a[:, 4:44]],
)  # fmt: skip
def test_arrays_that_do_not_lie_in_order(view):
    base = np.random.default_rng(0).normal(size=(60, 80)).astype("float32")
    array = view(base)
    loop = log_softmax(array.shape, 1, F4)

    found = compiled(loop)([view(cupy.asarray(base))], [None] * 3)

    wanted = expected(loop, [array])
    assert_close([cupy.asnumpy(one) for one in found], wanted, PRECISION["float32"])


@pytest.mark.parametrize("dtype", ["bfloat16", "float32"])
@pytest.mark.parametrize("length", [24, 1024, 40000])
def test_an_array_that_does_not_begin_at_16_bytes(length, dtype):
    loop = softmax((10, length), 1, np.dtype(dtype))
    (array,) = draw(loop)
    behind = cupy.zeros(10 * length + 1, array.dtype)
    behind[1:] = cupy.asarray(array).ravel()

    (found,) = compiled(loop)([behind[1:].reshape(10, length)], [None])

    assert_close([cupy.asnumpy(found)], expected(loop, [array]), PRECISION[dtype], least=0.0)


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize(
    ("rows", "length"), [(1000, 1), (1001, 7), (1000, 40), (300, 1000), (150, 8192), (70, 100000)]
)
def test_a_result_over_one_of_the_operands(rows, length, place):
    loop = normalization_gradient((rows, length), 1, F4)
    arrays = draw(loop)
    on_device = [cupy.asarray(array) for array in arrays]

    first, second = compiled(loop)(on_device, [on_device[place], None])

    assert first is on_device[place]
    wanted = expected(loop, arrays)
    assert_close([cupy.asnumpy(first), cupy.asnumpy(second)], wanted, PRECISION["float32"])


def test_a_result_per_row_over_an_operand():
    own = Rows((1001, 40), 1, F4)
    x, weight, total = (array_input(i, F4) for i in range(3))
    loop = Loop(
        own.shape,
        (own.whole(), own.per_row()),
        (LoopOutput(x * weight / total, own.shape), own.row(weight + total)),
        (own.stage(x * x, "add"),),
    )
    arrays = draw(loop)
    on_device = [cupy.asarray(array) for array in arrays]

    found = compiled(loop)(on_device, [on_device[0], on_device[1]])

    wanted = expected(loop, arrays)
    assert_close([cupy.asnumpy(one) for one in found], wanted, PRECISION["float32"])


@pytest.mark.parametrize(("rows", "length"), [(33, 10), (200, 100), (5, 3000), (70, 40000)])
def test_windows(rows, length):
    check(windowed(rows, length), PRECISION["float32"])


@pytest.mark.parametrize("length", [10, 100, 1000, 5000, 40000])
def test_nan_and_infinity(length):
    loop = log_softmax((7, length), 1, F4)
    (array,) = draw(loop)
    array[1, length // 2] = np.nan
    array[2, length - 1] = np.inf
    array[3, 0] = -np.inf
    array[4] = -np.inf
    array[5] += 100  # the exponential of it is infinite

    found = compiled(loop)([cupy.asarray(array)], [None] * 3)

    wanted = expected(loop, [array])
    assert_close([cupy.asnumpy(one) for one in found], wanted, PRECISION["float32"])
    assert np.isnan(wanted[1][1]).all()
    assert np.isfinite(wanted[1][0]).all()


def test_a_loop_inside_a_captured_graph():
    loop = softmax((300, 1000), 1, F4)
    made = compiled(loop)
    arrays = [draw(loop, seed)[0] for seed in range(3)]
    array = cupy.asarray(arrays[0])
    made([array], [None])
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        (found,) = made([array], [None])
        graph = stream.end_capture()
        for host in arrays:
            array.set(host)
            graph.launch(stream)
            stream.synchronize()

            assert_close([cupy.asnumpy(found)], expected(loop, [host]), 3e-6, least=0.0)


@pytest.mark.parametrize("name", LOOPS)
def test_results_do_not_change_from_run_to_run(name):
    loop = LOOPS[name]((500, 3000), 1, F4)
    arrays = [cupy.asarray(array) for array in draw(loop)]
    made = compiled(loop)
    first = made(arrays, [None] * len(loop.outputs))

    for _ in range(20):
        again = made(arrays, [None] * len(loop.outputs))
        assert all(bool((a == b).all()) for a, b in zip(first, again, strict=True))
