"""Rows gathered by host indices, from arrays on the device and on the host, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.data import resident
from tapegrad.errors import TransferError

cupy = pytest.importorskip("cupy")
ml_dtypes = pytest.importorskip("ml_dtypes")
host_rows = pytest.importorskip("tapegrad_cupy.kernels.indexing.host_rows")

RNG = np.random.default_rng(0)
DTYPES = ["bool", "uint8", "int16", "int64", "float16", ml_dtypes.bfloat16, "float32", "float64"]


def draw(shape: tuple[int, ...], dtype: Any = "float32") -> np.ndarray[Any, Any]:
    return RNG.integers(0, 100, shape).astype(dtype)


def check(arrays: list[Any], rows: np.ndarray[Any, Any]) -> None:
    taken = host_rows.take_rows([cupy.asarray(array) for array in arrays], rows)
    placed = host_rows.place_rows(arrays, rows, cupy.empty(0))
    for got in (taken, placed):
        assert len(got) == len(arrays)
        for array, own in zip(arrays, got):
            assert own.dtype == array.dtype
            assert own.shape == array[rows].shape
            assert cupy.asnumpy(own).tobytes() == array[rows].tobytes()


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: np.dtype(dtype).name)
@pytest.mark.parametrize("shape", [(50,), (50, 3), (50, 4, 4), (50, 5000)], ids=str)
def test_all_dtypes_and_widths(dtype, shape):
    check([draw(shape, dtype)], RNG.integers(0, 50, 20))


@pytest.mark.parametrize("count", [1, 127, 128, 129, 896, 897, 3000])
def test_any_number_of_rows(count):
    check([draw((70, 7)), draw((70,), "int64")], RNG.integers(0, 70, count))


def test_more_arrays_than_a_launch_takes():
    check([draw((9, k + 1), "int16") for k in range(19)], RNG.permutation(9))


def test_arrays_that_start_anywhere():
    whole = cupy.asarray(draw((100,), "uint8"))
    for start in range(9):
        part = whole[start : start + 64].reshape(8, 8)
        (got,) = host_rows.take_rows([part], np.array([7, 0, 3]))
        assert got.tolist() == cupy.asnumpy(part)[[7, 0, 3]].tolist()


def test_no_rows_and_rows_without_elements():
    arrays = [cupy.zeros((4, 2)), cupy.zeros((4, 0))]

    assert [a.shape for a in host_rows.take_rows(arrays, np.arange(0))] == [(0, 2), (0, 0)]
    assert [a.shape for a in host_rows.take_rows(arrays, np.arange(3))] == [(3, 2), (3, 0)]
    assert host_rows.place_rows([np.zeros((4, 0))], np.arange(3), arrays[0]) is None


def test_what_cannot_be_put_together_is_left_to_the_host():
    like, rows = cupy.zeros(1), np.arange(2)

    assert host_rows.place_rows([np.zeros((4, 1), ">f4")], rows, like) is None
    assert host_rows.place_rows([np.zeros((4, 1), "datetime64[s]")], rows, like) is None
    assert host_rows.place_rows([np.zeros((2, 5 << 20))], rows, like) is None


def test_batches_keep_their_values_while_the_device_is_late():
    data = draw((64, 1000))
    batches, kept = [], []
    work = cupy.ones((4096, 4096), "float32")
    for step in range(40):
        work = work @ work * 1e-7
        rows = RNG.integers(0, 64, 32)
        batches += host_rows.place_rows([data], rows, work)
        kept.append(data[rows].copy())
        data += step

    for got, expected in zip(batches, kept):
        np.testing.assert_array_equal(cupy.asnumpy(got), expected)


def test_a_capture_is_refused():
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        stream.begin_capture()
        with pytest.raises(TransferError, match="CUDA graph"):
            host_rows.place_rows([draw((4, 2))], np.arange(2), cupy.zeros(1))
        stream.end_capture()


@pytest.mark.parametrize("most", [0, 1 << 20], ids=["on the host", "on the device"])
def test_batches_of_a_dataset_are_those_of_the_host(most, monkeypatch):
    monkeypatch.setattr(resident, "MOST_BYTES", most)
    x, y = draw((100, 3, 2)), np.arange(100)

    def batches(device: str) -> list[Any]:
        dataset = tf.data.Dataset.from_tensor_slices({"x": x, "y": (y, x[:, 0])})
        with tf.device(device):
            found = list(dataset.shuffle(100, seed=1).batch(16).prefetch(2))
            found += list(dataset.skip(2).batch(7))
        return [tf.nest.map_structure(lambda leaf: leaf.numpy().tolist(), one) for one in found]

    assert batches("cuda:0") == batches("cpu")
