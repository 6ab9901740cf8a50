"""tf.sparse and tf.ragged: rows that are counted, crossed, filled, masked, split and stacked."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.errors import ArgumentError, ArgumentTypeError, ShapeError

DENSE = np.array([[1, 0, 2, 0], [0, 0, 0, 0], [3, 2, 0, 0]])
SPARSE = tf.sparse.from_dense(DENSE)


def dense(x):
    return tf.sparse.to_dense(x).numpy()


def test_softmax_is_over_the_values_of_each_row_and_has_gradients():
    values = tf.Variable([1.0, 2.0, 3.0], dtype="float64")
    places = [[0, 0], [0, 2], [1, 1]]
    weights = np.array([2.0, -1.0, 4.0])

    def total(v):
        return tf.reduce_sum(weights * tf.sparse.softmax(tf.SparseTensor(places, v, [3, 3])).values)

    with tf.GradientTape() as tape:
        y = total(values)
    shares = np.exp([1.0, 2.0]) / np.exp([1.0, 2.0]).sum()
    step = 1e-6 * np.array([1.0, -2.0, 3.0])

    assert float(y) == pytest.approx(weights[:2] @ shares + 4.0)
    slope = tape.gradient(y, values).numpy() @ step
    rise = float(total(values + step) - total(values - step)) / 2
    assert slope == pytest.approx(rise, rel=1e-6)


def test_empty_rows_get_a_value():
    filled, empty = tf.sparse.fill_empty_rows(SPARSE, 9)
    texts, _ = tf.sparse.fill_empty_rows(tf.SparseTensor([[1, 1]], ["b"], [2, 2]), "a")

    np.testing.assert_array_equal(dense(filled), [[1, 0, 2, 0], [9, 0, 0, 0], [3, 2, 0, 0]])
    assert empty.tolist() == [False, True, False]
    assert texts.values.tolist() == [b"a", b"b"]
    with pytest.raises(ShapeError, match="default_value must be one number"):
        tf.sparse.fill_empty_rows(SPARSE, [1, 2])


def test_shapes_grow_or_shrink_to_the_values():
    wide = tf.sparse.reset_shape(SPARSE, [4, 4])

    np.testing.assert_array_equal(dense(wide), np.pad(DENSE, ((0, 1), (0, 0))))
    assert tf.sparse.reset_shape(SPARSE).shape == (3, 3)
    with pytest.raises(ShapeError, match="no axis is shorter"):
        tf.sparse.reset_shape(SPARSE, [2, 4])


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_parts_are_those_of_numpy(axis):
    parts = tf.sparse.split(SPARSE, 3, axis=axis)

    for part, expected in zip(parts, np.array_split(DENSE, 3, axis), strict=True):
        np.testing.assert_array_equal(dense(part), expected)
    with pytest.raises(ShapeError, match="cannot make 9 parts"):
        tf.sparse.split(SPARSE, 9, axis=axis)


def test_indicators_say_which_numbers_a_row_holds():
    found = tf.sparse.to_indicator(SPARSE, 5).numpy()

    expected = [[n in row[row > 0] for n in range(5)] for row in DENSE]
    np.testing.assert_array_equal(found, expected)
    with pytest.raises(ArgumentError, match="numbers from 0 to 2"):
        tf.sparse.to_indicator(SPARSE, 3)


def test_masks_leave_out_rows():
    rows = tf.IndexedSlices(tf.constant([[1.0], [2.0], [3.0]]), [12, 26, 37])

    found = tf.sparse.mask(rows, [12, 37, 99])

    assert (found.indices.tolist(), found.values.tolist()) == ([26], [[2.0]])
    with pytest.raises(ArgumentTypeError, match="mask takes IndexedSlices"):
        tf.sparse.mask(SPARSE, [1])


def test_segments_of_picked_rows():
    data, picked, ids = np.arange(12.0).reshape(4, 3), [3, 0, 1], [0, 0, 2]
    total = np.stack([data[3] + data[0], np.zeros(3), data[1], np.zeros(3)])

    counts = {"sum": [[1]] * 4, "mean": [[2], [1], [1], [1]], "sqrt_n": [[2**0.5]] + [[1]] * 3}
    for name, count in counts.items():
        found = getattr(tf.sparse, f"segment_{name}")(data, picked, ids, num_segments=4)
        np.testing.assert_allclose(found, total / count)
    with tf.GradientTape() as tape:
        x = tf.constant(data)
        tape.watch(x)
        y = tf.sparse.segment_sum(x, picked, ids)
    assert dense_rows(tape.gradient(y, x)) == [1.0, 1.0, 0.0, 1.0]
    with pytest.raises(ArgumentError, match="that do not fall"):
        tf.sparse.segment_sum(data, picked, [1, 0, 0])


def dense_rows(gradient):
    return tf.convert_to_tensor(gradient).numpy()[:, 0].tolist()


@pytest.mark.parametrize("options", [{}, {"minlength": 6}, {"maxlength": 3}])
@pytest.mark.parametrize("axis", [0, -1])
def test_counts_are_those_of_numpy(axis, options):
    numbers = np.array([[1, 1, 4], [0, 3, 3]])
    rows = [numbers.ravel()] if axis == 0 else numbers
    size = options.get("maxlength") or max(5, options.get("minlength", 0))
    expected = np.stack([np.bincount(row[row < size], minlength=size) for row in rows])

    found = tf.sparse.bincount(numbers, axis=axis, **options)
    binary = tf.sparse.bincount(numbers, axis=axis, binary_output=True, **options)

    np.testing.assert_array_equal(dense(found), expected[0] if axis == 0 else expected)
    assert (dense(binary) == (dense(found) > 0)).all()


def test_counts_of_sparse_and_ragged_rows_take_weights():
    ragged = tf.ragged.constant([[1, 1], [], [3]])
    weights = tf.ragged.constant([[0.5, 0.25], [], [2.0]])

    found = tf.sparse.bincount(ragged, weights, axis=-1)

    np.testing.assert_array_equal(dense(found), [[0, 0.75, 0, 0], [0] * 4, [0, 0, 0, 2.0]])
    counts = dense(tf.sparse.bincount(SPARSE, axis=-1))
    np.testing.assert_array_equal(counts, [[0, 1, 1, 0], [0] * 4, [0, 0, 1, 1]])
    with pytest.raises(ArgumentError, match="cannot use weights and binary_output"):
        tf.sparse.bincount([1], weights=[1.0], binary_output=True)


# Crosses; the hashes are those that TensorFlow computes.

COLUMNS = [[["a"], ["b"]], [["x", "y"], ["z", "w"]]]


def test_crosses_join_each_combination():
    found = tf.sparse.cross([*COLUMNS, [[1], [20]]], separator="-")

    assert found.values.tolist() == [b"a-x-1", b"a-y-1", b"b-z-20", b"b-w-20"]
    assert found.indices.tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert tf.sparse.cross_hashed(COLUMNS, 100).values.tolist() == [92, 47, 60, 90]


def test_crosses_of_ragged_rows():
    columns = [tf.ragged.constant([["a"], ["b", "c"]]), tf.ragged.constant([["d"], ["e"]])]

    assert tf.ragged.cross(columns).to_list() == [[b"a_X_d"], [b"b_X_e", b"c_X_e"]]
    assert tf.ragged.cross_hashed(columns).to_list() == [
        [1584069791037555375],
        [4171697120956746554, 1746051686049959641],
    ]


@pytest.mark.parametrize(
    ("inputs", "message"),
    [([], "a list of matrices"), ([[["a"]], [["b"], ["c"]]], "equal numbers"),
     ([["a"]], "takes matrices"), ([[[1.5]]], "texts and whole numbers")],
)  # fmt: skip
def test_what_cannot_be_crossed_is_refused(inputs, message):
    for function in (tf.sparse.cross, tf.sparse.cross_hashed, tf.ragged.cross):
        with pytest.raises((ArgumentError, ArgumentTypeError, ShapeError), match=message):
            function(inputs)


# Ragged rows


def test_splits_and_segments_are_inverse():
    ids = np.array([0, 0, 2, 2, 2, 4])

    splits = tf.ragged.segment_ids_to_row_splits(ids, 6)

    assert splits.tolist() == [0, 2, 2, 5, 5, 6, 6]
    np.testing.assert_array_equal(tf.ragged.row_splits_to_segment_ids(splits), ids)
    assert tf.ragged.row_splits_to_segment_ids([0, 1], out_type="int32").dtype == "int32"
    with pytest.raises(ArgumentError, match="that do not fall"):
        tf.ragged.row_splits_to_segment_ids([0, 3, 2])
    with pytest.raises(ArgumentError, match="below num_segments"):
        tf.ragged.segment_ids_to_row_splits([0, 5], 3)


def test_partitions_become_rows_with_gradients():
    x = tf.Variable(np.arange(5.0))
    with tf.GradientTape() as tape:
        rows = tf.ragged.stack_dynamic_partitions(x * x, [3, 0, 2, 2, 3], 5)
        y = tf.reduce_sum(rows.flat_values)

    assert rows.to_list() == [[1.0], [], [4.0, 9.0], [0.0, 16.0], []]
    np.testing.assert_allclose(tape.gradient(y, x), 2 * np.arange(5.0))
    texts = tf.ragged.stack_dynamic_partitions(["a", "b"], [1, 0], 2)
    assert texts.to_list() == [[b"b"], [b"a"]]
    nested = tf.ragged.stack_dynamic_partitions(tf.ragged.constant([[1], [2, 3]]), [1, 0], 2)
    assert nested.to_list() == [[[2, 3]], [[1]]]
    with pytest.raises(ArgumentError, match="partitions from 0 to 1"):
        tf.ragged.stack_dynamic_partitions([1, 2], [0, 2], 2)
