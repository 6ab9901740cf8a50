"""Reuters: 11,228 news messages as lists of word numbers, about 46 topics."""

from __future__ import annotations

import numpy as np

from tapegrad.keras.datasets.files import Split, check_test_split, objects_of
from tapegrad.keras.datasets.texts import (
    Words,
    as_objects,
    below,
    limited,
    order_of,
    shifted,
    word_index,
)

_HASH = "d6586e694ee56d7a4e65172e12b3e987c03096cb01eab99753921ef915959916"
_INDEX_HASH = "4d44cc38712099c9e383dc6e5f11a921"
_TOPICS = """
    cocoa grain veg-oil earn acq wheat copper housing money-supply coffee sugar trade reserves ship
    cotton carcass crude nat-gas cpi money-fx interest gnp meal-feed alum oilseed gold tin
    strategic-metal livestock retail ipi iron-steel rubber heat jobs lei bop zinc orange pet-chem
    dlr gas silver wpi hog lead
"""


def load_data(
    path: str = "reuters.npz",
    num_words: int | None = None,
    skip_top: int = 0,
    maxlen: int | None = None,
    test_split: float = 0.2,
    seed: int = 113,
    start_char: int | None = 1,
    oov_char: int | None = 2,
    index_from: int = 3,
) -> Split:
    """Return training messages with topics, and test messages with topics; see `imdb.load_data`."""
    check_test_split(test_split)
    found = objects_of(path, "reuters", _HASH)
    words = Words(num_words, skip_top, start_char, oov_char, index_from)
    order = order_of(np.random.RandomState(seed), len(found["x"]))
    texts, labels = below(maxlen, shifted(found["x"][order], words), found["y"][order])
    texts = limited(texts, words)
    count = int(len(texts) * (1 - test_split))
    return (
        (as_objects(texts[:count]), labels[:count]),
        (as_objects(texts[count:]), labels[count:]),
    )


def get_word_index(path: str = "reuters_word_index.json") -> dict[str, int]:
    """Return the number of each word; `load_data` adds `index_from` to it."""
    return word_index(path, "reuters_word_index", _INDEX_HASH)


def get_label_names() -> tuple[str, ...]:
    """Return the names of the topics, in the order of their numbers.

    >>> get_label_names()[:3], len(get_label_names())
    (('cocoa', 'grain', 'veg-oil'), 46)
    """
    return tuple(_TOPICS.split())
