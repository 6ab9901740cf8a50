"""Rare arguments of functions of `tapegrad.numpy`: small dtypes, Python numbers, empty arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
import tapegrad.numpy as tnp
from tapegrad.errors import ArgumentError, DTypeError, IndexOutOfRangeError, OutOfRangeError

Call = Callable[[Any, Callable[..., Any]], Any]

HALF = np.array([1.5, -2.25], "float16")
SMALL = np.array([1, 200, 3], "uint8")

CALLS: dict[str, Call] = {
    "angle of small integers": lambda xp, a: xp.angle(a([[0, -4], [3, 1]], "int8")),
    "angle of uint16": lambda xp, a: xp.angle(a([0, 4], "uint16"), deg=True),
    "angle of booleans": lambda xp, a: xp.angle(a([True, False])),
    "linspace from float16 to a number": lambda xp, a: xp.linspace(a(HALF), 300, 4),
    "linspace from a number to float32": lambda xp, a: xp.linspace(0, a([2.0], "float32"), 3),
    "linspace from float32 to a complex number": (
        lambda xp, a: xp.linspace(a([1.0], "float32"), 2j, 3)
    ),
    "logspace from float32": lambda xp, a: xp.logspace(a([1.0], "float32"), 2, 3),
    "piecewise of booleans": (
        lambda xp, a: xp.piecewise(a([True, False]), [a([True, False])], [2, 0])
    ),
    "piecewise of int8": lambda xp, a: xp.piecewise(a([1, 2], "int8"), [a([True, False])], [2.5]),
    "polyval of booleans at booleans": lambda xp, a: xp.polyval(a([True, True]), a([True, False])),
    "polyval of uint8 at booleans": lambda xp, a: xp.polyval(a([2, 3], "uint8"), a([True, False])),
    "polyval of one coefficient": lambda xp, a: xp.polyval(a([3.0]), a([1, 2], "int32")),
    "trapezoid of int8 over float32": (
        lambda xp, a: xp.trapezoid(a([1, 2, 5], "int8"), a([0.0, 1.0, 3.0], "float32"))
    ),
    "trapezoid of float32 over float64": (
        lambda xp, a: xp.trapezoid(a([1.0, 2.0], "float32"), a([0.0, 0.5]))
    ),
    "trapezoid of int32 over int64": lambda xp, a: xp.trapezoid(a([1, 2], "int32"), a([0, 3])),
    "digitize with falling unsigned bins": (
        lambda xp, a: xp.digitize(a([1, 4, 0, 3], "uint8"), a([4, 2, 2], "uint64"), right=True)
    ),
    "digitize with equal unsigned bins": (
        lambda xp, a: xp.digitize(a([1, 4], "uint8"), a([2, 2], "uint8"))
    ),
    "digitize without bins": lambda xp, a: xp.digitize(a([1.0, 2.0]), a(np.zeros(0))),
    "polyint of float32": (
        lambda xp, a: xp.polyint(a([1.724051, 0.19834179, -0.13268389], "float32"))
    ),
    "polyint of complex64": lambda xp, a: xp.polyint(a([0.3 + 1j, 0.7], "complex64"), 2),
    "polyint of float16": lambda xp, a: xp.polyint(a([0.3, 0.7], "float16")),
    "divide True by uint8": lambda xp, a: xp.divide(True, a(SMALL), casting="unsafe"),
    "floor_divide uint32 by True": lambda xp, a: xp.floor_divide(a(SMALL, "uint32"), True),
    "power of True": lambda xp, a: xp.power(True, a(SMALL)),
    "hypot with False": lambda xp, a: xp.hypot(a(SMALL, "uint32"), False),
    "heaviside with True": lambda xp, a: xp.heaviside(a([-2, 0], "int8"), True),
    "logaddexp with True and dtype": (
        lambda xp, a: xp.logaddexp(a([True, False]), True, dtype="float32")
    ),
    "float equiv": lambda xp, a: xp.subtract(a([1.0, 2.0]), 0.5, casting="equiv"),
    "int equiv": lambda xp, a: xp.multiply(a([1, 2]), 2, casting="equiv"),
    "number under no casts": lambda xp, a: xp.subtract(a([1.0], "float32"), 2, casting="no"),
    "median of nothing": lambda xp, a: xp.median(a(np.zeros((0, 0))), axis=0, keepdims=True),
    "median of rows of nothing": lambda xp, a: xp.median(a(np.zeros((0, 0, 2), "float32")), axis=1),
    "repeat of nothing": lambda xp, a: xp.repeat(a(np.zeros((0, 3), "int32")), [], axis=0),
    "diff of order 0": lambda xp, a: xp.diff(a(2.5), n=0),
    "insert a whole float": lambda xp, a: xp.insert(a([1, 2], "int8"), 1, 3.7),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", CALLS)
def test_results_and_dtypes_are_those_of_numpy(name: str) -> None:
    wanted = CALLS[name](np, np.asarray)
    found = CALLS[name](tnp, lambda x, dtype=None: tf.constant(np.asarray(x, dtype)))
    assert found.dtype == wanted.dtype
    assert found.shape == np.shape(wanted)
    tolerance = 1e-3 if wanted.dtype == np.float16 else 1e-6 if wanted.itemsize == 4 else 1e-12
    np.testing.assert_allclose(found.numpy(), wanted, rtol=tolerance)


@pytest.mark.parametrize("function", [tnp.subtract, tnp.power, tnp.hypot, tnp.equal])
@pytest.mark.parametrize("number", [2, 2.5, 1j])
def test_a_number_that_equiv_does_not_cast_is_refused(function: Any, number: complex) -> None:
    """NumPy's `resolve_dtypes` ends the process for these arguments."""
    x = tf.constant(np.ones(2, "float32"))
    for operands in ((x, number), (number, x)):
        with pytest.raises(DTypeError, match="casting='equiv'"):
            function(*operands, casting="equiv")


