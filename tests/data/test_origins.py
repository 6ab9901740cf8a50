"""Where elements come from, what they are made of, and where they lie."""

from __future__ import annotations

from collections import namedtuple

import numpy as np
import pytest

import tapegrad as tf
import tapegrad_strict as strict
from tapegrad.core.backend.registry import register_backend, unregister_backend
from tapegrad.data import INFINITE_CARDINALITY, UNKNOWN_CARDINALITY, Dataset

Point = namedtuple("Point", ["x", "y"])


def values(dataset):
    return [tf.nest.map_structure(lambda leaf: leaf.numpy().tolist(), e) for e in dataset]


def test_slices_of_nested_arrays_keep_their_structure():
    x = np.arange(6, dtype=np.float64).reshape(3, 2)

    elements = list(
        Dataset.from_tensor_slices({"x": x, "rest": (tf.constant([1, 2, 3]), [0.5] * 3)})
    )

    assert len(elements) == 3
    np.testing.assert_array_equal(elements[1]["x"].numpy(), x[1])
    assert int(elements[2]["rest"][0]) == 3
    assert [elements[0]["x"].dtype.name, elements[0]["rest"][1].dtype.name] == [
        "float64",
        "float32",
    ]


def test_named_tuples_stay_named():
    (first, _) = Dataset.from_tensor_slices(Point([1, 2], [3, 4]))

    assert isinstance(first, Point)
    assert (int(first.x), int(first.y)) == (1, 3)


def test_elements_are_tensors_that_do_not_share_memory_with_the_array():
    x = np.zeros((2, 3), np.float32)
    (first, _) = Dataset.from_tensor_slices(x)

    x[...] = 1

    assert isinstance(first, tf.Tensor)
    assert first.numpy().tolist() == [0, 0, 0]


def test_a_memory_mapped_file_is_read_slice_by_slice(tmp_path):
    path = tmp_path / "x.npy"
    np.save(path, np.arange(8.0).reshape(4, 2))
    mapped = np.load(path, mmap_mode="r")

    with tf.device("cpu"):
        batches = list(Dataset.from_tensor_slices(mapped).batch(2))

    np.testing.assert_array_equal(batches[1].numpy(), [[4, 5], [6, 7]])
    assert type(batches[0].array) is np.ndarray


def test_from_tensors_is_one_element():
    assert values(Dataset.from_tensors(([1, 2], 0.5))) == [([1, 2], 0.5)]


@pytest.mark.parametrize("args", [(4,), (2, 9), (9, 2, -3), (5, 5)], ids=str)
def test_range_is_pythons(args):
    dataset = Dataset.range(*args)

    assert values(dataset) == list(range(*args))
    assert len(dataset) == len(range(*args))
    assert dataset.element_spec.dtype == "int64"


def test_range_gives_the_dtype_asked_for():
    assert next(iter(Dataset.range(3, output_type="float32").batch(3))).dtype == tf.float32


def test_a_generator_starts_anew_for_each_pass():
    dataset = Dataset.from_generator(lambda n: iter(range(n)), args=(3,))

    assert values(dataset) == values(dataset) == [0, 1, 2]


def test_the_output_signature_gives_numbers_their_dtype():
    signature = (tf.TensorSpec([None], "float64"), tf.TensorSpec([], "int8"))

    dataset = Dataset.from_generator(lambda: [([1, 2], 3)], signature)

    ((x, n),) = dataset
    assert (x.dtype.name, n.dtype.name) == ("float64", "int8")
    assert dataset.element_spec is signature


def test_a_generator_is_closed_when_its_reader_stops_early():
    closed = []

    def numbers():
        try:
            yield from range(10)
        finally:
            closed.append(True)

    iterator = Dataset.from_generator(numbers).iterator()
    next(iterator)
    iterator.close()

    assert closed == [True]


def test_as_numpy_iterator_gives_arrays_that_may_be_changed():
    x = np.zeros((2, 3))
    first, second = Dataset.from_tensor_slices((x, [1, 2])).as_numpy_iterator()

    first[0][...] = 7

    assert not x.any()
    assert isinstance(second[1], np.integer)


