"""Small guards of the core: used-up tapes, freed arrays, limits of integers, names of devices.

Each test looks at one condition, one boundary or one call that other tests run without looking.
"""

from __future__ import annotations

import itertools
import weakref

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.core.out_of_memory import readable

METHODS = ("gradient", "jacobian", "batch_jacobian")


# Used-up tapes


@pytest.mark.parametrize(("first", "second"), [*itertools.product(METHODS, repeat=2)])
def test_a_one_shot_tape_answers_once(first, second):
    x = tf.constant([[1.0, 2.0]])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    getattr(tape, first)(y, x)

    with pytest.raises(tf.errors.TapeError, match="It was used up by an earlier call"):
        getattr(tape, second)(y, x)


@pytest.mark.parametrize("method", METHODS)
def test_a_call_that_failed_half_way_uses_a_one_shot_tape_up(method):
    @tf.custom_gradient
    def broken(x):
        def gradient(t):
            raise ZeroDivisionError

        return x * 1.0, gradient

    x = tf.constant([[1.0, 2.0]])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = broken(x)
    with pytest.raises(ZeroDivisionError):
        getattr(tape, method)(y, x)

    with pytest.raises(tf.errors.TapeError, match="An earlier call failed half-way"):
        tape.gradient(y, x)


@pytest.mark.parametrize("method", METHODS)
def test_a_persistent_tape_answers_again(method):
    x = tf.constant([[1.0, 2.0]])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x

    found = [getattr(tape, method)(y, x).numpy() for _ in range(2)]

    np.testing.assert_array_equal(*found)
    assert (found[0] != 0).any()


def test_tapes_that_end_in_the_order_of_their_beginning_record_what_they_should():
    x = tf.constant(3.0)
    first, second = tf.GradientTape(), tf.GradientTape()
    first.__enter__()
    first.watch(x)
    second.__enter__()
    second.watch(x)
    y = x * x
    first.__exit__(None, None, None)
    z = y * x
    second.__exit__(None, None, None)
    after = z * x

    assert float(first.gradient(y, x)) == 6.0
    assert float(second.gradient(z, x)) == 27.0
    assert second.watched_variables() == ()
    with tf.GradientTape() as third:
        third.watch(x)
    assert third.gradient(after, x) is None


# Arrays that a tape has kept are freed although the results live


def squares(h):
    return h * h


def complex_squares(h):
    z = tf.complex(h, h)
    return tf.math.real(z * z) * h


def parts(h):
    first, second = tf.split(h * h, 2)
    return first * second * h[:4]


def with_own_gradient(h):
    @tf.custom_gradient
    def cube(h):
        return h * h * h, lambda t: 3.0 * t * h * h

    return cube(h) * h


def in_vmap(h):
    return tf.vmap(lambda row: row * row)(tf.reshape(h, (2, 4))) * 1.0


LAST = {f.__name__: f for f in (squares, complex_squares, parts, with_own_gradient, in_vmap)}


def recorded(last, persistent=False):
    """A tape, its target and source, and a weak reference to an array that a rule reads."""
    x = tf.constant(np.linspace(0.5, 1.5, 8))
    with tf.GradientTape(persistent) as tape:
        tape.watch(x)
        h = tf.sinh(x)
        y = last(h)
    return tape, y, x, weakref.ref(h.array)


@pytest.mark.parametrize("name", LAST)
def test_a_gradient_frees_what_was_kept_for_it(name):
    tape, y, x, kept = recorded(LAST[name])
    assert kept() is not None

    tape.gradient(y, x)

    assert kept() is None
    assert y.shape


@pytest.mark.parametrize("name", LAST)
def test_a_jacobian_frees_what_was_kept_for_it(name):
    tape, y, x, kept = recorded(LAST[name])
    assert kept() is not None

    tape.jacobian(y, x)

    assert kept() is None
    assert y.shape


def test_a_batch_jacobian_frees_what_was_kept_for_it():
    x = tf.constant(np.linspace(0.5, 1.5, 8).reshape(4, 2))
    with tf.GradientTape() as tape:
        tape.watch(x)
        h = tf.sinh(x)
        y = h * h
    kept = weakref.ref(h.array)
    del h

    tape.batch_jacobian(y, x)

    assert kept() is None
    assert y.shape


