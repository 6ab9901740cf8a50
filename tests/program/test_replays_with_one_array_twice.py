"""Programs read the right operand if one array is passed twice or as overlapping views."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tests import capabilities
from tests.program.reference_loops import Reference

X, Y = np.linspace(0.5, 3.0, 6), np.linspace(-2.0, 1.0, 6)


@pytest.fixture(params=["numpy", "c"])
def target(request: Any, monkeypatch: pytest.MonkeyPatch) -> str:
    """Loops of a program run by NumPy, or by C where there is a compiler."""
    if request.param == "numpy":
        capabilities.use(monkeypatch, loops=Reference())
    return request.param


def pairs(x: Any, y: Any) -> dict[str, tuple[Any, Any]]:
    """Operands of one shape: two arrays, one array, its views, views that overlap."""
    return {
        "apart": (x[1:], y[1:]),
        "twice": (x[1:], x[1:]),
        "shifted": (x[1:], x[:-1]),
        "back": (x[:-1], x[1:]),
    }


def weigh(one: Any, other: Any) -> Any:
    return tf.exp(one) * 2.0 - other * other + one


def write(one: Any, other: Any) -> Any:
    """Write into the first operand, then into the second, and read both in between."""
    y = one * 1.0
    one[0] = other[1] * 10.0
    z = one + other
    other[1:3] = z[2:4]
    one += other
    return y, z, one, other


def slopes(one: Any, other: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch([one, other])
        y = tf.sin(one) * other
    return tape.gradient(y, [one, other])


def as_tensors(pair: tuple[Any, Any], is_one: bool) -> tuple[Any, Any]:
    """Two tensors over the memory of the pair, or one tensor for both."""
    first = tf.constant(pair[0])
    return first, first if is_one else tf.constant(pair[1])


@pytest.mark.parametrize("function", [weigh, write, slopes], ids=lambda f: f.__name__)
@pytest.mark.parametrize("order", [*itertools.permutations(["apart", "twice", "shifted"])], ids=str)
def test_calls_of_one_program_in_any_order(target: str, function: Any, order: Any) -> None:
    recorded = tf.function(function)
    for name in (*order, "back", *order):
        found = recorded(*as_tensors(pairs(X.copy(), Y.copy())[name], is_one=False))
        expected = function(*as_tensors(pairs(X.copy(), Y.copy())[name], is_one=False))

        for a, b in zip(tf.nest.flatten(found), tf.nest.flatten(expected), strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-12, err_msg=name)


@pytest.mark.parametrize("is_one_first", [False, True])
def test_one_tensor_as_two_arguments(target: str, is_one_first: bool) -> None:
    recorded = tf.function(weigh)
    for is_one in (is_one_first, not is_one_first, is_one_first):
        pair = as_tensors((X, Y), is_one)

        expected = np.exp(X) * 2.0 - (X if is_one else Y) ** 2 + X
        np.testing.assert_allclose(recorded(*pair).numpy(), expected, rtol=1e-12)


def test_arrays_given_are_not_written_to(target: str) -> None:
    recorded = tf.function(write)
    for _ in range(3):
        x = X.copy()
        recorded(tf.constant(x[1:]), tf.constant(x[:-1]))

        np.testing.assert_array_equal(x, X)