def test_elements_lie_on_the_current_device():
    register_backend(strict.StrictBackend())
    try:
        with tf.device("strict:0"):
            iterators = [
                iter(Dataset.range(4).batch(2)),
                iter(Dataset.range(4).map(lambda n: n + 1).batch(2).prefetch(1)),
                iter(Dataset.range(4).batch(2).prefetch(1).take(1).repeat(2)),
            ]

        assert [next(iterator).device for iterator in iterators] == ["strict:0"] * 3
        assert next(iter(Dataset.range(4))).device == tf.zeros([]).device != "strict:0"
        for iterator in iterators:
            iterator.close()
    finally:
        unregister_backend("strict")


def test_tensors_on_a_device_are_read_once_and_cut_on_the_host():
    register_backend(strict.StrictBackend())
    try:
        with tf.device("strict:0"):
            x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
        dataset = Dataset.from_tensor_slices({"x": x})

        with strict.forbidding_reads():
            found = [element["x"].numpy().tolist() for element in dataset]
    finally:
        unregister_backend("strict")

    assert found == [[1, 2], [3, 4]]


def test_functions_run_on_the_host_whatever_the_device():
    seen = []
    register_backend(strict.StrictBackend())
    try:
        with tf.device("strict:0"):
            list(Dataset.range(2).map(lambda n: seen.append(n.device) or tf.zeros([2])))
    finally:
        unregister_backend("strict")

    assert seen == ["cpu", "cpu"]


def test_bfloat16_passes_through():
    x = tf.cast(tf.constant([1.0, 2.0, 3.0]), "bfloat16")

    (batch,) = Dataset.from_tensor_slices(x).batch(3)

    assert batch.dtype.name == "bfloat16"
    assert tf.cast(batch, "float32").numpy().tolist() == [1, 2, 3]


SIZES = {
    "slices": (Dataset.from_tensor_slices([1, 2, 3]), 3),
    "batch": (Dataset.range(7).batch(3), 3),
    "batch without remainder": (Dataset.range(7).batch(3, drop_remainder=True), 2),
    "window": (Dataset.range(7).window(3, shift=2, drop_remainder=True), 3),
    "window of what is left": (Dataset.range(7).window(3, shift=2), 4),
    "repeat": (Dataset.range(7).repeat(2), 14),
    "repeat without end": (Dataset.range(7).repeat(), INFINITE_CARDINALITY),
    "repeat of nothing": (Dataset.range(0).repeat(), 0),
    "take of repeat": (Dataset.range(7).repeat().take(5), 5),
    "skip of repeat": (Dataset.range(7).repeat().skip(5), INFINITE_CARDINALITY),
    "skip too far": (Dataset.range(7).skip(9), 0),
    "shard": (Dataset.range(7).shard(3, 2), 2),
    "filter": (Dataset.range(7).filter(lambda n: True), UNKNOWN_CARDINALITY),
    "generator": (Dataset.from_generator(list), UNKNOWN_CARDINALITY),
    "zip": (Dataset.zip(Dataset.range(7), Dataset.range(3).repeat()), 7),
    "enumerate": (Dataset.range(7).enumerate(), 7),
    "enumerate without end": (Dataset.range(7).repeat().enumerate(), INFINITE_CARDINALITY),
    "concatenate": (Dataset.range(7).concatenate(Dataset.range(2)), 9),
    "unbatch": (Dataset.from_tensor_slices(np.zeros((3, 4))).unbatch(), 12),
    "unbatch of batches": (Dataset.range(7).batch(3, drop_remainder=True).unbatch(), 6),
    "unbatch of results": (
        Dataset.range(3).map(lambda n: tf.zeros([n + 1])).unbatch(),
        UNKNOWN_CARDINALITY,
    ),
    "unbatch of two lengths": (
        Dataset.from_tensors([1]).concatenate(Dataset.from_tensors([1, 2])).unbatch(),
        UNKNOWN_CARDINALITY,
    ),
    "unbatch of nothing": (
        Dataset.from_generator(list).map(lambda n: n).unbatch(),
        UNKNOWN_CARDINALITY,
    ),
    "flat_map": (Dataset.range(3).flat_map(Dataset.range), UNKNOWN_CARDINALITY),
    "map, shuffle, cache, prefetch": (
        Dataset.range(7).map(lambda n: n).shuffle(3).cache().prefetch(1),
        7,
    ),
}


@pytest.mark.parametrize("name", SIZES)
def test_cardinality_is_known_without_reading(name):
    dataset, size = SIZES[name]

    assert int(dataset.cardinality()) == size


@pytest.mark.parametrize("name", [name for name, (_, size) in SIZES.items() if size >= 0])
def test_cardinality_is_the_number_of_elements(name):
    dataset, size = SIZES[name]

    assert sum(1 for _ in dataset) == len(dataset) == size


