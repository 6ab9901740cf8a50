"""Loops in C over complex numbers compute what NumPy computes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf

rng = np.random.default_rng(4)

FUNCTIONS = {
    "sums and products": lambda z, w, x: z * w - tf.math.conj(z) * 2.0 + (0.5 - 1.5j) * w,
    "a real factor": lambda z, w, x: z * tf.cast(x, z.dtype) + w * 3.0,
    "squares": lambda z, w, x: tf.square(w) - (-z) * z,
    "parts": lambda z, w, x: tf.complex(tf.math.real(z) * x, tf.math.imag(z * w) + x),
    "elsewhere": lambda z, w, x: tf.roll(z, 1, 0) * w + z[::-1] * tf.pad(z, [[1, 0], [0, 0]])[:-1],
    "a row": lambda z, w, x: z[0] * w + z[:, :1],
    "a quotient": lambda z, w, x: z / (w * tf.math.conj(w) + 1.0) + tf.exp(z),
}


def draw(shape: tuple[int, ...], dtype: str) -> Any:
    return tf.constant((rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype))


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(("dtype", "real"), [("complex64", "float32"), ("complex128", "float64")])
def test_values_and_gradients(name: str, dtype: str, real: str) -> None:
    def function(z: Any, w: Any, x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([z, w, x])
            y = FUNCTIONS[name](z, w, x)
            loss = tf.reduce_sum(tf.math.real(y) * x + tf.math.imag(y) ** 2)
        return y, loss, *tape.gradient(loss, [z, w, x])

    z, w = draw((9, 33), dtype), draw((33,), dtype)
    x = tf.constant(rng.normal(size=(9, 33)).astype(real))
    compiled, rtol = tf.function(function), 1e-4 if dtype == "complex64" else 1e-11
    for _ in range(2):
        for one, other in zip(compiled(z, w, x), function(z, w, x), strict=True):
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=rtol, atol=rtol)


def test_elementwise_operations_are_one_loop() -> None:
    function = tf.function(lambda z, w: tf.math.conj(z * w + z) * 2.0 - w)
    z, w = draw((20, 30), "complex64"), draw((30,), "complex64")
    function(z, w)
    (step,) = function.program(z, w).steps
    assert not hasattr(step, "primitive")


def test_infinite_and_undefined_numbers() -> None:
    special = [0.0, -0.0, 1.0, np.inf, -np.inf, np.nan]
    numbers = np.array([complex(a, b) for a in special for b in special])
    z, w = (tf.constant(part) for part in np.meshgrid(numbers, numbers))

    def function(z: Any, w: Any) -> Any:
        return z * w, z + w, z - w, tf.math.conj(z), -z

    with np.errstate(invalid="ignore"):
        for one, other in zip(tf.function(function)(z, w), function(z, w), strict=True):
            for part in ("real", "imag"):
                found, expected = getattr(one.numpy(), part), getattr(other.numpy(), part)
                np.testing.assert_array_equal(found, expected)
                numbers_of = ~np.isnan(expected)
                np.testing.assert_array_equal(
                    np.signbit(found)[numbers_of], np.signbit(expected)[numbers_of]
                )
