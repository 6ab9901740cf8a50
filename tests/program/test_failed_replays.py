"""An error at replay changes nothing, and names the user's operation and line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf

HERE = "test_failed_replays.py:"


NAMES = [
    *("gather", "indexing", "gather_nd", "embedding", "scatter", "labels"),
    *("cholesky", "inverse", "solve"),
]


def made() -> dict[str, tuple[Any, Any, Any, type[Exception], str]]:
    """Functions of a variable that fail for a second argument, the error and its operation."""
    table = tf.Variable(np.zeros((3, 2)))
    embedding = tf.keras.layers.Embedding(3, 2)
    loss = tf.keras.losses.SparseCategoricalCrossentropy()
    eye, zeros, indices = tf.eye(2), tf.zeros([2, 2]), tf.constant([0, 1])
    scores = tf.fill([2, 3], 1.0 / 3.0)
    return {
        "gather": (lambda i: tf.gather(table, i), indices, indices + 8, IndexError, "gather"),
        "indexing": (lambda i: table[i], indices, indices - 8, IndexError, "Indexing"),
        "gather_nd": (
            lambda i: tf.gather_nd(table, i), indices, indices + 8, IndexError, "gather_nd",
        ),
        "embedding": (lambda i: embedding(i), indices, indices + 8, IndexError, "Embedding"),
        "scatter": (
            lambda i: tf.tensor_scatter_nd_update(tf.zeros(3), i[:, None], tf.ones(2)),
            indices, indices + 8, IndexError, "tensor_scatter_nd_update",
        ),
        "labels": (lambda y: loss(y, scores), indices, indices + 8, ValueError, "label 8"),
        "cholesky": (tf.linalg.cholesky, eye, -eye, np.linalg.LinAlgError, "cholesky"),
        "inverse": (tf.linalg.inv, eye, zeros, np.linalg.LinAlgError, "inv"),
        "solve": (
            lambda m: tf.linalg.solve(m, eye), eye, zeros, np.linalg.LinAlgError, "solve",
        ),
    }  # fmt: skip


@pytest.mark.parametrize("writes", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_an_error_changes_nothing_and_names_the_line(name: str, writes: bool) -> None:
    operation, good, bad, kind, text = made()[name]
    first, second = tf.Variable(np.zeros(3)), tf.Variable(np.zeros(3))

    @tf.function
    def step(x: Any) -> Any:
        if writes:
            first.assign_add(tf.ones(3, "float64"))
        result = operation(x)
        if writes:
            second.assign_add(first)
        return result

    for _ in range(3):
        step(good)
    before = first.numpy().copy(), second.numpy().copy()

    with pytest.raises(kind) as caught:
        step(bad)

    message = str(caught.value)
    assert text in message
    assert HERE in message
    assert "4611686018427387904" not in message
    np.testing.assert_array_equal(first.numpy(), before[0])
    np.testing.assert_array_equal(second.numpy(), before[1])
    step(good)
    np.testing.assert_array_equal(first.numpy(), before[0] + writes)


def test_updates_come_after_everything_that_can_fail() -> None:
    """An update that a later step reads is not written in place."""
    v = tf.Variable(np.ones(4))

    @tf.function
    def step(m: Any) -> Any:
        v.assign_add(tf.ones(4, "float64"))
        scale = tf.reduce_sum(tf.cumsum(v))
        return tf.linalg.cholesky(m * scale)

    good, bad = tf.eye(2, dtype="float64"), -tf.eye(2, dtype="float64")
    step(good)
    step(good)
    with pytest.raises(np.linalg.LinAlgError):
        step(bad)
    np.testing.assert_array_equal(v.numpy(), np.full(4, 3.0))


def test_arrays_that_do_not_fit_a_loop_are_no_error() -> None:
    """A loop that updates in place reads an array in another order."""
    first, second = tf.Variable(np.zeros((3, 4))), tf.Variable(np.zeros((3, 4)))

    @tf.function
    def step(x: Any) -> None:
        first.assign_add(x)
        second.assign_add(2.0 * x)

    ordered = tf.constant(np.arange(12.0).reshape(3, 4))
    step(ordered)
    for _ in range(2):
        step(tf.Tensor(np.asfortranarray(ordered.numpy())))
    step(ordered)
    np.testing.assert_array_equal(first.numpy(), 4 * ordered.numpy())
    np.testing.assert_array_equal(second.numpy(), 8 * ordered.numpy())


def test_a_variable_of_another_shape_changes_nothing() -> None:
    first = tf.Variable(np.zeros(5))
    second = tf.Variable(np.zeros(5), shape=(None,))

    @tf.function
    def step() -> None:
        first.assign_add(tf.ones(5, "float64"))
        second.assign(second * 2.0)

    step()
    step()
    second.assign(np.zeros(7))
    with pytest.raises(tf.errors.ShapeError):
        step()
    np.testing.assert_array_equal(first.numpy(), np.full(5, 2.0))
