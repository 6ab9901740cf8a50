"""Tensors: properties, conversions and operators (dtypes: test_dtype.py)."""

from __future__ import annotations

import copy
import operator
import pickle

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.core.values.dtypes import ALLOWED


@pytest.fixture
def x():
    return tf.constant([1.0, 2.0])


def test_T1_changing_the_array_it_was_made_from_changes_nothing():
    array = np.array([1.0, 2.0])
    x = tf.constant(array)
    array[0] = 9.0

    assert x.numpy().tolist() == [1.0, 2.0]


@pytest.mark.parametrize("out", [lambda x: x.numpy(), np.array])
def test_T1_arrays_that_come_out_are_copies(x, out):
    out(x)[0] = 9.0

    assert x.numpy().tolist() == [1.0, 2.0]


def test_T1_asarray_gives_a_read_only_snapshot(x):
    snapshot = np.asarray(x)
    with pytest.raises(ValueError, match="read-only"):
        snapshot[0] = 9.0  # as a function that writes into out=np.asarray(x) would
    x[0] = 7.0

    assert snapshot.tolist() == [1.0, 2.0]


def test_T1_asarray_with_another_dtype_gives_a_snapshot(x):
    # Since Python 3.12 NumPy converts the buffer of the tensor to an array of its own.
    snapshot = np.asarray(x, "float64")
    x[0] = 7.0

    assert snapshot.tolist() == [1.0, 2.0]


def test_T1_scalars_come_back_as_numpy_scalars():
    assert isinstance(tf.constant(1.0).numpy(), np.float32)


def test_T1_array_takes_a_dtype(x):
    assert np.asarray(x, dtype="float64").dtype == "float64"


def test_T1_dlpack_export(x):
    assert np.from_dlpack(x).tolist() == [1.0, 2.0]


@pytest.mark.parametrize("make", [tf.constant, tf.Variable], ids=["tensor", "variable"])
def test_T1_the_buffer_for_memoryview_is_a_read_only_copy(make):
    x = make([1.0, 2.0])

    view = x.__buffer__(0)  # what memoryview(x) and np.asarray(x) ask for since Python 3.12
    assert view.tolist() == [1.0, 2.0]
    assert view.readonly
    with pytest.raises(BufferError, match=r"Write to x.numpy\(\)"):
        x.__buffer__(1)


def test_T1_a_buffer_of_bfloat16_is_refused_before_anything_is_read():
    pytest.importorskip("ml_dtypes")
    x = tf.constant([1.0, 2.0], "bfloat16")

    with pytest.raises(tf.errors.DTypeError, match=r"hold no bfloat16. Use x.numpy\(\)"):
        x.__buffer__(0)
    assert np.asarray(x).dtype.name == "bfloat16"


@pytest.mark.parametrize("dtype", [*ALLOWED])
def test_T1_numpy_gets_the_same_dtype_layout_and_values(dtype):
    if dtype == "bfloat16":
        pytest.importorskip("ml_dtypes")
    values = np.arange(6).reshape(2, 3).T
    x = tf.transpose(tf.constant(values.T, dtype))

    array = np.asarray(x)

    assert array.dtype == x.dtype.dtype
    np.testing.assert_array_equal(array, values.astype(array.dtype))
    assert array.strides == x.numpy().strides
    with pytest.raises(ValueError, match="read-only"):
        array[...] = 1
    np.array(x)[...] = 1
    np.testing.assert_array_equal(x.numpy(), values.astype(array.dtype))


def test_T2_a_tensor_is_unhashable_but_its_ref_is_not(x):
    with pytest.raises(TypeError, match="unhashable"):
        hash(x)
    assert x.ref() == x.ref()
    assert x.ref() != tf.constant([1.0, 2.0]).ref()
    assert len({x.ref(), x.ref()}) == 1


def test_T2_equality_is_elementwise(x):
    assert (x == tf.constant([1.0, 5.0])).numpy().tolist() == [True, False]
    assert (x != [1.0, 5.0]).numpy().tolist() == [False, True]


def test_T3_length_and_iteration_go_along_the_first_axis(x):
    assert len(x) == 2
    assert [float(part) for part in x] == [1.0, 2.0]


