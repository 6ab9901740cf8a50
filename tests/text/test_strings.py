"""tf.strings against Python's own str, bytes and re."""

from __future__ import annotations

import re
import string

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.errors import ArgumentError, ArgumentTypeError, OutOfRangeError, ShapeError
from tapegrad.fingerprints import farm_hash

TEXTS = ["Hello, World!", "  two  words ", "ÉCOLE été", "", "a.b.c"]


def encoded(texts):
    return [text.encode() for text in texts]


def test_case_changes_ascii_or_all_letters():
    assert tf.strings.lower(TEXTS).tolist() == [t.encode().lower() for t in TEXTS]
    assert tf.strings.upper(TEXTS).tolist() == [t.encode().upper() for t in TEXTS]
    assert tf.strings.lower(TEXTS, encoding="utf-8").tolist() == encoded(t.lower() for t in TEXTS)
    assert tf.strings.upper(TEXTS, encoding="utf-8").tolist() == encoded(t.upper() for t in TEXTS)
    with pytest.raises(ArgumentError, match="encoding"):
        tf.strings.lower("a", encoding="latin-1")


def test_lengths_count_bytes_or_characters():
    assert tf.strings.length(TEXTS).tolist() == [len(t.encode()) for t in TEXTS]
    assert tf.strings.length(TEXTS, unit="UTF8_CHAR").tolist() == [len(t) for t in TEXTS]
    assert tf.strings.length(TEXTS).dtype == tf.int32
    assert tf.strings.strip(TEXTS).tolist() == [t.encode().strip() for t in TEXTS]


def test_parts_of_texts():
    assert tf.strings.substr("été", 1, 1, unit="UTF8_CHAR").numpy() == b"t"
    assert tf.strings.substr(["abc", "defg"], [0, -2], [1, 2]).tolist() == [b"a", b"fg"]
    with pytest.raises(OutOfRangeError, match="position 5 is outside"):
        tf.strings.substr("abc", 5, 1)


def test_patterns_are_those_of_re():
    punctuation = f"[{re.escape(string.punctuation)}]"
    wanted = encoded(re.sub(punctuation, "", t) for t in TEXTS)
    assert tf.strings.regex_replace(TEXTS, punctuation, "").tolist() == wanted
    assert tf.strings.regex_replace(TEXTS, "[[:punct:]]", "").tolist() == wanted
    assert tf.strings.regex_replace("ab ab", "a(b)", r"<\1\0>").numpy() == b"<bab> <bab>"
    assert tf.strings.regex_replace("aa", "a", "b", replace_global=False).numpy() == b"ba"
    assert tf.strings.regex_full_match(["abc", "abcd"], "[a-c]+").tolist() == [True, False]
    with pytest.raises(ArgumentError, match="not a regular expression"):
        tf.strings.regex_replace("a", "(", "")


def test_joining():
    assert tf.strings.join(["a", ["b", "c"]], "-").tolist() == [b"a-b", b"a-c"]
    table = [["a", "b"], ["c", "d"]]
    assert tf.strings.reduce_join(table, 1).tolist() == [b"ab", b"cd"]
    assert tf.strings.reduce_join(table, 0, separator=" ").tolist() == [b"a c", b"b d"]
    assert tf.strings.reduce_join(table).numpy() == b"abcd"
    assert tf.strings.reduce_join(table, -1, keepdims=True).shape == (2, 1)


def test_splitting_gives_a_vector_or_rows():
    assert tf.strings.split(" a  b ").tolist() == [b"a", b"b"]
    rows = tf.strings.split(TEXTS)
    wanted = [t.encode().split() for t in TEXTS]
    assert rows.to_list() == wanted
    assert rows.row_lengths().tolist() == [len(w) for w in wanted]
    assert [row.tolist() for row in rows] == wanted
    assert rows.to_tensor("<pad>", shape=[None, 1]).tolist() == [
        [(w or [b"<pad>"])[0]] for w in wanted
    ]
    assert tf.strings.split("a,b,c", ",", maxsplit=1).tolist() == [b"a", b"b,c"]
    assert rows[:, :1].to_list() == [w[:1] for w in wanted]
    assert rows.flat_values.tolist() == [one for w in wanted for one in w]
    assert tf.strings.lower(rows).to_list() == [[one.lower() for one in w] for w in wanted]
    with pytest.raises(ShapeError, match="a vector of them"):
        tf.strings.split([["a"]])


def test_unicode():
    characters = [[c.encode() for c in t] for t in TEXTS]
    assert tf.strings.unicode_split(TEXTS, "UTF-8").to_list() == characters
    points = tf.strings.unicode_decode(TEXTS, "UTF-8")
    assert points.to_list() == [[ord(c) for c in t] for t in TEXTS]
    assert tf.strings.unicode_encode(points, "UTF-8").tolist() == encoded(TEXTS)
    assert tf.strings.unicode_transcode("é", "UTF-8", "UTF-16-BE").numpy() == "é".encode(
        "utf-16-be"
    )
    assert tf.strings.bytes_split("é").tolist() == [b"\xc3", b"\xa9"]
    with pytest.raises(ArgumentError, match="one of UTF-8"):
        tf.strings.unicode_decode("a", "latin-1")


