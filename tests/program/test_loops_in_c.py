"""Loops compiled from C give the same results as NumPy."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tapegrad.core.trace.expression_namespace  # noqa: F401  # what formulas are written with
from tapegrad.core.trace.expression import EXPRESSIONS, Expression, array_input
from tapegrad.core.trace.loop import Loop, LoopInput, LoopOutput
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad_numpy.loops import compile as making, compiler
from tapegrad_numpy.loops.entry_points import CLoopCompiler
from tests.rules.test_expressions import evaluate

pytestmark = pytest.mark.skipif(compiler.find() is None, reason="this machine has no C compiler")

XP = EXPRESSIONS.xp
F4, F8, BOOL = np.dtype(np.float32), np.dtype(np.float64), np.dtype(np.bool_)
make_all = CLoopCompiler().compile


@pytest.fixture(autouse=True, scope="module")
def _folder_for_this_file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TAPEGRAD_CACHE", str(tmp_path_factory.mktemp("loops") / "cache"))
        yield


def whole(shape: tuple[int, ...], *dtypes: Any) -> tuple[LoopInput, ...]:
    return tuple(LoopInput(shape, shape, np.dtype(dtype)) for dtype in dtypes)


def make(loop: Loop) -> Any:
    made = make_all([loop])[0]
    assert made is not None
    return made


# Random loops


class RandomLoop:
    """A random loop, arrays for it, and NumPy's results."""

    DTYPES = ("f4", "f4", "f4", "f8", "f8", "i4", "i8", "u1", "i2", "?")
    SIZES = (1, 2, 3, 5, 17, 33, 300)

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        rank = int(rng.integers(0, 5))
        sizes = self.SIZES if rng.random() < 0.9 else (0, 2, 3)
        shape = tuple(int(size) for size in rng.choice(sizes, rank))
        self.shape = shape if np.prod(shape) <= 60_000 else shape[:2]
        inputs = tuple(self.input() for _ in range(rng.integers(1, 5)))
        self.pool = [array_input(i, given.dtype) for i, given in enumerate(inputs)]
        for _ in range(rng.integers(1, 7)):
            self.pool.append(self.operation())
        axes = tuple(axis for axis in range(len(self.shape)) if rng.random() < 0.5)
        combines = rng.random() < 0.6 and 0 not in self.shape
        outputs = [self.output(axes if combines else None) for _ in range(rng.integers(1, 4))]
        self.loop = Loop(self.shape, inputs, tuple(outputs))

    def input(self) -> LoopInput:
        seen = self.shape[int(self.rng.integers(0, len(self.shape) + 1)) :]
        seen = self.shape if self.rng.random() < 0.6 else seen
        seen = tuple(1 if self.rng.random() < 0.3 else size for size in seen)
        own = tuple(size for size in seen if size != 1) if self.rng.random() < 0.3 else seen
        return LoopInput(own, seen, np.dtype(str(self.rng.choice(self.DTYPES))))

    def operation(self) -> Expression:
        a, b = (self.number(self.pool[i]) for i in self.rng.integers(0, len(self.pool), 2))
        x, y = (v if v.dtype.kind == "f" else XP.astype(v, F8) for v in (a, b))
        choices = (
            lambda: a + b, lambda: a * b, lambda: a - b, lambda: XP.where(a > b, a, b),
            lambda: XP.maximum(a, b), lambda: XP.minimum(a, b), lambda: XP.tanh(x),
            lambda: XP.sin(x), lambda: XP.exp(-abs(x)), lambda: XP.sqrt(abs(x)), lambda: a <= b,
            lambda: XP.astype(a, F4), lambda: x / (y * y + 1), lambda: x**2, lambda: XP.sign(a),
        )  # fmt: skip
        return choices[int(self.rng.integers(len(choices)))]()

    def number(self, value: Expression) -> Expression:
        return XP.astype(value, F4) if value.dtype == BOOL else value

    def output(self, axes: tuple[int, ...] | None) -> LoopOutput:
        value = self.pool[-1 - int(self.rng.integers(min(3, len(self.pool))))]
        if axes is None or self.rng.random() < 0.3:
            return LoopOutput(value, self.shape)
        combine = str(self.rng.choice(["add", "add", "multiply", "maximum", "minimum"]))
        if value.dtype == BOOL and combine in ("add", "multiply"):
            value = XP.astype(value, np.int64)
        shape = tuple(size for axis, size in enumerate(self.shape) if axis not in axes)
        finish = None
        if self.rng.random() < 0.4:
            finish = XP.astype(array_input(0, value.dtype), F8) * 0.5
        return LoopOutput(value, shape, combine, axes, finish)

    def array(self, given: LoopInput) -> Any:
        if given.dtype == BOOL:
            return self.rng.random(given.shape) < 0.5
        if given.dtype.kind in "iu":
            return self.rng.integers(0, 5, given.shape).astype(given.dtype)
        return np.asarray(self.rng.normal(size=given.shape), given.dtype)

    def laid_out(self, array: Any) -> Any:
        """The same numbers, now and then in another order in memory or as a scalar."""
        kind = self.rng.random()
        if array.ndim == 0:
            return array[()] if kind < 0.5 else array
        if kind < 0.2:
            return np.asfortranarray(array)
        return np.repeat(array, 2, axis=-1)[..., ::2] if kind < 0.3 else array

    def expected(self, arrays: list[Any]) -> list[tuple[Any, Any]]:
        """Per output the result, and the sum of magnitudes that rounding errors go with."""
        pairs = zip(arrays, self.loop.inputs)
        seen = [np.broadcast_to(a.reshape(i.seen), self.shape) for a, i in pairs]
        results = []
        for output in self.loop.outputs:
            value = np.broadcast_to(np.asarray(evaluate(output.expression, seen)), self.shape)
            scale = np.abs(value.astype(F8))
            if output.combine is not None:
                ufunc = getattr(np, output.combine)
                wide = value.astype(F8) if value.dtype.kind == "f" else value
                value = ufunc.reduce(wide, output.axes, dtype=wide.dtype).astype(value.dtype)
                scale = ufunc.reduce(np.abs(wide).astype(F8), output.axes)
                if output.finish is not None:
                    value = evaluate(output.finish, [value])
            results.append((np.asarray(value), scale))
        return results


