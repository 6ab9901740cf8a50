"""Ragged tensors: creation, rows, functions of tensors on them, and gradients."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.errors import ArgumentError, ArgumentTypeError, ShapeError

ROWS = [[3, 1, 4, 1], [], [5, 9, 2], [6], []]
DEEP = [[[1, 2], []], [[3]], []]


def digits() -> Any:
    return tf.ragged.constant(ROWS)


def test_nested_lists_become_ragged_tensors() -> None:
    rows = digits()

    assert rows.to_list() == ROWS
    assert (rows.shape, rows.dtype) == ((5, None), tf.int32)
    assert rows.row_splits.tolist() == [0, 4, 4, 7, 8, 8]
    assert rows.row_lengths().tolist() == [4, 0, 3, 1, 0]
    assert rows.value_rowids().tolist() == [0, 0, 0, 0, 2, 2, 2, 3]
    assert rows.bounding_shape().tolist() == [5, 4]


def test_rows_may_have_rows() -> None:
    deep = tf.ragged.constant(DEEP)

    assert deep.to_list() == DEEP
    assert (deep.shape, deep.ragged_rank) == ((3, None, None), 2)
    assert deep.to_tensor(-1).tolist() == [
        [[1, 2], [-1, -1]],
        [[3, -1], [-1, -1]],
        [[-1, -1], [-1, -1]],
    ]
    assert deep[0].to_list() == [[1, 2], []]
    assert deep.merge_dims(0, 1).to_list() == [[1, 2], [], [3]]
    assert tf.reduce_sum(deep, axis=2).to_list() == [[3, 0], [3], []]


def test_text_and_entries_of_a_shape() -> None:
    words = tf.ragged.constant([["so", "long"], ["thanks"]])
    points = tf.ragged.constant([[[1.0, 2.0]], []], ragged_rank=1)

    assert words.to_tensor("-").tolist() == [[b"so", b"long"], [b"thanks", b"-"]]
    assert tf.strings.length(words).to_list() == [[2, 4], [6]]
    assert tf.strings.substr(words, 0, 2).to_list() == [[b"so", b"lo"], [b"th"]]
    assert tf.strings.join([words, "s"], "-").to_list() == [[b"so-s", b"long-s"], [b"thanks-s"]]
    assert points.shape == (2, None, 2)
    assert points.to_tensor().tolist() == [[[1.0, 2.0]], [[0.0, 0.0]]]


@pytest.mark.parametrize(
    "made",
    [
        lambda x: tf.RaggedTensor.from_row_splits(x, [0, 4, 4, 7, 8, 8]),
        lambda x: tf.RaggedTensor.from_row_lengths(x, [4, 0, 3, 1, 0]),
        lambda x: tf.RaggedTensor.from_value_rowids(x, [0, 0, 0, 0, 2, 2, 2, 3], nrows=5),
        lambda x: tf.RaggedTensor.from_row_starts(x, [0, 4, 4, 7, 8]),
        lambda x: tf.RaggedTensor.from_row_limits(x, [4, 4, 7, 8, 8]),
        lambda x: tf.RaggedTensor.from_tensor(digits().to_tensor(), lengths=[4, 0, 3, 1, 0]),
        lambda x: tf.RaggedTensor.from_tensor(digits().to_tensor(-1), padding=-1),
        lambda x: tf.RaggedTensor.from_sparse(digits().to_sparse()),
    ],
)
def test_rows_are_made_in_many_ways(made: Any) -> None:
    assert made(tf.constant([3, 1, 4, 1, 5, 9, 2, 6])).to_list() == ROWS


def test_rows_are_chosen_as_in_python() -> None:
    rows = digits()

    assert rows[2].tolist() == [5, 9, 2]
    assert rows[2, 1].numpy() == 9
    assert rows[1:4].to_list() == ROWS[1:4]
    assert rows[:, :2].to_list() == [row[:2] for row in ROWS]
    assert rows[:, -1:].to_list() == [row[-1:] for row in ROWS]
    assert [row.tolist() for row in rows] == ROWS
    assert tf.gather(rows, [3, 0]).to_list() == [ROWS[3], ROWS[0]]


def test_functions_of_elements_keep_the_rows() -> None:
    rows = digits()

    assert (rows * 2 + 1).to_list() == [[2 * n + 1 for n in row] for row in ROWS]
    assert tf.add(rows, rows).to_list() == [[2 * n for n in row] for row in ROWS]
    assert (rows > 3).to_list() == [[n > 3 for n in row] for row in ROWS]
    assert tf.cast(rows, tf.float32).dtype == tf.float32
    assert tf.add(rows, [[10], [20], [30], [40], [50]])[3].tolist() == [46]
    assert tf.ragged.map_flat_values(lambda x: x * x, rows)[0].tolist() == [9, 1, 16, 1]


@pytest.mark.parametrize("name", ["sum", "max", "min", "mean", "prod"])
def test_rows_and_columns_are_reduced(name: str) -> None:
    rows = [[3.0, 1.0], [2.0], [5.0, 9.0, 4.0]]
    function = getattr(tf, f"reduce_{name}")

    found = [function(tf.ragged.constant(rows), axis=axis) for axis in (1, 0, None)]

    columns = [[3.0, 2.0, 5.0], [1.0, 9.0], [4.0]]
    np.testing.assert_allclose(found[0], [getattr(np, name)(row) for row in rows])
    np.testing.assert_allclose(found[1], [getattr(np, name)(row) for row in columns])
    np.testing.assert_allclose(found[2], getattr(np, name)(np.concatenate(rows)))


def test_ragged_tensors_are_joined() -> None:
    rows, more = tf.ragged.constant([[1], [2, 3]]), tf.ragged.constant([[4, 5], []])

    assert tf.concat([rows, more], axis=0).to_list() == [[1], [2, 3], [4, 5], []]
    assert tf.concat([rows, more], axis=1).to_list() == [[1, 4, 5], [2, 3]]
    assert tf.stack([rows, more]).to_list() == [[[1], [2, 3]], [[4, 5], []]]
    assert tf.ragged.stack([tf.constant([1]), tf.constant([2, 3])]).to_list() == [[1], [2, 3]]
    assert tf.expand_dims(rows, 1).to_list() == [[[1]], [[2, 3]]]
    assert tf.tile(rows, [2, 2]).to_list() == [[1, 1], [2, 3, 2, 3]] * 2
    assert tf.reverse(rows, axis=[1]).to_list() == [[1], [3, 2]]
    assert tf.reverse(rows, axis=[0]).to_list() == [[2, 3], [1]]


def test_masks_choose_entries() -> None:
    rows = tf.ragged.constant([[1, 2, 3], [4]])

    assert tf.ragged.boolean_mask(rows, rows > 1).to_list() == [[2, 3], [4]]
    assert tf.map_fn(tf.reduce_max, rows).tolist() == [3, 4]


def test_gradients_reach_the_values() -> None:
    values = tf.Variable([1.0, 2.0, 3.0])

    with tf.GradientTape() as tape:
        rows = tf.RaggedTensor.from_row_lengths(tf.square(values), [2, 1])
        loss = tf.reduce_sum(rows.to_tensor() * [[1.0, 10.0], [100.0, 1000.0]])
        loss += tf.reduce_sum(tf.reduce_max(rows, axis=1))

    np.testing.assert_allclose(tape.gradient(loss, values), [2.0, 44.0, 606.0])


def test_ids_look_up_rows_of_a_table() -> None:
    table = tf.constant([[0.0, 1.0], [2.0, 3.0]])

    found = tf.nn.embedding_lookup(table, tf.ragged.constant([[1], [0, 1]]))

    assert found.shape == (2, None, 2)
    assert found[0].tolist() == [[2.0, 3.0]]


def test_what_cannot_be_done_says_so() -> None:
    rows = digits()

    with pytest.raises(ArgumentTypeError, match=r"matmul does not take ragged tensors. Use to_t"):
        tf.matmul(rows, rows)
    with pytest.raises(ShapeError, match="must have rows of equal lengths"):
        rows + tf.ragged.constant([[1]])
    with pytest.raises(ArgumentError, match=r"must rise from 0 to the number of values, 3"):
        tf.RaggedTensor.from_row_splits([1, 2, 3], [0, 4])
    with pytest.raises(ArgumentError, match="nested equally deep"):
        tf.ragged.constant([[1], 2])


def test_a_dataset_has_the_rows_as_elements() -> None:
    rows, names = tf.ragged.constant([[1, 2], [], [3]]), ["a", "b", "c"]

    elements = list(tf.data.Dataset.from_tensor_slices({"row": rows, "name": names}))

    assert [one["row"].tolist() for one in elements] == [[1, 2], [], [3]]
    assert [one["name"].numpy() for one in elements] == [b"a", b"b", b"c"]
    padded = tf.data.Dataset.from_tensor_slices(rows).padded_batch(3)
    assert next(iter(padded)).tolist() == [[1, 2], [0, 0], [3, 0]]


def test_numbers_beside_text_are_refused_as_a_value() -> None:
    with pytest.raises(ValueError, match=r"must be of one type\. Got 3 beside text"):
        tf.ragged.constant([["one", "two"], [3, 4]])


def test_shapes_of_ragged_tensors_have_the_lengths_of_rows() -> None:
    shape = tf.shape(tf.ragged.constant([[1], [2, 3, 4], [], [5, 6]]))

    assert shape.static_lengths() == [4, (1, 3, 0, 2)]
    assert (shape.rank, shape.num_row_partitions, shape.dtype) == (2, 1, tf.int32)
    assert int(shape[0]) == 4
    assert shape[:1].static_lengths() == [4]
    assert (shape.is_uniform(0), shape.is_uniform(1)) == (True, False)
    with pytest.raises(ValueError, match="Axis 1 is ragged"):
        _ = shape[1]
    assert tf.reshape(tf.range(6), shape).to_list() == [[0], [1, 2, 3], [], [4, 5]]
    assert tf.zeros(shape).to_list() == [[0.0], [0.0, 0.0, 0.0], [], [0.0, 0.0]]
    assert tf.fill(shape, "x").to_list()[3] == [b"x", b"x"]
    assert tf.broadcast_to(tf.constant(7), shape).to_list() == [[7], [7, 7, 7], [], [7, 7]]
    with pytest.raises(TypeError, match="does not take the shape of a ragged tensor"):
        tf.random.uniform(shape)


def test_ragged_shapes_from_lengths_and_partitions() -> None:
    made = tf.experimental.DynamicRaggedShape
    rows = tf.experimental.RowPartition.from_row_lengths([5, 3, 2])

    assert made.from_lengths([4, (2, 1, 0, 8), 12]).static_lengths() == [4, (2, 1, 0, 8), 12]
    assert made([rows], [10, 8]).static_lengths() == [3, (5, 3, 2), 8]
    assert made.from_lengths([2, (1, 2), (3, 1, 2)]).num_row_partitions == 2
    nested = tf.ragged.constant([[[1, 2], [3]], [[5, 6]]])
    assert tf.shape(nested) == made.from_lengths([2, (2, 1), (2, 1, 2)])
    assert rows.value_rowids().tolist() == [0, 0, 0, 0, 0, 1, 1, 1, 2, 2]
    assert rows.offsets_in_rows().tolist() == [0, 1, 2, 3, 4, 0, 1, 2, 0, 1]
    assert tf.experimental.RowPartition.from_uniform_row_length(2, nvals=6).is_uniform()
    with pytest.raises(ValueError, match="needs as many lengths"):
        made.from_lengths([3, (1, 2)])
    with pytest.raises(ValueError, match="The rows have 10 values"):
        made([rows], [11])
