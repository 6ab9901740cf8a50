"""Each step gives the elements that its words promise, checked against lists and NumPy."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.data import AUTOTUNE, Dataset
from tapegrad.data.plan import Plan, Rows
from tapegrad.data.selection import Repeat


def values(dataset):
    return [tf.nest.map_structure(lambda leaf: leaf.numpy().tolist(), e) for e in dataset]


def ragged(*lengths):
    return Dataset.from_generator(lambda: ([k + 1] * n for k, n in enumerate(lengths)))


# Functions


@pytest.mark.parametrize("calls", [None, 1, 3, AUTOTUNE])
def test_map_keeps_the_order(calls):
    dataset = Dataset.range(50).map(lambda n: 2 * n + 1, num_parallel_calls=calls)

    assert values(dataset) == [2 * n + 1 for n in range(50)]


def test_map_without_an_order_gives_every_result_once():
    dataset = Dataset.range(50).map(lambda n: n * n, num_parallel_calls=4, deterministic=False)

    assert sorted(values(dataset)) == [n * n for n in range(50)]


def test_map_passes_the_entries_of_a_tuple_as_arguments_and_a_dictionary_as_one():
    pairs = Dataset.from_tensor_slices(([1, 2], [10, 20])).map(lambda a, b: {"a": a, "b": b})

    assert values(pairs.map(lambda entry: entry["a"] + entry["b"])) == [11, 22]


def test_map_takes_a_recorded_function():
    @tf.function
    def scale(x):
        return tf.reduce_sum(x * 2.0)

    dataset = Dataset.from_tensor_slices(np.ones((3, 4), np.float32)).map(scale)

    assert values(dataset) == [8.0, 8.0, 8.0]


def test_a_list_of_numbers_that_map_returns_is_an_array_and_one_of_tensors_a_tuple():
    assert values(Dataset.range(2).map(lambda n: [int(n), 5])) == [[0, 5], [1, 5]]
    assert values(Dataset.range(2).map(lambda n: [n, n + 1])) == [(0, 1), (1, 2)]


def test_map_is_unseen_by_the_tape_around_the_loop():
    with tf.device("cpu"):  # where functions of map run
        w = tf.Variable(3.0)
    dataset = Dataset.from_tensor_slices([2.0]).map(lambda x: x * w)

    with tf.device("cpu"), tf.GradientTape() as tape:
        (x,) = dataset
        loss = x * w

    assert float(tape.gradient(loss, w)) == 6.0


def test_filter_keeps_what_the_function_wants():
    assert values(Dataset.range(10).filter(lambda n: n % 3 == 0)) == [0, 3, 6, 9]


def test_interleave_reads_by_turns_in_blocks():
    dataset = Dataset.range(1, 6).interleave(
        lambda n: Dataset.from_tensors(n).repeat(3), cycle_length=2, block_length=2
    )

    assert values(dataset) == [1, 1, 2, 2, 1, 2, 3, 3, 4, 4, 3, 4, 5, 5, 5]


def test_interleave_in_threads_keeps_the_order():
    def numbers(n):
        return Dataset.range(n, n + 5)

    plain = Dataset.range(6).interleave(numbers, cycle_length=3)
    threaded = Dataset.range(6).interleave(numbers, cycle_length=3, num_parallel_calls=2)

    assert values(threaded) == values(plain)


def test_flat_map_reads_one_dataset_after_the_other():
    assert values(Dataset.range(4).flat_map(Dataset.range)) == [0, 0, 1, 0, 1, 2]


def test_apply_and_reduce():
    total = Dataset.range(5).reduce(
        (np.int64(0), np.int64(1)), lambda state, n: (state[0] + n, state[1] * (n + 1))
    )

    assert (int(total[0]), int(total[1])) == (10, 120)
    assert values(Dataset.range(5).apply(lambda dataset: dataset.skip(3))) == [3, 4]


# Which elements


@pytest.mark.parametrize("mapped", [False, True], ids=["arrays", "functions"])
def test_take_skip_and_shard_are_slices(mapped):
    source = Dataset.range(10).map(lambda n: n) if mapped else Dataset.range(10)
    numbers = list(range(10))

    assert values(source.take(3)) == numbers[:3]
    assert values(source.take(-1)) == numbers
    assert values(source.skip(7)) == numbers[7:]
    assert values(source.skip(-1)) == []
    assert values(source.shard(3, 1)) == numbers[1::3]
    assert values(source.skip(2).shard(2, 1).take(3)) == numbers[2:][1::2][:3]
    assert values(source.skip(2).shard(2, 1).batch(3)) == [[3, 5, 7], [9]]


def test_repeat_fills_batches_across_its_rounds():
    assert values(Dataset.range(3).repeat(3).batch(4)) == [[0, 1, 2, 0], [1, 2, 0, 1], [2]]
    assert values(Dataset.range(1).repeat().batch(3000).take(1)) == [[0] * 3000]
    assert values(Dataset.range(2).map(lambda n: n).repeat(3).batch(5)) == [[0, 1, 0, 1, 0], [1]]


def test_repeat_of_nothing_ends():
    assert values(Dataset.range(0).repeat()) == []
    assert values(Dataset.range(3).filter(lambda n: False).repeat().batch(2)) == []
    assert values(Dataset.range(3).repeat(0)) == []


def test_concatenate_zip_and_enumerate():
    one, two = Dataset.range(3), Dataset.range(10, 15)

    assert values(one.concatenate(two)) == [0, 1, 2, 10, 11, 12, 13, 14]
    assert values(Dataset.zip((one, {"two": two}))) == [(n, {"two": 10 + n}) for n in range(3)]
    assert values(two.enumerate(start=5).take(2)) == [(5, 10), (6, 11)]
    assert values(two.enumerate(start=-1).take(2)) == [(-1, 10), (0, 11)]
    assert values(two.map(lambda n: n).enumerate().batch(4)) == [
        ([0, 1, 2, 3], [10, 11, 12, 13]),
        ([4], [14]),
    ]


# Groups


def test_batches_of_arrays_are_their_slices():
    x = np.random.default_rng(0).normal(size=(10, 3))

    batches = [batch.numpy() for batch in Dataset.from_tensor_slices(x).batch(4)]

    assert [batch.shape for batch in batches] == [(4, 3), (4, 3), (2, 3)]
    np.testing.assert_array_equal(np.concatenate(batches), x)


@pytest.mark.parametrize("calls", [None, 2])
def test_batches_of_results_are_stacked(calls):
    dataset = Dataset.range(7).map(lambda n: (n, [n, -n])).batch(3, True, calls)

    assert values(dataset) == [
        ([0, 1, 2], [[0, 0], [1, -1], [2, -2]]),
        ([3, 4, 5], [[3, -3], [4, -4], [5, -5]]),
    ]


def test_padded_batch_fills_up_to_the_longest_of_each_batch():
    assert values(ragged(1, 3, 2).padded_batch(2)) == [[[1, 0, 0], [2, 2, 2]], [[3, 3]]]


def test_padded_batch_takes_shapes_and_values_per_array():
    pairs = Dataset.zip(ragged(1, 2), Dataset.range(2))

    dataset = pairs.padded_batch(2, padded_shapes=([3], []), padding_values=(-1, None))

    assert values(dataset) == [([[1, -1, -1], [2, 2, -1]], [0, 1])]


def test_unbatch_undoes_batch():
    x = np.arange(10.0).reshape(5, 2)
    dataset = Dataset.from_tensor_slices({"x": x, "n": np.arange(5)})

    assert values(dataset.batch(3).unbatch()) == values(dataset)


def test_windows_are_datasets_of_neighbours():
    windows = Dataset.range(7).window(3, shift=2, stride=2)

    assert [values(window) for window in windows] == [[0, 2, 4], [2, 4, 6], [4, 6], [6]]


def test_windows_of_pairs_are_pairs_of_datasets():
    pairs = Dataset.zip(Dataset.range(4), Dataset.range(10, 14)).window(2)

    dataset = pairs.flat_map(lambda a, b: Dataset.zip(a.batch(2), b.batch(2)))

    assert values(dataset) == [([0, 1], [10, 11]), ([2, 3], [12, 13])]


def test_a_pipeline_feeds_a_training_step():
    rng = np.random.default_rng(1)
    x = rng.normal(size=(256, 3)).astype(np.float32)
    y = x @ np.array([1.0, -2.0, 0.5], np.float32)
    w = tf.Variable(tf.zeros([3]))

    @tf.function
    def step(x, y):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((tf.reduce_sum(x * w, 1) - y) ** 2)
        w.assign_sub(0.1 * tape.gradient(loss, w))

    for batch in Dataset.from_tensor_slices((x, y)).shuffle(64, 0).repeat(8).batch(16).prefetch(2):
        step(*batch)

    np.testing.assert_allclose(w.numpy(), [1.0, -2.0, 0.5], atol=1e-3)


def test_functions_of_a_pipeline_and_recordings_wait_for_each_other():
    with tf.device("cpu"):
        w = tf.Variable(3.0)
    begun, recording = threading.Event(), threading.Event()

    def read_before(n):
        begun.set()
        recording.wait(0.1)  # without turns the recording begins now, and has the variable
        return w + 0.0

    def read_during(n):
        recording.wait()  # the recording is under way, and lasts a while
        return w + 0.0

    def slow(x):
        recording.set()
        time.sleep(0.2)
        return x * 2.0

    with tf.device("cpu"):
        first = iter(Dataset.range(1).map(read_before).prefetch(1))
        begun.wait()
        assert float(tf.function(slow)(tf.constant(1.0))) == 2.0
        assert float(next(first)) == 3.0

        recording.clear()
        recorder = threading.Thread(target=tf.function(slow), args=(tf.constant(1.0),))
        recorder.start()
        recording.wait()
        (value,) = Dataset.range(1).map(read_during)
        recorder.join()

    assert float(value) == 3.0
    assert float(w) == 3.0


# Rows with random access


class Asked(Rows):
    """Rows that return the indices by which they are read."""

    def __len__(self):
        return 10

    def at(self, index):
        return index

    def block(self, indices, step, like=None):
        return indices


class Given(Plan):
    """A plan with such rows."""

    def open(self, run, state):
        raise NotImplementedError

    def size(self):
        return 10

    def spec(self):
        return None

    def rows(self):
        return Asked()


ROWS = {
    "repeat": (lambda plan: Repeat(plan, 3), list(range(10)) * 3),
    "repeat for ever": (lambda plan: Repeat(plan, None), list(range(10)) * 5),
    "repeat twice": (lambda plan: Repeat(Repeat(plan, 2), 2), list(range(10)) * 4),
}


@pytest.mark.parametrize("name", ROWS)
def test_blocks_of_repeated_rows_are_slices_unless_they_cross_an_end(name):
    make, expected = ROWS[name]
    rows = make(Given()).rows()

    assert len(rows) >= len(expected)
    for start in range(len(expected) - 8):
        for length in (1, 4, 8):
            block = rows.block(range(start, start + length), "batch")
            assert list(block) == expected[start : start + length]
            assert isinstance(block, range) == (start % 10 + length <= 10)
            assert rows.at(start) == expected[start]
    assert list(rows.block([25, 3, 14], "batch")) == [5, 3, 4]
