"""`x[i] = number` writes in place only if no other value can see it."""

import copy

import numpy as np
import pytest

import tapegrad as tf

WRITES = [
    (2, 7.0),
    (-1, 7),
    ((slice(None, None, 2),), 7.0),
    (..., 7.0),
    (slice(1, 3), np.float64(7)),
]


@pytest.mark.parametrize(("index", "value"), WRITES, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_write_does_what_numpy_does(index, value, dtype):
    expected = np.arange(5, dtype=dtype)
    x = tf.constant(expected)

    x[index] = value
    expected[index] = value

    assert x.numpy().tolist() == expected.tolist()
    assert x.dtype == dtype


def address_of(x):
    array = x.array
    return array.ctypes.data if isinstance(array, np.ndarray) else array.data.ptr


@pytest.mark.engine
def test_a_second_write_uses_the_same_memory():
    x = tf.constant([1.0, 2.0])
    x[0] = 5.0
    address = address_of(x)

    x[1] = tf.constant(6.0)

    assert address_of(x) == address
    assert x.numpy().tolist() == [5.0, 6.0]


@pytest.mark.parametrize(
    "keep",
    [
        copy.copy,
        tf.identity,
        lambda x: tf.reshape(x, [2, 1]),
        lambda x: tf.Variable(x),
        lambda x: [*x],
    ],
    ids=["copy", "identity", "reshape", "variable", "elements"],
)
def test_values_that_were_read_before_a_write_stay(keep):
    x = tf.constant([1.0, 2.0])
    kept = keep(x)
    before = np.array([float(v) for v in np.ravel(kept)])
    is_view = getattr(kept, "view_of", None) is not None

    x[0] = 9.0

    after = [float(v) for v in np.ravel(kept)]
    assert after == ([9.0, 2.0] if is_view else before.tolist())


def test_what_a_tape_saved_stays():
    x = tf.constant([1.0, 2.0])
    w = tf.Variable([3.0, 4.0])
    with tf.GradientTape() as tape:
        y = tf.reduce_sum(w * x)
        x[0] = 9.0

    assert tape.gradient(y, w).numpy().tolist() == [1.0, 2.0]
    assert x.numpy().tolist() == [9.0, 2.0]


def test_a_watched_tensor_records_the_write():
    x = tf.constant([1.0, 2.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        z = x * 1.0
        z[0] = 9.0
        y = tf.reduce_sum(z * z)

    assert tape.gradient(y, x).numpy().tolist() == [0.0, 4.0]


def test_a_view_and_its_base_see_the_write():
    x = tf.constant([1.0, 2.0, 3.0])
    part = x[1:]

    x[1] = 8.0
    part[1] = 9.0

    assert (x.numpy().tolist(), part.numpy().tolist()) == ([1.0, 8.0, 9.0], [8.0, 9.0])


def test_shared_memory_is_not_written():
    array = np.array([1.0, 2.0])
    x = tf.experimental.dlpack.from_dlpack(array)
    with tf.device("cpu"):
        shared = np.from_dlpack(y := tf.constant([1.0, 2.0]))

    x[0] = y[0] = 5.0

    assert (array.tolist(), shared.tolist()) == ([1.0, 2.0], [1.0, 2.0])


def test_a_constant_of_a_program_stays():
    x = tf.constant([1.0, 2.0])
    scaled = tf.function(lambda v: v * 2.0)
    doubled = scaled(x)

    x[0] = 9.0

    assert doubled.numpy().tolist() == [2.0, 4.0]
    assert scaled(x).numpy().tolist() == [18.0, 4.0]


@pytest.mark.parametrize(
    ("start", "value", "error"),
    [([1, 2], 1.5, TypeError), ([1.0, 2.0], 1j, TypeError), ([1, 2], 2**40, OverflowError)],
    ids=str,
)
def test_numbers_that_do_not_fit_are_refused(start, value, error):
    x = tf.constant(start)

    with pytest.raises(error):
        x[0] = value

    assert x.numpy().tolist() == start


def test_a_place_out_of_range_is_refused():
    x = tf.constant([1.0, 2.0])

    with pytest.raises(IndexError):
        x[2] = 1.0


def test_a_loop_over_numbers_sees_writes_as_in_numpy():
    x = tf.constant([1.0, 2.0, 3.0])
    seen = []
    for k, value in enumerate(x):
        seen.append(float(value))
        if k < 2:
            x[k + 1] = 10.0 * (k + 1)

    assert seen == [1.0, 10.0, 20.0]


@pytest.mark.parametrize(("index", "value"), WRITES, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_write_to_a_variable_does_what_numpy_does(index, value, dtype):
    expected = np.arange(5, dtype=dtype)
    variable = tf.Variable(expected)
    before, read, part = expected.copy(), variable.read_value(), variable[1:]

    variable[index] = value
    expected[index] = value

    assert variable.numpy().tolist() == expected.tolist()
    assert variable.dtype == dtype
    assert read.numpy().tolist() == before.tolist()
    assert part.numpy().tolist() == before[1:].tolist()


def test_a_write_to_a_variable_refuses_what_its_dtype_cannot_hold():
    variable = tf.Variable([1, 2])
    with pytest.raises(tf.errors.TapegradError):
        variable[0] = 1.5
    assert variable.numpy().tolist() == [1, 2]


def test_gradients_see_the_value_of_a_variable_when_it_was_read():
    variable = tf.Variable([1.0, 2.0])
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(variable * variable)
        variable[0] = 5.0
    assert tape.gradient(loss, variable).numpy().tolist() == [2.0, 4.0]


def test_a_recorded_write_to_a_variable_happens_at_each_call():
    variable = tf.Variable([1.0, 2.0])

    @tf.function
    def step(x):
        variable[0] = 5.0
        variable.assign_add(x)

    for _ in range(3):
        step(tf.constant([1.0, 1.0]))
    assert variable.numpy().tolist() == [6.0, 5.0]
