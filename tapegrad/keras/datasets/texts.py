"""Texts as lists of word numbers: the limits that `imdb` and `reuters` apply to them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from tapegrad.errors import ArgumentError, FileFormatError
from tapegrad.keras.datasets.files import ORIGIN
from tapegrad.keras.utils.get_file import get_file


class Words(NamedTuple):
    """Which words are kept, and the numbers of the start and of words that are not kept."""

    num_words: int | None
    skip_top: int
    start_char: int | None
    oov_char: int | None
    index_from: int


def order_of(rng: Any, count: int) -> Any:
    """Return a random order of `count` entries, the one that Keras draws with the same seed."""
    order = np.arange(count)
    rng.shuffle(order)
    return order


def shifted(texts: Sequence[Any], words: Words) -> list[list[int]]:
    """Return texts with the number of the start in front, and words counted from `index_from`.

    >>> shifted([[1, 4]], Words(None, 0, 1, 2, 3))
    [[1, 4, 7]]
    """
    first = [] if words.start_char is None else [words.start_char]
    return [[*first, *(int(w) + words.index_from for w in text)] for text in texts]


def below(maxlen: int | None, texts: list[Any], labels: Any) -> tuple[list[Any], Any]:
    """Return the texts of fewer than `maxlen` words, with their labels."""
    if not maxlen:
        return texts, labels
    kept = [place for place, text in enumerate(texts) if len(text) < maxlen]
    if not kept:
        raise ArgumentError(f"No text has fewer than maxlen={maxlen} words. Increase maxlen.")
    return [texts[place] for place in kept], labels[kept]


def limited(texts: list[list[int]], words: Words) -> list[list[int]]:
    """Replace rare words, and the `skip_top` most frequent ones, by `oov_char`, or drop them.

    >>> limited([[1, 4, 9]], Words(5, 0, 1, 2, 3))
    [[1, 4, 2]]
    """
    most = words.num_words or max(max(text) for text in texts)
    least, oov = words.skip_top, words.oov_char
    if oov is None:
        return [[w for w in text if least <= w < most] for text in texts]
    return [[w if least <= w < most else oov for w in text] for text in texts]


def as_objects(texts: list[list[int]]) -> Any:
    """Return lists of different lengths as the entries of one array."""
    found = np.empty(len(texts), dtype=object)
    found[:] = texts
    return found


def word_index(path: str, name: str, file_hash: str) -> dict[str, int]:
    """Return the number of each word, from a JSON file."""
    file = get_file(path, f"{ORIGIN}{name}.json", file_hash=file_hash)
    try:
        with open(file, encoding="utf-8") as text:
            found: dict[str, int] = json.load(text)
    except ValueError as error:
        raise FileFormatError(f"{file} is not a JSON file: {error}") from error
    return found