def test_T3_iteration_is_differentiable(x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        first, second = x
        y = first * second

    assert tape.gradient(y, x).numpy().tolist() == [2.0, 1.0]


@pytest.mark.parametrize("function", [len, iter])
def test_T3_a_scalar_has_neither(function):
    with pytest.raises(TypeError, match="0-d"):
        function(tf.constant(1.0))


def test_T3_the_truth_of_several_values_is_refused(x):
    with pytest.raises(ValueError, match="ambiguous"):
        bool(x)


@pytest.mark.parametrize(
    ("convert", "value", "expected"),
    [
        (bool, 0.0, False),
        (int, 3.7, 3),
        (float, 3, 3.0),
        (complex, 3.0, 3 + 0j),
        (operator.index, 3, 3),
        (abs, -3.0, 3.0),
        (round, 3.7, 4.0),
    ],
)
def test_T3_scalars_convert(convert, value, expected):
    assert convert(tf.constant(value)) == expected


def test_T3_a_float_is_no_index():
    with pytest.raises(TypeError):
        operator.index(tf.constant(1.0))


def test_T3_an_integer_tensor_indexes_a_list():
    assert ["a", "b"][tf.constant(1)] == "b"


@pytest.mark.parametrize(
    ("spec", "text"), [(".3f", "3.142"), (">8.2f", "    3.14"), ("e", "3.141590e+00")]
)
def test_T3_scalars_take_a_format(spec, text):
    assert format(tf.constant(3.14159), spec) == text


def test_T3_round_takes_digits():
    assert float(round(tf.constant(3.14159), 2)) == pytest.approx(3.14)


def test_T3_rounded_integers_stay_integers():
    x = tf.constant([15, 25, -37])

    tens, tenths = round(x, -1), round(x, 1)

    assert (tens.dtype.name, tens.numpy().tolist()) == ("int32", [20, 20, -40])
    assert (tenths.dtype.name, tenths.numpy().tolist()) == ("int32", [15, 25, -37])


OTHERS = {
    "number": 2.0,
    "list": [2.0, 2.0],
    "array": np.array([2.0, 2.0], "float32"),
    "tensor": tf.constant([2.0, 2.0]),
    "variable": tf.Variable([2.0, 2.0]),
}
OPERATORS = ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow"]


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("other", OTHERS.values(), ids=OTHERS)
@pytest.mark.parametrize("side", ["left", "right"])
def test_T4_operators_convert_the_other_side(x, name, other, side):
    function = getattr(operator, name)
    plain = np.asarray(other, "float32")

    result = function(x, other) if side == "left" else function(other, x)

    expected = function(x.numpy(), plain) if side == "left" else function(plain, x.numpy())
    assert isinstance(result, tf.Tensor)
    assert result.dtype == "float32"
    assert result.numpy().tolist() == expected.tolist()


@pytest.mark.parametrize("left", [[[1.0, 1.0]], np.array([[1.0, 1.0]])], ids=["list", "array"])
def test_T4_matmul_converts_the_left_side(left):
    result = left @ tf.constant([[1.0], [2.0]], dtype="float64")

    assert isinstance(result, tf.Tensor)
    assert result.numpy().tolist() == [[3.0]]


def test_T4_an_array_times_a_watched_tensor_is_recorded(x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = np.array([3.0, 4.0], "float32") * x

    assert tape.gradient(y, x).numpy().tolist() == [3.0, 4.0]


def test_T4_text_is_refused(x):
    with pytest.raises(TypeError):
        x + "text"


@pytest.mark.parametrize("twin", [copy.copy, copy.deepcopy])
def test_T7_copies_share_the_value_and_its_place_on_the_tape(x, twin):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = twin(x)
        z = y * 3.0

    assert y.array is x.array
    assert tape.gradient(z, x).numpy().tolist() == [3.0, 3.0]


@pytest.mark.parametrize("twin", [copy.copy, copy.deepcopy])
def test_T7_writing_to_a_part_of_a_copy_does_not_reach_the_tensor(x, twin):
    y = twin(x)
    y[0] = 9.0

    assert (x.numpy().tolist(), y.numpy().tolist()) == ([1.0, 2.0], [9.0, 2.0])


def test_T7_a_deep_copy_of_a_list_keeps_what_is_the_same(x):
    first, second = copy.deepcopy([x, x])

    assert first is second


def test_T7_pickle_stores_the_value(x):
    twin = pickle.loads(pickle.dumps(x))

    assert (twin.numpy().tolist(), twin.dtype) == ([1.0, 2.0], x.dtype)


def test_T7_a_pickled_tensor_has_no_place_on_the_tape(x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        twin = pickle.loads(pickle.dumps(x * 2.0))

    assert tape.gradient(twin, x) is None


def test_T8_a_move_to_the_same_device_is_a_recorded_copy(x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        moved = tf.to_device(x, "cpu")
        y = moved * 3.0

    gradient = tape.gradient(y, x)
    assert gradient.numpy().tolist() == [3.0, 3.0]
    assert gradient.device == x.device


def test_shape_has_tensorflows_helpers(x):
    assert (x.shape, x.shape.rank, x.shape.as_list()) == ((2,), 1, [2])


def test_repr_shows_shape_dtype_and_values(x):
    assert repr(x) == "<tapegrad.Tensor: shape=(2,), dtype=float32, numpy=[1., 2.]>"


def test_indexing_is_differentiable():
    x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x[1] * x[0, 0] + x[..., None, 1]

    assert tape.gradient(y, x).numpy().tolist() == [[14.0, 2.0], [2.0, 4.0]]


def test_writing_to_a_part_is_differentiable(x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * 3.0
        y[0] = x[1] * 5.0

    assert y.numpy().tolist() == [10.0, 6.0]
    assert tape.gradient(y, x).numpy().tolist() == [0.0, 8.0]


def test_writing_to_a_part_does_not_reach_what_was_recorded_before():
    x = tf.constant([1.0, 2.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * 3.0
        z = y * y
        y[0] = 100.0

    assert z.numpy().tolist() == [9.0, 36.0]
    assert tape.gradient(z, x).numpy().tolist() == [18.0, 36.0]


def test_writing_to_a_part_does_not_reach_a_variable_made_from_it(x):
    v = tf.Variable(x)
    w = tf.Variable([0.0, 0.0])
    w.assign(x)
    x[0] = 9.0

    assert [v.numpy().tolist(), w.numpy().tolist()] == [[1.0, 2.0], [1.0, 2.0]]


def test_writing_to_a_part_does_not_reach_a_tensor_it_was_made_from(x):
    for same in (+x, tf.identity(x), tf.reshape(x, (2,)), tf.stop_gradient(x)):
        same[0] = 9.0

    assert x.numpy().tolist() == [1.0, 2.0]


def test_writing_to_the_value_of_a_variable_does_not_change_it():
    v = tf.Variable([1.0, 2.0])
    v.value()[0] = 9.0

    assert v.numpy().tolist() == [1.0, 2.0]
