"""What cannot be done is said in a sentence: what was asked, what is allowed, what came in."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.data import Dataset
from tapegrad.errors import ArgumentError, ArgumentTypeError, DTypeError, ShapeError

TEN = Dataset.range(10)
ROWS = Dataset.from_generator(lambda: ([0] * n for n in (1, 2)))

REFUSED_AT_ONCE = [
    (lambda: TEN.batch(0), ArgumentError, "batch needs a batch_size of at least 1. Got 0."),
    (lambda: TEN.batch(2.5), ArgumentTypeError, "batch takes an integer as batch_size. Got f"),
    (lambda: TEN.padded_batch(0), ArgumentError, "padded_batch needs a batch_size of at least 1"),
    (lambda: TEN.take(-2), ArgumentError, "take needs a count of at least -1. Got -2."),
    (lambda: TEN.skip(-2), ArgumentError, "skip needs a count of at least -1. Got -2."),
    (lambda: TEN.repeat(-2), ArgumentError, "repeat needs a count of at least -1. Got -2."),
    (lambda: TEN.shuffle(0), ArgumentError, "shuffle needs a buffer_size of at least 1. Got 0."),
    (lambda: TEN.prefetch(-2), ArgumentError, "prefetch needs a buffer_size of at least -1"),
    (lambda: TEN.shard(0, 0), ArgumentError, "shard needs a num_shards of at least 1. Got 0."),
    (lambda: TEN.shard(3, 3), ArgumentError, "shard needs an index below num_shards=3. Got 3."),
    (lambda: TEN.window(0), ArgumentError, "window needs a size of at least 1. Got 0."),
    (lambda: TEN.window(2, shift=0), ArgumentError, "window needs a shift of at least 1. Got 0."),
    (lambda: TEN.map(3), ArgumentTypeError, "map takes a function. Got int: 3."),
    (
        lambda: TEN.map(abs, num_parallel_calls=0),
        ArgumentError,
        "map needs a num_parallel_calls of at least 1. Got 0.",
    ),
    (lambda: TEN.interleave(abs, 0), ArgumentError, "interleave needs a cycle_length of at leas"),
    (lambda: TEN.concatenate([1]), ArgumentTypeError, "concatenate needs datasets. Got list"),
    (lambda: Dataset.zip([TEN, TEN]), ArgumentTypeError, "zip needs datasets. Got list"),
    (lambda: Dataset.zip(()), ArgumentTypeError, "zip takes at least one dataset. Got none."),
    (lambda: Dataset.zip(TEN, 3), ArgumentTypeError, "zip needs datasets. Got int"),
    (lambda: Dataset.range(), ArgumentTypeError, "range takes stop, or start and stop"),
    (lambda: Dataset.range(1, 5, 0), ArgumentError, "range needs a nonzero step"),
    (
        lambda: Dataset.from_tensor_slices(([1, 2, 3], {"y": np.zeros((4, 2))})),
        ShapeError,
        "needs arrays whose first axes have the same length. Got the lengths 3, 4.",
    ),
    (lambda: Dataset.from_tensor_slices(5), ShapeError, "but got a single number"),
    (lambda: Dataset.from_tensor_slices(()), ArgumentError, "needs at least one array. Got ()."),
    (lambda: Dataset.from_tensor_slices([{}]), ArgumentTypeError, "not numbers"),
    (
        lambda: Dataset.from_generator(iter([1])),
        ArgumentTypeError,
        "takes a function that returns a new iterator each time",
    ),
    (
        lambda: Dataset.from_generator(list, output_signature="int32"),
        ArgumentTypeError,
        "output_signature must be a structure of tapegrad.TensorSpec(shape, dtype)",
    ),
    (lambda: len(TEN.repeat()), ArgumentTypeError, "has no len(): its length is infinite."),
    (lambda: len(ROWS), ArgumentTypeError, "its length is known only after reading it."),
    (
        lambda: TEN.filter(lambda n: n < 0).map(lambda n: n).element_spec,
        ArgumentError,
        "only known from an element, and the dataset is empty",
    ),
]

REFUSED_WHEN_READ = [
    (
        lambda: ROWS.batch(2),
        ShapeError,
        "batch needs elements of one shape and dtype. Got int32[1] and int32[2]. Use padded_batch",
    ),
    (
        lambda: TEN.map(lambda n: (n,) * (1 + int(n))).batch(2),
        ArgumentTypeError,
        "of one structure. Got a tuple of 1 entries and a tuple of 2 entries.",
    ),
    (
        lambda: TEN.map(lambda n: {str(int(n)): n}).batch(2),
        ArgumentTypeError,
        "batch needs elements of one structure. Got a dictionary with ['0'] and a dictionary",
    ),
    (
        lambda: ROWS.padded_batch(2, padded_shapes=[1]),
        ShapeError,
        "padded_batch cannot truncate: an array of the batch has shape (2,), and",
    ),
    (
        lambda: ROWS.padded_batch(2, padded_shapes=[1, 2]),
        ShapeError,
        "padded_batch needs arrays of rank 2. Got ranks [1].",
    ),
    (
        lambda: Dataset.zip(ROWS, TEN).padded_batch(2, padded_shapes=[1]),
        ArgumentError,
        "padded_shapes must have the structure of the elements: a tuple of 2 entries",
    ),
    (
        lambda: TEN.unbatch(),
        ShapeError,
        "unbatch needs arrays whose first axes have the same length",
    ),
    (lambda: TEN.window(2).batch(2), ArgumentError, "an element holds a dataset"),
    (lambda: TEN.flat_map(lambda n: n), ArgumentTypeError, "The function of flat_map needs data"),
    (lambda: TEN.filter(lambda n: [True, False]), ShapeError, "one boolean per element"),
    (lambda: TEN.map(lambda n: None), ArgumentTypeError, "Expected numbers. Got None."),
    (
        lambda: Dataset.from_generator(lambda: [1.5], tf.TensorSpec([2])),
        ShapeError,
        "The output_signature needs shape (2,). Element 0 of the generator is shape ().",
    ),
    (
        lambda: Dataset.from_generator(lambda: [np.zeros(2)], tf.TensorSpec([2], "int32")),
        DTypeError,
        "The output_signature needs int32. Element 0 of the generator is float64.",
    ),
    (
        lambda: Dataset.from_generator(lambda: [3], (tf.TensorSpec([]), tf.TensorSpec([]))),
        ArgumentError,
        "needs a tuple of 2 entries. Element 0 of the generator is int.",
    ),
    (
        lambda: Dataset.from_generator(lambda: [{"a": 1}], {"b": tf.TensorSpec([])}),
        ArgumentError,
        "needs a dictionary with ['b']",
    ),
]


@pytest.mark.parametrize(("make", "error", "words"), REFUSED_AT_ONCE, ids=lambda value: None)
def test_it_is_refused_when_it_is_asked_for(make, error, words):
    with pytest.raises(error) as caught:
        make()

    assert words in str(caught.value)


@pytest.mark.parametrize(("make", "error", "words"), REFUSED_WHEN_READ, ids=lambda value: None)
def test_it_is_refused_when_it_is_read(make, error, words):
    with pytest.raises(error) as caught:
        list(make())

    assert words in str(caught.value)
