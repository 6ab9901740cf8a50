"""Errors for mixed devices, unsupported dtypes and indices out of range."""

from __future__ import annotations

import contextvars

import ml_dtypes
import numpy as np
import pytest

import tapegrad as tf
import tapegrad_strict as strict
from tapegrad.core.backend.registry import register_backend, unregister_backend

# Tensor.dtype looks a dtype up among NumPy's first and asks the backend when it is not there.
pytestmark = pytest.mark.filterwarnings("ignore:You are comparing a array_api_strict dtype")


@pytest.fixture(autouse=True)
def on_the_cpu():
    with tf.device("cpu"):
        yield


@pytest.fixture
def on_a_device():
    register_backend(strict.StrictBackend())
    with tf.device("strict:0"), strict.forbidding_reads():
        yield
    unregister_backend("strict")


# Mixed devices

MIXED = {
    "add": lambda a, b: a + b,
    "matmul": lambda a, b: tf.reshape(a, (1, 2)) @ tf.reshape(b, (2, 1)),
    "concat": lambda a, b: tf.concat([a, b], 0),
    "where": lambda a, b: tf.where(a > 0.0, a, b),
    "take": lambda a, b: a[tf.cast(b, "int64")],
}


@pytest.mark.parametrize("name", MIXED)
def test_two_devices_in_one_operation_are_both_named(name, on_a_device):
    a = tf.constant([1.0, 0.0])
    with tf.device("cpu"):
        b = tf.constant([1.0, 0.0])

    with pytest.raises(ValueError, match="got tensors on") as caught:
        MIXED[name](a, b)

    assert isinstance(caught.value, tf.errors.DeviceError)
    assert str(caught.value).startswith(name)
    assert "strict:0" in str(caught.value)
    assert "cpu" in str(caught.value)


# Dtypes

UNSUPPORTED = {
    "float8_e4m3fn": np.ones(2).astype(ml_dtypes.float8_e4m3fn),
    "float8_e5m2": np.ones(2).astype(ml_dtypes.float8_e5m2),
    "int4": np.ones(2).astype(ml_dtypes.int4),
    "longdouble": np.ones(2, np.longdouble),
    "clongdouble": np.ones(2, np.clongdouble),
}
if np.dtype(np.longdouble) == np.dtype(np.float64):  # as on some platforms
    del UNSUPPORTED["longdouble"], UNSUPPORTED["clongdouble"]

MAKERS = {
    "constant": tf.constant,
    "convert_to_tensor": tf.convert_to_tensor,
    "Variable": tf.Variable,
    "operand": lambda value: tf.Variable([1.0, 1.0]) + value,
    "in a list": lambda value: tf.constant([value[0], value[1]]),
}


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("name", UNSUPPORTED)
def test_a_dtype_that_no_tensor_has_is_refused_with_the_list(name, maker):
    with pytest.raises(TypeError, match="Tensors hold values of bool, int8, ") as caught:
        MAKERS[maker](UNSUPPORTED[name])

    assert f"of {UNSUPPORTED[name].dtype}; cast it first" in str(caught.value)


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_a_dtype_that_no_tensor_has_cannot_be_asked_for(name):
    kind = UNSUPPORTED[name].dtype

    for ask in (
        lambda: tf.cast(tf.constant([1.0]), kind),
        lambda: tf.zeros([2], kind),
        lambda: tf.constant(1.0, dtype=kind),
    ):
        with pytest.raises(tf.errors.DTypeError, match=r"Tensors hold values of .*complex128\."):
            ask()


@pytest.mark.parametrize("name", UNSUPPORTED)
def test_with_a_dtype_asked_for_the_values_are_cast(name):
    value = UNSUPPORTED[name].real if name == "clongdouble" else UNSUPPORTED[name]

    assert tf.constant(value, dtype="float32").numpy().tolist() == [1.0, 1.0]


def test_on_a_device_the_same_dtypes_are_refused(on_a_device):
    with pytest.raises(tf.errors.DTypeError, match="float8_e5m2"):
        tf.constant(UNSUPPORTED["float8_e5m2"])


# Indices out of range

TAKES = {
    "gather": (lambda x, i: tf.gather(x, i), 0),
    "gather_nd": (lambda x, i: tf.gather_nd(x, tf.reshape(i, (-1, 1))), 0),
    "take": (lambda x, i: np.take(x, i, axis=1), 1),
    "Indexing": (lambda x, i: x[:, i], 1),
    "take_along_axis": (lambda x, i: np.take_along_axis(x, tf.reshape(i, (1, -1)), 1), 1),
    "scatter_nd": (lambda x, i: tf.scatter_nd(tf.reshape(i, (-1, 1)), tf.ones([3, 3]), (3, 3)), 0),
    "tensor_scatter_nd_update": (
        lambda x, i: tf.tensor_scatter_nd_update(x, tf.reshape(i, (-1, 1)), tf.ones([3, 3])),
        0,
    ),
}


@pytest.mark.parametrize("name", TAKES)
@pytest.mark.parametrize("wrong", [3, -4, 2**31 - 1])
def test_on_the_cpu_an_index_out_of_range_is_always_named(name, wrong):
    function, axis = TAKES[name]
    x, index = tf.zeros([3, 3]), tf.constant([0, wrong, 1])

    with pytest.raises(IndexError) as caught:
        function(x, index)

    expected = f"{name} got index {wrong} for axis {axis} of length 3. Allowed are -3 to 2."
    assert str(caught.value).startswith(expected)


