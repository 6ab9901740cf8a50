"""Loops in C read through index arrays: in all forms of loops, and with wrong indices."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.errors import IndexOutOfRangeError
from tapegrad_numpy.loops import compiler

pytestmark = pytest.mark.skipif(compiler.find() is None, reason="this machine has no C compiler")

rng = np.random.default_rng(3)


def table(*shape: int) -> Any:
    return tf.constant(rng.standard_normal(shape))


def check(function: Any, *args: Any) -> Any:
    """Compare a program with eager code; return the names of its calls that are no loops."""
    given = [tf.constant(a) for a in args]
    compiled = tf.function(function)
    for _ in range(2):
        found = compiled(*given)
    for one, other in zip(tf.nest.flatten(found), tf.nest.flatten(function(*given)), strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-10, atol=1e-12)
    steps = compiled.program(*given).steps
    return {step.primitive.name for step in steps if hasattr(step, "primitive")}


FORMS = {
    "rows": lambda x, i: x[i] * 2.0 + tf.cast(i, "float64")[:, None],
    "heavy rows": lambda x, i: tf.exp(x[i]) * tf.cast(i, "float64")[:, None],
    "sums of rows": lambda x, i: tf.reduce_sum(tf.exp(x[i]), axis=-1),
    "sums of columns": lambda x, i: tf.reduce_sum(tf.square(x[i]), axis=0),
    "all sums": lambda x, i: tf.reduce_mean(tf.square(x[i] - x[tf.maximum(i, -6) - 1])),
    "softmax": lambda x, i: tf.nn.softmax(x[i] * 3.0, axis=-1),
    "elements": lambda x, i: tf.exp(x[i, 0]) + x[i, -1],
    "columns": lambda x, i: tf.sin(tf.gather(x, i % x.shape[1], axis=1)),
    "both axes": lambda x, i: tf.sin(x[i][:, i[:9] % x.shape[1]]),
    "an index by index": lambda x, i: tf.exp(tf.gather(x, tf.gather(i, i % 5))),
}


@pytest.mark.parametrize("width", [1, 3, 8, 40])
@pytest.mark.parametrize("form", FORMS)
def test_forms_of_loops(form: str, width: int) -> None:
    index = rng.integers(-7, 7, 90)

    calls = check(FORMS[form], table(7, width), index)

    assert not calls & {"take", "gather_rows"}


@pytest.mark.parametrize("width", [3, 8])
def test_rows_along_two_axes(width: int) -> None:
    index, other = rng.integers(0, 7, (30, 4)), rng.standard_normal((30, 1, width))

    check(lambda x, y, i: tf.reduce_sum((x[i] - y) ** 2, axis=-1), table(7, width), other, index)
    check(lambda x, y, i: tf.exp(x[i] * y), table(7, width), other, index)


@pytest.mark.parametrize("dtype", ["float32", "int32", "bool", "bfloat16"])
def test_dtypes(dtype: str) -> None:
    x = tf.cast(table(9, 5) * 4.0, dtype)

    check(lambda x, i: tf.where(tf.cast(x[i], "bool"), 1.0, 2.0), x, rng.integers(0, 9, 40))


def test_rows_of_no_segment_are_zeros() -> None:
    ids = rng.integers(-1, 4, 50)

    def gradient(x: Any, i: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(tf.math.unsorted_segment_sum(x, i, 4) ** 3)
        return tape.gradient(y, x)

    check(gradient, table(50, 6), ids)


@pytest.mark.parametrize("width", [1, 3, 40])
@pytest.mark.parametrize("wrong", [7, -8, 2**40])
def test_wrong_indices_raise_the_error_of_eager_code(wrong: int, width: int) -> None:
    x, index = table(7, width), rng.integers(0, 7, 60)
    function = tf.function(lambda x, i: tf.reduce_sum(tf.exp(tf.gather(x, i))))
    for _ in range(2):
        function(x, index)
    index[41] = wrong

    with pytest.raises(IndexOutOfRangeError, match=rf"index {wrong} .* of length 7"):
        function(x, index)


def test_a_variable_keeps_its_value_if_an_index_is_wrong() -> None:
    x, index = tf.Variable(np.arange(7.0)), np.arange(5)

    @tf.function
    def step(i: Any) -> None:
        x.assign(x + tf.reduce_sum(tf.exp(tf.gather(x, i))))

    for _ in range(3):
        step(index)
    before = x.numpy().copy()

    with pytest.raises(IndexOutOfRangeError):
        step(index + 5)

    np.testing.assert_array_equal(x.numpy(), before)


def test_few_rows_are_reduced() -> None:
    x, y = rng.standard_normal((20, 5, 8)), rng.standard_normal((20, 5, 1))

    check(lambda x, y: tf.reduce_sum(x * y, axis=1), x, y)
    check(lambda x, y: tf.reduce_max(x * y, axis=1), x, y)
    check(lambda x, y: tf.reduce_prod(x + y, axis=1), x, y)
    check(lambda x, y: tf.reduce_mean(x * y, axis=(0, 1))[:4], x[:3], y[:3])


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("exclusive", [False, True])
def test_running_products_of_rows(exclusive: bool, reverse: bool) -> None:
    options = {"axis": -1, "exclusive": exclusive, "reverse": reverse}

    check(lambda x: tf.math.cumprod(x + 1.0, **options), rng.standard_normal((30, 4)))
