"""timeseries_dataset_from_array, against windows cut with NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad as tf
from tapegrad import keras
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.keras.utils import timeseries_dataset_from_array

DATA = np.random.default_rng(0).normal(size=(30, 2)).astype("float32")
TARGETS = np.arange(30)


@pytest.mark.parametrize(("length", "rate"), [(1, 1), (4, 1), (4, 3), (30, 1), (15, 2)])
@pytest.mark.parametrize("stride", [1, 3])
def test_windows_and_targets(length, stride, rate):
    dataset = timeseries_dataset_from_array(
        DATA, TARGETS, length, sequence_stride=stride, sampling_rate=rate, batch_size=4
    )

    batches = list(dataset)

    starts = range(0, len(DATA) - (length - 1) * rate, stride)
    windows = np.stack([DATA[s : s + length * rate : rate] for s in starts])
    np.testing.assert_array_equal(np.concatenate([x.numpy() for x, _ in batches]), windows)
    np.testing.assert_array_equal(np.concatenate([y.numpy() for _, y in batches]), starts)
    assert {len(x) for x, _ in batches[:-1]} <= {4}
    assert len(dataset) == -(-len(starts) // 4)


def test_without_targets_and_without_batches():
    dataset = timeseries_dataset_from_array(list(range(5)), None, 3, batch_size=None)

    assert [x.tolist() for x in dataset] == [[0, 1, 2], [1, 2, 3], [2, 3, 4]]
    assert dataset.element_spec.shape == (3,)


def test_start_and_end_limit_data_and_targets():
    dataset = timeseries_dataset_from_array(
        DATA, TARGETS, 3, start_index=10, end_index=16, batch_size=None
    )

    found = [(x.numpy(), int(y)) for x, y in dataset]

    assert [y for _, y in found] == [10, 11, 12, 13]
    np.testing.assert_array_equal(found[0][0], DATA[10:13])
    np.testing.assert_array_equal(found[-1][0], DATA[13:16])


def test_fewer_targets_give_fewer_windows():
    dataset = timeseries_dataset_from_array(DATA, TARGETS[5:], 3, batch_size=None)

    assert [int(y) for _, y in dataset] == list(range(5, 30))


def test_a_seed_gives_one_order_with_all_windows():
    def order(seed):
        dataset = timeseries_dataset_from_array(
            DATA, TARGETS, 3, shuffle=True, seed=seed, batch_size=5
        )
        return [int(y) for _, batch in dataset for y in batch]

    assert order(1) == order(1) != order(2)
    assert sorted(order(1)) == list(range(28)) != order(1)


def test_a_model_is_fitted_to_windows():
    series = np.sin(np.arange(400) / 5).astype("float32")
    windows = timeseries_dataset_from_array(series[:-1, None], series[8:], 8, batch_size=32)
    model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(1)])
    model.compile(keras.optimizers.Adam(0.02), "mse")

    losses = model.fit(windows, epochs=30, verbose=0).history["loss"]

    assert losses[-1] < 0.02 < losses[0]


def test_tensors_are_data_too():
    dataset = keras.preprocessing.timeseries_dataset_from_array(tf.range(4.0), None, 2)

    assert next(iter(dataset)).tolist() == [[0.0, 1.0], [1.0, 2.0], [2.0, 3.0]]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"sequence_length": 0}, "sequence_length"),
        ({"sampling_rate": 0}, "sampling_rate"),
        ({"sequence_stride": -1}, "sequence_stride"),
        ({"sequence_stride": 30}, "sequence_stride must be below the number of time steps, 30"),
        ({"start_index": 30}, "0 <= start_index < end_index <= 30"),
        ({"start_index": 5, "end_index": 5}, "Got start_index=5 and end_index=5"),
        ({"end_index": 31}, "end_index=31"),
        ({"sequence_length": 31}, "No window of 31 steps, 1 apart, fits into 30 time steps"),
    ],
)
def test_wrong_arguments_are_refused(options, sentence):
    with pytest.raises(ArgumentError, match=sentence):
        timeseries_dataset_from_array(DATA, TARGETS, **{"sequence_length": 3, **options})


def test_data_that_is_no_series_and_targets_that_end_too_early_are_refused():
    with pytest.raises(ArgumentError, match="data must be an array of numbers"):
        timeseries_dataset_from_array(["a", "b"], None, 1)
    with pytest.raises(ShapeError, match="targets only up to 4 from start_index=20"):
        timeseries_dataset_from_array(DATA, TARGETS[:25], 3, start_index=20)
