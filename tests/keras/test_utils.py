"""keras.utils: seeds, one-hot encoding, normalization, padding, splitting."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.errors import ArgumentError, ArgumentTypeError, ShapeError

utils = tf.keras.utils


# Seeds


def draws() -> tuple[Any, ...]:
    weights = tf.keras.layers.Dense(2)
    weights.build((None, 3))
    legacy = float(np.random.random())  # noqa: NPY002  # the generator that the seed restarts
    return random.random(), legacy, float(tf.random.normal([])), *weights.get_weights()[0].flat


def test_one_seed_restarts_all_generators() -> None:
    utils.set_random_seed(5)
    first = draws()
    utils.set_random_seed(5)
    again = draws()
    utils.set_random_seed(6)
    other = draws()

    assert first == again
    assert all(one != another for one, another in zip(first, other, strict=True))


@pytest.mark.parametrize("seed", [1.5, -1, 2**32, True, "1"])
def test_a_seed_is_a_whole_number(seed: Any) -> None:
    with pytest.raises(ArgumentError, match=r"A seed must be an integer from 0 to 2\*\*32 - 1"):
        utils.set_random_seed(seed)


# Classes


def test_classes_become_rows_of_the_unit_matrix() -> None:
    classes = np.random.default_rng(0).integers(0, 5, size=(4, 3))

    found = utils.to_categorical(classes, 5)

    assert found.dtype == np.float64
    np.testing.assert_array_equal(found, np.eye(5)[classes])


def test_without_a_number_there_are_as_many_classes_as_needed() -> None:
    assert utils.to_categorical([0, 3]).shape == (2, 4)
    assert utils.to_categorical(tf.constant([0, 3])).shape == (2, 4)
    assert utils.to_categorical([]).shape == (0, 0)


@pytest.mark.parametrize("is_tensor", [False, True])
def test_a_last_axis_of_one_is_dropped(is_tensor: bool) -> None:
    classes = np.array([[1], [0]])

    found = utils.to_categorical(tf.constant(classes) if is_tensor else classes, 3)

    assert isinstance(found, tf.Tensor) == is_tensor
    np.testing.assert_array_equal(np.asarray(found), [[0, 1, 0], [1, 0, 0]])


def test_classes_that_do_not_exist_are_refused() -> None:
    with pytest.raises(
        ArgumentError, match=r"With 3 classes, class numbers must be from 0 to 2. Got 0 to 3."
    ):
        utils.to_categorical([0, 3], 3)
    with pytest.raises(ArgumentError, match=r"Got -1 to 1."):
        utils.to_categorical([-1, 1])
    with pytest.raises(ArgumentTypeError, match=r"integer class numbers. Got float64"):
        utils.to_categorical([0.5])


# Norms


@pytest.mark.parametrize("order", [1, 2, 3, np.inf])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_norms_become_one_and_zeros_stay(axis: int, order: Any) -> None:
    x = np.random.default_rng(0).normal(size=(3, 4))
    x[1], x[:, 2] = 0, 0

    found = utils.normalize(x, axis, order)

    size = (np.abs(x) ** order).sum(axis, keepdims=True) ** (1 / order) if order != np.inf else 0
    size = np.abs(x).max(axis, keepdims=True) if order == np.inf else size
    np.testing.assert_allclose(found, np.where(size > 0, x / np.maximum(size, 1e-300), 0))
    tensor = utils.normalize(tf.constant(x), axis, order)
    assert isinstance(tensor, tf.Tensor)
    np.testing.assert_allclose(tensor.numpy(), found, rtol=1e-14)


# Sequences

SEQUENCES = [[1], [2, 3], [4, 5, 6], []]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [[0, 0, 1], [0, 2, 3], [4, 5, 6], [0, 0, 0]]),
        ({"padding": "post", "value": -1}, [[1, -1, -1], [2, 3, -1], [4, 5, 6], [-1, -1, -1]]),
        ({"maxlen": 2}, [[0, 1], [2, 3], [5, 6], [0, 0]]),
        ({"maxlen": 2, "truncating": "post"}, [[0, 1], [2, 3], [4, 5], [0, 0]]),
        ({"maxlen": 0}, [[], [], [], []]),
    ],
)
def test_sequences_are_filled_and_cut_where_asked(options: dict[str, Any], expected: Any) -> None:
    found = utils.pad_sequences(SEQUENCES, **options)

    assert found.dtype == np.int32
    assert found.tolist() == expected


def test_entries_of_sequences_may_be_vectors_or_texts() -> None:
    found = utils.pad_sequences([np.ones((1, 2)), np.ones((2, 2))], dtype="float32")
    words = utils.pad_sequences([["a"], ["b", "c"]], dtype=object, value="")

    np.testing.assert_array_equal(found, [[[0, 0], [1, 1]], [[1, 1], [1, 1]]])
    assert words.tolist() == [["", "a"], ["b", "c"]]


def test_sequences_that_do_not_fit_are_named() -> None:
    with pytest.raises(ShapeError, match=r"Sequence 1 has entries of shape \(3,\)"):
        utils.pad_sequences([np.ones((1, 2)), np.ones((1, 3))])
    with pytest.raises(ArgumentTypeError, match="Got an entry of type int: 1"):
        utils.pad_sequences([1, 2])
    with pytest.raises(
        ArgumentTypeError, match=r"int32.*the string 'x'. For strings pass dtype=object"
    ):
        utils.pad_sequences([[1]], value="x")
    with pytest.raises(ArgumentError, match=r"padding must be 'pre' or 'post'. Got 'end'"):
        utils.pad_sequences([[1]], padding="end")


# Parts


def values(dataset: Any) -> list[int]:
    return [int(element) for element in dataset]


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        ({"left_size": 0.75}, (6, 2)),
        ({"left_size": 3}, (3, 5)),
        ({"right_size": 0.25}, (6, 2)),
        ({"left_size": 2, "right_size": 0.5}, (2, 4)),
    ],
)
@pytest.mark.parametrize("is_dataset", [True, False])
def test_data_is_split_into_a_beginning_and_an_end(
    sizes: Any, expected: Any, is_dataset: bool
) -> None:
    data = tf.data.Dataset.range(8) if is_dataset else np.arange(8)

    left, right = utils.split_dataset(data, **sizes)

    assert values(left) == list(range(expected[0]))
    assert values(right) == list(range(8 - expected[1], 8))


def test_shuffled_parts_are_apart_in_every_pass() -> None:
    left, right = utils.split_dataset(np.arange(50), left_size=0.6, shuffle=True, seed=1)

    first, again = values(left), values(left)
    assert first == again != list(range(30))
    assert sorted(first + values(right)) == list(range(50))


def test_several_arrays_are_split_together() -> None:
    x, y = np.arange(6.0).reshape(3, 2), np.arange(3)

    _, right = utils.split_dataset([x, y], left_size=2)

    ((one, label),) = list(right)
    assert one.numpy().tolist() == [4.0, 5.0]
    assert int(label) == 2


def test_a_dataset_whose_length_is_not_known_is_counted() -> None:
    data = tf.data.Dataset.range(10).filter(lambda x: x % 2 == 0)

    left, right = utils.split_dataset(data, left_size=0.6)

    assert (values(left), values(right)) == ([0, 2, 4], [6, 8])


@pytest.mark.parametrize(
    ("sizes", "words"),
    [
        ({}, "takes left_size, right_size or both"),
        (
            {"left_size": 1.5},
            "left_size must be a fraction between 0 and 1, or a number.*1 to 9. Got 1.5",
        ),
        ({"right_size": 10}, "right_size must be a fraction.*Got 10"),
        ({"left_size": 0.6, "right_size": 0.6}, "give 6 and 6 of 10 elements"),
        ({"left_size": 0.01}, "leave one side of 10 elements empty"),
    ],
)
def test_parts_that_are_not_there_are_refused(sizes: Any, words: str) -> None:
    with pytest.raises(ArgumentError, match=words):
        utils.split_dataset(np.arange(10), **sizes)


def test_a_dataset_without_an_end_is_not_split() -> None:
    with pytest.raises(ArgumentError, match="infinite dataset cannot be split"):
        utils.split_dataset(tf.data.Dataset.range(3).repeat(), left_size=1)
