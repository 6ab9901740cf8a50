"""NumPy functions called on tensors are recorded, unlike in TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad as tf


def gradient_of(function):
    x = tf.constant([1.0, 2.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
    assert isinstance(y, tf.Tensor)
    return tape.gradient(y, x).numpy().tolist()


@pytest.mark.parametrize(
    ("function", "expected"),
    [(np.mean, [0.5, 0.5]), (np.sum, [1.0, 1.0]), (np.max, [0.0, 1.0])],
    ids=["mean", "sum", "max"],
)
def test_numpy_functions_are_recorded(function, expected):
    assert gradient_of(function) == expected


def test_numpy_ufuncs_are_recorded():
    assert gradient_of(np.square) == [2.0, 4.0]


def test_numpy_functions_of_several_tensors_are_recorded():
    assert gradient_of(lambda x: np.concatenate([x, x * 2.0])) == [3.0, 3.0]


def test_an_array_and_a_tensor_make_a_tensor():
    assert gradient_of(lambda x: np.array([3.0, 4.0], "float32") * x) == [3.0, 4.0]
