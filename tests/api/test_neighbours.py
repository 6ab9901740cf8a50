"""Hessians, per-example gradients, numeric gradients and clipping with tapes."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad as tf


@pytest.fixture
def x():
    return tf.constant([1.0, 2.0])


def cubes(x):
    return tf.reduce_sum(x * x * x)


def test_N1_the_tape_has_a_hessian(x):
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = cubes(x)

    assert tape.hessian(y, x).numpy().tolist() == [[6.0, 0.0], [0.0, 12.0]]


def test_N1_the_tape_has_a_hessian_vector_product(x):
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = cubes(x)

    assert tape.hvp(y, x, tf.constant([1.0, 10.0])).numpy().tolist() == [6.0, 120.0]


@pytest.mark.filterwarnings("ignore:Calling gradient")
def test_N1_both_work_inside_the_block(x):
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = cubes(x)
        hessian, product = tape.hessian(y, x), tape.hvp(y, x, [1.0, 10.0])

    assert hessian.numpy().tolist() == [[6.0, 0.0], [0.0, 12.0]]
    assert product.numpy().tolist() == [6.0, 120.0]


def test_N1_for_variables_too():
    v = tf.Variable([1.0, 2.0])
    with tf.GradientTape(persistent=True) as tape:
        y = cubes(v)

    assert tape.hessian(y, v).numpy().tolist() == [[6.0, 0.0], [0.0, 12.0]]


def test_N1_the_hessian_of_a_linear_function_is_zero(x):
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = tf.reduce_sum(x * 2.0)

    assert tape.hessian(y, x).numpy().tolist() == [[0.0, 0.0], [0.0, 0.0]]


@pytest.mark.parametrize("method", ["hessian", "hvp"])
def test_N1_they_need_a_persistent_tape(x, method):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = cubes(x)

    with pytest.raises(RuntimeError, match=rf"{method}\(\) needs GradientTape\(persistent=True\)"):
        getattr(tape, method)(y, x, *([x] if method == "hvp" else []))


@pytest.mark.parametrize("method", ["hessian", "hvp"])
def test_N1_they_need_a_scalar_target(x, method):
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x

    with pytest.raises(ValueError, match=r"scalar target. Got shape \(2,\)"):
        getattr(tape, method)(y, x, *([x] if method == "hvp" else []))


@pytest.mark.parametrize("method", ["hessian", "hvp"])
@pytest.mark.parametrize("argument", ["target", "source"])
def test_N1_other_values_are_refused_by_type(x, method, argument):
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = cubes(x)
    arguments = {"target": y, "source": x, argument: 3.0}

    with pytest.raises(TypeError, match=f"{argument}.*float"):
        getattr(tape, method)(*arguments.values(), *([x] if method == "hvp" else []))


def test_N3_per_example_gradients_by_a_tape_inside_vmap():
    w = tf.Variable([1.0, 2.0])

    def gradient(row):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(w * row) ** 2
        return tape.gradient(loss, w)

    rows = np.array([[1.0, 0.0], [1.0, 1.0], [0.0, 3.0]], "float32")
    expected = 2 * (rows @ [1.0, 2.0])[:, None] * rows

    np.testing.assert_allclose(tf.vmap(gradient)(rows).numpy(), expected)


def test_N3_vectorized_map_is_tensorflows_name_for_it(x):
    assert tf.vectorized_map(lambda a: a * 2.0, x).numpy().tolist() == [2.0, 4.0]


def test_N4_compute_gradient_gives_analytic_and_numeric_jacobians():
    x = tf.constant(np.array([1.0, 2.0]))

    analytic, numeric = tf.test.compute_gradient(lambda x: x * x * x, [x], delta=1e-4)

    assert analytic[0].tolist() == [[3.0, 0.0], [0.0, 12.0]]
    np.testing.assert_allclose(numeric[0], analytic[0], atol=1e-6)


def test_N4_complex_values_count_double():
    z = tf.constant(np.array([1.0 + 2.0j]))

    analytic, numeric = tf.test.compute_gradient(lambda z: z * z, [z], delta=1e-4)

    assert analytic[0].shape == (2, 2)
    np.testing.assert_allclose(numeric[0], analytic[0], atol=1e-6)


def test_N4_one_argument_must_be_in_a_list(x):
    with pytest.raises(ValueError, match=r"list or tuple.*Tensor"):
        tf.test.compute_gradient(lambda x: x, x)


def test_N5_clip_by_value_limits_every_element():
    x = tf.Variable([-3.0, 0.5, 3.0])
    with tf.GradientTape() as tape:
        y = tf.clip_by_value(x, -1.0, 1.0)

    assert y.numpy().tolist() == [-1.0, 0.5, 1.0]
    assert tape.gradient(y, x).numpy().tolist() == [0.0, 1.0, 0.0]


def test_N5_clip_by_value_may_not_stretch_its_argument(x):
    with pytest.raises(ValueError, match=r"\(2,\)"):
        tf.clip_by_value(x, tf.constant([[0.0, 0.0], [0.0, 0.0]]), 1.0)


def sparse_gradient():
    table = tf.Variable([[3.0], [4.0]])
    with tf.GradientTape() as tape:
        y = tf.gather(table, [1]) * 5.0
    return tape.gradient(y, table)


def test_N5_clip_by_value_takes_sparse_gradients():
    assert tf.clip_by_value(sparse_gradient(), -1.0, 1.0).numpy().tolist() == [[0.0], [1.0]]


@pytest.mark.parametrize(
    ("limit", "expected"), [(1.0, [0.6, 0.8]), (10.0, [3.0, 4.0]), (-1.0, [0.0, 0.0])]
)
def test_N6_clip_by_norm_scales_down_to_the_limit(limit, expected):
    clipped = tf.clip_by_norm(tf.constant(np.array([3.0, 4.0])), limit)

    np.testing.assert_allclose(clipped.numpy(), expected)


def test_N6_clip_by_norm_along_axes():
    clipped = tf.clip_by_norm(tf.constant(np.array([[3.0, 4.0], [0.3, 0.4]])), 1.0, axes=[1])

    np.testing.assert_allclose(clipped.numpy(), [[0.6, 0.8], [0.3, 0.4]])


def test_N7_clip_by_global_norm_scales_all_and_gives_the_norm():
    clipped, norm = tf.clip_by_global_norm([tf.constant([3.0]), None, tf.constant([4.0])], 1.0)

    assert float(norm) == 5.0
    assert clipped[1] is None
    np.testing.assert_allclose([float(clipped[0]), float(clipped[2])], [0.6, 0.8], rtol=1e-6)


def test_N7_a_norm_that_is_not_finite_makes_everything_nan():
    clipped, norm = tf.clip_by_global_norm([tf.constant([np.inf]), tf.constant([1.0])], 1.0)

    assert np.isinf(float(norm))
    assert np.isnan(float(clipped[1]))


def test_N7_a_norm_that_is_known_can_be_given():
    clipped, norm = tf.clip_by_global_norm([tf.constant([4.0])], 1.0, use_norm=2.0)

    assert (float(clipped[0]), float(norm)) == (2.0, 2.0)


def test_N7_one_tensor_is_refused(x):
    with pytest.raises(TypeError, match=r"list of tensors. Got Tensor"):
        tf.clip_by_global_norm(x, 1.0)


def test_N7_global_norm_skips_none():
    assert float(tf.linalg.global_norm([tf.constant([3.0]), None, tf.constant([4.0])])) == 5.0


def test_N9_the_functional_helpers_exist():
    for name in ("grad", "value_and_grad", "vjp", "jvp"):
        assert callable(getattr(tf, name))
