"""Memory on the GPU: counters, copies from the host, and out-of-memory errors."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import numpy as np
import pytest

import tapegrad as tf
from tapegrad import cli
from tapegrad.data import resident

cupy = pytest.importorskip("cupy")
cupyx = pytest.importorskip("cupyx")
memory = pytest.importorskip("tapegrad_cupy.runtime.staging")

MEGABYTE = 2**20
ABSURD = 2**45


@pytest.fixture(autouse=True)
def on_the_gpu() -> Iterator[None]:
    gc.collect()  # what earlier tests left behind must not go in the middle of a measurement
    with tf.device("cuda:0"):
        yield


# Counters


def test_current_and_peak_follow_the_tensors() -> None:
    x = tf.zeros((MEGABYTE,))
    tf.reset_peak_memory()
    before = tf.memory_info()
    y = x + 1.0
    during = tf.memory_info()
    del y
    after = tf.memory_info()

    assert before["current"] == before["peak"] == after["current"]
    assert during["current"] == during["peak"] == after["peak"]
    assert during["current"] - before["current"] == 4 * MEGABYTE


def test_the_gradient_frees_what_the_tape_kept() -> None:
    w = tf.Variable(np.ones((MEGABYTE,), "float32"))
    tf.reset_peak_memory()
    start = tf.memory_info()["current"]
    with tf.GradientTape() as tape:
        y = w
        for _ in range(8):
            y = tf.exp(y * 0.1)
    recorded = tf.memory_info()["current"] - start
    gradient = tape.gradient(y, w)
    del y
    left = tf.memory_info()["current"] - start

    assert recorded >= 8 * 4 * MEGABYTE
    assert left == 4 * MEGABYTE
    assert gradient.shape == (MEGABYTE,)
    assert tf.memory_info()["peak"] - start <= recorded + 4 * 4 * MEGABYTE


def test_info_names_the_device_and_cupy(capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["info"])

    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("cuda:0"))
    assert "GiB of which" in line
    assert line.endswith(f"CuPy {cupy.__version__}")


# Copies from the host


@pytest.mark.parametrize("size", [0, 1, 1000, memory.PIECE // 4, memory.PIECE + 12345])
@pytest.mark.parametrize("order", ["C", "F"])
def test_copies_are_right_and_independent_of_the_original(size: int, order: str) -> None:
    value = np.asfortranarray(np.arange(2 * size, dtype="float32").reshape(2, size))
    value = value if order == "F" else np.ascontiguousarray(value)
    expected = value.copy()

    x = tf.constant(value)
    value[...] = -1.0

    np.testing.assert_array_equal(x.numpy(), expected)


def test_more_than_all_buffers_hold_arrives_in_order() -> None:
    value = np.arange((memory.PIECES + 2) * memory.PIECE // 8 + 3, dtype="int64")

    first, second = tf.constant(value), tf.constant(value[::-1])

    np.testing.assert_array_equal(first.numpy(), value)
    np.testing.assert_array_equal(second.numpy(), value[::-1])


def test_page_locked_arrays_are_copied_before_they_can_change() -> None:
    value = cupyx.empty_pinned((MEGABYTE,), "float32")
    value[...] = 1.0
    busy = cupy.ones((4096, 4096), "float32")
    for _ in range(20):
        busy = busy @ busy * 1e-4

    x = tf.constant(value)
    value[...] = 2.0

    assert float(tf.reduce_max(x)) == 1.0


def test_copies_take_their_turn_on_the_current_stream() -> None:
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        x = tf.constant(np.ones(memory.PIECE // 4 + 7, "float32"))
        total = tf.reduce_sum(tf.constant(np.ones(MEGABYTE, "float32"))) + tf.reduce_sum(x)
        assert float(total) == pytest.approx(MEGABYTE + x.size)


# Out of memory


def test_an_absurd_result_is_a_sentence_and_everything_goes_on() -> None:
    v = tf.Variable([1.0, 2.0])

    with pytest.raises(MemoryError) as caught:
        tf.tile(v, [ABSURD])

    sentence = str(caught.value)
    assert isinstance(caught.value, tf.errors.OutOfMemoryError)
    assert "ran out of memory on cuda:0: Out of memory allocating" in sentence
    assert "are in use there. " in sentence
    assert v.assign_add([1.0, 1.0]).numpy().tolist() == [2.0, 3.0]
    with tf.GradientTape() as tape:
        y = tf.reduce_sum(v * v)
    assert tape.gradient(y, v).numpy().tolist() == [4.0, 6.0]


@pytest.mark.parametrize("stays", [True, False])
def test_a_batch_without_room_says_so_and_comes_with_room(stays, monkeypatch) -> None:
    if not stays:
        monkeypatch.setattr(resident, "MOST_BYTES", 0)
    pool, rows = cupy.get_default_memory_pool(), np.ones((64, MEGABYTE // 4), "float32")
    dataset = tf.data.Dataset.from_tensor_slices(rows).batch(48)
    held = next(iter(dataset))  # otherwise its memory would be the room
    pool.free_all_blocks()
    limit = pool.get_limit()
    pool.set_limit(size=pool.total_bytes() + MEGABYTE)
    try:
        with pytest.raises(tf.errors.OutOfMemoryError, match=r"(A batch|Copying).* on cuda:0"):
            next(iter(dataset))
    finally:
        pool.set_limit(size=limit)

    assert float(tf.reduce_min(next(iter(dataset)))) == float(tf.reduce_min(held)) == 1.0


def test_a_gradient_without_room_says_so_and_works_with_room() -> None:
    pool = cupy.get_default_memory_pool()
    w = tf.Variable(np.ones((16 * MEGABYTE,), "float32"))
    with tf.GradientTape(persistent=True) as tape:
        y = tf.reduce_sum(tf.exp(w * 0.5))
    pool.free_all_blocks()
    limit = pool.get_limit()
    pool.set_limit(size=pool.total_bytes() + 16 * MEGABYTE)
    try:
        with pytest.raises(MemoryError, match=r"The gradient of .* ran out of memory on cuda:0"):
            tape.gradient(y, w)
    finally:
        pool.set_limit(size=limit)

    np.testing.assert_allclose(tape.gradient(y, w)[:2].numpy(), 0.5 * np.exp(0.5), rtol=1e-6)


# Limits


def test_a_memory_limit_is_that_of_the_pool_and_can_be_removed() -> None:
    gpu = tf.config.list_physical_devices("GPU")[0]
    pool = cupy.get_default_memory_pool()
    most = pool.used_bytes() // MEGABYTE + 64
    tf.config.set_logical_device_configuration(
        gpu, [tf.config.LogicalDeviceConfiguration(memory_limit=most)]
    )
    try:
        assert pool.get_limit() == most * MEGABYTE
        with pytest.raises(tf.errors.ResourceExhaustedError):
            tf.zeros((64 * MEGABYTE,))
    finally:
        tf.config.set_logical_device_configuration(gpu, None)
    assert pool.get_limit() == 0
    assert tf.zeros((64 * MEGABYTE,)).shape == (64 * MEGABYTE,)
