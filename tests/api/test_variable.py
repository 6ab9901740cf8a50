"""Variables: creation, assignment, reads and tapes."""

from __future__ import annotations

import copy
import operator
import pickle

import numpy as np
import pytest

import tapegrad as tf


@pytest.fixture
def v():
    return tf.Variable([1.0, 2.0], name="w")


def test_V1_trainable_is_the_default(v):
    assert v.trainable is True
    assert tf.Variable(1.0, trainable=False).trainable is False


def test_V1_the_name_ends_as_in_tensorflow(v):
    assert v.name == "w:0"


def test_V1_python_floats_become_float32(v):
    assert v.dtype == "float32"


def test_V1_dtype_is_respected():
    assert tf.Variable([1, 2], dtype="float64").dtype == "float64"


def test_V1_the_initial_value_may_be_a_function():
    assert tf.Variable(lambda: np.ones(2)).numpy().tolist() == [1.0, 1.0]


@pytest.mark.parametrize("kind", [tf.constant, tf.Variable, np.array], ids=["t", "v", "a"])
def test_V1_the_initial_value_may_be_a_tensor_variable_or_array(kind):
    assert tf.Variable(kind([1.0, 2.0])).numpy().tolist() == [1.0, 2.0]


def test_V1_a_missing_value_is_refused():
    with pytest.raises(ValueError, match="initial_value"):
        tf.Variable()


def test_V1_a_constraint_that_is_no_function_is_refused():
    with pytest.raises(ValueError, match=r"constraint must be a function.*'positive'"):
        tf.Variable(1.0, constraint="positive")


def test_V1_a_shape_that_does_not_fit_is_refused():
    with pytest.raises(ValueError, match=r"shape=\(3,\).*\(2,\)"):
        tf.Variable([1.0, 2.0], shape=(3,))


def test_V1_an_open_shape_allows_other_lengths():
    v = tf.Variable([1.0, 2.0], shape=(None,))

    assert v.assign([1.0, 2.0, 3.0]).shape == (3,)


BINARY = ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow"]
COMPARISONS = ["lt", "le", "gt", "ge", "eq", "ne"]


@pytest.mark.parametrize("name", BINARY + COMPARISONS)
@pytest.mark.parametrize("side", ["left", "right"])
def test_V2_all_operators_work(v, name, side):
    function = getattr(operator, name)
    a, b = (v, 2.0) if side == "left" else (2.0, v)
    x, y = (v.numpy(), 2.0) if side == "left" else (2.0, v.numpy())

    assert function(a, b).numpy().tolist() == function(x, y).tolist()


@pytest.mark.parametrize("name", ["neg", "pos", "abs"])
def test_V2_unary_operators_work(v, name):
    function = getattr(operator, name)

    assert function(v).numpy().tolist() == function(v.numpy()).tolist()


def test_V2_matmul_works_from_both_sides():
    v = tf.Variable([[1.0, 2.0], [3.0, 4.0]])

    assert (v @ v).numpy().tolist() == [[7.0, 10.0], [15.0, 22.0]]
    assert ([[1.0, 1.0]] @ v).numpy().tolist() == [[4.0, 6.0]]


def test_V2_indexing_works(v):
    assert v[1].numpy() == 2.0
    assert v[:1].numpy().tolist() == [1.0]


def test_V2_iteration_works(v):
    assert [float(part) for part in v] == [1.0, 2.0]


def test_V2_numpy_copies(v):
    v.numpy()[0] = 9.0

    assert np.asarray(v).tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("convert", "expected"), [(float, 3.0), (int, 3), (complex, 3 + 0j), (bool, True)]
)
def test_V2_scalars_convert_to_python_numbers(convert, expected):
    assert convert(tf.Variable(3.0)) == expected


def test_V2_a_scalar_can_be_formatted():
    assert f"{tf.Variable(3.14159):.2f}" == "3.14"


def test_V2_shape_dtype_and_values_are_there(v):
    assert (v.shape, v.dtype, v.shape.rank) == ((2,), tf.float32, 1)
    assert v.value().numpy().tolist() == v.read_value().numpy().tolist() == [1.0, 2.0]


def test_V2_a_variable_is_unhashable_but_its_ref_is_not(v):
    with pytest.raises(TypeError, match="unhashable"):
        hash(v)
    assert {v.ref(): 1}[v.ref()] == 1
    assert v.ref().deref() is v


UPDATES = {
    "assign": ([5.0, 6.0], [5.0, 6.0]),
    "assign_add": ([5.0, 6.0], [6.0, 8.0]),
    "assign_sub": ([5.0, 6.0], [-4.0, -4.0]),
}
methods = pytest.mark.parametrize("method", UPDATES)