def precision(node: Expression) -> float:
    """The tolerance for rounding, by the least precise dtype in an expression."""
    own = 1e-5 if node.dtype == F4 else 1e-12 if node.dtype == F8 else 0.0
    return max([own, *map(precision, node.operands)])


@pytest.mark.parametrize("seed", range(6))
def test_random_loops_equal_numpy(seed: int) -> None:
    rng = np.random.default_rng(seed)
    drawn = [RandomLoop(rng) for _ in range(16)]

    functions = make_all([one.loop for one in drawn])

    for one, function in zip(drawn, functions):
        arrays = [one.array(given) for given in one.loop.inputs]
        with np.errstate(all="ignore"):
            expected = one.expected(arrays)
        results = function([one.laid_out(a) for a in arrays], [None] * len(expected))
        for output, result, (value, scale) in zip(one.loop.outputs, results, expected):
            rtol = precision(output.expression)
            assert (result.shape, result.dtype) == (output.shape, output.dtype)
            error = np.abs(result.astype(F8) - value.astype(F8))
            fine = (error <= rtol * (scale + 0.1)) | (result == value) | (result != result)
            assert fine.all(), one.loop
            assert ((result != result) == (value != value)).all()


# Output buffers


def test_a_result_can_be_written_over_an_input() -> None:
    x, y = array_input(0, F4), array_input(1, F4)
    loop = Loop((1000,), whole((1000,), F4, F4), (LoopOutput(x * y, (1000,)),))
    a, b = np.arange(1000, dtype=F4), np.full(1000, 3, F4)

    (result,) = make(loop)((a, b), (a,))

    assert result is a
    np.testing.assert_array_equal(a, 3 * np.arange(1000))


