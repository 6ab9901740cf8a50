"""An iterator goes on where another stood: bit for bit, and without doing the work again."""

from __future__ import annotations

import json

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.data import Dataset
from tapegrad.errors import ArgumentError

X = np.random.default_rng(0).normal(size=(13, 2))


def slices():
    return Dataset.from_tensor_slices((X, np.arange(13)))


def numbers():
    return Dataset.range(13)


def squares(**options):
    return numbers().map(lambda n: n * n, **options)


def shuffled(size=7, seed=3):
    return Dataset.range(size).shuffle(4, seed=seed)


def over(dataset, other):
    return dataset.flat_map(lambda _: other)


def unequal(n):
    return Dataset.range(100 * n, 100 * n + n % 4)


PIPELINES = {
    "slices": slices,
    "from_tensors": lambda: Dataset.from_tensors(X).repeat(3),
    "generator": lambda: Dataset.from_generator(lambda: iter(range(9))),
    "map": squares,
    "map in threads": lambda: squares(num_parallel_calls=3),
    "filter": lambda: numbers().filter(lambda n: n % 3 != 1),
    "batch": lambda: slices().batch(4),
    "batch without remainder": lambda: slices().batch(4, drop_remainder=True),
    "batch in threads": lambda: squares().batch(3, num_parallel_calls=2),
    "padded_batch": lambda: squares().map(lambda n: tf.zeros([n % 5])).padded_batch(3),
    "unbatch": lambda: slices().batch(4).unbatch(),
    "unbatch of results": lambda: squares().batch(4).map(lambda n: n + 1).unbatch().batch(3),
    "shuffle of slices": lambda: slices().shuffle(13, seed=1),
    "small shuffle of slices": lambda: slices().shuffle(4, seed=1).batch(2),
    "shuffle of map": lambda: squares().shuffle(5, seed=1),
    "shuffle of map in threads": lambda: squares(num_parallel_calls=2).shuffle(5, seed=1),
    "shuffle of filter": lambda: squares().filter(lambda n: n % 2 == 0).shuffle(5, seed=1),
    "shuffle of shuffle": lambda: squares().shuffle(4, seed=1).shuffle(6, seed=2),
    "shuffle, repeat": lambda: slices().shuffle(6, seed=1).repeat(3).batch(4),
    "repeat of slices": lambda: slices().repeat(3).skip(5).shard(2, 1).batch(4),
    "repeat of shuffle of map": lambda: squares().shuffle(4, seed=1).repeat(2).batch(5),
    "repeat of map, shuffle": lambda: squares().repeat(2).shuffle(6, seed=1),
    "no end": lambda: slices().repeat().shuffle(6, seed=1).batch(4).take(9),
    "repeat, shuffle": lambda: slices().repeat(2).shuffle(6, seed=1).batch(4),
    "one order": lambda: numbers().shuffle(6, 1, reshuffle_each_iteration=False).repeat(3),
    "take": lambda: squares().take(5),
    "skip": lambda: squares().skip(5),
    "shard": lambda: squares().shard(3, 1),
    "part of slices": lambda: slices().skip(1).shard(2, 1).take(5).batch(2),
    "zip": lambda: Dataset.zip(squares(), slices().shuffle(13, seed=3)),
    "enumerate": lambda: squares().enumerate(),
    "concatenate": lambda: squares().concatenate(numbers()),
    "window": lambda: numbers().window(4, shift=2, stride=2).flat_map(lambda w: w.batch(4)),
    "window with gaps": lambda: numbers().window(2, shift=5).flat_map(lambda w: w.batch(2)),
    "interleave": lambda: numbers().interleave(unequal, cycle_length=3, block_length=2),
    "interleave in threads": lambda: numbers().interleave(unequal, 3, num_parallel_calls=2),
    "flat_map of one": lambda: over(numbers(), shuffled()),
    "cache": lambda: squares().cache().repeat(2),
    "cache, shuffle": lambda: squares().cache().shuffle(7, seed=4).repeat(2),
    "prefetch": lambda: squares().prefetch(3),
    "prefetch inside": lambda: squares().prefetch(3).map(lambda n: n + 1).prefetch(2),
    "all of it": lambda: (
        slices()
        .shuffle(8, seed=5)
        .repeat(2)
        .map(lambda x, n: (x * 2, n), num_parallel_calls=2)
        .batch(3)
        .prefetch(2)
    ),
}


