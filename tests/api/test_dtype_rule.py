"""The rule for dtypes of docs/dtypes.md, for every operator, method and function."""

from __future__ import annotations

import array
import operator
from collections import deque
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
import tapegrad.numpy as tnp


class Series:
    """Offers its values as pandas does."""

    def __init__(self, values: Any, dtype: Any = None) -> None:
        self._values = np.asarray(values, dtype)

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return self._values if dtype is None else self._values.astype(dtype)


DTYPES = ["bool", "int8", "uint8", "int32", "int64", "float16", "float32", "float64", "complex64"]
ARITHMETIC = [operator.add, operator.sub, operator.mul, operator.truediv, operator.matmul]


def ones(dtype: str) -> Any:
    return tf.constant(np.ones(2, dtype))


# What has a dtype keeps it


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("make", [tf.constant, tf.Variable, tf.convert_to_tensor, tnp.asarray])
def test_what_has_a_dtype_keeps_it(make: Any, dtype: str) -> None:
    values = np.ones(2, dtype)

    for value in (
        values,
        values[0],
        Series(values),
        [Series(values)],
        [values],
        memoryview(values),
    ):
        assert make(value).dtype == dtype


def test_buffers_have_a_dtype() -> None:
    assert tf.constant(array.array("d", [1.0])).dtype == "float64"
    assert tf.constant(array.array("f", [1.0])).dtype == "float32"
    assert tf.constant(array.array("q", [1])).dtype == "int64"


@pytest.mark.parametrize("values", [[1.0], (1.0,), [[1.0], [2.0]], 1.0, deque([1.0])], ids=repr)
def test_pythons_numbers_have_the_default(values: Any) -> None:
    assert tf.constant(values).dtype == "float32"


def test_pythons_integers_have_the_default() -> None:
    for value in (1, [1], range(3)):
        assert tf.constant(value).dtype == "int32"
    assert tf.constant([2**40]).dtype == "int64"
    assert tnp.asarray([1]).dtype == "int64"


# Tensors with tensors: NumPy's promotion, everywhere


@pytest.mark.parametrize("first", DTYPES)
@pytest.mark.parametrize("second", DTYPES)
def test_tensors_promote_as_in_numpy(first: str, second: str) -> None:
    x, y, a, b = ones(first), ones(second), np.ones(2, first), np.ones(2, second)
    expected = np.result_type(a, b)

    assert (x * y).dtype == np.multiply(x, y).dtype == tnp.multiply(x, y).dtype == expected
    assert x.dot(y).dtype == np.dot(x, y).dtype == expected


# Operators and methods: what stands next to a tensor takes its dtype

NARROW = {
    "float16": [
        [1.0, 2.0],
        (1.0, 2.0),
        np.ones(2),
        np.float64(2.0),
        Series([1.0, 2.0]),
        2.0,
        [1, 2],
    ],
    "float32": [
        [1.0, 2.0],
        (1.0, 2.0),
        np.ones(2),
        np.float64(2.0),
        Series([1.0, 2.0]),
        2.0,
        [1, 2],
    ],
    "complex64": [[1.0, 2.0], np.ones(2), np.ones(2, "complex128"), 2.0, 1j],
    "int8": [[1, 2], np.array([1, 2]), Series([1, 2]), 2],
}


@pytest.mark.parametrize("is_variable", [False, True])
@pytest.mark.parametrize("dtype", NARROW)
def test_operators_and_methods_keep_the_tensors_dtype(dtype: str, is_variable: bool) -> None:
    x = tf.Variable(ones(dtype)) if is_variable else ones(dtype)
    for other in NARROW[dtype]:
        assert (x + other).dtype == dtype
        assert (x * other).dtype == dtype
        if not isinstance(other, Series):  # like pandas, it may have operators of its own
            assert (other + x).dtype == dtype
            assert (other - x).dtype == dtype
        if isinstance(other, list | np.ndarray):
            assert x.dot(other).dtype == dtype
            assert (x @ other).dtype == dtype
        if dtype != "complex64":
            assert x.clip(other, other).dtype == dtype
            assert tf.maximum(x, other).dtype == dtype


def test_other_kinds_of_numbers_keep_their_dtype() -> None:
    x = tf.constant([1, 2])
    assert (x * np.array([0.5, 1.0])).dtype == "float64"
    assert x.dot(np.array([0.5, 1.0])).dtype == "float64"
    assert (ones("uint8") + np.array([-1, 1])).dtype == "int64"


def test_operators_in_a_function_and_in_vmap() -> None:
    x, a = ones("float32"), np.ones(2)
    assert tf.function(lambda x: a * x)(x).dtype == "float32"
    assert tf.function(lambda x: x.dot([1.0, 2.0]))(x).dtype == "float32"
    assert tf.function(lambda x: np.add(x, a))(x).dtype == "float64"
    assert tf.vmap(lambda row: row.dot([1.0]))(tnp.reshape(x, (2, 1))).dtype == "float32"
    assert tf.vmap(lambda row: np.add(row, a))(tnp.reshape(x, (2, 1))).dtype == "float64"


# NumPy's functions: NumPy's promotion

