"""Binary search in sorted sequences on the GPU against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad as tf

pytest.importorskip("cupy")


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("dtypes", [("float64", "float64"), ("int32", "int32"), ("float16",) * 2])
@pytest.mark.parametrize("count", [0, 1, 5, 100_003])
def test_places_are_numpys(count: int, dtypes: tuple[str, str], side: str) -> None:
    rng = np.random.default_rng(count)
    sequence = np.sort(rng.integers(-50, 50, count)).astype(dtypes[0])
    values = rng.integers(-60, 60, (7, 301)).astype(dtypes[1])

    with tf.device("cuda:0"):
        found = tf.searchsorted(tf.constant(sequence), tf.constant(values), side, "int64")

    np.testing.assert_array_equal(found.numpy(), np.searchsorted(sequence, values, side))


def test_what_is_no_number_comes_last() -> None:
    sequence, values = np.array([1.0, 2.0, np.nan]), np.array([np.nan, np.inf, -np.inf])

    with tf.device("cuda:0"):
        found = tf.searchsorted(tf.constant(sequence), tf.constant(values))

    np.testing.assert_array_equal(found.numpy(), np.searchsorted(sequence, values))


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize(
    "dtypes", [("float32", "float32"), ("int64", "float64"), ("bfloat16",) * 2, ("uint8",) * 2]
)
@pytest.mark.parametrize("shape", [(3, 5, 40), (1, 1), (4, 0), (300, 1000)])
def test_each_row_is_searched_in_its_own_sequence(shape, dtypes, side) -> None:
    rng = np.random.default_rng(len(shape))
    sequences = np.sort(rng.integers(0, 90, shape), axis=-1)
    values = rng.integers(0, 100, (*shape[:-1], 17))

    with tf.device("cuda:0"):
        given = [tf.cast(tf.constant(x), dtype) for x, dtype in zip((sequences, values), dtypes)]
        found = tf.searchsorted(*given, side, "int64").numpy()

    expected = np.empty_like(values)
    for place in np.ndindex(*shape[:-1]):
        expected[place] = np.searchsorted(sequences[place], values[place], side)
    np.testing.assert_array_equal(found, expected)
