"""Data types."""

from __future__ import annotations

import operator
import os
import pickle
import subprocess
import sys

import ml_dtypes
import numpy as np
import pytest

import tapegrad as tf
from tapegrad.core.values import dtypes

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


MIXED = {
    "add": lambda x, y: x + y,
    "multiply": lambda x, y: x * y,
    "divide": lambda x, y: y / x,
    "power": lambda x, y: x**y,
    "maximum": tf.maximum,
    "where": lambda x, y: tf.where(np.array([[True], [False]]), x, y),
    "matmul": lambda x, y: x @ y,
    "einsum": lambda x, y: tf.einsum("ij,jk->ik", x, y),
    "concat": lambda x, y: tf.concat([x, y], 0),
}


@pytest.mark.parametrize("name", MIXED)
@pytest.mark.parametrize("shape", [(2, 2), (1, 2)], ids=str)
@pytest.mark.parametrize(
    ("first", "second"), [("float32", "float64"), ("float16", "float32"), ("float32", "complex64")]
)
def test_T5_the_cotangent_of_an_intermediate_value_has_its_shape_and_dtype(
    first, second, shape, name
):
    seen = []

    @tf.custom_gradient
    def noting(x):
        def gradient(upstream):
            seen.append((upstream.shape, upstream.dtype.name))
            return upstream

        return tf.identity(x), gradient

    other = tf.constant(np.array([[1.0, 0.5], [0.25, 2.0]], second))
    gradient_of(
        lambda x: tf.math.real(MIXED[name](noting(x), other)),
        tf.constant(np.full(shape, 1.5, first)),
    )

    assert seen == [(shape, first)]


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


# bfloat16 on NumPy, by ml_dtypes


OPERATORS = [
    *(operator.add, operator.sub, operator.mul, operator.truediv),
    *(operator.pow, operator.floordiv, operator.mod),
]
COMPARISONS = [operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne]


def rounded(values):
    """Values as bfloat16 holds them, computed with in float64."""
    return np.asarray(values).astype(ml_dtypes.bfloat16).astype("float64")


def by_name(function):
    return function.__name__


@pytest.mark.parametrize("shape", [(4,), ()], ids=["array", "number"])
@pytest.mark.parametrize("number", [0.3, 3, True], ids=repr)
@pytest.mark.parametrize("apply", OPERATORS, ids=by_name)
def test_T5_python_numbers_adapt_to_bfloat16_on_either_side(apply, number, shape):
    values = rounded(np.resize([0.7, 1.3, 2.9, 5.1], shape))
    x = tf.constant(values, "bfloat16")

    results = [apply(x, number), apply(number, x)]

    wanted = [apply(values, rounded(number)), apply(rounded(number), values)]
    for result, exact in zip(results, wanted, strict=True):
        assert result.dtype == "bfloat16"
        np.testing.assert_allclose(result.numpy().astype("float64"), exact, 2**-7)


@pytest.mark.parametrize("compare", COMPARISONS, ids=by_name)
def test_T5_bfloat16_compares_with_python_numbers_as_they_are_in_bfloat16(compare):
    values = rounded([0.1, 0.2, 0.3])
    x = tf.constant(values, "bfloat16")

    assert compare(x, 0.2).numpy().tolist() == compare(values, rounded(0.2)).tolist()
    assert compare(0.2, x).numpy().tolist() == compare(rounded(0.2), values).tolist()


KEEPS = {
    "where": lambda x: tf.where(x > 0, x, 0.5),
    "where, number first": lambda x: tf.where(x > 0, 0.5, x),
    "maximum": lambda x: tf.maximum(x, 0.5),
    "minimum": lambda x: tf.minimum(0.5, x),
    "clip": lambda x: tf.clip_by_value(x, -0.5, 0.5),
    "atan2": lambda x: tf.math.atan2(x, 0.5),
    "squared difference": lambda x: tf.math.squared_difference(x, 0.5),
    "power": lambda x: tf.abs(x) ** 2.5,
    "leaky relu": lambda x: tf.nn.leaky_relu(x),
    "elu": lambda x: tf.nn.elu(x),
    "softmax": lambda x: tf.nn.softmax(x),
    "sum": lambda x: tf.reduce_sum(x),
    "mean": lambda x: tf.reduce_mean(x),
    "deviation": lambda x: tf.math.reduce_std(x),
    "segment maximum": lambda x: tf.math.segment_max(x, [0, 0, 2]),
    "product with a vector": lambda x: tf.linalg.matvec(tf.stack([x, x]), x),
    "cast there and back": lambda x: tf.cast(tf.cast(x, "float32") * 0.5, "bfloat16"),
    "a variable": lambda x: tf.Variable(x) * 0.5,
}


@pytest.mark.parametrize("function", KEEPS.values(), ids=KEEPS)
def test_T5_functions_of_bfloat16_and_numbers_stay_in_bfloat16(function):
    values = rounded([-1.5, 0.25, 3.0])

    result = function(tf.constant(values, "bfloat16"))

    assert result.dtype == "bfloat16"
    wide = function(tf.constant(values)).numpy()
    np.testing.assert_allclose(result.numpy().astype("float64"), wide, 2**-6, 2**-7)


@pytest.mark.parametrize("function", [lambda x: x * x * 2.0, lambda x: tf.tanh(x) / 3.0])
def test_the_gradient_of_bfloat16_is_bfloat16(function):
    x = tf.constant([0.5, -1.5], "bfloat16")

    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)

    assert tape.gradient(y, x).dtype == "bfloat16"


def test_the_dropout_of_bfloat16_stays_in_bfloat16():
    result = tf.nn.dropout(tf.ones([100], "bfloat16"), 0.75, seed=1)

    assert result.dtype == "bfloat16"
    assert set(result.numpy().tolist()) == {0.0, 4.0}


