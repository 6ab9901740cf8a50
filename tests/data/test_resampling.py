"""Dataset.random and rejection_resample: shares of classes, seeds, and refused arguments."""

from __future__ import annotations

from itertools import islice
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.data import Dataset
from tapegrad.errors import ArgumentError, ShapeError

LABELS = (np.random.default_rng(0).random(4000) < 0.05).astype(np.int64)


def resampled(initial: Any, seed: int = 3) -> list[tuple[int, int]]:
    pairs = Dataset.from_tensor_slices((np.arange(4000), LABELS)).rejection_resample(
        lambda number, label: label, [0.5, 0.5], initial, seed
    )
    return [(int(label), int(number)) for label, (number, _) in pairs]


@pytest.mark.parametrize("initial", [[0.95, 0.05], None])
def test_classes_have_the_shares_of_the_target(initial: Any) -> None:
    found = resampled(initial)

    # Four standard deviations of a share of a half among about 400 draws.
    assert abs(np.mean([label for label, _ in found]) - 0.5) < 4 * 0.5 / np.sqrt(len(found))
    assert all(LABELS[number] == label for label, number in found)
    rare = sum(label for label, _ in found)
    assert rare > 0.9 * LABELS.sum()  # nothing of the rare class is lost but at the start
    assert found == resampled(initial)
    assert found != resampled(initial, seed=4)


def test_elements_of_one_part_keep_their_structure() -> None:
    pairs = Dataset.range(6).rejection_resample(lambda n: n % 2, [0, 1], [0.5, 0.5])

    assert [(int(label), int(n)) for label, n in pairs] == [(1, 1), (1, 3), (1, 5)]
    assert pairs.element_spec[1].shape == ()


def test_batches_and_older_names_take_it() -> None:
    resample = tf.data.experimental.rejection_resample(lambda n: n % 2, [1.0, 0.0], [0.5, 0.5])
    batches = Dataset.range(8).apply(resample).map(lambda label, n: n).batch(3)

    assert [batch.numpy().tolist() for batch in batches] == [[0, 2, 4], [6]]


def test_random_numbers_depend_on_the_seed() -> None:
    first, again, other = (
        [int(n) for n in islice(Dataset.random(seed=seed), 50)] for seed in (1, 1, 2)
    )

    assert first == again != other
    assert len({*first}) == 50
    assert min(first) >= 0
    assert Dataset.random(seed=1).element_spec.dtype == tf.int64
    assert len([*tf.data.experimental.RandomDataset(1).take(2)]) == 2


def test_wrong_shares_and_classes_are_refused() -> None:
    numbers = Dataset.range(4)

    with pytest.raises(ArgumentError, match=r"target_dist must be a vector of shares"):
        numbers.rejection_resample(lambda n: n, [0.5, -0.5])
    with pytest.raises(ShapeError, match=r"one share for each class. Got 3 and 2"):
        numbers.rejection_resample(lambda n: n, [0.5, 0.5], [1, 1, 1])
    with pytest.raises(ArgumentError, match=r"Classes are 0 to 1. Got class 2"):
        list(numbers.rejection_resample(lambda n: n, [0.5, 0.5]))
    with pytest.raises(ArgumentError, match=r"Each pass .* has the same numbers"):
        Dataset.random(rerandomize_each_iteration=True)