def values(elements):
    return [tf.nest.map_structure(lambda leaf: leaf.numpy().tolist(), e) for e in elements]


def through_json(state):
    return json.loads(json.dumps(state))


@pytest.mark.parametrize("name", PIPELINES)
def test_a_resumed_pass_goes_on_bit_for_bit(name):
    """At every place, in a dataset that is built anew as after a restart."""
    build = PIPELINES[name]
    whole = values(build())
    iterator = build().iterator()

    for taken in range(len(whole) + 1):
        state = through_json(iterator.state())

        assert values(build().iterator(state)) == whole[taken:], f"after {taken} elements"

        next(iterator, None)


@pytest.mark.parametrize("name", ["shuffle of slices", "shuffle of map", "all of it"])
def test_the_pass_after_a_resumed_one_is_the_next(name):
    build = PIPELINES[name]
    dataset = build()
    values(dataset)
    iterator = dataset.iterator()
    next(iterator)
    state = through_json(iterator.state())
    rest, third = values(iterator), values(dataset)

    resumed = build()

    assert values(resumed.iterator(state)) == rest
    assert values(resumed) == third


PASSES = {
    "repeat": lambda: shuffled().repeat(2),
    "no seed": lambda: shuffled(seed=None).batch(2),
    "no seed, repeat": lambda: shuffled(seed=None).repeat(2),
    "concatenate before": lambda: shuffled().concatenate(numbers().take(2)),
    "concatenate after": lambda: numbers().take(2).concatenate(shuffled()).batch(2),
    "concatenate, repeat": lambda: shuffled().concatenate(shuffled(3)).repeat(2),
    "cache": lambda: shuffled().cache(),
    "cache, repeat": lambda: shuffled().cache().repeat(2).prefetch(1),
    "cache, concatenate": lambda: shuffled().cache().concatenate(numbers().take(2)),
    "cache of repeat": lambda: shuffled().repeat(2).cache().shuffle(4, seed=1),
    "interleave": lambda: shuffled(3).interleave(unequal, cycle_length=2),
}


@pytest.mark.parametrize("name", PASSES)
def test_the_passes_after_a_resumed_one_are_those_of_a_run_without_a_break(name):
    """In a dataset that is built anew, and in the one that has gone further."""
    build = PASSES[name]
    dataset = build()
    first = dataset.iterator()
    states, elements = [], []
    for _ in range(3):
        states.append(through_json(first.state()))
        elements += values([next(first)])
    whole = [elements + values(first), values(dataset), values(dataset)]

    for taken, state in enumerate(states):
        for resumed in (build(), dataset):
            assert values(resumed.iterator(state)) == whole[0][taken:]
            assert [values(resumed), values(resumed)] == whole[1:]


@pytest.mark.parametrize("name", PASSES)
def test_a_finished_pass_knows_the_number_of_the_next(name):
    dataset = PASSES[name]()
    values(dataset)
    last = dataset.iterator()
    values(last)
    state, third = through_json(last.state()), values(dataset)

    resumed = PASSES[name]()

    assert values(resumed.iterator(state)) == []
    assert values(resumed) == third


def test_a_shuffle_without_a_seed_resumes_too():
    iterator = Dataset.range(50).shuffle(20).iterator()
    values(next(iterator) for _ in range(10))
    state = through_json(iterator.state())

    assert values(Dataset.range(50).shuffle(20).iterator(state)) == values(iterator)


def test_a_finished_pass_stays_finished():
    iterator = squares().batch(5).iterator()
    values(iterator)

    assert values(squares().batch(5).iterator(through_json(iterator.state()))) == []


def test_a_map_without_an_order_loses_and_repeats_nothing():
    def build():
        return numbers().map(lambda n: n, num_parallel_calls=3, deterministic=False)

    for taken in range(14):
        iterator = build().iterator()
        before = values(next(iterator) for _ in range(taken))
        after = values(build().iterator(through_json(iterator.state())))
        iterator.close()

        assert sorted(before + after) == list(range(13))


