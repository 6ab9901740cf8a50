"""Pairs of words that stand near each other, for word embeddings."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np

from tapegrad.core.argument_checks import LARGEST
from tapegrad.errors import ArgumentError


def make_sampling_table(size: int, sampling_factor: float = 1e-5) -> np.ndarray:
    """Return how likely the words of a vocabulary are kept, by rank; frequent ones are less.

    Frequencies follow Zipf's law: word k of the vocabulary has about 1 / (k log k + ...) of all.

    >>> table = make_sampling_table(1000)
    >>> table.shape, bool(table[1] < table[999])
    ((1000,), True)
    """
    rank = np.arange(size)
    rank[:1] = 1
    inverse = rank * (np.log(rank) + 0.577) + 0.5 - 1.0 / (12.0 * rank)
    ratio = sampling_factor * inverse
    return np.minimum(1.0, ratio / np.sqrt(ratio))


def skipgrams(
    sequence: Sequence[int],
    vocabulary_size: int,
    window_size: int = 4,
    negative_samples: float = 1.0,
    shuffle: bool = True,
    categorical: bool = False,
    sampling_table: Any = None,
    seed: int | None = None,
) -> tuple[list[list[int]], list[Any]]:
    """Return pairs of words, and 1 for those within a window, 0 for words drawn at random.

    Words of number 0 are padding. `sampling_table` is from `make_sampling_table`.

    >>> skipgrams([1, 2, 3], 4, window_size=1, negative_samples=0, shuffle=False)
    ([[1, 2], [2, 1], [2, 3], [3, 2]], [1, 1, 1, 1])
    """
    if vocabulary_size < 2:
        raise ArgumentError(f"vocabulary_size must be at least 2. Got {vocabulary_size}.")
    drawn = random.Random(seed)
    words = [int(word) for word in sequence]
    couples: list[list[int]] = []
    for place, word in enumerate(words):
        if not word or (sampling_table is not None and sampling_table[word] < drawn.random()):
            continue
        first, last = max(0, place - window_size), min(len(words), place + window_size + 1)
        couples += [[word, words[k]] for k in range(first, last) if k != place and words[k]]
    labels: list[Any] = [[0, 1] if categorical else 1] * len(couples)
    if negative_samples > 0:
        count = int(len(couples) * negative_samples)
        if count > LARGEST:
            raise ArgumentError(f"negative_samples asks for {count} pairs, which no list can hold.")
        starts = [couple[0] for couple in couples]
        drawn.shuffle(starts)
        couples += [
            [starts[k % len(starts)], drawn.randint(1, vocabulary_size - 1)] for k in range(count)
        ]
        labels += [[1, 0] if categorical else 0] * count
    if shuffle:
        order = list(range(len(couples)))
        drawn.shuffle(order)
        couples, labels = [couples[k] for k in order], [labels[k] for k in order]
    return couples, labels
