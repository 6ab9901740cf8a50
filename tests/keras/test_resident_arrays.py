"""Arrays that `fit` keeps on the device give the same batches as those on the host."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
import tapegrad_strict as strict
from tapegrad.core.backend.registry import register_backend, unregister_backend
from tapegrad.keras.models import resident
from tapegrad.keras.models.batches import ArrayBatches

pytestmark = pytest.mark.filterwarnings("ignore:You are comparing a array_api_strict dtype")

X = np.arange(70.0).reshape(35, 2)
Y = np.arange(35)


@pytest.fixture
def device() -> Iterator[str]:
    register_backend(strict.StrictBackend())
    yield "strict:0"
    unregister_backend("strict")


def batches(data: Any, shuffle: bool, name: str) -> list[Any]:
    with tf.device("cpu"):
        tf.random.set_seed(3)
    with tf.device(name):
        return [tf.nest.map_structure(_taken, batch) for batch in ArrayBatches(data, 8, shuffle)]


def _taken(leaf: Any) -> Any:
    return None if leaf is None else (leaf.dtype.name, leaf.numpy().tolist())


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("block", [1, 200, 1 << 20])
@pytest.mark.parametrize(
    "data", [(X, Y, None), ({"a": X, "b": (Y,)}, Y, X[:, 0])], ids=["two", "nested"]
)
def test_batches_are_those_of_the_host(data, block, shuffle, device, monkeypatch):
    monkeypatch.setattr(resident, "BLOCK_BYTES", block)

    assert batches(data, shuffle, device) == batches(data, shuffle, "cpu")


def test_small_arrays_are_copied_once_and_large_ones_stay(device, monkeypatch):
    with tf.device(device):
        small = ArrayBatches((X, Y, None), 8, shuffle=True)
        list(small)
        copied = resident.on_device(small._arrays, lambda array: array)
        monkeypatch.setattr(resident, "MOST_BYTES", X.nbytes)
        large = resident.on_device((X, Y), lambda array: array)

    assert copied[0] is small._arrays[0]
    assert isinstance(copied[0], tf.Tensor)
    assert large[0] is X


def test_a_fit_on_the_device_ends_where_one_on_the_host_does(device):
    ended = []
    for name in ("cpu", device):
        with tf.device("cpu"):
            tf.random.set_seed(1)
        with tf.device(name):
            model = tf.keras.Sequential([tf.keras.layers.Dense(1, kernel_initializer="ones")])
            model.compile(tf.keras.optimizers.SGD(1e-4), "mse")
            model.fit(X, Y, batch_size=8, epochs=3, verbose=0)
            ended.append(model.layers[0].kernel.numpy())

    np.testing.assert_allclose(ended[1], ended[0], rtol=1e-6)
