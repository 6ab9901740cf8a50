"""Pairs of near words, and classes drawn by rank."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.errors import ArgumentError, ShapeError

sequence = tf.keras.preprocessing.sequence
sampler = tf.random.log_uniform_candidate_sampler


def test_pairs_are_all_words_within_the_window():
    words = [3, 0, 1, 2, 3, 1]
    pairs, labels = sequence.skipgrams(words, 5, window_size=2, negative_samples=0, seed=1)

    wanted = [
        [words[i], words[j]]
        for i in range(6)
        for j in range(6)
        if i != j and abs(i - j) <= 2 and words[i] and words[j]
    ]
    assert sorted(pairs) == sorted(wanted)
    assert labels == [1] * len(wanted)


def test_other_pairs_begin_with_words_of_the_sequence():
    pairs, labels = sequence.skipgrams([1, 2, 3], 50, window_size=1, negative_samples=2.0, seed=1)

    assert labels.count(1) == 4
    assert labels.count(0) == 8
    drawn = [pair for pair, label in zip(pairs, labels) if label == 0]
    assert all(first in (1, 2, 3) and 0 < second < 50 for first, second in drawn)


def test_frequent_words_are_kept_less_often():
    table = sequence.make_sampling_table(10)

    # The value that Keras' documentation shows for rank 1.
    np.testing.assert_allclose(table[:2], 0.00315225, rtol=1e-5)
    assert (np.diff(table[1:]) > 0).all()


def test_classes_are_drawn_by_their_rank():
    drawn, true_counts, counts = sampler([[0, 4]], 2, 20_000, False, 5, seed=3)

    chances = np.log1p(1 / (np.arange(5) + 1)) / np.log(6)
    found = np.bincount(drawn.numpy(), minlength=5) / 20_000
    np.testing.assert_allclose(found, chances, atol=0.02)
    np.testing.assert_allclose(true_counts.numpy(), [20_000 * chances[[0, 4]]], rtol=1e-5)
    np.testing.assert_allclose(counts.numpy(), 20_000 * chances[drawn.numpy()], rtol=1e-5)


def test_unique_classes_differ_and_follow_the_seed():
    drawn, _, counts = sampler([[0]], 1, 5, True, 5)
    assert sorted(drawn.tolist()) == [0, 1, 2, 3, 4]
    assert (counts.numpy() <= 1).all()
    tf.random.set_seed(4)
    first = sampler([[0]], 1, 5, True, 500)[0].tolist()
    tf.random.set_seed(4)
    assert sampler([[0]], 1, 5, True, 500)[0].tolist() == first
    with pytest.raises(ArgumentError, match="at most range_max"):
        sampler([[0]], 1, 6, True, 5)
    with pytest.raises(ShapeError, match=r"shape \(batch, 2\)"):
        sampler([[0]], 2, 3, True, 5)
