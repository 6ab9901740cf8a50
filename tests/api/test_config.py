"""TensorFlow's `tf.config`: devices, memory, threads."""

from __future__ import annotations

import importlib
import tracemalloc
from collections.abc import Iterator
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

import tapegrad as tf
import tapegrad_strict as strict
from tapegrad.core.backend.registry import get_backend, register_backend, unregister_backend
from tapegrad.core.values.device import hide_devices, reset_default_device
from tapegrad.core.warn_once import reset_warnings

pytestmark = pytest.mark.filterwarnings("ignore:You are comparing a array_api_strict dtype")
CPU = tf.config.PhysicalDevice("/physical_device:CPU:0", "CPU")
STRICT = tf.config.PhysicalDevice("/physical_device:STRICT:0", "STRICT")


@pytest.fixture
def second_device() -> Iterator[None]:
    register_backend(strict.StrictBackend())
    yield
    hide_devices(())
    unregister_backend("strict")


@pytest.fixture
def settings() -> Iterator[None]:
    reset_warnings()
    yield
    tf.config.set_soft_device_placement(True)
    reset_warnings()


# Devices


@pytest.mark.usefixtures("second_device")
def test_physical_devices_begin_with_the_cpu_and_can_be_chosen_by_type():
    found = tf.config.list_physical_devices()

    assert found[0] == CPU
    assert STRICT in found
    assert tf.config.list_physical_devices("STRICT") == [STRICT]
    assert tf.config.list_physical_devices("TPU") == []
    assert tf.config.experimental.list_physical_devices("CPU") == [CPU]


@pytest.mark.usefixtures("second_device")
def test_tensors_can_be_placed_by_the_name_of_a_logical_device():
    (found,) = tf.config.list_logical_devices("STRICT")

    with tf.device(found.name):
        assert tf.constant(1.0).device == "strict:0"
    assert found.name == "/device:STRICT:0"


@pytest.mark.usefixtures("second_device")
def test_a_hidden_device_is_listed_as_physical_only_and_refused():
    tf.config.set_visible_devices([], "STRICT")

    assert STRICT in tf.config.list_physical_devices()
    assert tf.config.get_visible_devices("STRICT") == []
    assert tf.config.list_logical_devices("STRICT") == []
    assert "strict:0" not in tf.list_devices()
    with pytest.raises(tf.errors.DeviceError, match=r"set_visible_devices hides.*'strict:0'"):
        tf.to_device(tf.constant(1.0), "strict:0")

    tf.config.set_visible_devices(STRICT, "STRICT")
    assert tf.config.get_visible_devices("STRICT") == [STRICT]


@pytest.mark.usefixtures("second_device")
def test_new_tensors_avoid_a_hidden_default_device(monkeypatch):
    monkeypatch.setenv("TAPEGRAD_DEVICE", "cpu")
    reset_default_device()
    try:
        tf.config.set_visible_devices(tf.config.list_physical_devices("STRICT"))

        assert tf.constant(1.0).device == "strict:0"
    finally:
        hide_devices(())
    assert tf.constant(1.0).device == "cpu"


def test_what_cannot_be_made_visible_is_named():
    with pytest.raises(ValueError, match="At least one device must stay visible"):
        tf.config.set_visible_devices([])
    with pytest.raises(ValueError, match=r"GPU.*not a device here"):
        tf.config.set_visible_devices([tf.config.PhysicalDevice("/physical_device:GPU:99", "GPU")])
    with pytest.raises(ValueError, match="takes devices of this type"):
        tf.config.set_visible_devices([CPU], "GPU")
    with pytest.raises(TypeError, match="list_physical_devices"):
        tf.config.set_visible_devices(["/gpu:0"])
    assert CPU in tf.config.get_visible_devices()


@pytest.mark.usefixtures("settings")
@pytest.mark.parametrize("name", ["/GPU:99", "GPU:99", "/device:GPU:99", "gpu:99"])
def test_a_gpu_that_is_not_here_is_replaced_with_one_warning(name):
    with pytest.warns(UserWarning, match=r"There is no device .*99.*is used"), tf.device(name):
        placed = tf.constant(1.0).device

    with tf.device(name):  # which warns no more
        assert tf.constant(1.0).device == placed == tf.constant(1.0).device


@pytest.mark.usefixtures("settings")
def test_exact_names_and_other_devices_are_never_replaced():
    for name in ("cuda:99", "/CPU:7", "tpu"):
        with pytest.raises((ValueError, RuntimeError)), tf.device(name):
            pass

    tf.config.set_soft_device_placement(False)

    assert not tf.config.get_soft_device_placement()
    with pytest.raises((ValueError, RuntimeError)), tf.device("/GPU:99"):
        pass


