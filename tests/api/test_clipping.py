"""Clipping: clip_by_value, clip_by_norm and clip_by_global_norm."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad as tf


def slices(values, indices, rows=3):
    return tf.IndexedSlices(tf.constant(values), tf.constant(indices), (rows, 1))


# clip_by_value


def test_N5_values_are_limited_to_the_interval():
    result = tf.clip_by_value(tf.constant([-2.0, 0.5, 3.0]), -1.0, 1.0)

    assert result.numpy().tolist() == [-1.0, 0.5, 1.0]


def test_N5_bounds_may_be_tensors_but_must_not_widen_the_tensor():
    t = tf.constant([1.0, 5.0])

    assert tf.clip_by_value(t, [0.0, 6.0], [0.5, 7.0]).numpy().tolist() == [0.5, 6.0]
    with pytest.raises(ValueError, match="must broadcast to the tensor's shape"):
        tf.clip_by_value(t, tf.zeros([2, 2]), 1.0)


def test_N5_indexed_slices_are_clipped_as_the_tensor_they_stand_for():
    result = tf.clip_by_value(slices([[1.0], [2.0]], [1, 1]), -2.5, 2.5)

    assert result.numpy().tolist() == [[0.0], [2.5], [0.0]]


def test_N5_the_gradient_passes_inside_and_on_the_bounds():
    gradient = tf.grad(lambda x: tf.reduce_sum(tf.clip_by_value(x, -1.0, 1.0)))

    assert gradient(tf.constant([-2.0, -1.0, 0.0, 1.0, 2.0])).numpy().tolist() == [0, 1, 1, 1, 0]


# clip_by_norm


@pytest.mark.parametrize(
    ("t", "limit", "expected"),
    [
        ([3.0, 4.0], 2.5, [1.5, 2.0]),
        ([3.0, 4.0], 5.0, [3.0, 4.0]),
        ([3.0, 4.0], 7.0, [3.0, 4.0]),
        ([3.0, 4.0], 0.0, [0.0, 0.0]),
        ([3.0, 4.0], -1.0, [0.0, 0.0]),
        ([3.0, 4.0], float("inf"), [3.0, 4.0]),
        ([0.0, 0.0], 1.0, [0.0, 0.0]),
        ([0.0, 0.0], 0.0, [0.0, 0.0]),
        ([float("nan"), 1.0], 1.0, [float("nan"), float("nan")]),
        ([], 1.0, []),
    ],
)
@pytest.mark.parametrize("kind", [float, tf.constant], ids=["number", "tensor"])
def test_N6_the_norm_is_limited(t, limit, expected, kind):
    result = tf.clip_by_norm(tf.constant(t), kind(limit))

    np.testing.assert_array_equal(result.numpy(), np.array(expected, "float32"))


def test_N6_the_norm_may_be_taken_over_some_axes():
    t = tf.constant([[3.0, 4.0], [0.3, 0.4]])

    np.testing.assert_allclose(
        tf.clip_by_norm(t, 1.0, axes=[1]).numpy(), [[0.6, 0.8], [0.3, 0.4]], 1e-6
    )


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "complex64", "complex128"])
def test_N6_the_dtype_stays(dtype):
    result = tf.clip_by_norm(tf.constant([3.0, 4.0], dtype), 2.5)

    assert result.dtype == dtype
    np.testing.assert_allclose(result.numpy(), [1.5, 2.0], 1e-3)


@pytest.mark.parametrize("limit", [1.0, 100.0])
def test_N6_the_gradient_agrees_with_differences(limit):
    x = tf.constant([1.0, -2.0, 3.0], "float64")

    error = tf.test.max_error(*tf.test.compute_gradient(lambda x: tf.clip_by_norm(x, limit), [x]))

    assert error < 1e-6


@pytest.mark.parametrize("limit", [1.0, float("inf")])
def test_N6_the_gradient_at_zero_is_one(limit):
    gradient = tf.grad(lambda x: tf.reduce_sum(tf.clip_by_norm(x, limit)))(tf.zeros([2]))

    assert gradient.numpy().tolist() == [1.0, 1.0]


def test_N6_repeated_rows_count_as_their_sum():
    result = tf.clip_by_norm(slices([[3.0], [-3.0], [4.0]], [0, 0, 2]), 2.0)

    assert isinstance(result, tf.IndexedSlices)
    assert result.numpy().tolist() == [[0.0], [0.0], [2.0]]


# clip_by_global_norm


def values(tensors):
    return [None if t is None else t.numpy().tolist() for t in tensors]


def test_N7_all_tensors_are_scaled_by_one_factor():
    clipped, norm = tf.clip_by_global_norm([tf.constant([3.0]), None, tf.constant([[4.0]])], 2.5)

    assert values(clipped) == [[1.5], None, [[2.0]]]
    assert float(norm) == 5.0


@pytest.mark.parametrize("limit", [5.0, 6.0, float("inf")])
def test_N7_a_norm_within_the_limit_changes_nothing(limit):
    clipped, norm = tf.clip_by_global_norm((tf.constant([3.0]), tf.constant([4.0])), limit)

    assert values(clipped) == [[3.0], [4.0]]
    assert float(norm) == 5.0


@pytest.mark.parametrize("bad", [float("inf"), float("nan")])
def test_N7_a_norm_that_is_not_finite_makes_everything_nan(bad):
    clipped, norm = tf.clip_by_global_norm([tf.constant([bad]), tf.constant([1.0])], 1.0)

    assert np.isnan(values(clipped)).all()
    assert not np.isfinite(float(norm))


def test_N7_the_norm_can_be_given():
    clipped, norm = tf.clip_by_global_norm([tf.constant([3.0])], 2.0, use_norm=tf.constant(6.0))

    assert (values(clipped), float(norm)) == ([[1.0]], 6.0)


def test_N7_indexed_slices_stay_sparse():
    rows = slices([[1.0], [2.0]], [2, 2])

    clipped, norm = tf.clip_by_global_norm([rows, tf.constant([4.0])], 2.5)

    assert isinstance(clipped[0], tf.IndexedSlices)
    assert values(clipped) == [[[0.0], [0.0], [1.5]], [2.0]]
    assert float(norm) == float(tf.linalg.global_norm([rows, tf.constant([4.0])])) == 5.0


def test_N7_each_tensor_keeps_its_dtype():
    clipped, _ = tf.clip_by_global_norm([tf.constant([3.0]), tf.constant([4.0], "float64")], 1.0)

    assert [t.dtype for t in clipped] == ["float32", "float64"]


@pytest.mark.parametrize("t_list", [[], [None, None]], ids=str)
def test_N7_nothing_has_norm_zero(t_list):
    clipped, norm = tf.clip_by_global_norm(t_list, 1.0)

    assert (clipped, float(norm)) == (t_list, 0.0)


def test_N7_one_tensor_alone_is_refused():
    with pytest.raises(TypeError, match=r"expects a list of tensors. Got Tensor; wrap one"):
        tf.clip_by_global_norm(tf.constant([1.0]), 1.0)


def test_N7_gradients_flow_through_the_factor():
    x = tf.constant([1.0, -2.0, 3.0], "float64")

    def clipped(x):
        return tf.concat(tf.clip_by_global_norm([x, 2.0 * x], 1.0)[0], 0)

    assert tf.test.max_error(*tf.test.compute_gradient(clipped, [x])) < 1e-6