def test_a_dataset_is_true_even_if_it_is_empty():
    assert Dataset.range(0)


def spec_text(dataset):
    return repr(dataset.element_spec)


@pytest.mark.parametrize(
    ("dataset", "text"),
    [
        (
            Dataset.from_tensor_slices((np.zeros((4, 2)), [1] * 4)),
            "(TensorSpec(shape=(2,), dtype=float64), TensorSpec(shape=(), dtype=int32))",
        ),
        (Dataset.range(4).batch(2), "TensorSpec(shape=(None,), dtype=int64)"),
        (Dataset.range(4).batch(2, True), "TensorSpec(shape=(2,), dtype=int64)"),
        (Dataset.range(4).batch(2).unbatch(), "TensorSpec(shape=(), dtype=int64)"),
        (
            Dataset.range(4).map(lambda n: {"half": n / 2}),
            "{'half': TensorSpec(shape=(), dtype=float64)}",
        ),
        (
            Dataset.from_tensor_slices(np.zeros((4, 2))).padded_batch(2, [5]),
            "TensorSpec(shape=(None, 5), dtype=float64)",
        ),
        (Dataset.range(4).window(2), "DatasetSpec(TensorSpec(shape=(), dtype=int64))"),
        (
            Dataset.range(4).flat_map(lambda n: Dataset.range(n).batch(2)),
            "TensorSpec(shape=(None,), dtype=int64)",
        ),
    ],
    ids=["slices", "batch", "whole", "unbatch", "map", "padded", "window", "flat_map"],
)
def test_element_spec_tells_shapes_and_dtypes(dataset, text):
    assert spec_text(dataset) == text


def test_asking_for_the_spec_is_no_pass():
    dataset = Dataset.range(20).shuffle(20, seed=3).map(lambda n: n)
    other = Dataset.range(20).shuffle(20, seed=3).map(lambda n: n)

    _ = dataset.element_spec

    assert values(dataset) == values(other)


# Later writes


def _written(array):
    array[...] = -1
    return array


@pytest.mark.parametrize("kind", ["array", "tensor", "variable", "tuple", "dict", "buffer"])
@pytest.mark.parametrize("make", [Dataset.from_tensor_slices, Dataset.from_tensors])
def test_later_writes_to_a_source_are_not_seen(make, kind):
    array = np.arange(4.0)
    source = {
        "array": array,
        "tensor": tf.constant(array),
        "variable": tf.Variable(array),
        "tuple": (array, array),
        "dict": {"a": array},
        "buffer": memoryview(array),
    }[kind]
    dataset = make(source)
    expected = values(dataset)

    _written(array)
    if kind == "tensor":
        source[...] = -1.0
    if kind == "variable":
        source.assign(-tf.ones(4, "float64"))

    assert values(dataset) == expected
    assert "-1" not in str(expected)


def test_a_memory_mapped_file_stays_on_disk(tmp_path):
    file = np.memmap(tmp_path / "a", "float64", "w+", shape=(4,))
    dataset = Dataset.from_tensor_slices(file)
    file[:] = 3.0

    assert [float(x) for x in dataset] == [3.0] * 4


@pytest.mark.parametrize("has_signature", [False, True])
def test_a_generator_and_a_function_may_use_an_array_again(has_signature):
    def numbers():
        array = np.zeros(2)
        for number in range(4):
            array[:] = number
            yield array

    place = np.zeros(2)

    def filled(x):
        place[:] = x.numpy()
        return place

    signature = tf.TensorSpec((2,), "float64") if has_signature else None
    dataset = Dataset.from_generator(numbers, output_signature=signature)
    expected = [[0.0, 0.0], [1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]

    assert next(iter(dataset.batch(4))).numpy().tolist() == expected
    assert sorted(x.numpy().tolist() for x in dataset.shuffle(4, seed=1)) == expected
    assert next(iter(dataset.map(filled).batch(4))).numpy().tolist() == expected


def test_a_list_of_elements_of_any_shape():
    rows = tf.data.experimental.from_list([{"n": [1, 2], "s": "a"}, {"n": [3], "s": "bc"}])

    assert [(x["n"].numpy().tolist(), x["s"].numpy()) for x in rows] == [
        ([1, 2], b"a"),
        ([3], b"bc"),
    ]
    assert len(rows) == 2
    assert rows.element_spec["s"].dtype == tf.string