@pytest.mark.parametrize(
    ("steps", "most_calls"),
    [
        (lambda counted: Dataset.range(100).map(counted), 10),
        (lambda counted: Dataset.range(100).shuffle(100, seed=0).map(counted), 10),
        (lambda counted: Dataset.range(100).map(counted).batch(5), 10),
        (lambda counted: Dataset.range(100).map(counted).shuffle(3, seed=0), 10 + 3),
        (lambda counted: Dataset.range(100).map(counted).prefetch(1), 10),
    ],
    ids=["map", "shuffle, map", "map, batch", "map, shuffle", "map, prefetch"],
)
def test_resuming_does_not_run_functions_for_earlier_elements(steps, most_calls):
    calls = []

    def counted(n):
        calls.append(1)
        return n

    iterator = steps(counted).iterator()
    length = len(steps(counted))
    for _ in range(length * 9 // 10):
        next(iterator)
    state = iterator.state()
    iterator.close()
    calls.clear()

    rest = sum(1 for _ in steps(counted).iterator(state))

    assert rest == length - length * 9 // 10
    assert len(calls) <= most_calls


@pytest.mark.parametrize("full_first", [False, True], ids=["while it fills", "when it is full"])
@pytest.mark.parametrize("full_then", [False, True], ids=["into an empty one", "into a full one"])
def test_a_state_means_the_same_however_full_the_cache_is(full_first, full_then):
    def build(is_full):
        cached = squares().cache()
        if is_full:
            values(cached)
        parts = Dataset.zip(cached.skip(2), cached.shard(2, 1), cached.shuffle(4, seed=1))
        return parts.enumerate()

    iterator = build(full_first).iterator()
    values(next(iterator) for _ in range(3))
    state = through_json(iterator.state())

    assert values(build(full_then).iterator(state)) == values(iterator)


def test_the_state_of_another_pipeline_is_refused():
    state = Dataset.range(10).batch(2).iterator().state()

    with pytest.raises(ArgumentError, match=r"with the step 'batch', but this dataset has 'range'"):
        Dataset.range(10).iterator(state)
    with pytest.raises(ArgumentError, match=r"with the step 'range', but this dataset has 'map'"):
        Dataset.range(10).map(lambda n: n).batch(2).iterator(state)
    with pytest.raises(TypeError, match=r"the dictionary that an iterator's state\(\) returned"):
        Dataset.range(10).iterator(5)


LONGER = {
    "slices": lambda n: Dataset.range(n),
    "generator": lambda n: Dataset.from_generator(lambda: iter(range(n))),
    "shuffle": lambda n: shuffled(n),
    "shuffle of filter": lambda n: numbers().filter(lambda k: k < n).shuffle(3, seed=1),
    "cache": lambda n: Dataset.range(n).cache().repeat(3),
}


@pytest.mark.parametrize("name", LONGER)
def test_the_state_of_a_longer_dataset_is_refused(name):
    dataset = LONGER[name](12)
    values(dataset)
    iterator = dataset.iterator()
    values(next(iterator) for _ in range(10))

    with pytest.raises(ArgumentError, match=r"points beyond the last element of \w+\. Build the d"):
        LONGER[name](5).iterator(iterator.state())


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"at": "3"}, "The state of range is damaged: 'at' must be an integer >= 0. Got '3'"),
        ({"at": -1}, "The state of range is damaged: 'at' must be an integer >= 0. Got -1"),
        ({"memory": [1]}, "The state is damaged, or belongs to another dataset"),
        ({"memory": [1, "x"]}, "The state is damaged, or belongs to another dataset"),
        ({"memory": [1, -1]}, "The state is damaged, or belongs to another dataset"),
        ({"inputs": []}, "The state is damaged, or belongs to another dataset"),
        ({"memories": None}, "The state is damaged, or belongs to another dataset"),
        ({"turns": []}, "The state of flat_map has another cycle_length"),
        ({"step": "map"}, "with the step 'map', but this dataset has 'zip'"),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_a_damaged_state_is_refused_and_the_dataset_stays_as_it_was(change, words):
    def build():
        inner = Dataset.zip(shuffled(), numbers())
        return Dataset.zip(inner.repeat(2), numbers().flat_map(Dataset.range))

    def changed(state):
        if isinstance(state, list):
            return [changed(part) for part in state]
        if not isinstance(state, dict):
            return state
        own = {key: value for key, value in change.items() if key in state}
        return {key: changed(value) for key, value in state.items()} | own

    expected = build()
    values(expected)
    dataset = build()
    iterator = dataset.iterator()
    values(next(iterator) for _ in range(4))
    state = changed(iterator.state())
    rest = values(iterator)
    iterator = dataset.iterator(build().iterator().state())

    with pytest.raises(ArgumentError) as caught:
        iterator.set_state(state)

    assert words in str(caught.value)
    assert values(iterator)[4:] == rest
    assert values(dataset) == values(expected)
