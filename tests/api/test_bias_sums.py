"""Gradients of biases that are computed with those of weights: same numbers, fewer launches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.ops.products import fused as matrix_product_sum
from tests.api.device_kernels import sweep_as_on_a_device

ROWS, DEPTH, COLUMNS = 48, 32, 40


@pytest.fixture
def sums(monkeypatch) -> list[bool]:
    return sweep_as_on_a_device(monkeypatch)


def draw(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed + sum(shape)).standard_normal(shape)


X, W, B, T = draw(ROWS, DEPTH), draw(DEPTH, COLUMNS), draw(COLUMNS), draw(ROWS, COLUMNS)
FOR_W, FOR_B, FOR_X = X.T @ T, T.sum(0), T @ W.T


def variables(dtype: str = "float32") -> list[tf.Variable]:
    return [tf.Variable(tf.cast(tf.constant(a), dtype)) for a in (X, W, B)]


def weighted(y: Any) -> Any:
    return tf.reduce_sum(y * tf.cast(tf.constant(T), y.dtype))


def close(found: Any, expected: np.ndarray, dtype: str = "float32") -> None:
    assert found.dtype.name == dtype
    error = np.abs(tf.cast(found, "float64").numpy() - expected).max() / np.abs(expected).max()
    assert error < {"float64": 1e-13, "float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2}[dtype]


FORMS: dict[str, Callable[[Any, Any, Any], Any]] = {
    "after": lambda x, w, b: x @ w + b,
    "before": lambda x, w, b: b + x @ w,
    "transposed": lambda x, w, b: tf.matmul(x, tf.transpose(w), transpose_b=True) + b,
    "both": lambda x, w, b: tf.matmul(tf.transpose(x), w, transpose_a=True) + b,
}


@pytest.mark.engine
@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("form", FORMS)
def test_all_gradients_are_those_of_the_formulas(sums, form, dtype):
    x, w, b = variables(dtype)
    for _ in range(5):  # later calls go without the library
        with tf.GradientTape() as tape:
            loss = weighted(FORMS[form](x, w, b))
        for found, expected in zip(tape.gradient(loss, [x, w, b]), (FOR_X, FOR_W, FOR_B)):
            close(found, expected, dtype)
    assert len(sums) == 5


@pytest.mark.engine
def test_casts_of_the_bias_may_come_before_or_after_the_product(sums):
    x, w, b = variables()
    for order in ("before", "after"):
        for _ in range(3):
            with tf.GradientTape() as tape:
                first = tf.cast(b, "bfloat16") if order == "before" else None
                y = tf.cast(x, "bfloat16") @ tf.cast(w, "bfloat16")
                loss = weighted(y + (tf.cast(b, "bfloat16") if first is None else first))
            for_w, for_b = tape.gradient(loss, [w, b])
            assert (for_w.dtype, for_b.dtype) == (tf.float32, tf.float32)
            close(tf.cast(for_w, "bfloat16"), FOR_W, "bfloat16")
            close(tf.cast(for_b, "bfloat16"), FOR_B, "bfloat16")
    assert len(sums) == 3


@pytest.mark.engine
def test_a_bias_and_a_weight_that_are_used_twice_get_both_shares(sums):
    x, w, b = variables("float64")
    with tf.GradientTape() as tape:
        loss = weighted(x @ w + b) + 3.0 * weighted(2.0 * x @ w + b) + tf.reduce_sum(b)
    for_w, for_b = tape.gradient(loss, [w, b])
    close(for_w, 7.0 * FOR_W, "float64")
    close(for_b, 4.0 * FOR_B + 1.0, "float64")
    assert len(sums) == 1


def test_a_product_with_another_use_has_another_cotangent(sums):
    x, w, b = variables("float64")
    with tf.GradientTape() as tape:
        product = x @ w
        loss = weighted(product + b) + weighted(2.0 * product)
    for_w, for_b = tape.gradient(loss, [w, b])
    close(for_w, 3.0 * FOR_W, "float64")
    close(for_b, FOR_B, "float64")
    assert sums == []


@pytest.mark.parametrize("shares_cotangent", [False, True])
def test_one_product_with_two_biases(sums, shares_cotangent):
    x, w, b = variables("float64")
    other = tf.Variable(b)
    with tf.GradientTape() as tape:
        product = x @ w
        if shares_cotangent:
            loss = weighted((b + product) + (other + product))
        else:
            loss = weighted(product + b) + weighted(product + other)
    for found, factor, expected in zip(
        tape.gradient(loss, [w, b, other]), (2.0, 1.0, 1.0), (FOR_W, FOR_B, FOR_B)
    ):
        close(found, factor * expected, "float64")
    assert sums == []


@pytest.mark.parametrize(
    "function", [tf.math.nextafter, tf.math.floormod], ids=lambda f: f.__name__
)
def test_other_functions_that_pass_a_cotangent_on_do_not_wait(sums, function):
    x, w, b = variables("float64")
    with tf.GradientTape() as tape:
        loss = weighted(function(b, x @ w))
    close(tape.gradient(loss, [w, b])[1], FOR_B, "float64")
    assert sums == []


SHAPES = [(), (1,), (1, COLUMNS), (ROWS, 1), (1, 1), (ROWS, COLUMNS)]


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_biases_of_other_shapes_have_sums_of_their_own(sums, shape):
    x, w, _ = variables("float64")
    b = tf.Variable(np.zeros(shape))
    with tf.GradientTape() as tape:
        loss = weighted(x @ w + b)
    for_w, for_b = tape.gradient(loss, [w, b])
    axes = tuple(k for k, n in enumerate((1, 1, *shape)[-2:]) if n == 1)
    close(for_w, FOR_W, "float64")
    close(for_b, T.sum(axes).reshape(shape), "float64")
    assert sums == []


@pytest.mark.engine
@pytest.mark.parametrize("followed", ["x", "w"])
def test_products_with_a_constant(sums, followed):
    x, w, b = variables("float64")
    with tf.GradientTape() as tape:
        if followed == "x":
            loss = weighted(x @ tf.constant(W) + b)
        else:
            loss = weighted(tf.constant(X) @ w + b)
    for_other, for_b = tape.gradient(loss, [x if followed == "x" else w, b])
    close(for_other, FOR_X if followed == "x" else FOR_W, "float64")
    close(for_b, FOR_B, "float64")
    assert len(sums) == (followed == "w")


def test_factors_are_no_biases(sums):
    x, w, b = variables("float64")
    with tf.GradientTape() as tape:
        loss = weighted((x @ w) * b)
    for_w, for_b = tape.gradient(loss, [w, b])
    close(for_w, X.T @ (T * B), "float64")
    close(for_b, (T * (X @ W)).sum(0), "float64")
    assert sums == []


@pytest.mark.engine
@pytest.mark.parametrize("persistent", [True, False])
def test_sources_between_and_sources_left_out(sums, persistent):
    x, w, b = variables("float64")
    with tf.GradientTape(persistent=persistent) as tape:
        product = x @ w
        loss = weighted(product + b)
    for_product, for_b = tape.gradient(loss, [product, b])
    close(for_product, T, "float64")
    close(for_b, FOR_B, "float64")
    assert sums == []
    if persistent:
        close(tape.gradient(loss, b), FOR_B, "float64")
        close(tape.gradient(loss, w), FOR_W, "float64")
        assert sums == []
        for found, expected in zip(tape.gradient(loss, [w, b]), (FOR_W, FOR_B)):
            close(found, expected, "float64")
        assert sums == [False]


def test_small_products_are_left_alone(monkeypatch, sums):
    monkeypatch.setattr(matrix_product_sum, "LEAST_WITH_SUMS", ROWS * DEPTH * COLUMNS + 1)
    x, w, b = variables("float64")
    with tf.GradientTape() as tape:
        loss = weighted(x @ w + b)
    close(tape.gradient(loss, b), FOR_B, "float64")
    assert sums == []


def test_complex_numbers_have_sums_of_their_own(sums):
    x, w, b = (tf.cast(v, "complex128") for v in variables("float64"))
    with tf.GradientTape() as tape:
        tape.watch([w, b])
        loss = weighted(tf.math.real(x @ w + b))
    for_w, for_b = (tf.math.real(found) for found in tape.gradient(loss, [w, b]))
    close(for_w, FOR_W, "float64")
    close(for_b, FOR_B, "float64")
    assert sums == []


@pytest.mark.parametrize("halves", ["xw", "w", "x"])
def test_sums_of_mixed_precision_are_those_of_the_wider_one(sums, halves):
    x, w, b = variables("float32")
    with tf.GradientTape() as tape:
        one = tf.cast(x, "float16") if "x" in halves else x
        other = tf.cast(w, "float16") if "w" in halves else w
        y = one @ other + b
        loss = weighted(y)
    assert y.dtype == tf.float32
    for_w, for_b = tape.gradient(loss, [w, b])
    close(tf.cast(for_w, "float16"), FOR_W, "float16")
    close(for_b, FOR_B)