@pytest.mark.parametrize("name", TAKES)
@pytest.mark.parametrize("wrong", [3, -4])
def test_on_a_device_the_check_names_function_index_and_range(name, wrong, on_a_device):
    function, axis = TAKES[name]
    x, index = tf.zeros([3, 3]), tf.constant([0, wrong, 1])

    with tf.debug.check_indices(), pytest.raises(tf.errors.IndexOutOfRangeError) as caught:
        function(x, index)

    expected = f"{name} got index {wrong} for axis {axis} of length 3. Allowed are -3 to 2. "
    assert str(caught.value).startswith(expected)
    assert "1" in str(caught.value).removeprefix(expected)


def test_labels_and_segments_are_checked_too(on_a_device):
    labels, logits = tf.constant([0, 4]), tf.zeros([2, 3])

    with tf.debug.check_indices():
        with pytest.raises(IndexError, match=r"got index 4 .* Allowed are 0 to 2\. It stands at"):
            tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
        with pytest.raises(IndexError, match=r"got index 4 .* Allowed are numbers below 2\."):
            tf.math.unsorted_segment_sum(tf.constant([1.0, 2.0]), labels, 2)


def test_the_check_is_a_switch_as_well_as_a_context(on_a_device):
    x, index = tf.constant([1.0, 2.0]), tf.constant([1])

    with tf.debug.transfers("count") as seen:
        tf.gather(x, index)
        with tf.debug.check_indices():
            tf.gather(x, index)
            with tf.debug.check_indices(False):
                tf.gather(x, index)
        tf.gather(x, index)
        tf.debug.check_indices(True)
        tf.gather(x, index)
        tf.debug.check_indices(False)
        tf.gather(x, index)

    assert seen.count == 2
    assert "debug.check_indices() of int32[1]" in seen.where[0]


def test_the_check_looks_at_all_examples_of_a_batch(on_a_device):
    x, index = tf.zeros([3]), tf.constant([[0], [5]])

    with tf.debug.check_indices(), pytest.raises(IndexError, match=r"index 5 .* at \[1, 0\]"):
        tf.vmap(lambda i: tf.gather(x, i))(index)


def test_a_large_unsigned_index_is_out_of_range_and_not_negative():
    with pytest.raises(IndexError, match=r"got index 18446744073709551615 "):
        tf.gather(tf.constant([1.0, 2.0]), np.array([2**64 - 1], np.uint64))


def test_a_segment_that_does_not_exist_is_not_one_of_the_next_example():
    ids = tf.constant([[0, 2], [0, 1]])

    with pytest.raises(ValueError, match="segment ids must be below"):
        tf.vmap(lambda i: tf.math.unsorted_segment_sum(tf.constant([1.0, 2.0]), i, 2))(ids)


# Asynchronous reads


def test_a_value_can_be_read_later(on_a_device):
    loss = tf.constant(0.5)

    with tf.debug.transfers("raise") as seen:
        later = loss.numpy_later()
        row = tf.Variable([1.0, 2.0]).numpy_later()

    assert later.done()
    assert isinstance(later.result(), np.float32)
    assert float(later.result()) == 0.5
    assert row.result().tolist() == [1.0, 2.0]
    assert (seen.count, seen.bytes) == (2, 12)
    assert "numpy_later() of float32[]" in seen.where[0]


def test_reading_later_leaves_the_tape_and_says_so():
    x = tf.constant(2.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.constant(float((x * x).numpy_later().result()))

    assert "left the tape through numpy_later()" in str(tape.explain(y, x))


# Copies to another device


@pytest.mark.parametrize(
    "move",
    [lambda x: x.to("strict:0"), lambda x: tf.to_device(x, "strict:0"), tf.identity],
    ids=["to", "to_device", "identity"],
)
def test_moving_to_a_device_is_differentiable(move, on_a_device):
    with tf.device("cpu"):
        x = tf.constant([1.0, 2.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = move(x) ** 2

    gradient = tape.gradient(y, x)

    assert (y.device, gradient.device) == ("strict:0", "cpu")
    assert gradient.numpy().tolist() == [2.0, 4.0]


def test_identity_outside_of_a_block_stays_where_the_value_is(on_a_device):
    x = tf.constant([1.0])

    y = contextvars.Context().run(tf.identity, x)

    assert y.device == "strict:0"


@pytest.mark.parametrize(
    ("x", "y", "wanted"),
    [
        (1.0, 2.5, [1.0, 2.5]),
        (1, 2.5, [1.0, 2.5]),
        ([3.0, 4.0], [5.0, 6.0], [3.0, 6.0]),
        (np.float32([3.0, 4.0]), 5.0, [3.0, 5.0]),
    ],
)
@pytest.mark.parametrize("is_recorded", [False, True])
def test_values_to_choose_from_go_where_the_condition_is(x, y, wanted, is_recorded, on_a_device):
    condition = tf.constant([True, False])

    def choose(condition):
        return tf.where(condition, x, y)

    with tf.device("cpu"):
        found = (tf.function(choose) if is_recorded else choose)(condition)

    assert (found.device, found.numpy().tolist()) == ("strict:0", wanted)