def test_a_result_beside_a_sum_can_be_written_over_an_input() -> None:
    x = array_input(0, F4)
    outputs = (LoopOutput(x + 1, (3, 40)), LoopOutput(x * 2, (40,), "add", (0,)))
    a = np.arange(120, dtype=F4).reshape(3, 40)
    expected = 2 * a.sum(0)

    written, total = make(Loop((3, 40), whole((3, 40), F4), outputs))((a,), (a, None))

    assert written is a
    np.testing.assert_array_equal(a, np.arange(1, 121).reshape(3, 40))
    np.testing.assert_array_equal(total, expected)


def test_targets_in_another_order_are_written_too() -> None:
    loop = Loop((4, 5), whole((4, 5), F8), (LoopOutput(array_input(0, F8) * 2, (4, 5)),))
    a = np.arange(20.0).reshape(4, 5)
    target = np.empty((5, 4)).T

    (result,) = make(loop)((a,), (target,))

    assert result is target
    np.testing.assert_array_equal(target, 2 * a)


def test_an_array_of_another_shape_is_refused() -> None:
    function = make(Loop((4,), whole((4,), F8), (LoopOutput(array_input(0, F8) * 2, (4,)),)))

    with pytest.raises(ShapeError, match=r"made for an array of shape \(4,\). Got \(5,\)"):
        function((np.ones(5),), (None,))
    with pytest.raises(ShapeError, match=r"results of shapes \[\(4,\)\]. Got \[\(5,\)\]"):
        function((np.ones(4),), (np.ones(5),))


def test_what_stays_the_same_is_computed_once() -> None:
    beta, step, x = array_input(0, F8), array_input(1, F8), array_input(2, F8)
    inputs = (*whole((), F8, F8), *whole((100,), F8))

    kernel = making._written(Loop((100,), inputs, (LoopOutput(x / (1 - beta**step), (100,)),)))

    assert kernel is not None
    before, _, inside = kernel.text.partition("#pragma omp simd")
    assert "tg_pow(" in before
    assert "tg_pow(" not in inside


def test_loops_of_other_sizes_share_a_function() -> None:
    def of_size(n: int) -> Loop:
        return Loop((n,), whole((n,), F4), (LoopOutput(array_input(0, F4) * 5, (n,)),))

    first, second = making._written(of_size(10)), making._written(of_size(20))

    assert first is not None
    assert second is not None
    assert first.text == second.text


@pytest.mark.parametrize("dtype", ["longdouble", "complex256"])
def test_dtypes_that_c_does_not_know_are_left_to_numpy(dtype: str) -> None:
    given = array_input(0, np.dtype(dtype))
    loop = Loop((3,), whole((3,), dtype), (LoopOutput(given * given, (3,)),))

    assert make_all([loop])[0] is None


def test_functions_that_c_does_not_have_are_left_to_numpy() -> None:
    loop = Loop((3,), whole((3,), F4), (LoopOutput(XP.erfinv(array_input(0, F4)), (3,)),))

    assert make_all([loop])[0] is None


# Sums


@pytest.mark.parametrize("axes", [(0, 1), (1,), (0,)], ids=["all", "rows", "columns"])
def test_sums_in_single_precision_are_at_least_as_exact_as_numpy(axes: tuple[int, ...]) -> None:
    values = np.random.default_rng(1).uniform(0, 1, (700, 900)).astype(F4)
    shape = tuple(size for axis, size in enumerate(values.shape) if axis not in axes)
    output = LoopOutput(array_input(0, F4), shape, "add", axes)

    (total,) = make(Loop(values.shape, whole(values.shape, F4), (output,)))((values,), (None,))

    exact = values.astype(F8).sum(axes)
    rounding = np.spacing(exact.astype(F4))
    assert (np.abs(total - exact) <= rounding).all()
    assert np.abs(total - exact).max() <= np.abs(values.sum(axes) - exact).max()


