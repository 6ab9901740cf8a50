"""`debug.transfers` reports copies from a device to the host."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext

import numpy as np
import pytest

import tapegrad as tf
import tapegrad_strict as strict
from tapegrad.core.backend.registry import register_backend, unregister_backend
from tapegrad.debug.transfers import MOST_PLACES
from tests import steps

# Tensor.dtype looks a dtype up among NumPy's first and asks the backend when it is not there.
pytestmark = pytest.mark.filterwarnings("ignore:You are comparing a array_api_strict dtype")


@pytest.fixture(autouse=True)
def strict_device() -> Iterator[None]:
    register_backend(strict.StrictBackend())
    with tf.device("strict:0"), strict.forbidding_reads():
        yield
    unregister_backend("strict")


@pytest.mark.parametrize("name", steps.STEPS)
def test_a_step_copies_nothing_to_the_host_and_equals_the_cpu(name):
    here = steps.results(name, "strict:0", lambda: tf.debug.transfers("raise"))
    there = steps.results(name, "cpu", nullcontext)

    for one, other in zip(here, there, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


READS = {
    "numpy()": lambda x: x.numpy(),
    "item()": lambda x: x[0].item(),
    "tolist()": lambda x: x.tolist(),
    "__array__ or memoryview()": lambda x: np.asarray(x),
    "float()": lambda x: float(x[0]),
    "int()": lambda x: int(x[0]),
    "bool()": lambda x: bool(x[0]),
    "complex()": lambda x: complex(x[0]),
    "str()": lambda x: str(x),
    "repr()": lambda x: repr(x),
    "format()": lambda x: f"{x[0]:.2f}",
    "to_device()": lambda x: tf.to_device(x, "cpu"),
    "a mask as index": lambda x: x[x > 0.0],
    "nonzero()": lambda x: tf.where(x > 0.0),
    "unique()": lambda x: tf.unique(x),
    "repeat()": lambda x: tf.repeat(x, tf.constant([1, 2])),
}


@pytest.mark.parametrize("how", READS)
def test_reads_are_counted_or_refused(how):
    x = tf.constant([1.5, 2.5])

    with tf.debug.transfers("count") as seen:
        READS[how](x)
    with tf.debug.transfers("raise"), pytest.raises(tf.errors.TransferError) as caught:
        READS[how](x)

    assert seen.count == 1
    assert seen.bytes > 0
    assert f"test_transfers.py:{READS[how].__code__.co_firstlineno}: {how} of " in seen.where[0]
    assert str(caught.value).startswith(f"{how} copies ")


def test_the_sentence_says_what_where_and_what_to_do():
    x = tf.constant([[1.0, 2.0]])

    with tf.debug.transfers("raise"), pytest.raises(RuntimeError) as caught:
        x.numpy()

    assert str(caught.value).startswith(
        "numpy() copies float32[1, 2] (8 bytes) from strict:0 to the host at "
    )
    assert str(caught.value).endswith(
        "which debug.transfers('raise') forbids. Keep the value on the device, read it after the "
        "block, or allow it with an inner debug.transfers('count')."
    )


def test_the_innermost_block_decides_and_all_of_them_count():
    x = tf.constant([1.0, 2.0])

    with tf.debug.transfers("count") as outer:
        x.numpy()
        with tf.debug.transfers("raise") as middle:
            with tf.debug.transfers("count") as inner:
                x.numpy()
            with pytest.raises(tf.errors.TransferError):
                x.numpy()
        x.numpy()

    assert (outer.count, middle.count, inner.count) == (3, 1, 1)
    assert (outer.bytes, len(outer.where)) == (24, 3)
    assert repr(inner).startswith("<tapegrad.debug.Transfers: count=1, 8 bytes>\n")


def test_places_are_named_once_and_not_without_end():
    tensors = [tf.zeros([size]) for size in range(1, MOST_PLACES + 4)]

    with tf.debug.transfers("count") as seen:
        for _ in range(2):
            for tensor in tensors:
                tensor.numpy()

    assert seen.count == 2 * len(tensors)
    assert [place.split(" of ")[-1] for place in seen.where] == [
        f"float32[{size}]" for size in range(1, MOST_PLACES + 1)
    ]


def test_after_the_block_everything_is_as_before():
    x = tf.constant([1.0])

    with pytest.raises(ZeroDivisionError), tf.debug.transfers("raise"):
        raise ZeroDivisionError

    assert x.numpy().tolist() == [1.0]


def test_the_host_itself_never_counts():
    with tf.device("cpu"):
        x = tf.constant([1.0, 2.0])

    with tf.debug.transfers("raise") as seen:
        assert float(x[0]) == 1.0
        assert x[x > 1.5].numpy().tolist() == [2.0]
        tf.to_device(x, "strict:0")

    assert seen.count == 0


def test_other_modes_are_refused():
    with pytest.raises(ValueError, match=r"takes 'raise' or 'count'\. Got 'warn'"):
        tf.debug.transfers("warn").__enter__()


def test_a_variable_changes_its_dtype_and_a_constant_its_shape_on_the_device():
    x = tf.constant([1.0, 2.0])

    with tf.debug.transfers("raise"):
        v = tf.Variable(x, dtype="float64")
        shaped = [tf.constant(value, shape=(2, 1)) for value in (x, x.array)]
        filled = [tf.constant(value, shape=(2,)) for value in (x[0], x[0].array)]

    assert v.dtype == tf.float64
    assert [tensor.device for tensor in (*shaped, *filled)] == ["strict:0"] * 4
    assert [tensor.numpy().tolist() for tensor in shaped] == [[[1.0], [2.0]]] * 2
    assert [tensor.numpy().tolist() for tensor in filled] == [[1.0, 1.0]] * 2
