"""Errors of shapes in our own words, short tracebacks, and remedies that fit the caller."""

import re
import traceback

import numpy as np
import pytest

import tapegrad as tf

MATRIX = tf.ones([3, 4])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: MATRIX @ MATRIX, "axis -2 of the second operand has length 3, and axis -1 of"),
        (lambda: tf.matmul(MATRIX, tf.ones([2, 3])), "which must be as long, has length 4."),
        (lambda: np.matmul(MATRIX, np.ones((3, 4), "float32")), "matmul cannot take float32[3, 4]"),
        (lambda: MATRIX + tf.ones([5]), "because the last axis has the lengths 4 and 5."),
        (lambda: MATRIX * tf.ones([2, 1]), "because axis -2 has the lengths 3 and 2."),
        (
            lambda: tf.concat([MATRIX, tf.ones([2, 2])], 0),
            "axis 1 has the lengths 4 (first operand)",
        ),
        (
            lambda: tf.linalg.matvec(MATRIX, tf.ones([3])),
            "axis -1 of the second operand has length",
        ),
        (lambda: tf.ones([3]) @ tf.ones([4, 2]), "the vector has length 3, and the columns of the"),
        (lambda: tf.where([True, False], tf.ones([3]), tf.ones([2])), "has the lengths 2 and 3."),
    ],
    ids=[
        *("operator", "matmul", "numpy", "add", "multiply", "concat", "matvec", "vector", "where"),
    ],
)
def test_shapes_that_do_not_fit_are_named_in_our_words(call, words):
    with pytest.raises(tf.errors.ShapeError, match=re.escape(words)) as caught:
        call()

    text = "".join(traceback.format_exception(caught.value))
    assert "gufunc" not in text
    assert "another exception" not in text
    assert "direct cause" not in text


def test_an_error_in_a_recorded_function_shows_the_lines_of_the_program(monkeypatch):
    @tf.function
    def product(x):
        return x @ x

    def lines():
        with pytest.raises(tf.errors.ShapeError) as caught:
            product(MATRIX)
        return [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]

    short = lines()
    monkeypatch.setenv("TAPEGRAD_TRACEBACK", "full")
    full = lines()

    assert short[-1] == "product"
    assert len(short) < 6 < len(full)


class Reads(tf.keras.layers.Layer):
    def call(self, x):
        float(tf.reduce_sum(x))
        return x


def test_a_layer_that_reads_a_value_is_told_of_run_eagerly():
    model = tf.keras.Sequential([Reads(), tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")

    with pytest.raises(tf.errors.RecordingError, match="run_eagerly=True") as caught:
        model.fit(np.ones((2, 2)), np.ones((2, 1)), verbose=0)

    assert "jit_compile" not in str(caught.value)


def test_a_wrong_argument_of_fit_is_one_of_the_model():
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")

    with pytest.raises(
        TypeError, match=r"Model\.fit\(\) got an unexpected keyword argument 'epoch'"
    ):
        model.fit(np.ones((2, 2)), np.ones((2, 1)), epoch=2)


def test_derivatives_by_keyword_name_the_remedy():
    with pytest.raises(ValueError, match=r"0 arguments\. Derivatives are taken by positional"):
        tf.grad(lambda a: a * a)(a=2.0)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (
            lambda: tf.keras.optimizers.Adam(rate=0.1),
            r"Adam has no argument 'rate'\. Its arguments",
        ),
        (lambda: tf.optimizers.SGD(lr=0.1), "SGD has no argument 'lr'.*learning_rate"),
        (lambda: tf.optimizers.SGD("0.1"), "SGD cannot take '0.1' as the argument learning_rate"),
        (lambda: tf.constant([[1.0, 2.0], [3.0]]), "its lists have different lengths; pad them"),
        (lambda: tf.constant([1.0, 2.0]).view(2, 1), r"view takes a data type.*x\.reshape"),
    ],
)
def test_mistakes_of_the_first_hour(make, sentence):
    with pytest.raises(tf.errors.TapegradError, match=sentence):
        make()


def test_branches_that_differ_in_a_variable_are_told_apart():
    variable = tf.Variable([1.0, 2.0])

    @tf.function
    def absolute(v):
        if tf.reduce_sum(v) > 0:
            return v
        return -v

    with pytest.warns(UserWarning, match=r"a Variable of float32\[2\]"):
        assert absolute(variable).numpy().tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (
            lambda: tf.keras.Sequential(tf.keras.layers.Dense(1), tf.keras.layers.Dense(2)),
            r"one list of layers: write Sequential\(\[first, second\]\)",
        ),
        (lambda: tf.keras.Model(np.ones(2), 3), r"start with keras\.Input.*Got an array.* and 3"),
        (lambda: range(tf.constant(3.0)), "one integer. Got a tensor of float32"),
        (
            lambda: [1, 2][tf.constant([0, 1])],
            r"one integer. Got a tensor of int32 and shape \(2,\)",
        ),
        (lambda: tf.constant(300, dtype="uint8"), "uint8 cannot hold the integer 300. Use a wider"),
        (lambda: tf.constant([-1, 300], dtype="uint8"), "cannot hold integers from -1 to 300"),
        (
            lambda: tf.scan(lambda a, b: (a, b), MATRIX),
            "as its first argument has, 1. It returned 2",
        ),
    ],
)
def test_more_mistakes_of_the_first_hour(make, sentence):
    with pytest.raises((TypeError, ValueError), match=sentence):
        make()


def test_modules_list_their_exports():
    for module in (tf.test, tf.keras, tf.keras.config, tf.types.experimental):
        assert dir(module) == sorted(module.__all__)


def test_optimizers_print_their_name():
    assert repr(tf.optimizers.Adam()) == "<Adam name=adam>"
    assert repr(tf.keras.optimizers.SGD(name="mine")) == "<SGD name=mine>"
