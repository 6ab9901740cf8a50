"""What stands next to the tape: rows N1, N3 and N9 of the semantics table.

Clipping (N5 to N7) and optimizers (N8) have files of their own.
"""

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


def test_N9_the_functional_helpers_exist():
    for name in ("grad", "value_and_grad", "vjp", "jvp"):
        assert callable(getattr(tf, name))
