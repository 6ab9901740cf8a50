"""Loops with stages compiled from C give the same results as NumPy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tapegrad.core.trace.expression_namespace  # noqa: F401  # what formulas are written with
from tapegrad.core.trace.expression import EXPRESSIONS, Expression, array_input
from tapegrad.core.trace.loop import WRAPS, ZEROS, Along, Loop, LoopInput, LoopOutput
from tapegrad_numpy.loops import compile as making, compiler
from tapegrad_numpy.loops.entry_points import CLoopCompiler
from tests.program.reference_loops import results_of

pytestmark = pytest.mark.skipif(compiler.find() is None, reason="this machine has no C compiler")

XP = EXPRESSIONS.xp
F4, F8, BOOL = np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.bool_)
LENGTHS = (1, 2, 3, 7, 16, 17, 64, 1000, 5000, 100_000)
Shape = tuple[int, ...]
make_all = CLoopCompiler().compile


@pytest.fixture(autouse=True, scope="module")
def _folder_for_this_file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TAPEGRAD_CACHE", str(tmp_path_factory.mktemp("loops") / "cache"))
        yield


class Rows:
    """Builds a loop over rows: the last axes of a shape, from `kept` on."""

    def __init__(self, shape: Shape, kept: int, *inputs: tuple[Shape, Any]) -> None:
        self.shape, self.kept_shape = shape, shape[:kept]
        self.axes = tuple(range(kept, len(shape)))
        self.inputs = tuple(LoopInput(seen, seen, np.dtype(dtype)) for seen, dtype in inputs)
        self.values = [array_input(i, given.dtype) for i, given in enumerate(self.inputs)]
        self.stages: list[LoopOutput] = []

    @property
    def length(self) -> int:
        return int(np.prod([self.shape[axis] for axis in self.axes]))

    def stage(self, combine: str, value: Expression, finish: Any = None) -> Any:
        end = None if finish is None else finish(array_input(0, value.dtype))
        self.stages.append(LoopOutput(value, self.kept_shape, combine, self.axes, end))
        place = len(self.inputs) + len(self.stages) - 1
        return array_input(place, self.stages[-1].dtype)

    def sum(self, value: Expression) -> Any:
        return self.stage("add", value)

    def mean(self, value: Expression) -> Any:
        return self.stage("add", value, lambda total: total * (1 / self.length))

    def largest(self, value: Expression) -> Any:
        return self.stage("maximum", value)

    def loop(self, *elements: Expression, rows: tuple[Expression, ...] = ()) -> Loop:
        outputs = [LoopOutput(value, self.shape) for value in elements]
        outputs += [LoopOutput(value, self.kept_shape, None, self.axes) for value in rows]
        return Loop(self.shape, self.inputs, tuple(outputs), tuple(self.stages))


def softmax(shape: Shape, dtype: Any = F4, kept: int = -1) -> Loop:
    made = Rows(shape, kept % len(shape), (shape, dtype))
    e = XP.exp(made.values[0] - made.largest(made.values[0]))
    return made.loop(e / made.sum(e))


def log_softmax(shape: Shape, dtype: Any = F4) -> Loop:
    made = Rows(shape, len(shape) - 1, (shape, dtype))
    x = made.values[0]
    largest = made.largest(x)
    log = XP.log(made.sum(XP.exp(x - largest)))
    return made.loop(x - largest - log, rows=(largest + log, log))


def layer_norm(shape: Shape, dtype: Any = F4, kept: int = 1) -> Loop:
    row = (*(1 for _ in shape[:kept]), *shape[kept:])
    made = Rows(shape, kept, (shape, dtype), (row, dtype), (row, dtype))
    x, scale, offset = made.values
    mean = made.mean(x)
    centred = x - mean
    spread = 1 / XP.sqrt(made.mean(centred * centred) + 1e-5)
    return made.loop(centred * spread * scale + offset, rows=(mean, spread))


def softmax_gradient(shape: Shape, dtype: Any = F4) -> Loop:
    """From the values before the softmax: the exponentials are needed in all passes."""
    made = Rows(shape, len(shape) - 1, (shape, dtype), (shape, dtype))
    x, g = made.values
    e = XP.exp(x - made.largest(x))
    y = e / made.sum(e)
    return made.loop(y * (g - made.sum(g * y)))


def ties(shape: Shape, dtype: Any = F4) -> Loop:
    made = Rows(shape, len(shape) - 1, (shape, dtype), ((*shape[:-1], 1), F8))
    x, g = made.values
    is_largest = x == made.largest(x)
    count = made.sum(XP.astype(is_largest, np.int64))
    return made.loop(XP.where(is_largest, g / XP.astype(count, F8), 0.0), rows=(count,))


def variance(shape: Shape, dtype: Any = F4) -> Loop:
    made = Rows(shape, len(shape) - 1, (shape, dtype))
    mean = made.mean(made.values[0])
    return made.loop(rows=(made.mean((made.values[0] - mean) ** 2),))


KINDS = {
    one.__name__: one
    for one in (softmax, log_softmax, layer_norm, softmax_gradient, ties, variance)
}


def arrays_for(loop: Loop, seed: int = 0) -> list[Any]:
    rng = np.random.default_rng(seed)
    arrays = []
    for given in loop.inputs:
        if given.dtype.kind == "f":
            arrays.append(np.asarray(rng.normal(size=given.shape), given.dtype))
        else:
            arrays.append(rng.integers(0, 5, given.shape).astype(given.dtype))
    return arrays


def compare(loop: Loop, arrays: list[Any], run: Any = None, targets: Any = None) -> None:
    run = make_all([loop])[0] if run is None else run
    assert run is not None
    with np.errstate(all="ignore"):
        expected = results_of(loop, arrays)

    results = run(arrays, [None] * len(expected) if targets is None else targets)

    for output, result, value in zip(loop.outputs, results, expected, strict=True):
        assert (result.shape, result.dtype) == (output.shape, output.dtype)
        if value.dtype.kind != "f":
            np.testing.assert_array_equal(result, value)
            continue
        single = any(dtype_of(o.expression, F4) for o in (output, *loop.stages))
        rtol = 2e-5 if single else 2e-12
        scale = np.abs(value[np.isfinite(value)]).max(initial=0)
        np.testing.assert_allclose(result, value, rtol=rtol, atol=rtol * scale)


def dtype_of(node: Expression, dtype: Any) -> bool:
    """Whether a dtype occurs in an expression."""
    return node.dtype == dtype or any(dtype_of(operand, dtype) for operand in node.operands)


# Rows by hand


@pytest.mark.parametrize("dtype", [F4, F8], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_all_lengths_equal_numpy(kind: str, dtype: Any) -> None:
    shapes = [(max(1, min(50, 20_000 // n)), n) for n in LENGTHS]
    loops = [KINDS[kind](shape, dtype) for shape in shapes]

    runs = make_all(loops)

    for loop, run in zip(loops, runs):
        compare(loop, arrays_for(loop), run)


@pytest.mark.parametrize("kind", KINDS)
def test_rows_along_several_kept_axes(kind: str) -> None:
    loop = KINDS[kind]((3, 1, 4, 33)) if kind != "layer_norm" else layer_norm((3, 1, 4, 33), kept=3)

    compare(loop, arrays_for(loop))


@pytest.mark.parametrize("shape", [(40,), (70_000,), (1,)], ids=str)
def test_a_single_row(shape: Shape) -> None:
    loop = softmax(shape, kept=0)

    compare(loop, arrays_for(loop))


@pytest.mark.parametrize("dtype", ["int32", "uint8", "int64", "bool"])
def test_rows_of_integers(dtype: str) -> None:
    made = Rows((20, 30), 1, ((20, 30), dtype))
    x = made.values[0]
    largest = made.largest(x)
    least = made.stage("minimum", x)
    at_top = made.sum(XP.astype(x == largest, np.int64))
    share = XP.astype(x, F8) / XP.astype(at_top, F8)
    loop = made.loop(x == least, share, rows=(largest, least, at_top))

    compare(loop, arrays_for(loop))


def test_products_of_rows() -> None:
    made = Rows((20, 30), 1, ((20, 30), F8))
    x = made.values[0]
    product = made.stage("multiply", x * 1.5)
    loop = made.loop(product / x, rows=(product,))

    compare(loop, arrays_for(loop))


# Several axes


@pytest.mark.parametrize("dtype", [F4, F8], ids=str)
@pytest.mark.parametrize("kept", [0, 1, 2])
def test_several_axes_are_reduced_together(kept: int, dtype: Any) -> None:
    for loop in (softmax((5, 6, 7), dtype, kept), layer_norm((5, 6, 7), dtype, kept)):
        compare(loop, arrays_for(loop))


@pytest.mark.parametrize("shape", [(5, 6, 7), (3, 80, 90), (2, 3, 5000), (4, 1, 9)], ids=str)
@pytest.mark.parametrize("dtype", [F4, F8], ids=str)
def test_inputs_that_broadcast_along_an_axis_of_a_row(shape: Shape, dtype: Any) -> None:
    a, b, c = shape
    made = Rows(shape, 1, (shape, dtype), ((1, b, 1), dtype), ((a, 1, c), dtype), ((a, b, 1), F4))
    x, y, z, w = made.values
    e = XP.exp(x * y - made.largest(x * y))
    total = made.sum(e * z * XP.tanh(w))
    loop = made.loop(e / total + XP.tanh(w), e * y, rows=(total, XP.log(abs(total))))

    compare(loop, arrays_for(loop))


def test_rows_of_constants_only() -> None:
    made = Rows((6, 9), 1, ((6, 1), F8), ((), F8))
    x, y = made.values
    total = made.sum(XP.exp(x) * y)
    loop = made.loop(total - x, rows=(total,))

    compare(loop, arrays_for(loop))


@pytest.mark.parametrize("shape", [(300, 5), (300, 30), (30, 300)], ids=str)
def test_many_inputs_of_all_kinds(shape: Shape) -> None:
    rows, n = shape
    seen = [shape] * 6 + [(rows, 1), (1, n), (1, 1)]
    dtypes = [F4, F8, "?", "i4", F4, F4, F4, F8, F8]
    made = Rows(shape, 1, *zip(seen, dtypes))
    a, b, c, d, e, f, row, column, one = made.values
    everything = XP.tanh(a * row + XP.sin(column) * one) + XP.where(c, b, XP.astype(d, F8)) + e * f
    largest = made.largest(everything)
    share = XP.exp(everything - largest) * XP.cos(row) * XP.sin(column)
    total = made.sum(share + a * e)
    loop = made.loop(
        share / (abs(total) + 1) + e * f, c & (d > 2), rows=(total * row, largest, row, one)
    )
    arrays = arrays_for(loop)
    arrays[7][:, ::3] *= 1e8

    compare(loop, arrays)


@pytest.mark.parametrize("shape", [(7, 50), (4, 6, 9), (40, 6)], ids=str)
@pytest.mark.parametrize("mode", [WRAPS, ZEROS])
def test_rows_of_windows(shape: Shape, mode: str) -> None:
    made = Rows(shape, 1, (shape, F4), (shape, F4))
    n = shape[-1]
    moved = Along(len(shape) - 1, mode=mode, shift=3 if mode == WRAPS else -2, size=n)
    others = tuple(Along(axis, offset=0) for axis in range(len(shape) - 1))
    made.inputs = (made.inputs[0], LoopInput(shape, shape, F4, (*others, moved)))
    x, y = made.values
    e = XP.exp(x - made.largest(x * y))
    loop = made.loop(e / made.sum(e + y) * y)

    compare(loop, arrays_for(loop))


# Results over inputs


@pytest.mark.parametrize("shape", [(9, 10), (9, 300), (3, 6000)], ids=str)
@pytest.mark.parametrize("kind", ["softmax", "layer_norm", "softmax_gradient"])
def test_a_result_can_be_written_over_an_input(kind: str, shape: Shape) -> None:
    loop = KINDS[kind](shape)
    arrays = arrays_for(loop)
    expected = results_of(loop, arrays)[0]
    target = arrays[0]

    results = make_all([loop])[0](arrays, (target, *(None for _ in loop.outputs[1:])))

    assert results[0] is target
    np.testing.assert_allclose(target, expected, rtol=2e-5, atol=1e-6)


def test_elements_that_need_no_later_stage_can_be_written_over_an_input() -> None:
    made = Rows((8, 500), 1, ((8, 500), F4))
    x = made.values[0]
    e = XP.exp(x - made.largest(x))
    total = made.sum(e * x)
    loop = made.loop(e, rows=(total,))
    (a,) = arrays_for(loop)
    expected = results_of(loop, [a])

    written, totals = make_all([loop])[0]((a,), (a, None))

    assert written is a
    np.testing.assert_allclose(a, expected[0], rtol=1e-5)
    np.testing.assert_allclose(totals, expected[1], rtol=1e-5, atol=1e-4)


# Special values


@pytest.mark.parametrize("n", [5, 40, 5000])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize("kind", ["softmax", "layer_norm", "ties", "variance"])
def test_nan_and_infinity_come_through(kind: str, value: float, n: int) -> None:
    loop = KINDS[kind]((6, n), F8)
    arrays = arrays_for(loop)
    arrays[0][1, n // 2] = value
    arrays[0][3, 0] = value
    arrays[0][4, :] = value

    compare(loop, arrays)


@pytest.mark.parametrize("shape", [(5, 6000), (3000, 10)], ids=str)
def test_large_arguments_of_sines(shape: Shape) -> None:
    made = Rows(shape, 1, (shape, F4))
    x = made.values[0]
    total = made.sum(XP.sin(x))
    loop = made.loop(XP.sin(x) - total * 1e-3, rows=(total, XP.sin(total * 1e6)))
    arrays = arrays_for(loop)
    arrays[0].reshape(-1)[10:5000:7] *= 1e6

    results = make_all([loop])[0](arrays, [None, None, None])

    exact = np.sin(arrays[0].astype(F8))
    total = exact.sum(1, keepdims=True)
    np.testing.assert_allclose(results[0], exact - total * 1e-3, rtol=1e-5, atol=1e-5)
    per_row = np.sin((results[1] * F4.type(1e6)).astype(F8))
    np.testing.assert_allclose(results[2], per_row, rtol=1e-5, atol=1e-6)


def test_sums_of_long_rows_are_accurate() -> None:
    made = Rows((2, 100_000), 1, ((2, 100_000), F4))
    x = made.values[0]
    total = made.sum(x)
    loop = made.loop(rows=(total, made.sum(x * 0 + total)))
    values = np.random.default_rng(0).uniform(0, 1, (2, 100_000)).astype(F4)

    first, second = make_all([loop])[0]((values,), (None, None))

    exact = values.astype(F8).sum(1)
    assert (np.abs(first - exact) <= np.spacing(exact.astype(F4))).all()
    np.testing.assert_allclose(second, first.astype(F8) * 100_000, rtol=1e-7)


def test_the_sums_of_empty_rows_are_zero() -> None:
    made = Rows((4, 0), 1, ((4, 0), F8))
    total = made.sum(made.values[0])
    loop = made.loop(made.values[0] - total, rows=(total + 1,))

    elements, totals = make_all([loop])[0]((np.ones((4, 0)),), (None, None))

    assert elements.shape == (4, 0)
    np.testing.assert_array_equal(totals, np.ones(4))


def test_the_largest_of_no_elements_is_left_to_numpy() -> None:
    assert make_all([softmax((4, 0))])[0] is None


# Random rows


class RandomRows:
    """A random loop with stages."""

    DTYPES = ("f4", "f4", "f4", "f8", "i4", "u1", "?")
    SIZES = (1, 2, 3, 5, 17, 70)

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        rank = int(rng.integers(1, 5))
        shape = tuple(int(size) for size in rng.choice(self.SIZES, rank))
        self.shape = shape if np.prod(shape) <= 60_000 else shape[:2]
        kept = int(rng.integers(0, len(self.shape)))
        inputs = [self.input() for _ in range(rng.integers(1, 5))]
        self.rows = Rows(self.shape, kept, *inputs)
        self.pool = list(self.rows.values)
        self.of_rows = [
            value
            for value, given in zip(self.pool, self.rows.inputs)
            if all(given.shape[axis] == 1 for axis in self.rows.axes)
        ]
        for _ in range(rng.integers(1, 5)):
            self.pool += [self.operation() for _ in range(rng.integers(0, 3))]
            self.stage()
        self.pool += [self.operation() for _ in range(rng.integers(1, 4))]
        elements = [self.pool[-1 - int(rng.integers(3))] for _ in range(rng.integers(0, 3))]
        stages = tuple(self.of_rows[-1 - int(rng.integers(2)) :])
        self.loop = self.rows.loop(*elements, rows=stages if rng.random() < 0.7 else stages[:1])

    def input(self) -> tuple[Shape, Any]:
        seen = tuple(1 if self.rng.random() < 0.25 else size for size in self.shape)
        return seen, str(self.rng.choice(self.DTYPES))

    def stage(self) -> None:
        value = self.pool[-1 - int(self.rng.integers(min(3, len(self.pool))))]
        combine = str(self.rng.choice(["add", "add", "maximum", "minimum"]))
        finish: Any = None
        if value.dtype == BOOL:
            value = XP.astype(value, np.int64)
        elif value.dtype.kind == "f" and self.rng.random() < 0.4:
            finish = lambda total: XP.tanh(total * 0.1)  # noqa: E731
        self.of_rows.append(self.rows.stage(combine, value, finish))
        self.pool.append(self.of_rows[-1])

    def operation(self) -> Expression:
        a, b = (self.number(self.pool[i]) for i in self.rng.integers(0, len(self.pool), 2))
        x, y = (v if v.dtype.kind == "f" else XP.astype(v, F8) for v in (a, b))
        choices = (
            lambda: x + y, lambda: XP.tanh(x) * y, lambda: x - y, lambda: XP.where(a > b, x, y),
            lambda: XP.maximum(a, b), lambda: XP.minimum(a, b), lambda: XP.tanh(x),
            lambda: XP.sin(x), lambda: XP.exp(-abs(x)), lambda: XP.sqrt(abs(x)), lambda: a <= b,
            lambda: XP.astype(x, F4), lambda: x / (y * y + 1), lambda: XP.log(abs(x) + 1),
        )  # fmt: skip
        return choices[int(self.rng.integers(len(choices)))]()

    def number(self, value: Expression) -> Expression:
        return XP.astype(value, F4) if value.dtype == BOOL else value


@pytest.mark.parametrize("seed", range(8))
def test_random_rows_equal_numpy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    drawn = [RandomRows(rng).loop for _ in range(16)]

    runs = make_all(drawn)

    for number, (loop, run) in enumerate(zip(drawn, runs)):
        compare(loop, arrays_for(loop, number), run)


# Source


def test_rows_of_other_sizes_share_a_function() -> None:
    texts = [making._written(softmax(shape)).text for shape in ((5, 200), (70, 900))]

    assert texts[0] == texts[1]


def test_exponentials_are_computed_once() -> None:
    for n in (10, 500, 50_000):
        kernel = making._written(softmax_gradient((20, n)))

        assert kernel is not None
        assert kernel.text.count("tg_exp(") == 1


def test_stages_that_do_not_depend_on_each_other_share_a_pass() -> None:
    made = Rows((40, 500), 1, ((40, 500), F4))
    x = made.values[0]
    mean, square = made.mean(x), made.mean(x * x)
    loop = made.loop(rows=(square - mean * mean,))

    kernel = making._written(loop)

    assert kernel is not None
    assert kernel.text.count("#pragma omp simd") == 1
    compare(loop, arrays_for(loop))


def test_values_of_a_row_are_computed_once_per_row() -> None:
    text = making._written(layer_norm((40, 500))).text

    before, _, last = text.rpartition("#pragma omp simd")
    assert before.count("tg_sqrt(") == 1
    assert "tg_sqrt(" not in last


@pytest.mark.parametrize("shape", [(50, 10), (50, 500)], ids=str)
def test_cheap_values_are_computed_again_instead_of_kept(shape: Shape) -> None:
    kernel = making._written(layer_norm(shape))

    assert kernel is not None
    assert "kept_" not in kernel.text


def test_a_few_enormous_rows_are_left_to_loops_that_divide_them_among_threads() -> None:
    takes = CLoopCompiler().takes_stages

    assert takes(1, 1000)
    assert takes(4096, 10)
    assert takes(64, 1_000_000)
    assert not takes(1, 1_000_000)


def test_the_number_of_threads_does_not_change_results(monkeypatch: pytest.MonkeyPatch) -> None:
    loop = softmax((700, 900))
    arrays = arrays_for(loop)
    results = []
    for threads in ("1", "2", "5"):
        monkeypatch.setenv("TAPEGRAD_THREADS", threads)
        results.append(make_all([loop])[0](arrays, [None])[0])

    for other in results[1:]:
        np.testing.assert_array_equal(results[0], other)


@pytest.mark.parametrize("shape", [(5, 9, 3), (2, 130, 16), (3, 4, 200, 2), (300, 8, 5)])
def test_short_rows_of_all_pairs(shape: Shape) -> None:
    """Inputs that differ along one of the kept axes only, and parts of larger arrays."""
    *outer, across, along = shape
    ones = [1] * len(outer)
    made = Rows(
        shape,
        len(shape) - 1,
        ((*outer, 1, along), F8),
        ((*ones, across, along), F8),
        ((*outer, 1, 1), F8),
        ((*ones, across, 1), F8),
    )
    window = (Along(None, 1), Along(len(shape) - 2, 2), Along(len(shape) - 1, 1, 2))
    seen = (*ones, across, along)
    made.inputs += (LoopInput((3, across + 3, 2 * along + 1), seen, F8, window),)
    x, y, a, b, *_ = made.values
    part = array_input(4, F8)
    square = made.sum((x - y) * (x - y) + part)
    scale = a * b / (square + 1.0)
    loop = made.loop((x - y) * scale + part, rows=(scale, square))
    compare(loop, arrays_for(loop))
