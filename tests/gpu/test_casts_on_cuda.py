"""Casts of many arrays in one launch, and sweeps that defer casts to their end."""

from __future__ import annotations

import warnings
from typing import Any

import cupy
import ml_dtypes
import numpy as np
import pytest

import tapegrad as tf
from tapegrad_cupy.kernels.casting.multi_casts import cast_many
from tapegrad_cupy.kernels.convolution.filter_layout import is_cudnn_order

DTYPES = [np.dtype(name) for name in ("float16", ml_dtypes.bfloat16, "float32", "float64")]
SHAPES = [(7,), (), (0, 3), (3, 3, 64, 64), (4,), (1025,), (2, 5), (3, 2, 11, 70), (2, 3, 2)]


def last_axis_first(array: Any) -> Any:
    """A copy in the order in which cuDNN has filters."""
    return cupy.moveaxis(cupy.ascontiguousarray(cupy.moveaxis(array, -1, 0)), 0, -1)


@pytest.mark.parametrize(
    "transposed", [0, 1, 5], ids=["in order", "one in cuDNN's order", "several"]
)
@pytest.mark.parametrize("given", DTYPES, ids=str)
@pytest.mark.parametrize("wanted", DTYPES, ids=str)
def test_every_array_is_what_numpy_makes_of_it(given: Any, wanted: Any, transposed: int) -> None:
    rng = np.random.default_rng(0)
    arrays = [(3 * rng.standard_normal(shape)).astype(given) for shape in SHAPES]
    on_device = [cupy.asarray(array) for array in arrays]
    for k in [3, 7, 8][:transposed]:
        on_device[k] = last_axis_first(on_device[k])
        assert is_cudnn_order(on_device[k])

    results = cast_many(on_device, [wanted] * len(arrays))

    for array, result in zip(arrays, results, strict=True):
        assert result.dtype == wanted
        assert result._c_contiguous or given == wanted
        if given.itemsize == 8 and wanted.name == "bfloat16":
            array = array.astype(np.float32)  # as NumPy's bfloat16 does it
        np.testing.assert_array_equal(result.get(), array.astype(wanted))


# Close to the midpoint of two half-precision neighbours; single precision rounds to the midpoint.
BESIDE_TIES = np.array(
    [sign * (1.0 + 2.0**-11 + off) for off in (2.0**-40, -(2.0**-40), 0.0) for sign in (1, -1)]
    + [1.0 + 3 * 2.0**-11 + off for off in (2.0**-40, -(2.0**-40), 0.0)]
    + [2.0**-25 * (1 + off) for off in (2.0**-40, -(2.0**-40), 0.0)]  # of 0 and the least number
    + [65520.0 * (1 + off) for off in (2.0**-40, -(2.0**-40), 0.0)]  # of the largest and infinity
    + [0.0, -0.0, 1e-300, -1e-300, 1e300, np.inf, -np.inf, np.nan],
)


def _cast_by_many(x: Any) -> Any:
    return cast_many([x, x.copy()], [np.dtype("float16")] * 2)[1].get()


@pytest.mark.filterwarnings("ignore:overflow:RuntimeWarning")
@pytest.mark.parametrize(
    "cast",
    [
        _cast_by_many,
        lambda x: tf.cast(tf.constant(x), "float16").numpy(),
        lambda x: tf.function(lambda v: tf.cast(v * 1.0, "float16"))(tf.constant(x)).numpy(),
    ],
    ids=["many at once", "one array", "in a program"],
)
def test_doubles_are_rounded_to_half_precision_once(cast: Any) -> None:
    assert (BESIDE_TIES.astype(np.float16) != BESIDE_TIES.astype(np.float32).astype("f2")).any()

    found = cast(cupy.asarray(BESIDE_TIES))

    wanted = BESIDE_TIES.astype(np.float16)
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(np.signbit(found[:-1]), np.signbit(wanted[:-1]))


