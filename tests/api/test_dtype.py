"""Data types: rows D1 to D4, T5 and T6 of the semantics table."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad as tf

FLOATS = ["float16", "float32", "float64"]


def gradient_of(function, x, **keywords):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
    return tape.gradient(y, x, **keywords)


@pytest.mark.parametrize("source", FLOATS)
@pytest.mark.parametrize("target", FLOATS)
def test_D1_the_gradient_of_a_cast_is_cast_back(source, target):
    x = tf.constant(np.array(3.0, source))

    gradient = gradient_of(lambda x: tf.cast(x, target) * 2.0, x)

    assert (gradient.dtype, float(gradient)) == (source, 2.0)


@pytest.mark.parametrize("through", ["int32", "bool", "uint8"])
def test_D1_a_cast_through_an_integer_or_boolean_gives_none(through):
    x = tf.constant(3.0)

    assert gradient_of(lambda x: tf.cast(tf.cast(x, through), "float32"), x) is None


def test_D2_for_a_real_loss_the_gradient_is_the_direction_of_steepest_ascent():
    z = tf.constant(3.0 + 4.0j)

    gradient = gradient_of(lambda z: tf.math.real(z) ** 2 + 5.0 * tf.math.imag(z), z)

    assert complex(gradient) == 6.0 + 5.0j


HOLOMORPHIC = {
    "square": (lambda z: z * z, lambda z: 2 * z),
    "cube": (lambda z: z * z * z, lambda z: 3 * z * z),
    "reciprocal": (lambda z: 1.0 / z, lambda z: -1 / z**2),
    "exp": (lambda z: tf.exp(z), np.exp),
    "sin": (lambda z: tf.sin(z), np.cos),
    "factor": (lambda z: z * (2.0 + 1.0j), lambda z: 2.0 + 1.0j),
}


@pytest.mark.parametrize(("function", "derivative"), HOLOMORPHIC.values(), ids=HOLOMORPHIC)
def test_D2_for_a_holomorphic_function_it_is_the_conjugate_of_the_derivative(function, derivative):
    z = tf.constant(0.5 + 0.25j)

    gradient = gradient_of(function, z)

    assert complex(gradient) == pytest.approx(np.conj(derivative(0.5 + 0.25j)))


def test_D3_a_complex_target_of_a_real_source_keeps_the_real_contribution():
    x = tf.constant(2.0)

    gradient = gradient_of(lambda x: tf.cast(x, "complex64") * (3.0 + 4.0j), x)

    assert (gradient.dtype, float(gradient)) == ("float32", 3.0)


def test_D3_with_an_imaginary_seed_the_other_part_shows():
    x = tf.constant(2.0)

    gradient = gradient_of(
        lambda x: tf.cast(x, "complex64") * (3.0 + 4.0j), x, output_gradients=1.0j
    )

    assert float(gradient) == 4.0


PARTS = {
    "real": (lambda z: tf.math.real(z), 1.0),
    "imag": (lambda z: tf.math.imag(z), 1.0j),
    "conj": (lambda z: tf.math.real(tf.math.conj(z) * 2.0j), -2.0j * -1.0),
    "abs": (lambda z: tf.abs(z), (3.0 + 4.0j) / 5.0),
    "angle": (lambda z: tf.math.angle(z), 1.0j * (3.0 + 4.0j) / 25.0),
}


@pytest.mark.parametrize(("function", "expected"), PARTS.values(), ids=PARTS)
def test_D4_the_parts_of_complex_numbers_have_rules(function, expected):
    gradient = gradient_of(function, tf.constant(3.0 + 4.0j))

    assert complex(gradient) == pytest.approx(expected)


def test_D4_complex_is_the_way_from_two_reals():
    a, b = tf.constant(3.0), tf.constant(4.0)
    with tf.GradientTape() as tape:
        tape.watch([a, b])
        y = tf.abs(tf.complex(a, b))

    assert [float(g) for g in tape.gradient(y, [a, b])] == pytest.approx([0.6, 0.8])


def test_D4_complex_abs_at_zero_gives_zero():
    assert complex(gradient_of(lambda z: tf.abs(z), tf.constant(0.0j))) == 0


PAIRS = [
    ("int32", "float32"),
    ("float32", "float64"),
    ("int32", "int64"),
    ("float16", "float32"),
    ("float32", "complex64"),
    ("bool", "float32"),
    ("uint8", "int8"),
]


@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_T5_dtypes_promote_as_in_numpy(first, second):
    a, b = np.ones(2, first), np.ones(2, second)

    assert (tf.constant(a) * tf.constant(b)).dtype == (a * b).dtype


@pytest.mark.parametrize("dtype", [*FLOATS, "int32", "complex64"])
@pytest.mark.parametrize("number", [2, 2.0, True], ids=repr)
def test_T5_python_numbers_adapt(dtype, number):
    x = np.ones(2, dtype)

    assert (tf.constant(x) * number).dtype == (x * number).dtype


@pytest.mark.parametrize(("first", "second"), [("float32", "float64"), ("float16", "float32")])
def test_T5_gradients_keep_the_dtype_of_their_sources_under_promotion(first, second):
    a, b = tf.constant(np.ones(2, first)), tf.constant(np.ones(2, second))
    with tf.GradientTape() as tape:
        tape.watch([a, b])
        y = a * b + a

    assert [g.dtype.name for g in tape.gradient(y, [a, b])] == [first, second]


def test_T5_a_real_source_of_a_complex_product_has_a_real_gradient():
    x = tf.constant(2.0)

    gradient = gradient_of(lambda x: x * tf.constant(3.0 + 4.0j), x)

    assert gradient.dtype == "float32"


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (1.0, "float32"),
        (1, "int32"),
        (True, "bool"),
        (1j, "complex128"),
        ([1, 2.5], "float32"),
        (np.array(1.0), "float64"),
        (np.float64(1.0), "float64"),
        (np.array(1), "int64"),
        (2**40, "int64"),
    ],
    ids=repr,
)
def test_T6_default_dtypes_follow_tensorflow(value, dtype):
    assert tf.constant(value).dtype == dtype
    assert tf.Variable(value).dtype == dtype