@pytest.mark.parametrize("name", LAST)
@pytest.mark.parametrize("end", ["clear", "del"])
def test_the_end_of_a_persistent_tape_frees_what_it_kept(name, end):
    tape, y, x, kept = recorded(LAST[name], persistent=True)
    tape.gradient(y, x)
    assert kept() is not None

    if end == "clear":
        tape.clear()
    del tape

    assert kept() is None
    assert y.shape


def test_what_an_outer_tape_still_needs_stays_until_it_has_been_used():
    x = tf.constant(np.linspace(0.5, 1.5, 8))
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            h = tf.sinh(x)
            y = h * h
        kept = weakref.ref(h.array)
        del h
        slope = inner.gradient(y, x)
    assert kept() is not None

    second = outer.gradient(slope, x)

    np.testing.assert_allclose(second.numpy(), 2 * np.cosh(2 * x.numpy()), rtol=1e-12)
    del y  # its own node was no part of the second gradient
    assert kept() is None


def test_a_gradient_that_a_tape_records_frees_what_only_the_inner_tape_kept():
    x, u = tf.constant(np.linspace(0.5, 1.5, 8)), tf.constant(np.ones(8))
    with tf.GradientTape() as outer:
        outer.watch(u)
        with tf.GradientTape() as inner:
            inner.watch(x)
            h = tf.sinh(x)
            y = h * h
        kept = weakref.ref(h.array)
        del h
        slope = inner.gradient(y, x, u)

    # The gradient by the seed reads it. On a device, where zeros in the seed cannot be looked for,
    # the rule is guarded and saves an array of its own.
    assert kept() is not None or x.device != "cpu"
    np.testing.assert_allclose(outer.gradient(slope, u).numpy(), np.sinh(2 * x.numpy()), rtol=1e-12)
    assert kept() is None


def test_intermediate_sources_get_their_gradients_and_nothing_is_freed_too_early():
    x = tf.constant(np.linspace(0.5, 1.5, 8))
    with tf.GradientTape() as tape:
        tape.watch(x)
        h = tf.sinh(x)
        y = h * h * x

    of_h, of_x, of_y = tape.gradient(y, [h, x, y])

    value, height = x.numpy(), np.sinh(x.numpy())
    np.testing.assert_allclose(of_h.numpy(), 2 * height * value)
    np.testing.assert_allclose(of_x.numpy(), height**2 + 2 * height * value * np.cosh(value))
    np.testing.assert_array_equal(of_y.numpy(), np.ones(8))


# Integers at the limits of their dtypes

LIMITS = [
    (2**31 - 1, "int32"), (2**31, "int64"), (-(2**31), "int32"), (-(2**31) - 1, "int64"),
    (2**63 - 1, "int64"), (-(2**63), "int64"),
]  # fmt: skip


@pytest.mark.parametrize(("number", "dtype"), LIMITS)
def test_python_integers_get_the_smallest_usual_dtype(number, dtype):
    for value in (number, [number], [0, number]):
        tensor = tf.constant(value)
        assert tensor.dtype == dtype
        assert np.ravel(tensor.tolist())[-1] == number


