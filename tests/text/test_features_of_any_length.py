"""Features of examples with any number of values: sparse and ragged tensors."""

from __future__ import annotations

from typing import Any

import pytest

import tapegrad as tf
from tapegrad.errors import ArgumentTypeError


def example(*numbers: int) -> bytes:
    feature = tf.train.Feature(int64_list=tf.train.Int64List(value=numbers))
    features = tf.train.Features(feature={"x": feature})
    return tf.train.Example(features=features).SerializeToString()


def test_values_become_a_sparse_tensor() -> None:
    spec = {"x": tf.io.VarLenFeature(tf.int64)}

    one = tf.io.parse_single_example(example(3, 4), spec)["x"]
    several = tf.io.parse_example([example(3, 4), example(), example(5)], spec)["x"]

    assert tf.sparse.to_dense(one).tolist() == [3, 4]
    assert several.indices.tolist() == [[0, 0], [0, 1], [2, 0]]
    assert tf.sparse.to_dense(several).tolist() == [[3, 4], [0, 0], [5, 0]]


@pytest.mark.parametrize("spec", [{"x": tf.io.RaggedFeature(tf.int64)},
                                  {"y": tf.io.RaggedFeature(tf.int64, value_key="x")}])  # fmt: skip
def test_values_become_rows(spec: Any) -> None:
    (one,) = tf.io.parse_single_example(example(3, 4), spec).values()
    (several,) = tf.io.parse_example([example(3, 4), example(), example(5)], spec).values()

    assert one.tolist() == [3, 4]
    assert several.to_list() == [[3, 4], [], [5]]


def test_other_descriptions_are_named() -> None:
    with pytest.raises(ArgumentTypeError, match=r"VarLenFeature or RaggedFeature. Got int"):
        tf.io.parse_single_example(example(1), {"x": 3})
