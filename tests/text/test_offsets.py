"""Characters with their offsets, texts joined by segments, and the older hash of texts."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.errors import ArgumentError

TEXT = "aé😊中"


@pytest.mark.parametrize("encoding", ["UTF-8", "UTF-16-BE", "UTF-32-BE"])
def test_offsets_are_those_of_the_bytes(encoding):
    name = encoding.lower()
    text = TEXT.encode(name)
    sizes = [len(c.encode(name)) for c in TEXT]

    parts, places = tf.strings.unicode_split_with_offsets([text, b""], encoding)
    points, again = tf.strings.unicode_decode_with_offsets(text, encoding)

    assert parts.to_list() == [[c.encode(name) for c in TEXT], []]
    assert places.to_list() == [np.cumsum([0, *sizes[:-1]]).tolist(), []]
    assert points.tolist() == [ord(c) for c in TEXT]
    assert again.tolist() == places.to_list()[0]


def test_bytes_that_are_no_text_are_replaced_left_out_or_refused():
    text = b"a\xffb\xe4"

    points, places = tf.strings.unicode_decode_with_offsets(text, "UTF-8", replacement_char=63)
    left, others = tf.strings.unicode_decode_with_offsets(text, "UTF-8", "ignore")
    visible, _ = tf.strings.unicode_decode_with_offsets(
        "a\n", "UTF-8", replace_control_characters=True
    )

    assert (points.tolist(), places.tolist()) == ([97, 63, 98, 63], [0, 1, 2, 3])
    assert (left.tolist(), others.tolist()) == ([97, 98], [0, 2])
    assert visible.tolist() == [97, 65533]
    with pytest.raises(ArgumentError, match="is not utf-8"):
        tf.strings.unicode_split_with_offsets(text, "UTF-8", "strict")


def test_texts_are_joined_by_segments():
    ids, texts = [0, 2, 0, -1], ["this", "test", "is", "left out"]

    found = tf.strings.unsorted_segment_join(texts, ids, 3, separator=":")
    rows = tf.strings.unsorted_segment_join([["a", "b"], ["c", "d"]], [1, 1], 2)

    assert found.tolist() == [b"this:is", b"", b"test"]
    assert rows.tolist() == [[b"", b""], [b"ac", b"bd"]]
    with pytest.raises(ArgumentError, match="must be below num_segments, 2"):
        tf.strings.unsorted_segment_join(texts, ids, 2)


def test_the_older_hash_is_that_of_tensorflow():
    texts = ["Hello", "TensorFlow", "2.x"]
    assert tf.strings.to_hash_bucket(texts, 3).tolist() == [2, 0, 1]