def test_a_sparse_step_moves_rows_of_bfloat16():
    v = tf.Variable(np.ones((3, 2)), dtype="bfloat16")
    rows = tf.IndexedSlices(tf.ones([2, 2], "bfloat16"), tf.constant([2, 2]), (3, 2))

    tf.optimizers.SGD(0.25).apply_gradients([(rows, v)])

    assert v.dtype == "bfloat16"
    assert v.numpy()[:, 0].tolist() == [1.0, 1.0, 0.5]


def test_bfloat16_has_limits():
    assert float(tf.as_dtype("bfloat16").max) == pytest.approx(3.39e38, rel=1e-3)
    assert float(tf.as_dtype("bfloat16").min) == pytest.approx(-3.39e38, rel=1e-3)


def run_python(*lines):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", "\n".join(lines)]
    return subprocess.run(
        command, env=environment, check=True, capture_output=True, text=True
    ).stdout


def test_bfloat16_is_a_name_like_those_of_the_other_dtypes():
    assert tf.bfloat16 is tf.dtypes.bfloat16 is tf.as_dtype("bfloat16")
    assert tf.cast([1.5], tf.bfloat16).dtype == tf.bfloat16
    with pytest.raises(AttributeError, match="no attribute 'bfloat17'"):
        tf.dtypes.bfloat17  # noqa: B018


def test_bfloat16_is_loaded_when_its_name_is_asked_for():
    output = run_python(
        "import sys",
        "sys.modules['cupy'] = None",  # which would load ml_dtypes
        "import tapegrad as tf",
        "tf.constant([1.5]) * 2.0",
        "print('ml_dtypes' in sys.modules)",
        "y = tf.constant([1.5], 'bfloat16') * 2.0",
        "print(y.dtype, float(y[0]))",
    )

    assert output.split() == ["False", "bfloat16", "3.0"]


def test_a_pickled_bfloat16_adapts_numbers_in_a_new_process():
    pickled = pickle.dumps(tf.constant([1.5], "bfloat16"))

    output = run_python(
        "import pickle, tapegrad as tf",
        "tf.constant([1.5]) * 2.0",
        f"print((pickle.loads({pickled!r}) * 2.0).dtype)",
    )

    assert output.split() == ["bfloat16"]


def test_the_setup_for_bfloat16_waits_for_its_first_use(monkeypatch):
    types = {kind for kind in dtypes._allowed_types if kind is not ml_dtypes.bfloat16}
    monkeypatch.setattr(dtypes, "_allowed_types", types)
    monkeypatch.setattr(dtypes, "_await_bfloat16", [])
    done = []

    dtypes.when_bfloat16_is_met(lambda: done.append("early"))
    dtypes.refuse_unsupported(np.dtype("float32"))
    assert done == []

    dtypes.refuse_unsupported(np.dtype(ml_dtypes.bfloat16))
    assert done == ["early"]

    dtypes.when_bfloat16_is_met(lambda: done.append("late"))
    dtypes.refuse_unsupported(np.dtype(ml_dtypes.bfloat16))
    assert done == ["early", "late"]


def test_without_ml_dtypes_a_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "ml_dtypes", None)

    with pytest.raises(TypeError, match=r"bfloat16 needs ml_dtypes.* pip install ml_dtypes"):
        tf.zeros([1], "bfloat16")


def test_a_cast_to_the_same_dtype_copies_nothing_and_is_a_tensor_of_its_own():
    x = tf.constant([1.0, 2.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        same = tf.cast(x, "float32")
        assert same.array is x.array
        y = tf.reduce_sum(same * same)
    same[0] = 5.0

    assert x.numpy().tolist() == [1.0, 2.0]
    assert tape.gradient(y, x).numpy().tolist() == [2.0, 4.0]


BIG_ENDIAN = np.array([1.0, 2.0, 3.0], ">f4")


@pytest.mark.parametrize(
    "made",
    [
        lambda: tf.constant(BIG_ENDIAN),
        lambda: tf.Variable(BIG_ENDIAN).value(),
        lambda: tf.numpy.asarray(BIG_ENDIAN),
        lambda: tf.numpy.arange(1, 4, dtype=">f4"),
        lambda: tf.cast(tf.constant([1, 2, 3]), np.dtype(">f4")),
        lambda: tf.numpy.frombuffer(BIG_ENDIAN.tobytes(), dtype=">f4"),
        lambda: tf.function(lambda x: x)(BIG_ENDIAN),
        lambda: tf.function(lambda x, y: x * y)(tf.ones(3), BIG_ENDIAN),
        lambda: tf.function(lambda x: x * BIG_ENDIAN)(tf.ones(3)),
        lambda: tf.function(tf.gather)(BIG_ENDIAN, np.array([0, 1, 2], ">i4")),
        lambda: next(iter(tf.data.Dataset.from_tensor_slices(BIG_ENDIAN).batch(3))),
    ],
)
def test_tensors_have_the_byte_order_of_the_machine(made):
    x = made()

    assert x.numpy().tolist() == [1.0, 2.0, 3.0]
    assert x.numpy().dtype.isnative
    assert x.dtype == "float32"


def test_dtypes_answer_what_programs_ask() -> None:
    for one in (tf.float32, tf.int8, tf.bool, tf.complex64):
        assert one.base_dtype is one
        assert one.is_compatible_with(one.name)
        assert one.is_unsigned is (np.dtype(one.name).kind == "u")
    assert tf.uint16.is_unsigned
    assert tf.string.base_dtype.is_compatible_with("string")
    assert not tf.float32.is_compatible_with(tf.float64)
