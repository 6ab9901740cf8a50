"""Loops over few columns have the statements of all columns in their body and agree with NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad_numpy.loops import compiler

pytestmark = pytest.mark.skipif(compiler.find() is None, reason="this machine has no C compiler")

rng = np.random.default_rng(8)


def compiled(function: Any, *arrays: Any) -> tuple[Any, str]:
    """Return the result of the compiled function and the source of its loops."""
    program = tf.function(function)
    given = [tf.constant(array) for array in arrays]
    for _ in range(2):
        found = program(*given)
    steps = program.program(*given).steps
    return found.numpy(), "\n".join(s.run.__dict__["source"] for s in steps if hasattr(s, "run"))


@pytest.mark.parametrize(
    ("columns", "dtype"),
    [(2, "float32"), (3, "float32"), (7, "float64"), (4, "float64"), (3, "complex64")],
)
def test_differences_of_points(columns: int, dtype: str) -> None:
    x, y = (rng.normal(size=(n, columns)).astype(dtype) for n in (20, 33))

    found, source = compiled(lambda x, y: (x[:, None] - y[None]) / (2.0 + x[:, None]), x, y)

    np.testing.assert_allclose(found, (x[:, None] - y[None]) / (2 + x[:, None]), rtol=1e-5)
    assert f"q0[i * {columns} + 1]" in source


def test_what_is_constant_along_columns_is_computed_once_per_row() -> None:
    x, r = rng.normal(size=(5, 40, 3)).astype(np.float32), rng.normal(size=(5, 40, 1))
    r = r.astype(np.float32)

    found, source = compiled(lambda x, r: tf.exp(r) * tf.tanh(x + r[:1]), x, r)

    np.testing.assert_allclose(found, np.exp(r) * np.tanh(x + r[:1]), rtol=2e-6, atol=1e-6)
    assert source.count("tg_exp(") == 1
    assert source.count("tg_tanh(") == 3


@pytest.mark.parametrize("dtype", ["float32", "int32", "bool", "bfloat16"])
def test_columns_that_are_joined(dtype: str) -> None:
    a, b = (tf.cast(rng.normal(size=(6, 50)) * 4.0, dtype) for _ in range(2))

    def function(a: Any, b: Any) -> Any:
        joined = tf.stack([a, b, a], axis=-1)
        return tf.where(tf.cast(joined, "bool"), joined, b[:, :, None])

    found, source = compiled(function, a, b)

    joined = np.stack([a.numpy(), b.numpy(), a.numpy()], -1)
    np.testing.assert_array_equal(found, np.where(joined != 0, joined, b.numpy()[:, :, None]))
    assert "q0[i * 3 + 2]" in source


def test_gradients_of_columns() -> None:
    x = rng.normal(size=(30, 40, 3))

    def function(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(tf.exp(x[..., 0]) * x[..., 2] + tf.square(x[..., 2]))
        return tape.gradient(y, x)

    found, source = compiled(function, x)

    expected = np.zeros_like(x)
    expected[..., 0] = np.exp(x[..., 0]) * x[..., 2]
    expected[..., 2] = np.exp(x[..., 0]) + 2 * x[..., 2]
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert "i * 3 + 2]" in source


@pytest.mark.parametrize("columns", [3, 5])
def test_columns_that_are_turned_round_and_moved(columns: int) -> None:
    x, y = (rng.normal(size=(3, 40, columns)) for _ in range(2))

    def function(x: Any, y: Any) -> Any:
        padded = tf.pad(y[:, :, 1:], [[0, 0], [0, 0], [0, 1]])
        return tf.roll(x, 2, axis=-1) * x[..., ::-1] + padded / (1.0 + x * x)

    found, source = compiled(function, x, y)

    padded = np.concatenate([y[..., 1:], np.zeros((3, 40, 1))], -1)
    expected = np.roll(x, 2, -1) * x[..., ::-1] + padded / (1 + x * x)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert f"q0[i * {columns} + 1]" in source


def test_rows_that_are_moved_have_another_form() -> None:
    x = rng.normal(size=(40, 20, 2))

    found, source = compiled(lambda x: tf.roll(x, 3, axis=1) - x[:, ::-1], x)

    np.testing.assert_array_equal(found, np.roll(x, 3, 1) - x[:, ::-1])
    assert "q0[i * 2 + 1]" not in source


def test_a_variable_is_written_over_after_all_reads() -> None:
    x = tf.Variable(rng.normal(size=(50, 3)))
    before = x.numpy().copy()

    @tf.function
    def step(t: Any) -> None:
        x.assign(x[:, ::-1] * t + tf.roll(x, 1, axis=-1))

    for number in range(4):
        step(tf.constant(0.5 + number, "float64"))
        before = before[:, ::-1] * (0.5 + number) + np.roll(before, 1, -1)
        np.testing.assert_allclose(x.numpy(), before, rtol=1e-12)
