from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.core.primitive.primitive import PRIMITIVES
from tapegrad.program.passes.losses import with_losses_and_gradients
from tests.program.recorded_graphs import assert_same_results, count, recorded, run

rng = np.random.default_rng(0)
X, W, B = rng.normal(size=(6, 4)), rng.normal(size=(4, 5)), rng.normal(size=5)
LABELS = np.array([0, 4, 2, 2, 1, 3])
WEIGHTS = rng.uniform(0.1, 1, size=(6, 5))

sparse = tf.nn.sparse_softmax_cross_entropy_with_logits
dense = tf.nn.softmax_cross_entropy_with_logits
LOSSES = {"sparse": (sparse, LABELS), "dense": (dense, WEIGHTS)}
EACH = pytest.mark.parametrize(("loss", "labels"), LOSSES.values(), ids=LOSSES)

SEPARATE = (
    "sparse_cross_entropy",
    "sparse_cross_entropy_gradient",
    "cross_entropy",
    "cross_entropy_gradient",
)
TOGETHER = ("sparse_cross_entropy_and_gradient", "cross_entropy_and_gradient")


def training(loss: Any, total: Any = tf.reduce_mean) -> Any:
    def step(x: Any, w: Any, b: Any, labels: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([w, b])
            value = total(loss(labels, x @ w + b))
        return (value, *tape.gradient(value, [w, b]))

    return step


def check(function: Any, arrays: list[Any], together: int, separate: int = 0) -> Any:
    before = recorded(function, arrays)

    after = with_losses_and_gradients(before)

    assert_same_results(before, after, arrays)
    assert (count(after, *TOGETHER), count(after, *SEPARATE)) == (together, separate)
    return after


@EACH
@pytest.mark.parametrize("total", [tf.reduce_mean, tf.reduce_sum])
def test_a_loss_and_its_gradient_are_one_call(loss: Any, labels: Any, total: Any) -> None:
    check(training(loss, total), [X, W, B, labels], together=1)


def test_the_loss_is_that_of_the_formula() -> None:
    after = check(training(sparse), [X, W, B, LABELS], together=1)

    loss, *_ = run(after, [X, W, B, LABELS])

    logits = X @ W + B
    totals = np.log(np.exp(logits).sum(axis=1))
    np.testing.assert_allclose(loss, np.mean(totals - logits[np.arange(6), LABELS]), rtol=1e-12)


@EACH
def test_weights_of_examples_are_a_cotangent_that_is_known_before(loss: Any, labels: Any) -> None:
    def step(x: Any, labels: Any, weights: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            total = tf.reduce_sum(loss(labels, x) * tf.exp(weights))
        return total, tape.gradient(total, x)

    check(step, [WEIGHTS * 3, labels, X[:, 0]], together=1)


def test_a_loss_in_half_precision_that_is_averaged_in_single_is_found() -> None:
    def step(x: Any, labels: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            total = tf.reduce_mean(tf.cast(sparse(labels, tf.cast(x, "float16")), "float32"))
        return total, tape.gradient(total, x)

    check(step, [WEIGHTS.astype("float32"), LABELS], together=1)


def test_two_losses_are_two_pairs() -> None:
    def step(x: Any, labels: Any, weights: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            total = tf.reduce_mean(sparse(labels, x)) + tf.reduce_sum(dense(weights, x * x))
        return total, tape.gradient(total, x)

    check(step, [WEIGHTS + 1, LABELS, WEIGHTS], together=2)


@EACH
def test_a_cotangent_that_depends_on_the_loss_keeps_the_calls_apart(loss: Any, labels: Any) -> None:
    def squared(each: Any) -> Any:
        return tf.reduce_sum(each * each)

    check(training(loss, squared), [X, W, B, labels], together=0, separate=2)


@EACH
def test_a_loss_without_a_gradient_stays(loss: Any, labels: Any) -> None:
    check(lambda x, labels: (loss(labels, x),), [WEIGHTS, labels], together=0, separate=1)


def test_a_softmax_that_is_used_elsewhere_keeps_the_calls_apart() -> None:
    primitive = PRIMITIVES["sparse_cross_entropy"]

    def step(x: Any, labels: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss, softmax = primitive(x, labels)
            total = tf.reduce_sum(loss)
        return total, tape.gradient(total, x), softmax

    check(step, [WEIGHTS, LABELS], together=0, separate=2)


def test_two_gradients_of_one_loss_keep_the_calls_apart() -> None:
    def step(x: Any, labels: Any, weights: Any) -> Any:
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            each = sparse(labels, x)
            first, second = tf.reduce_sum(each), tf.reduce_sum(each * weights)
        return tape.gradient(first, x), tape.gradient(second, x)

    check(step, [WEIGHTS, LABELS, X[:, 0]], together=0, separate=3)


def test_a_program_without_losses_is_returned_as_it_is() -> None:
    graph = recorded(lambda x: (tf.exp(x),), [X])

    assert with_losses_and_gradients(graph) is graph


def test_a_wrong_label_is_still_refused_where_the_backend_refuses_it() -> None:
    graph = with_losses_and_gradients(recorded(training(sparse), [X, W, B, LABELS]))

    with pytest.raises(ValueError, match="labels must be from 0 to 4"):
        run(graph, [X, W, B, LABELS + 1])


def test_variables_move_by_the_gradient() -> None:
    w = tf.Variable(W)

    def train(x: Any, labels: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(sparse(labels, x @ w))
        w.assign_sub(tape.gradient(loss, w))
        return (loss,)

    before = recorded(train, [X, LABELS], [w])
    after = with_losses_and_gradients(before)

    assert count(after, *TOGETHER) == 1
    assert_same_results(before, after, [X, LABELS], [W])