def test_numbers_and_text():
    assert tf.strings.to_number(["1.5", "-2e3"]).tolist() == [1.5, -2000.0]
    assert tf.strings.to_number("7", tf.int64).dtype == tf.int64
    assert tf.strings.as_string([True, False]).tolist() == [b"true", b"false"]
    assert tf.strings.as_string([1.5]).tolist() == [b"1.500000"]
    assert tf.strings.as_string(7, width=3, fill="0").numpy() == b"007"
    assert tf.strings.as_string(1234.5, precision=1, scientific=True).numpy() == b"1.2e+03"
    with pytest.raises(ArgumentError, match="does not spell a number"):
        tf.strings.to_number("one")
    with pytest.raises(ArgumentTypeError, match="takes text"):
        tf.strings.lower([1.0])


def test_format_shows_both_ends_of_long_axes():
    shown = tf.strings.format("x: {}, {}", (tf.range(8), "a"))
    assert shown.numpy() == b'x: [0 1 2 ... 5 6 7], "a"'
    assert tf.strings.format("{}", [[[0.5, 2.0]]]).numpy() == b"[[0.5 2]]"
    with pytest.raises(ArgumentError, match="one tensor per"):
        tf.strings.format("{} {}", 1)


def test_ngrams():
    assert tf.strings.ngrams(["a", "b", "c"], 2).tolist() == [b"a b", b"b c"]
    assert tf.strings.ngrams(["a", "b"], (1, 2), "").tolist() == [b"a", b"b", b"ab"]
    rows = tf.strings.split(["a b c", "d"])
    assert tf.strings.ngrams(rows, 2).to_list() == [[b"a b", b"b c"], []]
    kept = tf.strings.ngrams(rows, 2, preserve_short_sequences=True)
    assert kept.to_list() == [[b"a b", b"b c"], [b"d"]]
    padded = tf.strings.ngrams(["a"], 2, pad_values=("<", ">"))
    assert padded.tolist() == [b"< a", b"a >"]


# FarmHash


_BITS = 2**64 - 1
_K0, _K1, _K2 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F


def _word(text, start):
    return int.from_bytes(text[start : start + 8], "little")


def _turn(x, by):
    return ((x >> by) | (x << (64 - by))) & _BITS


def _shift(x):
    return x ^ (x >> 47)


def _mix(u, v, mul):
    a = _shift(((u ^ v) * mul) & _BITS)
    return (_shift(((v ^ a) * mul) & _BITS) * mul) & _BITS


def _of_33_to_64(text):
    """The hash of 33 to 64 bytes, with Python's integers."""
    n = len(text)
    mul = (_K2 + 2 * n) & _BITS
    a, b = _word(text, 0) * _K2 & _BITS, _word(text, 8)
    c, d = _word(text, n - 8) * mul & _BITS, _word(text, n - 16) * _K2 & _BITS
    y = (_turn((a + b) & _BITS, 43) + _turn(c, 30) + d) & _BITS
    z = _mix(y, (a + _turn((b + _K2) & _BITS, 18) + c) & _BITS, mul)
    e, f = _word(text, 16) * mul & _BITS, _word(text, 24)
    g = (y + _word(text, n - 32)) * mul & _BITS
    h = (z + _word(text, n - 24)) * mul & _BITS
    first = (_turn((e + f) & _BITS, 43) + _turn(g, 30) + h) & _BITS
    return _mix(first, (e + _turn((f + a) & _BITS, 18) + g) & _BITS, mul)


def test_hashes_of_texts_of_33_to_64_bytes_follow_the_definition():
    texts = [np.random.default_rng(n).bytes(n) for n in range(33, 65)]

    assert [int(one) for one in farm_hash(texts)] == [_of_33_to_64(text) for text in texts]


def test_hashes_of_long_texts_depend_on_every_byte():
    text = bytes(range(200))
    changed = [text[:k] + b"\xff" + text[k + 1 :] for k in range(200)]

    assert len({int(one) for one in farm_hash([text, *changed])}) == 201


def test_buckets_are_those_of_tensorflow():
    # From the documentation of tf.strings.
    assert tf.strings.to_hash_bucket_fast(["Hello", "TensorFlow", "2.x"], 3).tolist() == [0, 2, 2]
    assert tf.strings.to_hash_bucket_strong(["Hello", "TF"], 3, [1, 2]).tolist() == [2, 0]


def test_tables():
    pairs = tf.lookup.KeyValueTensorInitializer(["a", "b"], range(2), tf.string, tf.int64)
    table = tf.lookup.StaticVocabularyTable(pairs, 2)
    found = table.lookup(["b", "a", "x"]).tolist()
    assert found[:2] == [1, 0]
    assert found[2] in (2, 3)
    assert int(table.size()) == 4
    rows = tf.lookup.StaticHashTable(pairs, -1).lookup(tf.strings.split(["a z", "b"]))
    assert rows.to_list() == [[0, -1], [1]]
    changing = tf.lookup.experimental.MutableHashTable(tf.int64, tf.string, "none")
    changing.insert(tf.constant([1], tf.int64), ["one"])
    assert changing.lookup(tf.constant([1, 2], tf.int64)).tolist() == [b"one", b"none"]
    changing.remove(tf.constant([1], tf.int64))
    assert int(changing.size()) == 0
    with pytest.raises(ArgumentTypeError, match="keys of this table"):
        table.lookup([1])
