"""Loops with sums or exponentials flush small results on x86-64; other loops keep them."""

from __future__ import annotations

import platform
from functools import cache
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.core.trace import expression_namespace
from tapegrad.core.trace.expression import EXPRESSIONS, Expression, array_input
from tapegrad.core.trace.loop import Loop, LoopInput, LoopOutput
from tapegrad_numpy.loops import compiler
from tapegrad_numpy.loops.compile import make_all
from tapegrad_numpy.loops.small_results import EXACT, EXPONENTIALS, flushes

pytestmark = pytest.mark.skipif(compiler.find() is None, reason="this machine has no C compiler")

IS_X86 = platform.machine() in ("x86_64", "AMD64")
TINY = np.finfo(np.float32).tiny
DTYPES = ("float32", "float64")
BINARY = frozenset({
    "add", "atan2", "copysign", "divide", "equal", "floor_divide", "fmod", "greater",
    "greater_equal", "hypot", "less", "less_equal", "logaddexp", "logaddexp2", "maximum", "minimum",
    "multiply", "nextafter", "not_equal", "pow", "remainder", "subtract",
})  # fmt: skip
WITHOUT_C = frozenset({"erfcinv", "erfcx", "erfinv", "spacing"})
FUNCTIONS = sorted({
    *expression_namespace._FLOATING, *expression_namespace._ARITHMETIC, "abs", "float_exponent",
    *expression_namespace._COMPARISONS, *expression_namespace._TESTS,
} - WITHOUT_C)  # fmt: skip


def compiled(function: Any, *arrays: Any) -> Any:
    run = tf.function(function)
    tensors = [tf.constant(array) for array in arrays]
    run(*tensors)
    return run(*tensors).numpy()


# Every function of loops


def numbers(dtype: str) -> np.ndarray:
    """Return numbers of all sizes, most of them small."""
    limits = np.finfo(dtype)
    tiny, least = limits.tiny, limits.smallest_subnormal
    sizes = [0, least, 3 * least, tiny / 3, tiny / 2, tiny, 2 * tiny, 7 * tiny, tiny / limits.eps]
    sizes += [tiny**0.5, tiny**0.5 / 3, limits.eps, 1e-3, 0.3, 1, 1.7, 3, 80, 100, 720, 745]
    positive = np.array([*sizes, limits.max / 3, np.inf], dtype)
    return np.concatenate([positive, -positive, np.array([np.nan], dtype)])


def operands(count: int, dtype: str) -> list[np.ndarray]:
    return [np.ascontiguousarray(x).ravel() for x in np.meshgrid(*[numbers(dtype)] * count)]


def loop_of(names: tuple[str, ...], count: int, dtype: str) -> Loop:
    arrays = operands(count, dtype)
    given = [array_input(k, x.dtype) for k, x in enumerate(arrays)]
    formulas: list[Expression] = [getattr(EXPRESSIONS.xp, name)(*given) for name in names]
    inputs = tuple(LoopInput(x.shape, x.shape, x.dtype) for x in arrays)
    return Loop(inputs[0].shape, inputs, tuple(LoopOutput(f, inputs[0].shape) for f in formulas))


@cache
def results(is_program: bool) -> dict[tuple[str, str], np.ndarray]:
    """Return the results of all functions, by name and dtype.

    Loops with many functions take less time to compile than one for each. One function of each of
    them is an exponential or exact, and decides whether the loop flushes.
    """
    groups = [
        (tuple(n for n in FUNCTIONS if (n in BINARY) == (count == 2) and (n in EXACT) == exact),
         count, dtype)
        for count in (1, 2) for exact in (False, True) for dtype in DTYPES
    ]  # fmt: skip
    loops = [loop_of(*group) for group in groups]
    runs = make_all(loops, is_program=is_program)
    found = {}
    for run, loop, (names, count, dtype) in zip(runs, loops, groups, strict=True):
        assert run is not None
        targets = [np.empty(loop.shape, output.dtype) for output in loop.outputs]
        run(operands(count, dtype), targets)
        found.update({(name, dtype): target for name, target in zip(names, targets)})
    return found


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_flushing_changes_results_by_less_than_the_least_normal_number(
    name: str, dtype: str
) -> None:
    found, wanted = (results(is_program)[name, dtype] for is_program in (True, False))
    if wanted.dtype.kind != "f" or name in EXACT:
        np.testing.assert_array_equal(found, wanted)
        return
    limits = np.finfo(dtype)
    np.testing.assert_allclose(found, wanted, rtol=4 * limits.eps, atol=limits.tiny)
    is_small = (wanted != 0) & (abs(wanted) < limits.tiny)
    if not IS_X86:
        np.testing.assert_array_equal(found[is_small], wanted[is_small])
    elif name in ("add", "divide", "exp", "multiply", "square", "subtract"):
        assert is_small.any()
        assert not found[is_small].any()