@pytest.mark.parametrize("axes", [(0, 1), (1,), (0,)], ids=["all", "rows", "columns"])
def test_sums_of_doubles_are_exact_to_a_few_units(axes: tuple[int, ...]) -> None:
    values = np.random.default_rng(3).uniform(0, 1, (640, 800))
    shape = tuple(size for axis, size in enumerate(values.shape) if axis not in axes)
    output = LoopOutput(array_input(0, F8), shape, "add", axes)

    (total,) = make(Loop(values.shape, whole(values.shape, F8), (output,)))((values,), (None,))

    groups = np.moveaxis(values, axes, range(len(axes))).reshape(-1, total.size)
    exact = np.array([math.fsum(group) for group in groups.T]).reshape(shape)
    assert (np.abs(total - exact) <= 4 * np.spacing(exact)).all()


@pytest.mark.parametrize("value", [np.inf, -np.inf, np.nan])
@pytest.mark.parametrize("combine", ["add", "multiply", "maximum", "minimum"])
def test_infinity_and_nan_come_through_combinations(value: float, combine: str) -> None:
    values = np.ones((50, 40))
    values[7, 3] = value
    for axes, shape in (((0, 1), ()), ((0,), (40,)), ((1,), (50,))):
        output = LoopOutput(array_input(0, F8), shape, combine, axes)

        (result,) = make(Loop((50, 40), whole((50, 40), F8), (output,)))((values,), (None,))

        np.testing.assert_array_equal(result, getattr(np, combine).reduce(values, axes))


def test_the_largest_of_no_elements_is_left_to_numpy() -> None:
    output = LoopOutput(array_input(0, F8), (), "maximum", (0,))

    assert make_all([Loop((0,), whole((0,), F8), (output,))])[0] is None


# Threads


def many_results() -> tuple[Loop, Any]:
    x = array_input(0, F4)
    outputs = (
        LoopOutput(XP.tanh(x), (1200, 700)),
        LoopOutput(x * x, (700,), "add", (0,)),
    )
    values = np.random.default_rng(0).normal(size=(1200, 700)).astype(F4)
    return Loop((1200, 700), whole((1200, 700), F4), outputs), values


def test_results_do_not_depend_on_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    loop, values = many_results()
    total = Loop(values.shape, loop.inputs, (LoopOutput(array_input(0, F4), (), "add", (0, 1)),))
    results = []
    for threads in ("1", "2", "7"):
        monkeypatch.setenv("TAPEGRAD_THREADS", threads)
        plain, summed = make_all([loop, total])
        results.append([*plain((values,), (None, None)), *summed((values,), (None,))])

    for other in results[1:]:
        for one, two in zip(results[0], other):
            np.testing.assert_array_equal(one, two)


def test_the_number_of_threads_must_be_a_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TAPEGRAD_THREADS", "many")

    with pytest.raises(ArgumentError, match=r"TAPEGRAD_THREADS must be a whole number.*'many'"):
        make_all([many_results()[0]])


# Long expressions


@pytest.mark.parametrize("n", [100, 1000])
def test_long_formulas_are_right_in_place_too(n: int) -> None:
    x, y = array_input(0, F8), array_input(1, F8)
    links = x
    for _ in range(15):
        links = XP.tanh(links * 1.5 + y) - links * 0.1
        links = XP.where(links > 0.2, links, links + x)
    outputs = (LoopOutput(links, (n,)), LoopOutput(links * x, (), "add", (0,)))
    a, b = np.random.default_rng(4).normal(size=(2, n))
    expected = evaluate_chain(a, b)

    written, total = make(Loop((n,), whole((n,), F8, F8), outputs))((a, b), (b, None))

    assert written is b
    np.testing.assert_allclose(b, expected, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(total, (expected * a).sum(), rtol=1e-9)


def evaluate_chain(x: Any, y: Any) -> Any:
    links = x
    for _ in range(15):
        links = np.tanh(links * 1.5 + y) - links * 0.1
        links = np.where(links > 0.2, links, links + x)
    return links
