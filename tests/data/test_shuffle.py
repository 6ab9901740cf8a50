"""Shuffles are permutations that depend on the seed and the number of the pass alone."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.data import Dataset


def values(dataset):
    return [leaf.numpy().tolist() for leaf in dataset]


@pytest.mark.parametrize("buffer_size", [1, 3, 10, 50])
def test_every_element_comes_once(buffer_size):
    assert sorted(values(Dataset.range(10).shuffle(buffer_size, seed=0))) == list(range(10))


def test_a_buffer_of_one_changes_nothing():
    assert values(Dataset.range(10).shuffle(1)) == list(range(10))


@pytest.mark.parametrize("buffer_size", [2, 5])
def test_an_element_comes_no_earlier_than_the_buffer_allows(buffer_size):
    found = values(Dataset.range(100).shuffle(buffer_size, seed=1))

    assert all(place >= n - buffer_size + 1 for place, n in enumerate(found))
    assert found != list(range(100))


@pytest.mark.parametrize("buffer_size", [4, 100])
def test_arrays_and_functions_are_shuffled_alike(buffer_size):
    """Arrays are shuffled by position, what functions make in a buffer; nobody can tell."""
    arrays = Dataset.range(30).shuffle(buffer_size, seed=5)
    functions = Dataset.range(30).map(lambda n: n).shuffle(buffer_size, seed=5)

    assert values(arrays) == values(functions)
    assert values(arrays) == values(functions)


def test_each_pass_has_another_order_and_the_seed_decides_them():
    one, other = (Dataset.range(50).shuffle(50, seed=7) for _ in range(2))

    passes = [values(one), values(one)]

    assert passes[0] != passes[1]
    assert passes == [values(other), values(other)]
    assert passes[0] != values(Dataset.range(50).shuffle(50, seed=8))


def test_the_rounds_of_repeat_are_passes():
    repeated = Dataset.range(20).shuffle(20, seed=7).repeat(2)
    dataset = Dataset.range(20).shuffle(20, seed=7)

    assert values(repeated) == values(dataset) + values(dataset)


def test_without_reshuffling_all_passes_are_the_same():
    dataset = Dataset.range(20).shuffle(20, seed=7, reshuffle_each_iteration=False)

    assert values(dataset) == values(dataset)


def test_without_a_seed_the_global_one_decides():
    tf.random.set_seed(3)
    first = [values(Dataset.range(20).shuffle(20)) for _ in range(2)]
    tf.random.set_seed(3)
    second = [values(Dataset.range(20).shuffle(20)) for _ in range(2)]

    assert first == second
    assert first[0] != first[1]


def test_negative_and_large_seeds_are_fine():
    for seed in (-1, 2**70):
        assert sorted(values(Dataset.range(5).shuffle(5, seed=seed))) == list(range(5))


def test_all_orders_are_equally_likely():
    dataset = Dataset.range(3).shuffle(3, seed=0)

    orders = [tuple(values(dataset)) for _ in range(1200)]

    counts = np.unique(orders, axis=0, return_counts=True)[1]
    # Chi-squared with 5 degrees of freedom stays below 20.5 in 99.9 % of all cases.
    assert counts.shape == (6,)
    assert float(((counts - 200) ** 2 / 200).sum()) < 20.5


def test_batches_of_a_shuffle_hold_matching_rows():
    x = np.arange(40.0).reshape(20, 2)

    for rows, n in Dataset.from_tensor_slices((x, np.arange(20))).shuffle(7, seed=2).batch(6):
        np.testing.assert_array_equal(rows.numpy(), x[n.numpy()])


@pytest.mark.parametrize("buffer_size", [1, 3, 11, 20, 50])
@pytest.mark.parametrize("count", [1, 2, 7, 20, 33])
def test_batches_come_in_the_order_of_single_elements(buffer_size, count):
    alone = [int(n) for n in Dataset.range(20).shuffle(buffer_size, seed=4)]

    batches = Dataset.range(20).shuffle(buffer_size, seed=4).batch(count)

    assert [n for batch in batches for n in batch.numpy().tolist()] == alone
