"""Operators return NotImplemented for operands that they do not know, and errors name mistakes."""

from __future__ import annotations

import operator
from fractions import Fraction
from unittest import mock

import numpy as np
import pytest

import tapegrad as tf
from tapegrad import keras
from tapegrad.ops.elementwise import arithmetic
from tapegrad.scipy import sparse

NAMES = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "lshift", "rshift")
ARITHMETIC = {name: getattr(operator, name) for name in NAMES}
ARITHMETIC |= {"and": operator.and_, "or": operator.or_, "xor": operator.xor, "divmod": divmod}
SWAPPED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}


class Stranger:
    """A type with operators that tensors do not know."""

    def __repr__(self):
        return "stranger"


class Apart(Stranger):
    """A type that sets `__array_ufunc__ = None`."""

    __array_ufunc__ = None

    def __array__(self, dtype=None, copy=None):
        return np.ones(2)


for _name in (*[f"__r{name}__" for name in ARITHMETIC], *[f"__{name}__" for name in SWAPPED]):
    setattr(Stranger, _name, lambda self, other, name=_name: name)


@pytest.fixture(params=[tf.constant, tf.Variable], ids=["tensor", "variable"])
def x(request):
    return request.param([1.0, 2.0])


@pytest.mark.parametrize("other", [Stranger(), Apart()], ids=["unknown", "apart"])
@pytest.mark.parametrize("name", ARITHMETIC)
def test_a_type_with_the_reflected_method_gets_its_turn(x, name, other):
    assert ARITHMETIC[name](x, other) == f"__r{name}__"


@pytest.mark.parametrize("other", [Stranger(), Apart()], ids=["unknown", "apart"])
@pytest.mark.parametrize("name", SWAPPED)
def test_a_type_with_the_swapped_comparison_gets_its_turn(x, name, other):
    assert getattr(operator, name)(x, other) == f"__{SWAPPED[name]}__"


def test_inside_vmap_others_get_their_turn_too():
    answers = []

    def body(row):
        answers.append(row * Stranger())
        return row

    tf.vmap(body)(tf.constant([[1.0], [2.0]]))

    assert answers == ["__rmul__"]


def test_the_method_says_not_implemented():
    x = tf.constant([1.0])

    assert x.__add__(Stranger()) is NotImplemented
    assert x.__matmul__(Stranger()) is NotImplemented
    assert x.__eq__(Stranger()) is NotImplemented


def test_a_type_that_is_registered_is_taken_although_it_keeps_apart():
    class Pair(Apart):
        pass

    tf.register_tensor_conversion_function(Pair, lambda pair: tf.constant([3.0, 4.0]))

    assert (tf.constant([1.0, 2.0]) + Pair()).numpy().tolist() == [4.0, 6.0]


def test_sparse_arrays_get_their_turn_and_are_recorded():
    x = tf.constant([[1.0, 2.0]])
    matrix = sparse.csr_array(np.array([[1.0, 0.0], [3.0, 2.0]], "float32"))
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        product, total = x @ matrix, x[0] @ matrix

    assert product.numpy().tolist() == [[7.0, 4.0]]
    assert tape.gradient(product, x).numpy().tolist() == [[1.0, 5.0]]
    assert tape.gradient(total, x).numpy().tolist() == [[1.0, 5.0]]


def test_symbolic_tensors_of_models_get_their_turn():
    inputs = keras.Input((2,))
    model = keras.Model(inputs, tf.constant([[1.0, 2.0]]) * inputs)

    assert model(tf.constant([[3.0, 4.0]])).numpy().tolist() == [[3.0, 8.0]]


def test_whatever_compares_itself_decides_about_equality(x):
    assert x == mock.ANY
    assert operator.ne(x, mock.ANY) is False
    assert x == pytest.approx([1.0, 2.0 + 1e-9])
    assert x != pytest.approx([1.0, 2.1])


@pytest.mark.parametrize(
    "other",
    [None, "text", object(), {}, np.array(["a", "b"])],
    ids=["None", "text", "object", "dict", "array"],
)
def test_what_is_no_number_is_not_equal(x, other):
    assert (x == other) is False
    assert (x != other) is True


MISTAKES = {
    "text": ("text", r"Expected numbers\. Got the text 'text'\."),
    "None": (None, r"Expected numbers\. Got None\."),
    "dict": ({}, r"Cannot turn dict into a tensor: it holds object values, not numbers\."),
    "fraction": (Fraction(1, 2), r"Cannot turn Fraction into a tensor: it holds object values"),
    "words": (np.array(["a", "b"]), r"Cannot turn ndarray into a tensor: it holds <U1 values"),
    "object": (object(), r"Cannot turn object into a tensor: it holds object values"),
}


@pytest.mark.parametrize("name", ["add", "mul", "mod", "pow", "or", "matmul", "divmod"])
@pytest.mark.parametrize(("other", "sentence"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_on_either_side_gets_a_sentence(x, name, other, sentence):
    with pytest.raises(tf.errors.ArgumentTypeError, match=sentence):
        ARITHMETIC[name](x, other)
    if (type(other), name) in ((str, "mod"), (Fraction, "pow")):
        return  # text formats by `%`, and fractions become floats before they are raised
    with pytest.raises(tf.errors.ArgumentTypeError, match=sentence):
        ARITHMETIC[name](other, x)


def test_scipys_sparse_arrays_are_refused_with_the_way_to_ours(x):
    theirs = pytest.importorskip("scipy.sparse").csr_array(np.eye(2))

    for name in ("add", "mul", "matmul"):
        with pytest.raises(TypeError, match=r"it is sparse\. Give it to tapegrad\.scipy\.sparse"):
            ARITHMETIC[name](x, theirs)
    assert (x @ sparse.csr_array(theirs)).numpy().tolist() == [1.0, 2.0]


def test_pow_has_no_modulus(x):
    with pytest.raises(TypeError, match=r"not take a modulus\. Write \(x \*\* y\) % modulus"):
        pow(x, 2, 5)


def test_an_operator_is_the_fast_path_itself():
    # A function around it would cost every operation a tenth of a microsecond.
    assert tf.Tensor.__mul__.__code__.co_code == arithmetic.multiply.__code__.co_code


class Answering:
    """Another library's array, which takes over NumPy's functions."""

    def __array_ufunc__(self, ufunc, method, *inputs, **options):
        return f"{ufunc.__name__} answered"

    def __array_function__(self, function, types, args, options):
        return f"{function.__name__} answered"


@pytest.mark.parametrize("flip", [False, True], ids=["tensor first", "tensor last"])
def test_numpy_goes_on_to_others_where_tensors_have_no_answer(x, flip):
    pair = (Answering(), x) if flip else (x, Answering())

    assert np.add(*pair) == "add answered"
    assert np.concatenate(pair) == "concatenate answered"


def test_numpys_functions_beside_a_mistake_get_a_sentence(x):
    with pytest.raises(tf.errors.ArgumentTypeError, match="add cannot take this operand"):
        np.add(x, "text")
    with pytest.raises(tf.errors.ArgumentTypeError, match="Expected numbers"):
        np.concatenate([x, None])


def test_writing_into_an_array_beside_a_tensor_says_what_to_write(x):
    array = np.ones(2)

    with pytest.raises(TypeError, match=r"In np\.add out= must be a tensor.* `array = array \+ t"):
        array += x
    assert array.tolist() == [1.0, 1.0]
