"""Python's data model on tensors and variables, compared with ndarray."""

from __future__ import annotations

import math
import operator

import numpy as np
import pytest

import tapegrad as tf

KINDS = {"tensor": tf.constant, "variable": tf.Variable}


@pytest.fixture(params=KINDS.values(), ids=KINDS)
def make(request):
    return request.param


VALUES = np.array([-3.5, 2.25, 7.25])  # quotients are nowhere whole


@pytest.mark.parametrize("other", [2.0, [1.5, -2.0, 3.0], np.array([1.5, -2.0, 3.0])], ids=repr)
def test_divmod_is_pythons(make, other):
    x = make(VALUES)

    for ours, theirs in (
        (divmod(x, other), divmod(VALUES, np.asarray(other))),
        (divmod(other, x), divmod(np.asarray(other), VALUES)),
    ):
        assert [part.numpy().tolist() for part in ours] == [part.tolist() for part in theirs]


def test_divmod_of_integers_stays_whole():
    quotient, rest = divmod(tf.constant([7, -7]), 2)

    assert (quotient.numpy().tolist(), rest.numpy().tolist()) == ([3, -4], [1, 1])
    assert quotient.dtype == rest.dtype == "int32"


@pytest.mark.parametrize("side", ["left", "right"])
def test_what_divmod_leaves_has_a_derivative(side):
    x, other = tf.constant(VALUES), np.array([1.5, -2.0, 3.0])

    def rest(x):
        return (divmod(x, other) if side == "left" else divmod(other, x))[1]

    with tf.GradientTape() as tape:
        tape.watch(x)
        y = rest(x)

    step = 1e-6
    slope = (rest(VALUES + step) - rest(VALUES - step)) / (2 * step)
    np.testing.assert_allclose(tape.gradient(y, x).numpy(), slope, rtol=0, atol=1e-8)


def test_the_quotient_of_divmod_has_none():
    x = tf.constant(VALUES)
    with tf.GradientTape() as tape:
        tape.watch(x)
        quotient, _ = divmod(x, 2.0)

    assert tape.gradient(quotient, x) is None


TABLE = np.array([[1.0, 2.0], [3.0, 4.0]])


@pytest.mark.parametrize("value", [2.0, 5, [1.0, 9.0], [9.0, 9.0], np.float32(4.0), True], ids=repr)
def test_contains_is_numpys(make, value):
    assert (value in make(TABLE)) is (value in TABLE)


@pytest.mark.parametrize("value", ["text", None, object()], ids=["text", "None", "object"])
def test_what_is_no_number_is_contained_in_no_tensor(make, value):
    assert value not in make(TABLE)


def test_inside_vmap_containment_cannot_be_asked():
    with pytest.raises(TypeError, match="Inside vmap a tensor stands for many examples"):
        tf.vmap(lambda row: row if 1.0 in row else -row)(tf.constant(TABLE))


@pytest.mark.parametrize("dtype", ["uint8", "int32", "float64"])
def test_bytes_are_those_of_the_memory(make, dtype):
    assert bytes(make([1, 2], dtype=dtype)) == np.array([1, 2], dtype).tobytes()


@pytest.mark.parametrize("function", [math.trunc, math.floor, math.ceil, int], ids=str)
@pytest.mark.parametrize("value", [2.7, -2.7])
def test_rounding_one_number_gives_an_int(make, function, value):
    result = function(make(value))

    assert (type(result), result) == (int, function(value))


@pytest.mark.parametrize("function", [math.trunc, float, int, complex], ids=str)
def test_several_values_are_no_number(make, function):
    with pytest.raises(ValueError, match="needs a tensor with only one element"):
        function(make([1.0, 2.0]))


def test_a_format_is_for_one_number(make):
    assert f"{make([2.5]):.2f}" == "2.50"
    with pytest.raises(TypeError, match=r"The format '\.2f' is for one number.* shape \(2,\)"):
        f"{make([1.0, 2.0]):.2f}"


def test_shifting_a_variable_in_place_is_refused():
    v = tf.Variable([1, 2])

    for shift in (operator.ilshift, operator.irshift):
        with pytest.raises(tf.errors.InPlaceError, match="In-place operators do not change"):
            shift(v, 1)


def test_a_tensor_cannot_become_an_array_without_a_copy():
    with pytest.raises(ValueError, match=r"by a copy, which copy=False forbids\. np\.from_dlpack"):
        tf.constant([1.0]).__array__(copy=False)


NARROW = {
    "int8": (np.array([1, 2], "int8"), np.array([1000, -1000])),
    "uint8": (np.array([1, 2], "uint8"), np.array([-1, 300])),
    "int32": (np.array([1, 2], "int32"), np.array([2**40, 5])),
}


@pytest.mark.parametrize("name", ["add", "sub", "mul", "eq", "lt"])
@pytest.mark.parametrize(("ours", "theirs"), NARROW.values(), ids=NARROW)
def test_integers_that_a_tensors_dtype_cannot_hold_keep_theirs(name, ours, theirs):
    function = getattr(operator, name)
    x = tf.constant(ours)

    for result, expected in (
        (function(x, theirs), function(ours, theirs)),
        (function(theirs, x), function(theirs, ours)),
        (function(x, theirs.tolist()), function(ours, theirs)),
    ):
        assert result.numpy().tolist() == expected.tolist()
    assert (x + np.array([3, 4])).dtype == x.dtype


@pytest.mark.parametrize(("value", "dtype"), [(300, "int8"), ([1, -1], "uint8"), (2**31, "int32")])
def test_integers_that_a_dtype_would_change_are_refused(value, dtype):
    v = tf.Variable([1, 2], dtype=dtype)

    for use in (lambda: tf.constant(value, dtype), lambda: v.assign([value, value])):
        with pytest.raises(ValueError, match=f"{dtype} cannot hold (the integer|integers from)"):
            use()
    assert v.numpy().tolist() == [1, 2]
    assert tf.constant(np.array(300), "int8").numpy() == 44  # as NumPy's astype


MASKED = np.ma.array([1.0, 2.0], mask=[True, False])
USES = {
    "constant": lambda masked, x: tf.constant(masked),
    "Variable": lambda masked, x: tf.Variable(masked),
    "in a list": lambda masked, x: tf.constant([masked, masked]),
    "right": lambda masked, x: x * masked,
    "left": lambda masked, x: masked * x,
    "equality": lambda masked, x: x == masked,
    "product": lambda masked, x: masked @ x,
    "ufunc": lambda masked, x: np.maximum(x, masked),
    "function": lambda masked, x: np.concatenate([x, masked]),
    "tapegrad.numpy": lambda masked, x: tf.numpy.asarray(masked),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_masked_array_is_to_be_filled_first(use):
    with pytest.raises(tf.errors.ArgumentTypeError, match=r"no mask.* Fill them first"):
        use(MASKED, tf.constant([1.0, 2.0]))
    use(MASKED.filled(0.0), tf.constant([1.0, 2.0]))


def test_get_shape_inside_vmap_is_that_of_one_example():
    shapes = []

    def double(x):
        shapes.append(x.get_shape().as_list())
        return 2.0 * x

    tf.vmap(double)(tf.ones((5, 2, 3)))

    assert shapes == [[2, 3]]
