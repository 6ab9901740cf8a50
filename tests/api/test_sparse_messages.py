"""serialize_sparse, serialize_many_sparse and deserialize_many_sparse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.errors import ArgumentTypeError, FileFormatError, ShapeError

DENSE = np.array([[[0, 2, 0], [1, 0, 0]], [[0, 0, 0], [0, 0, 3]]], np.float32)
WORDS = [["a", ""], ["", "bc"]]


def test_three_texts_hold_the_parts() -> None:
    x = tf.sparse.from_dense(DENSE)

    texts = tf.io.serialize_sparse(x)

    parts = [tf.io.parse_tensor(t, d) for t, d in zip(texts, ("int64", "float32", "int64"))]
    np.testing.assert_array_equal(parts[0], np.argwhere(DENSE))
    np.testing.assert_array_equal(parts[1], [2, 1, 3])
    np.testing.assert_array_equal(parts[2], [2, 2, 3])
    assert texts.numpy().shape == (3,)


@pytest.mark.parametrize(("dense", "dtype"), [(DENSE, "float32"), (DENSE.astype(int), "int64")])
def test_entries_come_back(dense: Any, dtype: str) -> None:
    texts = tf.io.serialize_many_sparse(tf.sparse.from_dense(dense))

    found = tf.io.deserialize_many_sparse(texts, dtype, rank=2)

    assert texts.shape == (2, 3)
    np.testing.assert_array_equal(tf.sparse.to_dense(found), dense)
    # One entry is what serialize_sparse writes of it.
    one = tf.io.serialize_sparse(tf.sparse.from_dense(dense[1]))
    assert texts.numpy()[1].tolist() == one.numpy().tolist()


def test_texts_and_entries_of_other_sizes_are_joined() -> None:
    words = tf.SparseTensor([[0, 0], [1, 1]], tf.constant(["a", "bc"]), [2, 2])
    longer = tf.SparseTensor([[4]], tf.constant(["d"]), [5])
    texts = tf.concat(
        [tf.io.serialize_many_sparse(words), tf.io.serialize_sparse(longer)[None]], axis=0
    )

    found = tf.io.deserialize_many_sparse(texts, tf.string)

    assert found.shape == (3, 5)
    assert found.values.numpy().tolist() == [b"a", b"bc", b"d"]
    np.testing.assert_array_equal(found.indices, [[0, 0], [1, 1], [2, 4]])


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ArgumentTypeError, match=r"serialize_sparse takes a sparse tensor"):
        tf.io.serialize_sparse(tf.constant(DENSE))
    with pytest.raises(ShapeError, match=r"at least two dimensions"):
        tf.io.serialize_many_sparse(tf.sparse.from_dense(DENSE[0, 0]))
    with pytest.raises(ShapeError, match=r"three texts for each entry"):
        tf.io.deserialize_many_sparse(tf.constant(["a"]), "float32")
    texts = tf.io.serialize_many_sparse(tf.sparse.from_dense(DENSE))
    with pytest.raises(FileFormatError, match=r"same number of dimensions, 3"):
        tf.io.deserialize_many_sparse(texts, "float32", rank=3)
