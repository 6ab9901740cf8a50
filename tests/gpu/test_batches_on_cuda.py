"""Batches that are NumPy arrays: right when they are overwritten at once, and in bounded memory."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import cupy
import numpy as np
import pytest

import tapegrad as tf
from tapegrad_bench.evidence import compare
from tapegrad_cupy.runtime import host_to_device
from tapegrad_cupy.runtime.host_to_device import (
    LEAST_OVERLAPPED,
    MOST_AT_ONCE,
    MOST_PACKED,
    place_batch,
    release_buffers,
)
from tapegrad_zoo.contenders import BATCHES, make
from tapegrad_zoo.measure import find
from tapegrad_zoo.row import ARRAY_TOLERANCE

ROWS = {
    "tiny": 64,
    "packed": MOST_PACKED // 128,
    "overlapped": 2 * LEAST_OVERLAPPED // 64,
    "in pieces": 2 * MOST_AT_ONCE // 64,
}
"""Rows of 16 numbers in float32, by the way in which a batch of them is copied."""


@pytest.fixture(autouse=True)
def on_the_gpu() -> Any:
    gc.collect()
    with tf.device("cuda:0"):
        yield


def training(seed: int = 0) -> tuple[Any, Any]:
    """A step that depends on all batches before it, and its weights."""
    rng = np.random.default_rng(seed)
    w = tf.Variable(rng.normal(size=(16, 8)).astype("float32") * 0.1)

    @tf.function(wait=True)
    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((tf.tanh(x @ w) - y) ** 2)
        w.assign_sub(0.5 * tape.gradient(loss, w))
        return loss

    return step, w


def batch(k: int, rows: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(k)
    return rng.normal(size=(rows, 16)).astype("float32"), rng.random((rows, 8)).astype("float32")


@pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS)
def test_batches_that_are_overwritten_at_once_train_as_batches_on_the_device(rows: int) -> None:
    steps = 200 if rows < 10_000 else 20
    step, w = training()
    reference, expected = training()
    x, y = batch(0, rows)

    losses = []
    for k in range(steps):
        x[...], y[...] = batch(k % 8, rows)
        losses.append(step(x, y))
        x[...] = np.nan
        y[...] = np.nan
    known = [reference(*[tf.constant(one) for one in batch(k % 8, rows)]) for k in range(steps)]

    np.testing.assert_array_equal(np.array(losses), np.array(known))
    np.testing.assert_array_equal(w.numpy(), expected.numpy())


@pytest.mark.parametrize("rows", ROWS.values(), ids=ROWS)
def test_memory_does_not_grow(rows: int) -> None:
    step, _ = training()
    batches = [batch(k, rows) for k in range(2)]
    for k in range(20):
        step(*batches[k % 2])
    release_buffers()
    step(*batches[0])
    pool, used = cupy.get_default_memory_pool(), []

    for k in range(60):
        step(*batches[k % 2])
        used.append(pool.used_bytes())

    assert max(used[10:]) <= max(used[:10])
    release_buffers()
    assert pool.used_bytes() <= used[0]


def test_the_host_does_not_wait_for_the_previous_step() -> None:
    """While a long computation runs, several batches are copied and their steps submitted."""
    step, _ = training()
    batches = [batch(k, ROWS["overlapped"]) for k in range(2)]
    for k in range(12):
        step(*batches[k % 2])
    busy = cupy.ones((4096, 4096), "float32")
    busy @ busy
    cupy.cuda.get_current_stream().synchronize()

    for _ in range(200):  # half a second, longer than a busy host takes for two calls
        busy = busy @ busy
    done = cupy.cuda.Event()
    done.record()
    for k in range(2):
        step(*batches[k])

    assert not done.done


def test_copies_overlap_the_previous_step() -> None:
    """A copy into memory that the last step does not read is complete before that step."""
    big = np.ones(LEAST_OVERLAPPED, "float32")
    for _ in range(4):
        place_batch([big], False)
    busy = cupy.ones((4096, 4096), "float32")
    busy @ busy
    cupy.cuda.get_current_stream().synchronize()

    for _ in range(40):
        busy = busy @ busy
    done = cupy.cuda.Event()
    done.record()
    place_batch([big], False)
    (here,) = [
        uploads
        for (_, address, _), uploads in host_to_device._uploads.items()
        if address == cupy.cuda.get_current_stream().ptr
    ]
    here._copying.synchronize()

    assert not done.done


def test_eager_operations_and_views_see_the_batch_they_were_given() -> None:
    first = tf.function(lambda x, y: (x[:2], y + tf.reduce_sum(x)), wait=True)
    rows = ROWS["overlapped"]
    x, y = np.empty((rows, 16), "float32"), np.empty(3, "float32")
    kept = []
    for k in range(30):
        x[...], y[...] = k, k
        kept.append(first(x, y))
        total = kept[-1][1] - 1.0  # an eager operation on the default stream
        x[...] = -1.0
        assert total.numpy().tolist() == [16 * rows * k + k - 1.0] * 3
    assert [part[0].numpy()[1, 3] for part in kept] == [float(k) for k in range(30)]


def test_several_functions_threads_and_streams() -> None:
    def train(k: int) -> list[float]:
        rows = [*ROWS.values()][k % 3]
        with tf.device("cuda:0"), cupy.cuda.Stream(non_blocking=True) as stream:
            step, _ = training(k)
            x, y = batch(k, rows)
            found = []
            for turn in range(12):
                x[...], y[...] = batch(turn, rows)
                found.append(float(step(x, y)))
            stream.synchronize()
            return found

    alone = [train(k) for k in range(6)]
    with ThreadPoolExecutor(6) as pool:
        together = list(pool.map(train, range(6)))

    np.testing.assert_array_equal(together, alone)


def test_threads_share_the_default_stream() -> None:
    total = tf.function(lambda x, y: tf.reduce_sum(x) + tf.reduce_sum(y), wait=True)

    def run(k: int) -> float:
        x = np.full((ROWS["overlapped"], 2), k, "float32")
        with tf.device("cuda:0"):
            found = total(x, np.float32([k]))
            x[...] = -1
            return float(found)

    run(0)
    with ThreadPoolExecutor(6) as pool:
        found = list(pool.map(run, range(60)))

    assert found == [k * (2 * ROWS["overlapped"] + 1) for k in range(60)]


def test_nested_and_mixed_arguments() -> None:
    step = tf.function(lambda batch, scale: batch["x"] * scale + batch["y"], wait=True)
    for k in range(6):
        x, y = np.full((5, 3), k, "float32"), np.arange(3, dtype="float32")
        found = step({"x": x, "y": y}, tf.constant(2.0))
        x[...] = y[...] = -1
        assert found.numpy()[4].tolist() == [2.0 * k, 2.0 * k + 1, 2.0 * k + 2]


def test_datasets_and_fit_copy_their_batches_in_the_same_way(monkeypatch: Any) -> None:
    monkeypatch.setattr("tapegrad.data.resident.MOST_BYTES", 0)
    monkeypatch.setattr("tapegrad.keras.models.resident.MOST_BYTES", 0)
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(4096, 64)).astype("float32"), rng.normal(size=(4096, 1))

    def fitted(*data: Any, device: str, **options: Any) -> list[float]:
        with tf.device(device):
            tf.keras.utils.set_random_seed(1)
            model = tf.keras.Sequential([tf.keras.layers.Dense(1, kernel_initializer="zeros")])
            model.compile("sgd", "mse")
            return model.fit(*data, epochs=3, verbose=0, **options).history["loss"]

    arrays = {d: fitted(x, y, batch_size=2048, shuffle=False, device=d) for d in ("cpu", "cuda:0")}
    stream = tf.data.Dataset.from_tensor_slices((x, y.astype("float32"))).batch(2048)
    streams = {d: fitted(stream, device=d) for d in ("cpu", "cuda:0")}

    np.testing.assert_allclose(arrays["cuda:0"], arrays["cpu"], rtol=1e-5)
    np.testing.assert_allclose(streams["cuda:0"], arrays["cpu"], rtol=1e-5)


def test_labels_that_are_kept_do_not_keep_the_inputs(monkeypatch: Any) -> None:
    monkeypatch.setattr("tapegrad.data.resident.MOST_BYTES", 0)
    x, y = np.zeros((3200, 256), "float32"), np.arange(3200)
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(32)
    next(iter(data))
    pool = cupy.get_default_memory_pool()
    before = pool.used_bytes()

    labels = [label for _, label in data]

    assert int(tf.concat(labels, 0)[-1]) == 3199
    assert pool.used_bytes() - before < x.nbytes // 4


@pytest.mark.filterwarnings("default")  # warnings of other libraries are not errors here
@pytest.mark.parametrize(
    ("library", "mode"),
    [("tapegrad", "function"), ("jax", "jit"), ("torch", "eager"), ("torch", "graph")],
)
def test_contenders_of_the_zoo_get_the_same_results_from_batches_on_the_host(
    library: str, mode: str
) -> None:
    pytest.importorskip(library)
    made = find("vq").program

    found, known = (make(library, mode, made, "cuda", place).evidence() for place in BATCHES)

    assert compare(ARRAY_TOLERANCE, made.dtypes["cuda"], found, known).complaint == ""
