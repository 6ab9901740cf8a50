"""Loops over many short rows process several rows together and agree with NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf
import tapegrad.core.trace.expression_namespace  # what formulas are written with
from tapegrad.core.trace.expression import EXPRESSIONS, array_input
from tapegrad.core.trace.loop import Loop, LoopInput, LoopOutput
from tapegrad_numpy.loops import compiler
from tapegrad_numpy.loops.entry_points import CLoopCompiler

pytestmark = pytest.mark.skipif(compiler.find() is None, reason="this machine has no C compiler")

XP = EXPRESSIONS.xp
rng = np.random.default_rng(5)


def kernel(loop: Loop) -> Any:
    made = CLoopCompiler().compile([loop])[0]
    assert made is not None
    return made


@pytest.mark.parametrize(("rows", "columns"), [(16, 3), (301, 7), (40_000, 2), (65, 32)])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_rows_with_a_vector_and_numbers_per_row(rows: int, columns: int, dtype: str) -> None:
    kind = tf.as_dtype(dtype).as_numpy_dtype
    shapes: list[tuple[int, ...]] = [(rows, columns), (1, columns), (rows, 1), (1, 1)]
    reads = tuple([LoopInput(shape, shape, np.dtype(kind)) for shape in shapes])
    x, b, r, s = (array_input(k, np.dtype(kind)) for k in range(4))
    outputs = (XP.tanh(x * r + b), x - s)
    loop = Loop((rows, columns), reads, tuple(LoopOutput(y, shapes[0]) for y in outputs))
    run = kernel(loop)
    assert "repeated1" in run.__dict__["source"]
    given = [rng.normal(size=shape).astype(kind) for shape in shapes]
    found = run(given, (None, None))
    wide = [array.astype(np.float64) for array in given]
    expected = (np.tanh(wide[0] * wide[2] + wide[1]), wide[0] - wide[3])
    tolerance = 1e-6 if dtype == "float32" else 0.05
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.astype(np.float64), other, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(("rows", "columns"), [(16, 4), (3001, 5)])
def test_reductions_of_short_rows(rows: int, columns: int) -> None:
    def function(x: Any, b: Any) -> Any:
        y = tf.exp(x - b)
        return y, tf.reduce_sum(y, -1), tf.reduce_max(y * x, -1), tf.reduce_mean(x, -1)

    x, b = rng.normal(size=(rows, columns)), rng.normal(size=columns)
    compiled = tf.function(function)
    given = [tf.constant(array.astype(np.float32)) for array in (x, b)]
    compiled(*given)
    tf.wait_for_programs()
    y = np.exp(x - b)
    expected = (y, y.sum(-1), (y * x).max(-1), x.mean(-1))
    for one, other in zip(compiled(*given), expected, strict=True):
        np.testing.assert_allclose(one.numpy(), other, rtol=2e-5, atol=1e-6)


def test_the_sum_of_short_rows_is_made_by_stages() -> None:
    shape, dtype = (200, 4), np.dtype(np.float32)
    y = XP.exp(array_input(0, dtype))
    read = (LoopInput(shape, shape, dtype),)
    run = kernel(Loop(shape, read, (LoopOutput(y, (200,), "add", (1,)),)))
    assert "slice" not in run.__dict__["source"]
    x = rng.normal(size=shape).astype(np.float32)
    np.testing.assert_allclose(run([x], (None,))[0], np.exp(x).sum(1), rtol=1e-6)


ANGLES = {
    "sums of rows": lambda x, a: tf.sin(tf.reduce_sum(x * a[:, None], -1)),
    "numbers per row": lambda x, a: tf.reduce_sum(tf.cos(a)[:, None] * x, -1),
    "a later step": lambda x, a: tf.nn.softmax(x) * tf.sin(tf.reduce_max(x, -1) * a)[:, None],
    "columns": lambda x, a: tf.cos(x[:, None] * a[:20, None] - x[:20]),
}


@pytest.mark.parametrize("form", ANGLES)
@pytest.mark.parametrize("columns", [2, 3, 40])
@pytest.mark.parametrize("scale", [1.0, 1e7])
def test_sines_of_any_angle(form: str, columns: int, scale: float) -> None:
    # Products and sums of these numbers are exact, so that angles are the same.
    x, a = rng.integers(-4, 5, (300, columns)) / 4.0, scale * rng.integers(-999, 999, 300) / 256
    given = [tf.constant(array) for array in (x, a)]
    compiled = tf.function(ANGLES[form])
    for _ in range(2):
        found = compiled(*given)

    expected = ANGLES[form](*given).numpy()
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12, atol=1e-12)
