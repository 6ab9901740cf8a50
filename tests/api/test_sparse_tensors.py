"""Sparse tensors: their functions are compared with NumPy's on dense arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.errors import ArgumentError, ArgumentTypeError

A = np.array([[0.0, 2.0, 0.0], [3.0, 0.0, -4.0], [0.0, 0.0, 0.0], [0.0, 5.0, 0.0]], "float32")
B = np.array([[1.0, 2.0, 0.0], [-3.0, 0.0, 0.0], [0.0, 7.0, 0.0], [0.0, 0.0, 0.0]], "float32")


def dense(x: Any) -> np.ndarray:
    return tf.sparse.to_dense(x).numpy()


def test_a_sparse_tensor_has_its_parts() -> None:
    x = tf.sparse.from_dense(A)

    assert x.indices.tolist() == np.argwhere(A).tolist()
    assert x.values.tolist() == [2.0, 3.0, -4.0, 5.0]
    assert (x.shape, x.dense_shape.tolist(), x.dtype) == ((4, 3), [4, 3], tf.float32)
    assert x.indices.dtype == tf.int64
    np.testing.assert_array_equal(dense(x), A)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda a, b: tf.sparse.add(a, b), A + B),
        (lambda a, b: tf.sparse.maximum(a, b), np.maximum(A, B)),
        (lambda a, b: tf.sparse.minimum(a, b), np.minimum(A, B)),
        (lambda a, b: tf.sparse.concat(0, [a, b]), np.concatenate([A, B])),
        (lambda a, b: tf.sparse.concat(1, [a, b]), np.concatenate([A, B], 1)),
        (lambda a, b: tf.sparse.transpose(a), A.T),
        (lambda a, b: tf.sparse.reshape(a, [3, -1]), A.reshape(3, 4)),
        (lambda a, b: tf.sparse.expand_dims(a, 1), A[:, None]),
        (lambda a, b: tf.sparse.slice(a, [1, 1], [5, 2]), A[1:, 1:]),
        (lambda a, b: tf.sparse.slice(a, [1, 7], [2, 2]), A[1:3, 7:9]),
        (lambda a, b: tf.sparse.map_values(tf.abs, a), abs(A)),
        (lambda a, b: tf.sparse.retain(a, [True, False, True, False]), A * (A % 3 != 0) * (A < 5)),
        (lambda a, b: 3.0 * a, 3 * A),
        (lambda a, b: a * tf.constant([[1.0], [2.0], [3.0], [4.0]]), A * [[1], [2], [3], [4]]),
        (lambda a, b: tf.sparse.eye(4, 3), np.eye(4, 3)),
    ],
)
def test_functions_agree_with_numpy(function: Any, expected: np.ndarray) -> None:
    found = function(tf.sparse.from_dense(A), tf.sparse.from_dense(B))

    np.testing.assert_allclose(dense(found), expected)


def test_products_with_matrices() -> None:
    a, w = tf.sparse.from_dense(A), np.arange(6.0, dtype="float32").reshape(3, 2)

    np.testing.assert_allclose(tf.sparse.sparse_dense_matmul(a, w), A @ w)
    np.testing.assert_allclose(tf.sparse.sparse_dense_matmul(a, w.T, adjoint_b=True), A @ w)
    np.testing.assert_allclose(tf.sparse.sparse_dense_matmul(a, B, adjoint_a=True), A.T @ B)
    np.testing.assert_allclose(tf.sparse.sparse_dense_matmul(B.T, a), B.T @ A)


@pytest.mark.parametrize("axis", [None, 0, 1, [0, 1]])
@pytest.mark.parametrize("keepdims", [False, True])
def test_sums(axis: Any, keepdims: bool) -> None:
    found = tf.sparse.reduce_sum(tf.sparse.from_dense(A), axis, keepdims)

    wanted = A.sum(axis=tuple(axis) if isinstance(axis, list) else axis, keepdims=keepdims)
    np.testing.assert_allclose(found, wanted)


def test_text_and_default_values() -> None:
    x = tf.SparseTensor([[0, 0], [1, 1]], ["a", "b"], [2, 2])

    assert tf.sparse.to_dense(x, default_value="-").tolist() == [[b"a", b"-"], [b"-", b"b"]]
    y = tf.SparseTensor([[1]], [5], [3])
    assert tf.sparse.to_dense(y, default_value=-1).tolist() == [-1, 5, -1]


def test_indices_are_checked_and_sorted() -> None:
    x = tf.SparseTensor([[2], [0]], [1, 2], [3])

    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"indices\[1\] = \[0\] is out of order"
    ):
        tf.sparse.to_dense(x)
    assert tf.sparse.to_dense(tf.sparse.reorder(x)).tolist() == [2, 0, 1]
    with pytest.raises(ArgumentError, match="needs one value for each index"):
        tf.SparseTensor([[0]], [1, 2], [3])


def test_gradients_reach_the_values() -> None:
    values = tf.Variable([1.0, 2.0])

    with tf.GradientTape() as tape:
        x = tf.SparseTensor([[0, 1], [1, 0]], tf.square(values), [2, 2])
        loss = tf.reduce_sum(tf.sparse.sparse_dense_matmul(x, [[1.0], [10.0]]))
        loss += tf.reduce_sum(tf.sparse.to_dense(x))

    np.testing.assert_allclose(tape.gradient(loss, values), [22.0, 8.0])


def test_sums_of_sparse_tensors_and_numbers_are_refused() -> None:
    x = tf.SparseTensor([[0]], [1.0], [3])

    with pytest.raises(TypeError):
        x + 42.0
    with pytest.raises(ArgumentTypeError, match="matmul does not take sparse tensors"):
        tf.matmul(x, x)