@methods
def test_V3_updates_change_the_value(v, method):
    value, expected = UPDATES[method]
    getattr(v, method)(value)

    assert v.numpy().tolist() == expected


@methods
def test_V3_what_comes_back_is_the_new_value(v, method):
    value, expected = UPDATES[method]

    assert (getattr(v, method)(value) * 1.0).numpy().tolist() == expected


@methods
def test_V3_without_read_value_nothing_comes_back(v, method):
    assert getattr(v, method)([1.0, 1.0], read_value=False) is None


@methods
def test_V3_another_shape_is_refused(v, method):
    with pytest.raises(ValueError, match=rf"{method} on 'w:0' expects shape \(2,\). Got \(3,\)"):
        getattr(v, method)([1.0, 2.0, 3.0])

    assert v.numpy().tolist() == [1.0, 2.0]


@methods
def test_V3_a_tensor_of_another_dtype_is_refused(v, method):
    with pytest.raises(ValueError, match=rf"{method} on 'w:0' expects float32.*float64.*cast"):
        getattr(v, method)(tf.constant([1.0, 2.0], dtype="float64"))

    assert v.numpy().tolist() == [1.0, 2.0]


@methods
@pytest.mark.parametrize("value", [[1, 2], np.array([1.0, 2.0]), np.array([1, 2])], ids=repr)
def test_V3_numbers_and_arrays_are_converted(v, method, value):
    getattr(v, method)(value)

    assert v.dtype == "float32"


@methods
def test_V3_a_sparse_gradient_is_a_value(v, method):
    table = tf.Variable([1.0, 2.0])
    with tf.GradientTape() as tape:
        y = tf.gather(table, [1]) * 3.0
    getattr(v, method)(tape.gradient(y, table))

    expected = {"assign": [0.0, 3.0], "assign_add": [1.0, 5.0], "assign_sub": [1.0, -1.0]}
    assert v.numpy().tolist() == expected[method]


def test_V3_a_variable_and_the_tensor_it_was_assigned_from_are_apart(v):
    x = tf.constant([3.0, 4.0])
    v.assign(x)
    v.assign_add([1.0, 1.0])

    assert x.numpy().tolist() == [3.0, 4.0]


IN_PLACE = ["iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow", "imatmul"]


@pytest.mark.parametrize("name", IN_PLACE)
def test_V4_in_place_operators_are_refused_and_assign_is_named(v, name):
    with pytest.raises(RuntimeError, match="assign"):
        getattr(operator, name)(v, 1.0)

    assert v.numpy().tolist() == [1.0, 2.0]


def test_V5_copy_returns_the_variable(v):
    assert copy.copy(v) is v


@pytest.mark.parametrize("twin", [copy.deepcopy, lambda v: pickle.loads(pickle.dumps(v))])
def test_V5_deepcopy_and_pickle_make_a_new_variable(twin):
    v = tf.Variable([1.0, 2.0], trainable=False, name="w", dtype="float64")
    other = twin(v)
    other.assign([8.0, 9.0])

    assert v.numpy().tolist() == [1.0, 2.0]
    assert (other.name, other.trainable, other.dtype) == ("w:0", False, tf.float64)


def test_V5_a_deepcopied_structure_keeps_shared_variables_shared(v):
    first, second = copy.deepcopy([v, v])

    assert first is second


def test_V5_the_twin_is_a_source_of_its_own(v):
    twin = copy.deepcopy(v)
    with tf.GradientTape() as tape:
        y = v * 2.0 + twin * 5.0

    gradients = tape.gradient(y, [v, twin])

    assert [g.numpy().tolist() for g in gradients] == [[2.0, 2.0], [5.0, 5.0]]


def test_V6_contributions_of_all_reads_add_up(v):
    with tf.GradientTape() as tape:
        y = v * v + v.value() * 3.0 + tf.convert_to_tensor(v)

    assert tape.gradient(y, v).numpy().tolist() == [6.0, 8.0]


def test_V7_reads_before_and_after_an_assignment_see_different_values(v):
    with tf.GradientTape() as tape:
        before = v * 1.0
        v.assign_add([10.0, 10.0])
        after = v * 1.0
        y = before * after

    assert y.numpy().tolist() == [11.0, 24.0]
    assert tape.gradient(y, v).numpy().tolist() == [12.0, 14.0]


def test_V7_no_gradient_goes_through_the_assignment(v):
    x = tf.constant([1.0, 2.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        v.assign(x * x)
        y = v * 2.0

    assert tape.gradient(y, x) is None
