"""Sequence examples against bytes that were put together by hand."""

from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.errors import ArgumentError, ArgumentTypeError, FileFormatError
from tapegrad.train import (
    BytesList,
    Feature,
    FeatureList,
    FeatureLists,
    Features,
    FloatList,
    Int64List,
    SequenceExample,
)


def _part(number: int, data: bytes) -> bytes:
    """A field with a length below 128, as protocol buffers write it."""
    return bytes([number << 3 | 2, len(data)]) + data


def _ints(*numbers: int) -> bytes:
    return _part(3, _part(1, bytes(numbers)))


def _sequence(author: int, *steps: tuple[int, ...]) -> bytes:
    context = _part(1, _part(1, b"author") + _part(2, _ints(author)))
    rows = b"".join([_part(1, _ints(*one)) for one in steps])
    lists = _part(1, _part(1, b"content") + _part(2, rows))
    return _part(1, context) + _part(2, lists)


CONTEXT = {"author": tf.io.FixedLenFeature([], tf.int64)}
PAIRS = {"content": tf.io.FixedLenSequenceFeature([2], tf.int64)}


def test_messages_are_the_bytes() -> None:
    made = SequenceExample(
        context=Features(feature={"author": Feature(int64_list=Int64List(value=[9]))}),
        feature_lists=FeatureLists(
            feature_list={
                "content": FeatureList(
                    feature=[Feature(int64_list=Int64List(value=row)) for row in ([1, 2], [3, 4])]
                )
            }
        ),
    )

    assert made.SerializeToString() == _sequence(9, (1, 2), (3, 4))
    read = SequenceExample.FromString(_sequence(9, (1, 2), (3, 4)))
    assert read == made
    assert read.feature_lists.feature_list["content"].feature[1].int64_list.value == [3, 4]


def test_one_sequence() -> None:
    data = _sequence(9, (1, 2), (3, 4), (5, 6))
    context, steps = tf.io.parse_single_sequence_example(data, CONTEXT, PAIRS)

    assert int(context["author"]) == 9
    assert steps["content"].tolist() == [[1, 2], [3, 4], [5, 6]]


@pytest.mark.parametrize("kind", [tf.io.VarLenFeature, tf.io.RaggedFeature])
def test_steps_of_any_length(kind: Any) -> None:
    data = _sequence(9, (1, 2), (), (5,))
    _, steps = tf.io.parse_single_sequence_example(
        data, sequence_features={"content": kind(tf.int64)}
    )

    found = steps["content"]
    if kind is tf.io.VarLenFeature:
        found = tf.RaggedTensor.from_sparse(found)
    assert found.to_list() == [[1, 2], [], [5]]


def test_sequences_of_a_batch_are_padded() -> None:
    data = tf.constant([_sequence(1, (1, 2), (3, 4)), _sequence(2, (5, 6))])
    context, steps, lengths = tf.io.parse_sequence_example(data, CONTEXT, PAIRS)

    assert context["author"].tolist() == [1, 2]
    assert steps["content"].tolist() == [[[1, 2], [3, 4]], [[5, 6], [0, 0]]]
    assert lengths["content"].tolist() == [2, 1]


def test_texts_and_numbers_in_a_dataset() -> None:
    def made(words: list[str]) -> bytes:
        lists = {
            "words": FeatureList([Feature(bytes_list=BytesList([w.encode()])) for w in words]),
            "sizes": FeatureList([Feature(float_list=FloatList([len(w)])) for w in words]),
        }
        data: bytes = SequenceExample(feature_lists=FeatureLists(lists)).SerializeToString()
        return data

    spec = {
        "words": tf.io.FixedLenSequenceFeature([], tf.string),
        "sizes": tf.io.FixedLenSequenceFeature([], tf.float32),
    }
    data = tf.data.Dataset.from_tensor_slices([made(["a", "bcd"]), made(["é"])])
    rows = [*data.map(lambda one: tf.io.parse_single_sequence_example(one, {}, spec)[1])]

    assert [row["words"].tolist() for row in rows] == [[b"a", b"bcd"], ["é".encode()]]
    np.testing.assert_array_equal(rows[0]["sizes"], np.float32([1, 3]))


def test_faults_are_named() -> None:
    with pytest.raises(FileFormatError, match="not a sequence example"):
        tf.io.parse_single_sequence_example(b"\xff\xff", CONTEXT, PAIRS)
    with pytest.raises(ArgumentError, match="'content' must have one value of shape"):
        tf.io.parse_single_sequence_example(_sequence(1, (1, 2, 3, 4)), {}, PAIRS)
    with pytest.raises(ArgumentError, match="'other' is missing"):
        tf.io.parse_single_sequence_example(
            _sequence(1), {}, {"other": tf.io.FixedLenSequenceFeature([], tf.int64)}
        )
    with pytest.raises(ArgumentTypeError, match="must be a FeatureList"):
        FeatureLists({"a": Feature()})
