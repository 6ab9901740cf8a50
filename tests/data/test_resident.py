"""Small arrays stay on the device, and give the batches that the host would give."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest

import tapegrad as tf
import tapegrad_strict as strict
from tapegrad.core.backend.registry import register_backend, unregister_backend
from tapegrad.core.values import host
from tapegrad.data import Dataset, resident

pytestmark = pytest.mark.filterwarnings("ignore:You are comparing a array_api_strict dtype")

X = np.arange(70.0).reshape(35, 2)
Y = np.arange(35)


class Pair(NamedTuple):
    x: Any
    y: Any


PIPELINES: dict[str, Callable[[], Dataset]] = {
    "batch": lambda: slices().batch(8),
    "whole batches": lambda: slices().batch(8, drop_remainder=True),
    "shuffle": lambda: slices().shuffle(35, seed=1).batch(8),
    "small buffer": lambda: slices().shuffle(4, seed=1).batch(8),
    "take and skip": lambda: slices().skip(3).take(20).batch(8),
    "strides": lambda: slices().shard(3, 1).shuffle(12, seed=2).batch(5),
    "repeat": lambda: slices().repeat(2).batch(8),
    "shuffled rounds": lambda: slices().shuffle(35, seed=1).repeat(2).batch(8),
    "zip": lambda: Dataset.zip(slices(), Dataset.range(35)).batch(8),
    "prefetch": lambda: slices().shuffle(35, seed=1).batch(8).prefetch(2),
    "after batch": lambda: slices().batch(8).skip(1).take(2),
    "names": lambda: Dataset.from_tensor_slices({"x": X, "y": Pair(X, Y)}).batch(8),
    "map": lambda: slices().batch(8).map(lambda x, y: (x + 1, y)),
    "batches of batches": lambda: slices().batch(8).batch(2, drop_remainder=True),
}


def slices() -> Dataset:
    return Dataset.from_tensor_slices((X, Y))


@pytest.fixture
def device() -> Iterator[str]:
    register_backend(strict.StrictBackend())
    yield "strict:0"
    unregister_backend("strict")


def values(dataset: Dataset, name: str) -> list[Any]:
    with tf.device(name):
        elements = list(dataset)
        for leaf in tf.nest.flatten(elements):
            assert leaf.device.split(":")[0] == name.split(":")[0]
        return [tf.nest.map_structure(lambda leaf: leaf.numpy().tolist(), e) for e in elements]


@pytest.mark.parametrize("name", PIPELINES)
def test_batches_are_those_of_the_host(name, device):
    assert values(PIPELINES[name](), device) == values(PIPELINES[name](), "cpu")


def test_a_pass_resumes_on_the_device(device):
    dataset = slices().shuffle(35, seed=1).batch(8)
    with tf.device(device):
        first = dataset.iterator()
        next(first)
        rest = [x.numpy().tolist() for x, _ in dataset.iterator(first.state())]

        assert rest == [x.numpy().tolist() for x, _ in first]


@pytest.mark.engine
def test_arrays_are_copied_once_and_batches_are_not(device, monkeypatch):
    copied = []
    place = host.place_like
    monkeypatch.setattr(host, "place_like", lambda *a: copied.append(a[0].shape) or place(*a))
    dataset = slices().shuffle(35, seed=1).batch(7)
    with tf.device(device):
        for _ in range(2):
            list(dataset)

    # The indices of each batch, and before them the two arrays.
    assert copied == [X.shape, Y.shape] + [(7,)] * 10


@pytest.mark.engine
def test_large_arrays_stay_on_the_host(device, monkeypatch):
    monkeypatch.setattr(resident, "MOST_BYTES", X.nbytes)
    copied = []
    place, together = host.place_like, host.place_together
    monkeypatch.setattr(host, "place_like", lambda *a: copied.append(a[0].shape) or place(*a))
    monkeypatch.setattr(
        host,
        "place_together",
        lambda *a: copied.extend(value.shape for value in a[0]) or together(*a),
    )
    with tf.device(device):
        list(slices().batch(35))
        list(Dataset.from_tensor_slices(X).batch(5))

    assert copied[:2] == [X.shape, Y.shape]
    assert copied[2] == X.shape
    assert copied[3:] == [(5,)] * 7


@pytest.mark.engine
def test_no_thread_works_ahead_where_nothing_is_copied(device):
    def threads(dataset: Dataset) -> list[str]:
        iterator = iter(dataset.prefetch(2))
        next(iterator)
        names = [thread.name for thread in threading.enumerate()]
        iterator.close()
        return [name for name in names if name.startswith("tapegrad")]

    gathered = slices().shuffle(35, seed=1).repeat(2).batch(8)
    with tf.device(device):
        assert threads(gathered.skip(1)) == []
        assert threads(gathered.map(lambda x, y: x)) == ["tapegrad-prefetch"]
        assert threads(slices()) == ["tapegrad-prefetch"]
    with tf.device("cpu"):
        assert threads(gathered) == ["tapegrad-prefetch"]
