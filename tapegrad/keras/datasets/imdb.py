"""IMDB: 50,000 film reviews as lists of word numbers, positive (1) or negative (0)."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.keras.datasets.files import Split, objects_of
from tapegrad.keras.datasets.texts import (
    Words,
    as_objects,
    below,
    limited,
    order_of,
    shifted,
    word_index,
)

_HASH = "69664113be75683a8fe16e3ed0ab59fda8886cb3cd7ada244f7d9544e4676b9f"
_INDEX_HASH = "bfafd718b763782e994055a2d397834f"


def load_data(
    path: str = "imdb.npz",
    num_words: int | None = None,
    skip_top: int = 0,
    maxlen: int | None = None,
    seed: int = 113,
    start_char: int | None = 1,
    oov_char: int | None = 2,
    index_from: int = 3,
) -> Split:
    """Return 25,000 training reviews with labels, and 25,000 test reviews with labels.

    Words are numbered by their frequency, from `index_from` on. Words from `num_words` on, and
    words below `skip_top`, are replaced by `oov_char`; reviews of `maxlen` words or more are left
    out.
    """
    found = objects_of(path, "imdb", _HASH)
    words = Words(num_words, skip_top, start_char, oov_char, index_from)
    rng = np.random.RandomState(seed)
    parts: list[tuple[list[Any], Any]] = []
    for part in ("train", "test"):
        order = order_of(rng, len(found[f"x_{part}"]))
        texts = shifted(found[f"x_{part}"][order], words)
        parts.append(below(maxlen, texts, found[f"y_{part}"][order]))
    (train, y_train), (test, y_test) = parts
    texts = limited([*train, *test], words)
    return (
        (as_objects(texts[: len(train)]), y_train),
        (as_objects(texts[len(train) :]), y_test),
    )


def get_word_index(path: str = "imdb_word_index.json") -> dict[str, int]:
    """Return the number of each word; `load_data` adds `index_from` to it."""
    return word_index(path, "imdb_word_index", _INDEX_HASH)