BINARY = [
    ufunc
    for ufunc in vars(np).values()
    if isinstance(ufunc, np.ufunc) and (ufunc.nin, ufunc.nout) == (2, 1)
]


@pytest.mark.parametrize("ufunc", BINARY, ids=lambda ufunc: ufunc.__name__)
@pytest.mark.parametrize("ours", ["float32", "float16", "int8"])
@pytest.mark.parametrize("theirs", ["float64", "int64", "complex128"])
def test_numpys_functions_promote_as_numpy(ufunc: Any, ours: str, theirs: str) -> None:
    a, b = np.ones((2, 2), ours), np.ones((2, 2), theirs)
    x = tf.constant(a)
    for given, expected in (((x, b), (a, b)), ((b, x), (b, a)), ((x, b[0]), (a, b[0]))):
        try:
            with np.errstate(all="ignore"):
                wanted = ufunc(*expected).dtype
        except (TypeError, ValueError):
            continue
        try:
            found = ufunc(*given)
        except tf.errors.TapegradError:
            continue  # another test says which functions there are
        assert found.dtype == wanted


def test_lists_are_numpys_in_numpys_functions() -> None:
    x = ones("float32")
    assert np.add(x, [1.0, 2.0]).dtype == "float64"
    assert np.add(x, 2.0).dtype == "float32"
    assert tnp.add(x, [1.0, 2.0]).dtype == "float64"
    assert np.add(x, Series([1.0, 2.0])).dtype == "float64"


def test_gradients_have_the_dtype_of_their_source() -> None:
    x = ones("float32")
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = np.add(x, np.ones(2)) * 2.0
    assert y.dtype == "float64"
    assert tape.gradient(y, x).dtype == "float32"


# Functions of two operands

IMAGE, FILTER, SQUARE = np.ones((1, 4, 4, 1)), np.ones((2, 2, 1, 1)), np.eye(2) * 2
TWO: dict[str, tuple[Any, Any, Any]] = {
    "matmul": (tf.matmul, SQUARE, SQUARE),
    "matvec": (tf.linalg.matvec, SQUARE, SQUARE[0]),
    "tensordot": (lambda x, y: tf.tensordot(x, y, 1), SQUARE, SQUARE),
    "einsum": (lambda x, y: tf.einsum("ij,jk->ik", x, y), SQUARE, SQUARE),
    "where": (lambda x, y: tf.where(tf.constant([True, False]), x, y), SQUARE, SQUARE),
    "concat": (lambda x, y: tf.concat([x, y], 0), SQUARE, SQUARE),
    "stack": (lambda x, y: tf.stack([x, y]), SQUARE, SQUARE),
    "outer": (tf.linalg.outer, SQUARE[0], SQUARE[1]),
    "kron": (tf.linalg.kron, SQUARE, SQUARE),
    "cross": (tf.linalg.cross, np.ones(3), np.ones(3)),
    "solve": (tf.linalg.solve, SQUARE, SQUARE),
    "triangular_solve": (tf.linalg.triangular_solve, SQUARE, SQUARE),
    "cholesky_solve": (tf.linalg.cholesky_solve, SQUARE, SQUARE),
    "lstsq": (tf.linalg.lstsq, SQUARE, SQUARE),
    "bias_add": (tf.nn.bias_add, SQUARE, SQUARE[0]),
    "conv2d": (lambda x, y: tf.nn.conv2d(x, y, 1, "VALID"), IMAGE, FILTER),
    "depthwise_conv2d": (
        lambda x, y: tf.nn.depthwise_conv2d(x, y, [1, 1, 1, 1], "VALID"),
        IMAGE,
        FILTER,
    ),
    "convolve": (tf.signal.convolve, np.ones(4), np.ones(2)),
    "attention": (
        lambda x, y: tf.nn.scaled_dot_product_attention(x, y, y),
        np.ones((1, 1, 2, 4)),
        np.ones((1, 1, 2, 4)),
    ),
}


@pytest.mark.parametrize("name", TWO)
@pytest.mark.parametrize("given", ["float64", "int64"])
def test_functions_keep_the_dtype_of_the_tensor(name: str, given: str) -> None:
    function, first, second = TWO[name]
    x, y = tf.constant(first, dtype="float32"), tf.constant(second, dtype="float32")
    recorded = tf.function(lambda x: function(x, second.astype(given)))

    assert function(x, second.astype(given)).dtype == "float32"
    assert function(first.astype(given), y).dtype == "float32"
    assert function(tf.Variable(x), second.astype(given)).dtype == "float32"
    assert recorded(x).dtype == recorded(x).dtype == "float32"
    batched = tf.vmap(lambda x: function(x, second.astype(given)))(tf.stack([x, x]))
    assert batched.dtype == "float32"
    assert function(x, tf.constant(second)).dtype == "float64"


@pytest.mark.parametrize("other", [[1, 2], np.array([1, 2], "uint8"), np.array([1, 2], "uint64")])
def test_integers_that_fit_take_the_dtype_with_and_without_sign(other: Any) -> None:
    assert (ones("int8") + other).dtype == tf.add(other, ones("int8")).dtype == "int8"
    assert (ones("int8") + np.array([200, 1], "uint8")).dtype == "int16"
