"""Embeddings of sparse ids against sums that NumPy makes row by row."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.errors import ArgumentError, ArgumentTypeError

_PLACES = [[0, 0], [0, 1], [2, 0]]
_TABLE = tf.constant([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]])


def _sparse(values):
    return tf.SparseTensor(_PLACES, tf.constant(values), [4, 2])


def _combined(rows, weights, combiner):
    total = (np.array(rows) * np.array(weights)[:, None]).sum(axis=0)
    size = {"sum": 1.0, "mean": np.sum(weights), "sqrtn": np.sqrt(np.sum(np.square(weights)))}
    return total / size[combiner]


@pytest.mark.parametrize("combiner", ["sum", "mean", "sqrtn"])
def test_rows_are_combined(combiner):
    found = tf.nn.embedding_lookup_sparse(
        _TABLE, _sparse([1, 2, 0]), _sparse([1.0, 3.0, 0.5]), combiner
    )
    table = _TABLE.numpy()
    wanted = [_combined(table[[1, 2]], [1.0, 3.0], combiner), [0.0, 0.0],
              _combined(table[[0]], [0.5], combiner)]  # fmt: skip

    np.testing.assert_allclose(found, wanted, rtol=1e-6)


def test_rows_of_the_table_are_shortened():
    found = tf.nn.embedding_lookup_sparse(_TABLE, _sparse([1, 1, 0]), None, max_norm=1.0)

    np.testing.assert_allclose(np.linalg.norm(found, axis=1), [1.0, 0.0, 1.0], rtol=1e-6)


def test_invalid_ids_and_weights_do_not_count():
    ids, weights = _sparse([1, -1, 0]), _sparse([1.0, 3.0, -0.5])

    plain = tf.nn.safe_embedding_lookup_sparse(_TABLE, ids)
    weighted = tf.nn.safe_embedding_lookup_sparse(_TABLE, ids, weights, default_id=2)
    total = tf.nn.safe_embedding_lookup_sparse(_TABLE, ids, weights, "sum")

    assert plain.tolist() == [[2.0, 3.0], [0.0, 0.0], [0.0, 1.0], [0.0, 0.0]]
    assert weighted.tolist() == [[2.0, 3.0], [4.0, 5.0], [4.0, 5.0], [4.0, 5.0]]
    assert total.tolist() == [[2.0, 3.0], [0.0, 0.0], [0.0, -0.5], [0.0, 0.0]]


def test_ids_of_more_axes_keep_all_but_the_last():
    ids = tf.SparseTensor([[0, 0, 1], [1, 0, 0]], tf.constant([1, 2]), [2, 1, 2])

    assert tf.nn.safe_embedding_lookup_sparse(_TABLE, ids).shape == (2, 1, 2)


def test_the_table_gets_gradients():
    table = tf.Variable(_TABLE)
    with tf.GradientTape() as tape:
        y = tf.reduce_sum(tf.nn.embedding_lookup_sparse(table, _sparse([1, 2, 0]), None, "mean"))
    gradient = tf.convert_to_tensor(tape.gradient(y, table))

    assert gradient.tolist() == [[1.0, 1.0], [0.5, 0.5], [0.5, 0.5]]


@pytest.mark.parametrize(
    ("ids", "weights", "combiner", "error"),
    [
        ([1], None, "sum", ArgumentTypeError),
        (_sparse([0.5] * 3), None, "sum", ArgumentTypeError),
        (_sparse([1] * 3), None, "max", ArgumentError),
        (_sparse([1] * 3), _sparse([1] * 3), "sum", ArgumentError),
    ],
)
def test_wrong_arguments_are_refused(ids, weights, combiner, error):
    with pytest.raises(error):
        tf.nn.embedding_lookup_sparse(_TABLE, ids, weights, combiner)


def test_paddings_fill_whole_blocks():
    paddings, crops = tf.required_space_to_batch_paddings([5, 7], [2, 3], [[1, 0], [2, 1]])

    assert paddings.tolist() == [[1, 0], [2, 3]]
    assert crops.tolist() == [[0, 0], [0, 2]]
