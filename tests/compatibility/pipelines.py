"""Datasets: cache files, and the positions of iterators."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tapegrad as tf
from tapegrad.data import Dataset
from tests.compatibility.cases import Case, Outcome

X = np.arange(26.0).reshape(13, 2)


def _slices() -> Dataset:
    return Dataset.from_tensor_slices((X, np.arange(13)))


def _squares(**options: Any) -> Dataset:
    return Dataset.range(13).map(lambda n: n * n, **options)


def _unequal(n: Any) -> Dataset:
    return Dataset.range(100 * n, 100 * n + n % 4)


PIPELINES: dict[str, Callable[[], Any]] = {
    "slices": _slices,
    "tensors": lambda: Dataset.from_tensors(X[:2]).repeat(7),
    "generator": lambda: Dataset.from_generator(lambda: iter(range(9))),
    "map": _squares,
    "map in threads": lambda: _squares(num_parallel_calls=2),
    "filter": lambda: Dataset.range(13).filter(lambda n: n % 3 != 1),
    "batch": lambda: _squares().batch(2),
    "padded batch": lambda: _squares().map(lambda n: tf.zeros([n % 5])).padded_batch(2),
    "unbatch": lambda: _slices().batch(4).unbatch(),
    "shuffle of slices": lambda: _slices().shuffle(13, seed=1),
    "shuffle of map": lambda: _squares().shuffle(5, seed=1),
    "shuffle without a seed": lambda: Dataset.range(13).shuffle(13),
    "shuffle, repeat": lambda: _slices().shuffle(6, seed=1).repeat(3).batch(4),
    "repeat, shuffle": lambda: _squares().repeat(2).shuffle(6, seed=1),
    "one order": lambda: Dataset.range(7).shuffle(6, 1, reshuffle_each_iteration=False).repeat(3),
    "take, skip, shard": lambda: _squares().take(12).skip(1).shard(2, 1),
    "zip": lambda: Dataset.zip(_squares(), Dataset.range(13).shuffle(13, seed=3)),
    "enumerate": lambda: _squares().enumerate(),
    "concatenate": lambda: _squares().take(2).concatenate(_squares()),
    "window": lambda: Dataset.range(13).window(4, shift=2).flat_map(lambda w: w.batch(4)),
    "interleave": lambda: Dataset.range(13).interleave(_unequal, cycle_length=3, block_length=2),
    "cache": lambda: _squares().cache().shuffle(7, seed=4).repeat(2),
    "prefetch": lambda: _squares().prefetch(3),
    "all of it": lambda: (
        _slices()
        .shuffle(8, seed=5)
        .repeat(2)
        .map(lambda x, n: (x * 2, n), num_parallel_calls=2)
        .batch(3)
        .prefetch(2)
    ),
}
TAKEN = 3


def _values(elements: Any) -> list[Any]:
    return [tf.nest.map_structure(lambda leaf: leaf.numpy().tolist(), one) for one in elements]


def _write_positions(folder: Path) -> Outcome:
    tf.random.set_seed(1)
    datasets = {name: build() for name, build in PIPELINES.items()}
    states, rest = {}, {}
    for name, dataset in datasets.items():
        iterator = dataset.iterator()
        for _ in range(TAKEN):
            next(iterator)
        states[name] = iterator.state()
        rest[name] = [_values(iterator), _values(dataset)]
    (folder / "states.json").write_text(json.dumps(states, separators=(",", ":")))
    return Outcome(rest)


def _read_positions(folder: Path) -> Outcome:
    tf.random.set_seed(2)  # orders come from the states, not from the global generator
    states = json.loads((folder / "states.json").read_text())
    rest = {}
    for name, state in states.items():
        dataset = PIPELINES[name]()
        rest[name] = [_values(dataset.iterator(state)), _values(dataset)]
    return Outcome(rest)


# The file of a cache


def _rich(n: Any) -> dict[str, Any]:
    ragged = tf.ones([int(n)])
    half = tf.cast(n, "bfloat16") / 3
    return {"n": n, "pair": (tf.cast(n, "float32") / 2, ragged), "half": half, "even": n % 2 == 0}


def _write_cache(folder: Path) -> Outcome:
    dataset = Dataset.range(3).map(_rich).cache(folder / "elements")
    return _observe_cache(dataset)


def _read_cache(folder: Path) -> Outcome:
    def refuse(n: Any) -> Any:
        raise AssertionError("The elements are in the file and must not be computed again.")

    return _observe_cache(Dataset.range(3).map(refuse).cache(folder / "elements"))


def _observe_cache(dataset: Any) -> Outcome:
    return Outcome({"elements": [tf.nest.map_structure(np.asarray, e) for e in dataset]})


CASES = {
    "dataset-positions": Case(_write_positions, _read_positions),
    "dataset-cache": Case(_write_cache, _read_cache),
}