def test_more_arrays_than_one_table_holds() -> None:
    arrays = [cupy.full((k % 5 + 1,), k, np.float32) for k in range(300)]

    results = cast_many(arrays, [np.dtype(np.float64)] * 300)

    assert all((result.get() == k).all() for k, result in enumerate(results))


def test_arrays_that_lie_elsewhere_than_in_order_are_cast_too() -> None:
    whole = cupy.arange(24, dtype=np.float32).reshape(4, 6)
    arrays = [whole.T, whole.reshape(-1)[1:], whole, whole[:, ::2]]

    results = cast_many(arrays, [np.dtype(np.float16)] * 4)

    for array, result in zip(arrays, results, strict=True):
        np.testing.assert_array_equal(result.get(), array.get().astype(np.float16))


def test_each_array_gets_a_dtype_of_its_own() -> None:
    arrays = [cupy.ones(3, np.float16), cupy.ones(4, np.float32), cupy.ones(5, np.float16)]

    results = cast_many(arrays, [np.dtype(n) for n in ("float32", "float64", "float64")])

    assert [result.dtype.name for result in results] == ["float32", "float64", "float64"]


def test_gradients_through_casts_arrive_in_the_dtype_of_their_variables() -> None:
    values = [np.linspace(0.5, 1.5, k + 2, dtype=np.float32) for k in range(6)]
    variables = [tf.Variable(cupy.asarray(value)) for value in values]
    with tf.GradientTape() as tape:
        halves = [tf.cast(variable, "bfloat16") for variable in variables]
        loss = tf.add_n([tf.reduce_sum(tf.cast(half, "float32") * 3.0) for half in halves])

    gradients = tape.gradient(loss, variables)

    for value, gradient in zip(values, gradients, strict=True):
        assert gradient.dtype == tf.float32
        np.testing.assert_array_equal(gradient.numpy(), np.full_like(value, 3.0))


@pytest.mark.parametrize("first", ["cast", "plain", "both casts"])
def test_a_variable_that_is_read_twice_gets_the_sum(first: str) -> None:
    x = tf.Variable(cupy.asarray([1.0, 2.0], np.float32))

    def through_cast() -> Any:
        return tf.reduce_sum(tf.cast(tf.cast(x, "float16") * 2.0, "float32"))

    with tf.GradientTape() as tape:
        if first == "cast":
            y = through_cast() + tf.reduce_sum(x * x)
        elif first == "plain":
            y = tf.reduce_sum(x * x) + through_cast()
        else:
            y = through_cast() + through_cast()

    expected = [4.0, 4.0] if first == "both casts" else [4.0, 6.0]
    np.testing.assert_array_equal(tape.gradient(y, x).numpy(), expected)


def test_a_target_may_be_asked_for_only_some_of_its_variables() -> None:
    x, y = (tf.Variable(cupy.asarray([1.0, 2.0], np.float32)) for _ in range(2))
    with tf.GradientTape(persistent=True) as tape:
        z = tf.reduce_sum(tf.cast(x, "float16") * tf.cast(y, "float16"))

    np.testing.assert_array_equal(tape.gradient(z, x).numpy(), [1.0, 2.0])
    np.testing.assert_array_equal(tape.gradient(z, [y])[0].numpy(), [1.0, 2.0])
    both = tape.gradient(z, [x, y])
    assert [g.dtype for g in both] == [tf.float32, tf.float32]


def test_a_complex_gradient_of_a_real_variable_is_its_real_part() -> None:
    x = tf.Variable(cupy.asarray([1.0, 2.0], np.float32))
    with tf.GradientTape() as tape:
        z = tf.cast(x, "complex64")
        y = tf.math.real(tf.reduce_sum(z * z * (1.0 + 1.0j)))

    with warnings.catch_warnings():
        warnings.simplefilter("error", np.exceptions.ComplexWarning)
        gradient = tape.gradient(y, x)

    np.testing.assert_allclose(gradient.numpy(), [2.0, 4.0])
