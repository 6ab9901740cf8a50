"""Arrays of the host reach the device whole, whatever their size and whatever is written next."""

from concurrent.futures import ThreadPoolExecutor

import cupy
import numpy as np
import pytest

import tapegrad as tf
from tapegrad_cupy.runtime.host_to_device import MOST_AT_ONCE, copy_to_device
from tapegrad_cupy.runtime.staging import PIECE, PIECES

SIZES = [0, 1, PIECE, MOST_AT_ONCE, MOST_AT_ONCE + 1, 3 * PIECE, (PIECES + 5) * PIECE + 3]


@pytest.mark.parametrize("size", SIZES)
def test_all_sizes_arrive(size):
    value = np.random.default_rng(0).integers(0, 256, size, "uint8")

    np.testing.assert_array_equal(cupy.asnumpy(copy_to_device(value)), value)


@pytest.mark.parametrize("dtype", ["float32", "complex128", ">f4"])
def test_strides_and_byte_orders(dtype):
    whole = np.random.default_rng(1).normal(size=(700, 3001)).astype(dtype)
    for value in (whole, whole.T, whole[::-2, ::3], whole[5:]):
        found = copy_to_device(value)
        assert found.dtype.isnative
        np.testing.assert_array_equal(cupy.asnumpy(found), value)


def test_later_writes_are_not_seen():
    value = np.zeros(4 * PIECE, "float32")
    for k in range(20):
        value[:] = k
        found = copy_to_device(value)
        value[:] = -1
        assert float(found.min()) == float(found.max()) == k


def test_threads_copy_at_the_same_time():
    def copy(k):
        with cupy.cuda.Device(0):
            found = copy_to_device(np.full(PIECE + k, k, "float32"))
            return float(found.min()), float(found.max())

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(copy, range(40))) == [(k, k) for k in range(40)]


def test_functions_of_numpy_batches_see_each_batch():
    step = tf.function(lambda x, y: tf.reduce_sum(x) + tf.reduce_sum(tf.cast(y, "float32")))
    rng = np.random.default_rng(2)
    with tf.device("cuda:0"):
        for k in range(12):
            x, y = rng.integers(0, 4, (64, 9000)).astype("float32"), np.full(64, k)
            assert float(step(x, y)) == x.sum() + 64 * k
