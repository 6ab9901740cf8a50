"""Forward mode."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.extend import PRIMITIVES, Primitive


@pytest.fixture
def x():
    return tf.constant(3.0)


@pytest.fixture
def one():
    return tf.constant(1.0)


def test_F1_primals_and_tangents_are_nests_of_equal_structure():
    a, b = tf.constant(2.0), tf.constant(5.0)
    with tf.autodiff.ForwardAccumulator({"a": a, "b": [b]}, {"a": 1.0, "b": [10.0]}) as accumulator:
        y = a * b

    assert float(accumulator.jvp(y)) == 5.0 + 20.0


@pytest.mark.parametrize("tangent", [1.0, 1, np.array(1.0), np.float64(1.0)])
def test_F1_tangents_take_the_dtype_of_their_primal(x, tangent):
    with tf.autodiff.ForwardAccumulator(x, tangent) as accumulator:
        y = x * x

    assert accumulator.jvp(y).dtype == "float32"
    assert float(accumulator.jvp(y)) == 6.0


def test_F1_a_tensor_tangent_of_another_dtype_is_cast(x):
    with tf.autodiff.ForwardAccumulator(x, tf.constant(1.0, dtype="float64")) as accumulator:
        y = x * x

    assert accumulator.jvp(y).dtype == "float32"


@pytest.mark.parametrize(
    ("tangents", "error"), [([1.0], ValueError), ((1.0, 1.0), TypeError), (1.0, TypeError)]
)
def test_F1_other_structures_are_refused(x, one, tangents, error):
    with pytest.raises(error, match="structures differ"):
        tf.autodiff.ForwardAccumulator([x, one], tangents)


def test_F1_a_primal_given_twice_is_refused(x):
    with pytest.raises(ValueError, match="multiple times"):
        tf.autodiff.ForwardAccumulator([x, x], [1.0, 1.0])


def test_F1_the_shape_of_a_tangent_is_checked(x):
    with pytest.raises(ValueError, match=r"Tangent 0.*shape \(\). Got \(2,\)"):
        tf.autodiff.ForwardAccumulator(x, tf.constant([1.0, 2.0]))


def test_F1_a_refused_accumulator_follows_nothing(x, one):
    with pytest.raises(ValueError, match="Tangent 1"):
        tf.autodiff.ForwardAccumulator([x, one], [1.0, np.ones(2)])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x

    assert float(tape.gradient(y, x)) == 6.0


def test_F1_a_variable_is_a_primal(one):
    v = tf.Variable(3.0)
    with tf.autodiff.ForwardAccumulator(v, one) as accumulator:
        y = v * v

    assert float(accumulator.jvp(y)) == 6.0


def test_F2_an_integer_primal_warns():
    with pytest.warns(UserWarning, match="int32"):
        tf.autodiff.ForwardAccumulator(tf.constant(3), tf.constant(1))


def test_F3_only_operations_inside_the_block_propagate(x, one):
    with tf.autodiff.ForwardAccumulator(x, one) as accumulator:
        y = x * x
    z = y * y

    assert accumulator.jvp(z) is None


def test_F3_it_can_be_entered_again(x, one):
    accumulator = tf.autodiff.ForwardAccumulator(x, one)
    with accumulator:
        y = x * x
    with accumulator:
        z = y * x

    assert float(accumulator.jvp(z)) == 27.0


def test_F3_entering_an_active_accumulator_is_refused(x, one):
    with (
        tf.autodiff.ForwardAccumulator(x, one) as accumulator,
        pytest.raises(ValueError, match="already recording"),
    ):
        accumulator.__enter__()


def test_F3_an_exception_leaves_no_active_accumulator(x, one):
    with pytest.raises(KeyError), tf.autodiff.ForwardAccumulator(x, one) as accumulator:
        raise KeyError

    assert accumulator.jvp(x * x) is None


def test_F4_jvp_is_a_lookup_inside_and_after_the_block(x, one):
    with tf.autodiff.ForwardAccumulator(x, one) as accumulator:
        y = x * x
        inside = accumulator.jvp(y)

    assert [float(t) for t in (inside, accumulator.jvp(y), accumulator.jvp(y))] == [6.0] * 3


def test_F4_jvp_takes_any_nest(x, one):
    with tf.autodiff.ForwardAccumulator(x, one) as accumulator:
        values = {"a": x * x, "b": (x * 2.0,)}
    tangents = accumulator.jvp(values)

    assert (float(tangents["a"]), float(tangents["b"][0])) == (6.0, 2.0)


def test_F4_a_primal_returns_its_tangent(x):
    assert float(tf.autodiff.ForwardAccumulator(x, 7.0).jvp(x)) == 7.0


def test_F4_unknown_values_give_none_or_zeros(x, one):
    other = tf.constant([1.0, 2.0])
    accumulator = tf.autodiff.ForwardAccumulator(x, one)

    assert accumulator.jvp(other) is None
    zeros = accumulator.jvp(other, unconnected_gradients=tf.UnconnectedGradients.ZERO)
    assert zeros.numpy().tolist() == [0.0, 0.0]


def test_F4_other_modes_are_refused(x, one):
    with pytest.raises(ValueError, match="'none' or 'zero'"):
        tf.autodiff.ForwardAccumulator(x, one).jvp(x, unconnected_gradients="nought")


def test_F4_a_value_that_is_no_tensor_is_refused_by_type(x, one):
    with pytest.raises(TypeError, match=r"primals.*float"):
        tf.autodiff.ForwardAccumulator(x, one).jvp(3.0)


def test_F5_unwatched_inputs_count_as_zero_tangents(x, one):
    w = tf.constant(5.0)
    with tf.autodiff.ForwardAccumulator(x, one) as accumulator:
        y = x * w + w

    assert float(accumulator.jvp(y)) == 5.0


def test_F6_tangents_die_with_their_values(x, one):
    with tf.autodiff.ForwardAccumulator(x, one) as accumulator:
        gc.disable()
        try:
            y = x * x
            tangent = weakref.ref(accumulator.jvp(y))
            assert tangent() is not None
            del y
            assert tangent() is None
        finally:
            gc.enable()


def test_F7_second_order_is_the_outer_of_the_inner(x, one):
    with (
        tf.autodiff.ForwardAccumulator(x, one) as outer,
        tf.autodiff.ForwardAccumulator(x, one) as inner,
    ):
        y = x * x * x

    assert float(outer.jvp(inner.jvp(y))) == 18.0


def test_F7_the_other_way_round_is_none(x, one):
    with (
        tf.autodiff.ForwardAccumulator(x, one) as outer,
        tf.autodiff.ForwardAccumulator(x, one) as inner,
    ):
        y = x * x * x

    assert inner.jvp(outer.jvp(y)) is None


def test_F7_third_order(x, one):
    with (
        tf.autodiff.ForwardAccumulator(x, one) as first,
        tf.autodiff.ForwardAccumulator(x, one) as second,
        tf.autodiff.ForwardAccumulator(x, one) as third,
    ):
        y = x * x * x * x

    assert float(first.jvp(second.jvp(third.jvp(y)))) == 24.0 * 3.0


def test_F8_accumulator_around_tape_gives_a_hessian_vector_product(x, one):
    with tf.autodiff.ForwardAccumulator(x, one) as accumulator:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x * x * x
        gradient = tape.gradient(y, x)

    assert float(accumulator.jvp(gradient)) == 18.0


def test_F8_with_variables_too():
    v = tf.Variable([1.0, 2.0])
    with tf.autodiff.ForwardAccumulator(v, tf.constant([1.0, 0.0])) as accumulator:
        with tf.GradientTape() as tape:
            y = tf.reduce_sum(v * v * v)
        gradient = tape.gradient(y, v)

    assert accumulator.jvp(gradient).numpy().tolist() == [6.0, 0.0]


def test_F8_the_tape_inside_ignores_tangent_arithmetic(x, one):
    with tf.autodiff.ForwardAccumulator(x, one) as accumulator, tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x * x

    assert tape.gradient(accumulator.jvp(y), x) is None


def test_F8_tape_around_accumulator_differentiates_the_tangent(x, one):
    with tf.GradientTape() as tape:
        tape.watch(x)
        with tf.autodiff.ForwardAccumulator(x, one) as accumulator:
            y = x * x * x
        tangent = accumulator.jvp(y)

    assert float(tape.gradient(tangent, x)) == 18.0


def test_F8_the_order_of_entering_counts_not_of_construction(x, one):
    accumulator = tf.autodiff.ForwardAccumulator(x, one)
    with tf.GradientTape() as tape:
        tape.watch(x)
        with accumulator:
            y = x * x * x
        tangent = accumulator.jvp(y)

    assert float(tape.gradient(tangent, x)) == 18.0


def test_F9_a_rule_derived_by_transposition_agrees(x, one):
    cube = Primitive("cube_without_jvp", lambda xp, a: a * a * a)
    cube.vjps(lambda t, x: t * x * x * 3.0)
    with (
        tf.autodiff.ForwardAccumulator(x, one) as outer,
        tf.autodiff.ForwardAccumulator(x, one) as inner,
    ):
        y = cube(x)
    del PRIMITIVES["cube_without_jvp"]

    assert [float(inner.jvp(y)), float(outer.jvp(inner.jvp(y)))] == [27.0, 18.0]


def test_F10_the_custom_rule_is_used(x, one):
    @tf.custom_gradient
    def tenfold(x):
        return x * x, lambda upstream: upstream * 10.0

    with tf.autodiff.ForwardAccumulator(x, one) as accumulator:
        y = tenfold(x)

    assert float(accumulator.jvp(y)) == 10.0


def test_F10_errors_in_it_appear_during_the_forward_pass(x, one):
    @tf.custom_gradient
    def broken(x):
        def grad(upstream):
            raise KeyError("broken rule")

        return x * x, grad

    with tf.autodiff.ForwardAccumulator(x, one), pytest.raises(KeyError, match="broken rule"):
        broken(x)


def test_F10_recompute_grad_has_a_forward_mode(x, one):
    with tf.autodiff.ForwardAccumulator(x, one) as accumulator:
        y = tf.recompute_grad(lambda x: x * x * x)(x)

    assert float(accumulator.jvp(y)) == 27.0


def test_F11_operations_without_derivative_give_none(x, one):
    with tf.autodiff.ForwardAccumulator(x, one) as accumulator:
        y = tf.zeros_like(x)

    assert accumulator.jvp(y) is None


def test_F11_a_constant_derivative_is_right(x, one):
    with tf.autodiff.ForwardAccumulator(x, one) as accumulator:
        y = tf.sign(x) * x

    assert float(accumulator.jvp(y)) == 1.0


def test_F12_a_batch_of_tangents_gives_a_batch_of_products():
    x = tf.constant([1.0, 2.0])
    directions = tf.constant([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])

    products = tf.vmap(lambda v: tf.jvp(lambda x: x * x, [x], [v])[1])(directions)

    assert products.numpy().tolist() == [[2.0, 0.0], [0.0, 4.0], [2.0, 4.0]]


def test_F12_primal_and_tangent_per_example():
    points = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    directions = tf.constant([[1.0, 0.0], [0.0, 1.0]])

    products = tf.vmap(lambda x, v: tf.jvp(lambda x: x * x, [x], [v])[1])(points, directions)

    assert products.numpy().tolist() == [[2.0, 0.0], [0.0, 8.0]]


def test_F12_an_accumulator_inside_vmap():
    def push(x):
        with tf.autodiff.ForwardAccumulator(x, 1.0) as accumulator:
            y = x * x
        return accumulator.jvp(y)

    assert tf.vmap(push)(tf.constant([1.0, 3.0])).numpy().tolist() == [2.0, 6.0]


def test_F12_two_batches_inside_each_other():
    points, directions = tf.constant([1.0, 3.0]), tf.constant([1.0, 10.0, 100.0])

    def along_all(x):
        return tf.vmap(lambda v: tf.jvp(lambda x: x * x, [x], [v])[1])(directions)

    products = tf.vmap(along_all)(points)

    assert products.numpy().tolist() == [[2.0, 20.0, 200.0], [6.0, 60.0, 600.0]]


@pytest.mark.parametrize("kind", [tf.constant, tf.Variable])
def test_F12_a_shared_value_may_have_a_tangent_per_example(kind):
    shared = kind([3.0, 5.0])

    def push(v):
        with tf.autodiff.ForwardAccumulator(shared, v) as accumulator:
            square = shared * shared
            y = square * v
            z = tf.reduce_sum(y * v[0])
        return accumulator.jvp([square, y, z, shared])

    given = tf.constant([[1.0, 2.0], [10.0, 20.0], [0.0, 1.0]])
    squares, y, z, own = tf.vmap(push)(given)

    assert squares.numpy().tolist() == [[6.0, 20.0], [60.0, 200.0], [0.0, 10.0]]
    assert y.numpy().tolist() == [[6.0, 40.0], [600.0, 4000.0], [0.0, 10.0]]
    assert z.numpy().tolist() == [46.0, 46000.0, 0.0]
    assert own.numpy().tolist() == given.numpy().tolist()


def test_F12_tangents_that_differ_in_one_of_two_vmaps():
    shared, factors = tf.constant(3.0), tf.constant([1.0, 10.0])

    def outer(v):
        def inner(a):
            with tf.autodiff.ForwardAccumulator(shared, v) as accumulator:
                y = shared * shared * a * v
            return accumulator.jvp(y)

        return tf.vmap(inner)(factors)

    found = tf.vmap(outer)(tf.constant([1.0, 2.0, 3.0]))

    assert found.numpy().tolist() == [[6.0, 60.0], [24.0, 240.0], [54.0, 540.0]]


def test_F12_a_shared_variable_may_have_a_shared_tangent(one):
    v = tf.Variable(3.0)

    def push(a):
        with tf.autodiff.ForwardAccumulator(v, one) as accumulator:
            with tf.GradientTape() as tape:
                y = v * v * v * a
            gradient = tape.gradient(y, v)
        return accumulator.jvp(gradient)

    assert tf.vmap(push)(tf.constant([1.0, 10.0])).numpy().tolist() == [18.0, 180.0]


# Tapes that come and go while an accumulator follows a value


def _own_square(x):
    return tf.custom_gradient(lambda x: (x * x, lambda g: 2.0 * g * x))(x)


@pytest.mark.parametrize("make", [lambda x: tf.unstack([x, x])[0], _own_square, tf.cumsum])
def test_tapes_watch_a_value_one_after_the_other(make):
    x = tf.constant([1.0, 2.0])
    with tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)):
        y = make(x)
        gradients = []
        for persistent in (False, False, True):
            with tf.GradientTape(persistent) as tape:
                tape.watch(y)
                z = y * 3.0
            gradients.append(tape.gradient(z, y).numpy().tolist())

    assert gradients == [[3.0, 3.0]] * 3


def test_F10_an_integer_output_of_a_custom_gradient_is_passed_over_in_silence(x, one):
    @tf.custom_gradient
    def square_and_count(x, n):
        return (x * x, n), lambda g, _: (2.0 * g * x, None)

    with tf.autodiff.ForwardAccumulator(x, one) as accumulator:
        y, n = square_and_count(x, tf.constant(4))

    assert float(accumulator.jvp(y)) == 6.0
    assert accumulator.jvp(n) is None
