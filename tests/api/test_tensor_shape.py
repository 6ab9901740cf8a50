"""Shapes with TensorFlow's methods."""

from __future__ import annotations

import pickle

import pytest

import tapegrad as tf


def test_sums_of_shapes_and_lists_are_shapes() -> None:
    shape = tf.ones([2, 3]).shape

    assert (shape + [4]).as_list() == [2, 3, 4]  # noqa: RUF005  # the sum is tested
    assert ([1] + shape).as_list() == [1, 2, 3]  # noqa: RUF005
    assert shape.concatenate([None]).as_list() == [2, 3, None]
    assert isinstance(shape + (4,), tf.TensorShape)  # noqa: RUF005  # the sum is tested


def test_lengths_that_are_not_known_fit_all() -> None:
    shape = tf.TensorShape([None, 3])

    assert shape.is_compatible_with([5, 3])
    assert not shape.is_compatible_with([5, 4])
    assert not shape.is_compatible_with([3])
    assert shape.merge_with([7, None]).as_list() == [7, 3]
    assert (shape.num_elements(), shape.is_fully_defined()) == (None, False)
    with pytest.raises(ValueError, match="not compatible"):
        shape.assert_is_compatible_with([5, 4])
    with pytest.raises(ValueError, match="rank 3"):
        shape.with_rank(3)


def test_a_shape_of_unknown_rank_fits_every_shape() -> None:
    shape = tf.TensorShape(None)

    assert shape.rank is None
    assert shape.is_compatible_with([1, 2])
    assert shape.merge_with([1, 2]).as_list() == [1, 2]
    assert tf.TensorShape([2]).concatenate(shape).rank is None
    assert pickle.loads(pickle.dumps(shape)).rank is None
    with pytest.raises(ValueError, match="known rank"):
        shape.as_list()
