"""keras.preprocessing.text: figures of Keras' Tokenizer, written down."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.errors import ArgumentError

text = tf.keras.preprocessing.text
TEXTS = ["The cat sat on the mat.", "The dog; the cat!", "a bird"]


def fitted(**arguments: object) -> text.Tokenizer:
    tokenizer = text.Tokenizer(**arguments)
    tokenizer.fit_on_texts(TEXTS)
    return tokenizer


def test_frequent_words_have_small_numbers() -> None:
    tokenizer = fitted(num_words=5, oov_token="<oov>")

    assert list(tokenizer.word_index) == ["<oov>", "the", "cat", "sat", "on", "mat", "dog", "a",
                                          "bird"]  # fmt: skip
    assert tokenizer.texts_to_sequences(["the cat bird zebra"]) == [[2, 3, 1, 1]]
    assert tokenizer.sequences_to_texts([[2, 3, 7]]) == ["the cat <oov>"]
    assert (tokenizer.document_count, tokenizer.word_docs["the"]) == (3, 2)
    assert fitted().texts_to_sequences(["the zebra"]) == [[1]]


@pytest.mark.parametrize(
    ("mode", "row"),
    [
        ("binary", [0, 1, 1, 1, 0]),
        ("count", [0, 1, 2, 1, 0]),
        ("freq", [0, 0.25, 0.5, 0.25, 0]),
        ("tfidf", [0, 1.3863, 1.1736, 0.6931, 0]),
    ],
)
def test_matrices_of_texts(mode: str, row: list[float]) -> None:
    tokenizer = fitted(num_words=5, oov_token="<oov>")

    np.testing.assert_allclose(
        tokenizer.texts_to_matrix(["the cat the bird"], mode), [row], atol=1e-4
    )


def test_characters_and_lists_of_words() -> None:
    letters = text.Tokenizer(char_level=True)
    letters.fit_on_texts(["abca"])
    words = text.Tokenizer()
    words.fit_on_texts([["New York", "Paris"], ["Paris"]])

    assert letters.texts_to_sequences(["cab"]) == [[3, 1, 2]]
    assert words.word_index == {"paris": 1, "new york": 2}


def test_a_tokenizer_is_written_as_json() -> None:
    tokenizer = fitted(num_words=4)

    copy = text.tokenizer_from_json(tokenizer.to_json())

    assert copy.index_word == tokenizer.index_word
    assert copy.texts_to_sequences(TEXTS) == tokenizer.texts_to_sequences(TEXTS)


def test_words_are_hashed() -> None:
    assert text.hashing_trick("to be to", 50, "md5") == [15, 5, 15]
    assert all(0 < n < 8 for n in text.one_hot("so many words here", 8))


def test_a_matrix_needs_a_width() -> None:
    with pytest.raises(ArgumentError, match="Pass num_words, or call fit_on_texts first"):
        text.Tokenizer().sequences_to_matrix([[1]])
