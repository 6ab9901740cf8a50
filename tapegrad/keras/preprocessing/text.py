"""Keras' `keras.preprocessing.text`: words of texts as numbers, from before `TextVectorization`."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from tapegrad.core.argument_checks import check_choice
from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.errors import ArgumentError, FileFormatError

__all__ = [
    "Tokenizer",
    "hashing_trick",
    "one_hot",
    "text_to_word_sequence",
    "tokenizer_from_json",
]

_FILTERS = '!"#$%&()*+,-./:;<=>?@[\\]^_`{|}~\t\n'
_MODES = ("binary", "count", "freq", "tfidf")


def text_to_word_sequence(
    input_text: str, filters: str = _FILTERS, lower: bool = True, split: str = " "
) -> list[str]:
    """Return the words of a text, without the characters in `filters`.

    >>> text_to_word_sequence("Good morning, world!")
    ['good', 'morning', 'world']
    """
    text = input_text.lower() if lower else input_text
    return [word for word in text.translate(_table(filters, split)).split(split) if word]


def _table(filters: str, split: str) -> dict[int, str]:
    return {ord(letter): split for letter in filters}


def one_hot(
    input_text: str,
    n: int,
    filters: str = _FILTERS,
    lower: bool = True,
    split: str = " ",
    analyzer: Callable[[str], Iterable[str]] | None = None,
) -> list[int]:
    """Return a number from 1 to `n - 1` for each word, by Python's `hash`.

    >>> a, b, c = one_hot("to be to", 50)
    >>> a == c
    True
    """
    return hashing_trick(input_text, n, None, filters, lower, split, analyzer)


def hashing_trick(
    text: str,
    n: int,
    hash_function: Any = None,
    filters: str = _FILTERS,
    lower: bool = True,
    split: str = " ",
    analyzer: Callable[[str], Iterable[str]] | None = None,
) -> list[int]:
    """Return a number from 1 to `n - 1` for each word, by `hash`, "md5" or a function.

    >>> hashing_trick("to be to", 50, "md5")
    [15, 5, 15]
    """
    numbers: Callable[[str], int] = hash if hash_function is None else hash_function
    if hash_function == "md5":
        numbers = _md5
    words = text_to_word_sequence(text, filters, lower, split) if analyzer is None else (
        analyzer(text)
    )  # fmt: skip
    return [numbers(word) % (n - 1) + 1 for word in words]


def _md5(word: str) -> int:
    return int(hashlib.md5(word.encode(), usedforsecurity=False).hexdigest(), 16)


class Tokenizer:
    """Number words by how often they occur in texts, 1 for the most frequent one.

    >>> tokenizer = Tokenizer(oov_token="?")
    >>> tokenizer.fit_on_texts(["the cat sat", "the dog"])
    >>> tokenizer.texts_to_sequences(["the bird sat"])
    [[2, 1, 4]]
    >>> tokenizer.sequences_to_texts([[2, 3]])
    ['the cat']
    """

    def __init__(
        self,
        num_words: int | None = None,
        filters: str = _FILTERS,
        lower: bool = True,
        split: str = " ",
        char_level: bool = False,
        oov_token: str | None = None,
        analyzer: Callable[[str], Iterable[str]] | None = None,
    ) -> None:
        self.num_words, self.filters, self.lower, self.split = num_words, filters, lower, split
        self.char_level, self.oov_token, self.analyzer = char_level, oov_token, analyzer
        self.word_counts: dict[str, int] = {}
        self.word_docs: dict[str, int] = {}
        self.index_docs: dict[int, int] = {}
        self.word_index: dict[str, int] = {}
        self.index_word: dict[int, str] = {}
        self.document_count = 0

    def _words(self, text: Any) -> list[str]:
        if isinstance(text, list | tuple):
            return [word.lower() for word in text] if self.lower else list(text)
        if self.char_level:
            return list(text.lower() if self.lower else text)
        if self.analyzer is not None:
            return list(self.analyzer(text))
        return text_to_word_sequence(text, self.filters, self.lower, self.split)

    # Counting

    def fit_on_texts(self, texts: Iterable[Any]) -> None:
        """Count the words of texts, each a string or a list of words, and number them."""
        for text in texts:
            words = self._words(text)
            self.document_count += 1
            for word in words:
                self.word_counts[word] = self.word_counts.get(word, 0) + 1
            for word in set(words):
                self.word_docs[word] = self.word_docs.get(word, 0) + 1
        known = sorted(self.word_counts, key=lambda word: -self.word_counts[word])
        first = [] if self.oov_token is None else [self.oov_token]
        self.word_index = {word: k for k, word in enumerate([*first, *known], 1)}
        self.index_word = {k: word for word, k in self.word_index.items()}
        self.index_docs = {self.word_index[word]: n for word, n in self.word_docs.items()}

    def fit_on_sequences(self, sequences: Iterable[Iterable[int]]) -> None:
        """Count in how many sequences each number occurs, for "tfidf"."""
        for sequence in sequences:
            self.document_count += 1
            for number in set(sequence):
                self.index_docs[number] = self.index_docs.get(number, 0) + 1

    # Numbers

    def texts_to_sequences(self, texts: Iterable[Any]) -> list[list[int]]:
        """Return the numbers of the words of each text; unknown words are left out.

        With an `oov_token`, unknown words get its number.
        """
        return list(self.texts_to_sequences_generator(texts))

    def texts_to_sequences_generator(self, texts: Iterable[Any]) -> Iterator[list[int]]:
        """Yield the numbers of the words of each text."""
        unknown = None if self.oov_token is None else self.word_index.get(self.oov_token)
        for text in texts:
            numbers = [self._within(self.word_index.get(word), unknown)
                       for word in self._words(text)]  # fmt: skip
            yield [number for number in numbers if number is not None]

    def _within(self, number: int | None, unknown: int | None) -> int | None:
        is_known = number is not None and (self.num_words is None or number < self.num_words)
        return number if is_known else unknown

    def sequences_to_texts(self, sequences: Iterable[Iterable[int]]) -> list[str]:
        """Return the words of numbers as texts."""
        return list(self.sequences_to_texts_generator(sequences))

    def sequences_to_texts_generator(self, sequences: Iterable[Iterable[int]]) -> Iterator[str]:
        """Yield the words of each sequence of numbers as a text."""
        for sequence in sequences:
            words = []
            for number in sequence:
                is_known = self.num_words is None or number < self.num_words
                word = self.index_word.get(int(number)) if is_known else None
                words.append(self.oov_token if word is None else word)
            yield " ".join([word for word in words if word is not None])

    def texts_to_matrix(self, texts: Iterable[Any], mode: str = "binary") -> np.ndarray:
        """Return a matrix with a row for each text and a column for each number."""
        return self.sequences_to_matrix(self.texts_to_sequences(texts), mode)

    def sequences_to_matrix(
        self, sequences: Iterable[Iterable[int]], mode: str = "binary"
    ) -> np.ndarray:
        """Return a matrix with a row for each sequence and a column for each number.

        The entries of `mode` "binary" say whether a number occurs, those of "count" how often,
        those of "freq" in which share of the sequence. "tfidf" weights counts by rarity.
        """
        check_choice("mode", mode, _MODES)
        width = self.num_words or (len(self.word_index) + 1 if self.word_index else None)
        if width is None:
            raise ArgumentError("Pass num_words, or call fit_on_texts first.")
        if mode == "tfidf" and not self.document_count:
            raise ArgumentError("Call fit_on_texts or fit_on_sequences before mode='tfidf'.")
        rows = [list(sequence) for sequence in sequences]
        found = np.zeros((len(rows), width))
        for row, sequence in zip(found, rows):
            for number, count in Counter(sequence).items():
                if number < width:
                    row[number] = self._entry(mode, int(number), count, len(sequence))
        return found

    def _entry(self, mode: str, number: int, count: int, length: int) -> float:
        if mode == "binary":
            return 1.0
        if mode == "count":
            return float(count)
        if mode == "freq":
            return count / length
        rarity = np.log(1 + self.document_count / (1 + self.index_docs.get(number, 0)))
        return float((1 + np.log(count)) * rarity)

    # Files

    def get_config(self) -> dict[str, Any]:
        """Return the arguments and the counts, with dictionaries as JSON text."""
        tables = ("word_counts", "word_docs", "index_docs", "index_word", "word_index")
        plain = ("num_words", "filters", "lower", "split", "char_level", "oov_token")
        return {
            **{name: getattr(self, name) for name in (*plain, "document_count")},
            **{name: json.dumps(getattr(self, name)) for name in tables},
        }

    def to_json(self, **kwargs: Any) -> str:
        """Return the configuration as JSON text for `tokenizer_from_json`."""
        content = {"class_name": type(self).__name__, "config": self.get_config()}
        return json.dumps(content, **kwargs)


def tokenizer_from_json(json_string: str) -> Tokenizer:
    """Return the tokenizer that `to_json` described.

    >>> tokenizer = Tokenizer()
    >>> tokenizer.fit_on_texts(["a b a"])
    >>> tokenizer_from_json(tokenizer.to_json()).word_index
    {'a': 1, 'b': 2}
    """
    try:
        config = dict(json.loads(json_string)["config"])
        counts = {name: dict(json.loads(config.pop(name))) for name in ("word_counts", "word_docs",
                  "word_index")}  # fmt: skip
        by_number = {name: {int(k): v for k, v in json.loads(config.pop(name)).items()}
                     for name in ("index_docs", "index_word")}  # fmt: skip
        count = config.pop("document_count")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        reason = f"{error} is missing" if type(error) is KeyError else str(error)
        raise FileFormatError(
            f"tokenizer_from_json needs the text that Tokenizer.to_json returned: {reason}."
        ) from error
    made = Tokenizer(**config)
    made.__dict__.update(counts, **by_number, document_count=count)
    return made


_check_calls(globals(), __all__)