@pytest.mark.parametrize("name", FUNCTIONS)
def test_which_functions_flush(name: str) -> None:
    loop = loop_of((name,), 2 if name in BINARY else 1, "float64")
    assert flushes(loop, is_program=True) == (name in EXPONENTIALS)
    assert not flushes(loop, is_program=False)
    with_exp = loop_of(
        (name, "logaddexp" if name in BINARY else "exp"), len(loop.inputs), "float32"
    )
    assert flushes(with_exp, is_program=True) == (name not in EXACT)


# Programs


def test_loops_without_sums_or_exponentials_keep_small_results() -> None:
    x = np.float32([TINY, 3 * TINY, 1.0])
    np.testing.assert_array_equal(compiled(lambda x: x * 0.25 + 0.0, x), x * np.float32(0.25))


def test_exponentials_of_functions_flush_small_results_and_eager_code_keeps_them() -> None:
    x = np.tile([-744.0, -720.0, -1.0], 20_000)
    exact = np.exp(x)
    np.testing.assert_allclose(tf.exp(tf.constant(x)).numpy(), exact, rtol=1e-14, atol=1e-322)
    found = compiled(tf.exp, x)
    np.testing.assert_allclose(found, exact, rtol=1e-14, atol=np.finfo(np.float64).tiny)
    assert (found == 0).any() == IS_X86


def test_rows_that_are_normalised_have_no_small_results() -> None:
    x = np.float32([[0.0, -90.0, -100.0, -1.0], [-95.0, 0.0, 1.0, -2.0]])

    def normalised(x: Any) -> Any:
        e = tf.exp(x - tf.reduce_max(x, -1, keepdims=True))
        return e / tf.reduce_sum(e, -1, keepdims=True)

    wide = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
    expected = wide / wide.sum(-1, keepdims=True)
    result = compiled(normalised, x)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=TINY)
    assert (result[expected < TINY] == 0).all() == IS_X86


def test_exact_functions_in_programs_agree_with_eager_code() -> None:
    limits = np.finfo(np.float64)
    x = np.array([limits.tiny, 3 * limits.smallest_subnormal, -limits.tiny / 2, 5.0])
    y = np.array([limits.tiny / 3, limits.smallest_subnormal, limits.tiny / 2, 3.0])
    for function in (lambda x, y: x // y + tf.exp(x), lambda x, y: x % y + 0 * tf.exp(y)):
        np.testing.assert_array_equal(
            compiled(function, x, y), function(tf.constant(x), tf.constant(y)).numpy()
        )


def test_frexp_and_ldexp_of_small_numbers_are_exact() -> None:
    x = np.float64([3e-310, 5e-324, -2e-308])

    def again(x: Any) -> Any:
        mantissa, exponent = tf.numpy.frexp(x)
        return tf.numpy.ldexp(mantissa, exponent)

    np.testing.assert_array_equal(compiled(again, x), x)


def test_sums_of_exponentials_flush_small_terms_in_double_precision() -> None:
    x = np.float64([[0.0, -720.0], [1.0, -740.0]])
    result = compiled(lambda x: tf.exp(x) / tf.reduce_sum(tf.exp(x), -1, keepdims=True), x)
    expected = np.exp(x) / np.exp(x).sum(-1, keepdims=True)
    np.testing.assert_allclose(result, expected, rtol=1e-14, atol=np.finfo(np.float64).tiny)
    assert (result[:, 1] == 0).all() == IS_X86


def test_selections_of_small_numbers_are_exact() -> None:
    x = np.float32([1e-40, -2e-40, 3.0])
    found = compiled(lambda x: tf.where(x > 0, tf.maximum(x, -x), -tf.abs(x)), x)
    np.testing.assert_array_equal(found, np.float32([1e-40, -2e-40, 3.0]))


def test_products_of_matrices_in_functions_flush_small_results() -> None:
    x = np.full((20, 20), 1e-160)
    result = compiled(lambda x: tf.matmul(x + 1e-160, x), x)
    np.testing.assert_allclose(result, 4e-319, rtol=0, atol=np.finfo(np.float64).tiny)
    assert (result == 0).all() == IS_X86


def test_operands_that_are_small_are_kept() -> None:
    x = np.float32([[1e-40, 2e-40], [1e-39, 5e-40]])
    result = compiled(lambda x: tf.reduce_sum(x * 1e30, -1), x)
    np.testing.assert_allclose(result, x.astype(np.float64).sum(-1) * 1e30, rtol=1e-4)


def test_the_mode_of_the_caller_comes_back() -> None:
    compiled(lambda x: tf.reduce_sum(tf.exp(x), -1), np.float32([[-90.0, 0.0]] * 3))
    half = np.float32([TINY]) / np.float32(2)
    assert half[0] > 0