def test_linspace_to_a_number_keeps_gradients_in_the_dtype_of_the_array() -> None:
    start = tf.constant(np.array([1.0, 2.0], "float32"))
    with tf.GradientTape() as tape:
        tape.watch(start)
        y = tnp.linspace(start, 5, 4)[1]
    gradient = tape.gradient(y, start)
    assert gradient.dtype == "float32"
    np.testing.assert_allclose(gradient.numpy(), [2 / 3, 2 / 3], rtol=1e-6)


def test_polyval_and_trapezoid_keep_gradients() -> None:
    p, x = (tf.constant(np.array(values)) for values in ([2.0, 3.0, 1.0], [0.5, -1.0]))
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([p, x])
        y = tnp.polyval(p, x)
        area = tnp.trapezoid(p, tf.constant(np.array([0, 1, 3], "int8")))
    np.testing.assert_allclose(tape.gradient(y, x).numpy(), 4 * np.array([0.5, -1.0]) + 3)
    np.testing.assert_allclose(tape.gradient(y, p).numpy(), [1.25, -0.5, 2.0])
    np.testing.assert_allclose(tape.gradient(area, p).numpy(), [0.5, 1.5, 1.0])


def test_choose_refuses_numbers_below_0() -> None:
    choices = [tf.constant([1.0, 2.0]), tf.constant([3.0, 4.0])]
    with pytest.raises(IndexOutOfRangeError, match="number -1 for 2 choices"):
        tnp.choose(tf.constant([0, -1]), choices)
    assert tnp.choose(tf.constant([0, -1]), choices, mode="wrap").tolist() == [1.0, 4.0]
    assert tnp.choose(tf.constant([0, -1]), choices, mode="clip").tolist() == [1.0, 2.0]


def test_insert_refuses_numbers_that_the_dtype_cannot_hold() -> None:
    x = tf.constant(np.array([1, 2], "int16"))
    for number, error in (
        (float("inf"), OutOfRangeError),
        (1e10, OutOfRangeError),
        (70000, OutOfRangeError),
        (float("nan"), ArgumentError),
    ):
        with pytest.raises(error, match="dtype"):
            tnp.insert(x, 0, number)


def test_bincount_refuses_negative_numbers_of_tensors() -> None:
    with pytest.raises(ArgumentError, match="nonnegative"):
        tnp.bincount(tf.constant([1, -2]))


@pytest.mark.parametrize("shape", [(2, 3), (40,), (0, 5), (3, 0)])
def test_top_k_of_no_elements_is_empty(shape: tuple[int, ...]) -> None:
    values, indices = tf.math.top_k(tf.zeros(shape), 0)
    assert values.shape == indices.shape == (*shape[:-1], 0)
