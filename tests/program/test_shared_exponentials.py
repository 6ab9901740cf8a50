"""logsumexp, its gradient and softmax of the same rows compute one set of exponentials."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad_numpy.loops import compiler

pytestmark = pytest.mark.skipif(compiler.find() is None, reason="this machine has no C compiler")

rng = np.random.default_rng(4)


def exponentials(compiled: Any, *given: Any) -> int:
    """Return how many exponentials the formulas of a program's loops have."""
    steps = [step for step in compiled.program(*given).steps if hasattr(step, "run")]
    return sum(step.run.__dict__["source"].count("tg_exp(") for step in steps)


def loss_and_gradient(x: Any, w: Any, axis: Any = -1, keepdims: bool = False) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_logsumexp(x, axis=axis, keepdims=keepdims)
        loss = tf.reduce_sum(w * y * y)
    return y, tape.gradient(loss, x)


@pytest.mark.parametrize(("axis", "keepdims"), [(-1, False), (-1, True), ((1, 2), False)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_gradient_reads_the_exponentials_of_the_result(
    axis: Any, keepdims: bool, dtype: str
) -> None:
    x = tf.constant((5 * rng.normal(size=(12, 9, 40)) + 300).astype(dtype))
    w = tf.constant(rng.normal(size=()).astype(dtype))
    compiled = tf.function(lambda x, w: loss_and_gradient(x, w, axis, keepdims))
    for _ in range(2):
        y, gradient = compiled(x, w)

    wide = x.numpy().astype(np.float64)
    top = wide.max(axis, keepdims=True)
    total = np.exp(wide - top).sum(axis, keepdims=True)
    expected = np.log(total) + top
    slope = 2 * w.numpy() * expected * np.exp(wide - top) / total
    rtol = 1e-5 if dtype == "float32" else 1e-12
    np.testing.assert_allclose(y.numpy(), expected if keepdims else expected.squeeze(axis), rtol)
    np.testing.assert_allclose(gradient.numpy(), slope, rtol=10 * rtol)
    assert exponentials(compiled, x, w) == 1


def test_a_softmax_of_the_same_rows() -> None:
    x = tf.constant(rng.normal(size=(70, 30)))
    compiled = tf.function(lambda x: (tf.reduce_logsumexp(x, axis=1), tf.nn.softmax(x)))
    for _ in range(2):
        y, weights = compiled(x)

    terms = np.exp(x.numpy())
    np.testing.assert_allclose(y.numpy(), np.log(terms.sum(1)), rtol=1e-12)
    np.testing.assert_allclose(weights.numpy(), terms / terms.sum(1, keepdims=True), rtol=1e-12)
    assert exponentials(compiled, x) == 1


def test_rows_with_infinities() -> None:
    inf, nan = float("inf"), float("nan")
    rows = [[1.0, -inf, 2.0], [-inf] * 3, [inf, 1.0, inf], [inf, -inf, 0.0], [nan, 1.0, inf]]
    x = tf.constant(np.array(rows * 20))

    def function(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_logsumexp(x, axis=1)
        return y, tape.gradient(y, x), tf.nn.softmax(x)

    compiled = tf.function(function)
    with np.errstate(all="ignore"):
        for _ in range(2):
            found = compiled(x)
        for one, other in zip(found, function(x), strict=True):
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-12)
    assert exponentials(compiled, x) == 1


def test_exponentials_that_something_else_reads_stay() -> None:
    x = tf.constant(rng.normal(size=(40, 30)))

    def function(x: Any) -> Any:
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = tf.reduce_sum(tf.reduce_logsumexp(x, axis=1) ** 2)
            slope = tape.gradient(y, x)[0, 0]
        return outer.gradient(slope, x)

    compiled = tf.function(function)
    for _ in range(2):
        found = compiled(x)
    e = np.exp(x.numpy()[0])
    p, y = e / e.sum(), np.log(e.sum())
    expected = np.zeros((40, 30))
    expected[0] = 2 * p[0] * p * (1 - y)
    expected[0, 0] += 2 * y * p[0]
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-10, atol=1e-14)


def test_many_exponentials_are_not_stored_for_a_later_loop() -> None:
    x = tf.constant(rng.normal(size=(600, 600)))

    def function(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_logsumexp(x, axis=1)
            loss = tf.math.sqrt(tf.reduce_sum(y * y))  # known after all rows
        return tape.gradient(loss, x)

    compiled = tf.function(function)
    for _ in range(2):
        found = compiled(x)
    e = np.exp(x.numpy())
    y = np.log(e.sum(1))
    expected = (y / np.sqrt((y * y).sum()))[:, None] * e / e.sum(1, keepdims=True)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-10)
    assert exponentials(compiled, x) == 2
