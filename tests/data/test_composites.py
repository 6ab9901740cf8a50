"""Sparse and ragged tensors and extension types as elements; the results are TensorFlow's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.data import Dataset
from tapegrad.errors import ArgumentError, ShapeError


def ragged() -> Any:
    return tf.ragged.constant([[1, 2], [], [3], [4, 5, 6]])


def sparse() -> Any:
    return tf.SparseTensor([[0, 0], [1, 2], [3, 1]], [1, 2, 3], [4, 3])


def as_lists(value: Any) -> Any:
    if isinstance(value, tf.SparseTensor):
        return value.indices.tolist(), value.values.tolist(), tuple(value.shape)
    return value.to_list() if isinstance(value, tf.RaggedTensor) else value.numpy().tolist()


def test_rows_of_a_ragged_tensor_are_dense_and_batches_are_ragged() -> None:
    data = Dataset.from_tensor_slices(ragged())

    assert [as_lists(x) for x in data] == [[1, 2], [], [3], [4, 5, 6]]
    assert [as_lists(x) for x in data.batch(2)] == [[[1, 2], []], [[3], [4, 5, 6]]]
    assert data.element_spec == tf.RaggedTensorSpec([None], "int32", 0)
    assert data.batch(2).element_spec == tf.RaggedTensorSpec([None, None], "int32", 1)
    assert [as_lists(x) for x in data.batch(3).unbatch()] == [[1, 2], [], [3], [4, 5, 6]]
    assert as_lists(next(iter(data.batch(4).map(lambda x: 2 * x))))[3] == [8, 10, 12]
    assert as_lists(next(iter(data.padded_batch(4))))[0] == [1, 2, 0]


def test_a_ragged_tensor_is_one_element() -> None:
    data = Dataset.from_tensors(ragged())

    assert as_lists(next(iter(data))) == ragged().to_list()
    assert data.element_spec == tf.RaggedTensorSpec([4, None], "int32", 1)


def test_nested_ragged_tensors_are_stacked() -> None:
    def nested(n: Any) -> Any:
        return tf.RaggedTensor.from_row_lengths(tf.range(n + 2), [1, n + 1])

    found = [as_lists(x) for x in Dataset.range(3).map(nested).batch(2)]

    assert found == [[[[0], [1]], [[0], [1, 2]]], [[[0], [1, 2, 3]]]]


def test_slices_and_batches_of_a_sparse_tensor_are_sparse() -> None:
    data = Dataset.from_tensor_slices({"a": sparse(), "b": np.arange(4)})

    rows = [as_lists(x["a"]) for x in data]
    batches = [(as_lists(x["a"]), as_lists(x["b"])) for x in data.batch(2)]

    assert rows == [([[0]], [1], (3,)), ([[2]], [2], (3,)), ([], [], (3,)), ([[1]], [3], (3,))]
    assert batches == [
        (([[0, 0], [1, 2]], [1, 2], (2, 3)), [0, 1]),
        (([[1, 1]], [3], (2, 3)), [2, 3]),
    ]
    assert data.batch(2).element_spec["a"] == tf.SparseTensorSpec([None, 3], "int32")
    dense = data.batch(4).map(lambda x: tf.sparse.to_dense(x["a"]))
    np.testing.assert_array_equal(next(iter(dense)), tf.sparse.to_dense(sparse()))


def test_other_steps_pass_them_on() -> None:
    data = Dataset.from_tensor_slices((ragged(), [0, 1, 2, 3]))

    kept = [as_lists(x) for x, _ in data.cache().prefetch(1).repeat(2).skip(3).batch(3).take(1)]
    filtered = [as_lists(x) for x, n in data.filter(lambda x, n: n > 2)]
    shuffled = next(iter(data.shuffle(9, seed=1).batch(4)))[0]

    assert kept == [[[4, 5, 6], [1, 2], []]]
    assert filtered == [[4, 5, 6]]
    assert sorted(as_lists(shuffled)) == sorted(ragged().to_list())


def test_generators_with_specs_of_them() -> None:
    spec = tf.RaggedTensorSpec([4, None], "int32")
    data = Dataset.from_generator(lambda: iter([ragged()]), output_signature=spec)

    assert as_lists(next(iter(data))) == ragged().to_list()
    wrong = Dataset.from_generator(lambda: iter([[1, 2]]), output_signature=spec)
    with pytest.raises(ArgumentError, match="RaggedTensorSpec"):
        next(iter(wrong))


def test_extension_types_are_sliced_and_batched_by_field() -> None:
    class Masked(tf.experimental.BatchableExtensionType):
        values: tf.Tensor
        mask: tf.Tensor

    whole = Masked(tf.constant([1, 2, 3]), tf.constant([[True], [False], [True]]))
    data = Dataset.from_tensor_slices(whole)

    assert [int(x.values) for x in data] == [1, 2, 3]
    batches = list(data.batch(2).map(lambda x: Masked(x.values + 1, x.mask)))
    assert [x.values.tolist() for x in batches] == [[2, 3], [4]]
    assert isinstance(next(iter(Dataset.from_tensors(whole))), Masked)
    assert data.batch(2).element_spec.values.shape == (None,)


def test_ragged_and_sparse_batches_of_arrays() -> None:
    data = Dataset.range(4).map(lambda n: (tf.range(n), n))
    rows = data.map(lambda x, n: x)

    found = [(as_lists(x), as_lists(n)) for x, n in data.ragged_batch(3)]

    assert found == [([[], [0], [0, 1]], [0, 1, 2]), ([[0, 1, 2]], [3])]
    assert [as_lists(x) for x in rows.sparse_batch(2, [4])] == [
        ([[1, 0]], [0], (2, 4)),
        ([[0, 0], [0, 1], [1, 0], [1, 1], [1, 2]], [0, 1, 0, 1, 2], (2, 4)),
    ]
    with pytest.raises(ShapeError, match="does not fit"):
        list(rows.sparse_batch(4, [2]))


def test_different_sparse_shapes_are_refused() -> None:
    data = Dataset.range(1, 3).map(lambda n: tf.SparseTensor([[0]], [1], [n]))

    with pytest.raises(ShapeError, match="sparse tensors of one shape"):
        list(data.batch(2))


def test_groups_by_key_and_by_length() -> None:
    groups = Dataset.range(7).group_by_window(lambda n: n % 3, lambda k, g: g.batch(2), 2)
    texts = Dataset.from_generator(lambda: ([1], [1, 2, 3, 4], [1, 2], [1, 2, 3]))
    buckets = texts.bucket_by_sequence_length(len, [3], [2, 2])
    filled = texts.bucket_by_sequence_length(len, [3, 6], [2, 2, 2], pad_to_bucket_boundary=True)

    assert [x.tolist() for x in groups] == [[0, 3], [1, 4], [2, 5], [6]]
    assert [x.shape for x in buckets] == [(2, 2), (2, 4)]
    assert [x.shape for x in filled] == [(2, 2), (2, 5)]
    with pytest.raises(ArgumentError, match="one batch size more"):
        texts.bucket_by_sequence_length(len, [3], [2])


@pytest.mark.parametrize("workers", [None, 2])
def test_errors_are_left_out(workers: int | None) -> None:
    def checked(x: Any) -> Any:
        return tf.debugging.check_numerics(x, "not a number")

    data = Dataset.from_tensor_slices([1.0, np.nan, 2.0]).map(checked, num_parallel_calls=workers)

    assert [float(x) for x in data.ignore_errors()] == [1.0, 2.0]
    with pytest.warns(UserWarning, match="left out an element"):
        list(data.ignore_errors(log_warning=True))