@pytest.mark.parametrize("name", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"])
def test_python_integers_beyond_a_dtype_are_refused(name):
    low, high = int(np.iinfo(name).min), int(np.iinfo(name).max)

    assert tf.constant([low, high], name).tolist() == [low, high]
    for number in (low - 1, high + 1):
        if abs(number) <= 2**63 - 1:
            with pytest.raises(tf.errors.ArgumentError, match=f"{name} cannot hold integers from"):
                tf.constant([0, number], name)


def test_arrays_of_numpy_wrap_round_as_numpy_does():
    assert tf.constant(np.array([300, -1]), "uint8").tolist() == [44, 255]


BESIDE = [
    ("int8", [127], "int8"), ("int8", [128], "int32"), ("int8", [-128], "int8"),
    ("int8", [-129], "int32"), ("uint8", [255], "uint8"), ("uint8", [256], "int32"),
    ("uint8", [-1], "int32"), ("int32", [2**31 - 1], "int32"), ("int32", [2**31], "int64"),
    ("int16", [0.5], "float32"), ("int32", [0.5], "float64"), ("int64", [0.5], "float64"),
    ("float16", [1000], "float16"), ("float32", [2**40], "float32"), ("bool", [1], "int32"),
    ("float32", [1j], "complex128"), ("int8", [True], "int8"), ("int64", [True], "int64"),
]  # fmt: skip


@pytest.mark.parametrize(("dtype", "values", "expected"), BESIDE)
def test_lists_beside_a_tensor_keep_its_dtype_where_it_can_hold_them(dtype, values, expected):
    tensor = tf.zeros([1], dtype)

    result = tensor + values

    assert result.dtype == expected
    np.testing.assert_array_equal(result.numpy(), np.array(values).astype(expected))


# Dtypes

FLAGS = {
    "bool": (False, False, False, True), "int8": (False, False, True, False),
    "uint64": (False, False, True, False), "float16": (True, False, False, False),
    "bfloat16": (True, False, False, False), "float64": (True, False, False, False),
    "complex64": (False, True, False, False), "complex128": (False, True, False, False),
}  # fmt: skip


@pytest.mark.parametrize("name", FLAGS)
def test_what_a_dtype_says_of_itself(name):
    dtype = tf.as_dtype(name)
    is_floating, is_complex, is_integer, is_bool = FLAGS[name]

    assert (dtype.is_floating, dtype.is_complex) == (is_floating, is_complex)
    assert (dtype.is_integer, dtype.is_bool) == (is_integer, is_bool)
    assert dtype.is_differentiable == (is_floating or is_complex)
    assert dtype == name
    assert dtype != "int16"
    assert dtype != None  # noqa: E711  # NumPy takes None for float64
    assert dtype != "no dtype"
    assert tf.as_dtype(dtype) is dtype
    assert str(dtype) == name


@pytest.mark.parametrize("name", ["int8", "uint16", "int64", "float16", "float32", "float64"])
def test_limits_of_a_dtype(name):
    info = np.iinfo(name) if "int" in name else np.finfo(name)

    assert (tf.as_dtype(name).min, tf.as_dtype(name).max) == (info.min, info.max)
    assert tf.as_dtype(name).size == np.dtype(name).itemsize


@pytest.mark.parametrize(
    ("name", "part"), [("complex64", "float32"), ("complex128", "float64"), ("float16", "float16")]
)
def test_the_dtype_of_the_real_part(name, part):
    assert tf.as_dtype(name).real_dtype == part


# Indices and devices


@pytest.mark.parametrize("index", [-3, -1, 0, 2])
def test_indices_within_are_taken(index):
    x = tf.constant([1.0, 2.0, 3.0])

    assert float(x[index]) == [1.0, 2.0, 3.0][index]


@pytest.mark.parametrize("indices", [[0, 3], [[0, 1], [2, 3]]])
def test_an_index_out_of_range_is_named_with_its_place(indices):
    with pytest.raises(IndexError, match=r"index 3 for axis 0 of length 3") as found:
        tf.gather(tf.constant([1.0, 2.0, 3.0]), indices)

    place = np.argwhere(np.array(indices) == 3)[0].tolist()
    assert str(place) in str(found.value)


def test_an_empty_axis_has_no_index():
    with pytest.raises(IndexError, match="which is empty"):
        tf.gather(tf.zeros([0]), [0])


@pytest.mark.parametrize("name", ["cpu", "CPU", "cpu:0", "/cpu:0", "/device:CPU:0", "device:cpu"])
def test_spellings_of_the_cpu(name):
    with tf.device(name):
        assert tf.constant(1.0).device == "cpu"


@pytest.mark.parametrize("name", ["cpu:1", "numpy", "tpu", "cpu 0", "", "cpu:0:0", "cpu:-1"])
def test_names_of_no_device(name):
    with pytest.raises(tf.errors.DeviceError, match=r"Use one of: .*cpu"), tf.device(name):
        pass


def test_a_device_block_ends_with_its_exception():
    default = tf.constant(1.0).device

    with pytest.raises(ZeroDivisionError), tf.device("cpu"), tf.device(None):
        1 / 0  # noqa: B018

    assert tf.constant(1.0).device == default


# Words

SIZES = [
    (0, "0 bytes"), (1023, "1023 bytes"), (1024, "1.0 KiB"), (2**20 - 1, "1024.0 KiB"),
    (2**20, "1.0 MiB"), (2**30, "1.0 GiB"), (2**40, "1.0 TiB"), (2**50, "1024.0 TiB"),
]  # fmt: skip


@pytest.mark.parametrize(("size", "text"), SIZES)
def test_sizes_in_words(size, text):
    assert readable(size) == text