def test_the_full_name_of_a_device_is_accepted():
    with tf.device("/job:localhost/replica:0/task:0/device:CPU:0"):
        assert tf.constant(1.0).device == "cpu"


# Memory


@pytest.mark.usefixtures("second_device")
def test_a_memory_limit_reaches_the_backend_in_bytes():
    limit = tf.config.LogicalDeviceConfiguration(memory_limit=1024)

    tf.config.set_logical_device_configuration(STRICT, [limit])
    assert get_backend("strict").memory("strict:0").limit == 1024 * 2**20
    assert tf.config.get_logical_device_configuration(STRICT) == [limit]

    tf.config.set_logical_device_configuration(STRICT, None)
    assert get_backend("strict").memory("strict:0").limit is None
    assert tf.config.get_logical_device_configuration(STRICT) is None


def test_cupys_pool_is_limited_on_its_device(monkeypatch):
    pytest.importorskip("cupy")
    memory = importlib.import_module("tapegrad_cupy.runtime.memory")
    asked: list[object] = []
    pool = SimpleNamespace(set_limit=lambda size: asked.append(size))
    devices = SimpleNamespace(Device=lambda number: nullcontext(asked.append(f"cuda:{number}")))
    stand_in = SimpleNamespace(cuda=devices, get_default_memory_pool=lambda: pool)
    monkeypatch.setattr(memory, "cupy", stand_in)

    found = [memory.CudaMemory(1, list).set_limit(most) for most in (2**30, None)]

    assert found == [True, True]
    assert asked == ["cuda:1", 2**30, "cuda:1", 0]  # 0 is CuPy's word for no limit


@pytest.mark.parametrize(
    ("wanted", "words"),
    [
        ([tf.config.LogicalDeviceConfiguration(1024)], "operating system"),
        ([tf.config.LogicalDeviceConfiguration(-1)], r"megabytes above 0. Got -1"),
        ([1024], "LogicalDeviceConfiguration. It holds int"),
    ],
)
def test_limits_that_cannot_be_are_refused(wanted, words):
    before = tf.config.get_logical_device_configuration(CPU)

    with pytest.raises((ValueError, TypeError), match=words):
        tf.config.set_logical_device_configuration(CPU, wanted)

    assert tf.config.get_logical_device_configuration(CPU) == before


@pytest.mark.usefixtures("second_device")
def test_memory_always_grows():
    tf.config.experimental.set_memory_growth(STRICT, False)

    assert tf.config.experimental.get_memory_growth(STRICT) is True
    with pytest.raises(ValueError, match="set_memory_growth is for GPUs"):
        tf.config.experimental.set_memory_growth(CPU, True)


def test_memory_is_counted_while_tracemalloc_runs():
    experimental = tf.config.experimental
    with pytest.raises(ValueError, match=r"tracemalloc.start"):
        experimental.get_memory_info("CPU:0")
    tracemalloc.start()
    try:
        with tf.device("cpu"):
            x = tf.zeros((1000, 1000))
        peak = experimental.get_memory_info("CPU:0")["peak"]
        del x
        experimental.reset_memory_stats("CPU:0")

        assert peak >= 4_000_000 > experimental.get_memory_info("CPU:0")["peak"]
        assert 0 < experimental.get_memory_usage("CPU:0") < 4_000_000
    finally:
        tracemalloc.stop()


@pytest.mark.usefixtures("second_device")
def test_details_name_the_device():
    details = tf.config.experimental.get_device_details

    assert details(STRICT) == {"device_name": "array_api_strict in place of a GPU"}
    assert details(CPU) == {}


# Threads


def test_threads_of_loops_are_set_and_read(monkeypatch):
    monkeypatch.delenv("TAPEGRAD_THREADS", raising=False)
    threads = tf.config.threading
    pool = pytest.importorskip("tapegrad_numpy.loops.pool")

    assert threads.get_intra_op_parallelism_threads() == 0
    threads.set_intra_op_parallelism_threads(3)
    assert threads.get_intra_op_parallelism_threads() == pool.thread_count() == 3
    threads.set_intra_op_parallelism_threads(0)
    assert threads.get_intra_op_parallelism_threads() == 0
    threads.set_inter_op_parallelism_threads(2)
    assert threads.get_inter_op_parallelism_threads() == 2
    threads.set_inter_op_parallelism_threads(0)
    with pytest.raises(ValueError, match=r"at least 0. Got -1"):
        threads.set_intra_op_parallelism_threads(-1)
