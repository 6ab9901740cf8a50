"""custom_gradient."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import tapegrad as tf


@pytest.fixture
def x():
    return tf.constant(3.0)


def record(function, *inputs, **keywords):
    """Run a function on watched inputs; return the tape and the result."""
    with tf.GradientTape() as tape:
        tape.watch(list(inputs))
        result = function(*inputs, **keywords)
    return tape, result


@tf.custom_gradient
def tenfold(x):
    """Square with a gradient of ten."""
    return x * x, lambda upstream: upstream * 10.0


def test_C1_the_custom_gradient_is_used(x):
    tape, y = record(tenfold, x)

    assert (float(y), float(tape.gradient(y, x))) == (9.0, 10.0)


def test_C1_the_result_wraps_the_function():
    assert (tenfold.__name__, tenfold.__doc__) == ("tenfold", "Square with a gradient of ten.")


def test_C1_empty_parentheses_are_allowed(x):
    @tf.custom_gradient()
    def other(x):
        return x * x, lambda upstream: upstream * 7.0

    tape, y = record(other, x)

    assert float(tape.gradient(y, x)) == 7.0


def test_C1_methods_can_be_decorated(x):
    class Layer:
        factor = 5.0

        @tf.custom_gradient
        def call(self, x):
            return x * x, lambda upstream: upstream * self.factor

    tape, y = record(Layer().call, x)

    assert float(tape.gradient(y, x)) == 5.0


def test_C1_without_a_tape_only_the_value_is_computed(x):
    assert float(tenfold(x)) == 9.0


def test_C2_outputs_may_be_any_nest(x):
    @tf.custom_gradient
    def both(x):
        def grad(first, second):
            return first * 100.0 + second * 1000.0

        return {"b": (x * 3.0,), "a": x * 2.0}, grad

    tape, y = record(both, x)

    assert float(y["b"][0]) == 9.0
    assert float(tape.gradient(y["b"][0], x)) == 1000.0


def test_C2_one_gradient_per_positional_input(x):
    @tf.custom_gradient
    def product(a, b):
        return a * b, lambda upstream: (upstream * 10.0, upstream * 20.0)

    w = tf.constant(2.0)
    tape, y = record(product, x, w)

    assert [float(g) for g in tape.gradient(y, [x, w])] == [10.0, 20.0]


def test_C2_nested_inputs_are_flattened(x):
    @tf.custom_gradient
    def total(parts):
        return parts[0] + parts[1], lambda upstream: [upstream * 10.0, upstream * 20.0]

    w = tf.constant(2.0)
    tape, y = record(lambda a, b: total([a, b]), x, w)

    assert [float(g) for g in tape.gradient(y, [x, w])] == [10.0, 20.0]


def test_C2_none_is_a_gradient(x):
    @tf.custom_gradient
    def product(a, b):
        return a * b, lambda upstream: (upstream * 10.0, None)

    w = tf.constant(2.0)
    tape, y = record(product, x, w)

    assert tape.gradient(y, [x, w])[1] is None


@pytest.mark.parametrize("count", [1, 3])
def test_C2_the_wrong_number_of_gradients_is_told(x, count):
    @tf.custom_gradient
    def product(a, b):
        return a * b, lambda upstream: [upstream] * count

    w = tf.constant(2.0)
    tape, y = record(product, x, w)

    with pytest.raises(ValueError, match=f"must return 2 gradients.*returned {count}"):
        tape.gradient(y, [x, w])


def test_C2_a_function_without_gradient_function_is_told(x):
    @tf.custom_gradient
    def forgetful(x):
        return x * x

    with pytest.raises(TypeError, match=r"forgetful must return its value and a gradient"):
        forgetful(x)


def test_C2_the_wrong_shape_of_a_gradient_is_told():
    @tf.custom_gradient
    def summed(x):
        return tf.reduce_sum(x), lambda upstream: upstream * tf.constant([1.0, 2.0, 3.0])

    x = tf.constant([1.0, 2.0])
    tape, y = record(summed, x)

    with pytest.raises(ValueError, match=r"summed.*shape \(2,\) for input 0.*\(3,\)"):
        tape.gradient(y, x)


@pytest.mark.parametrize("value", [2, "text", None, True], ids=repr)
def test_C2_arguments_that_are_no_tensors_pass_unchanged_and_have_a_slot(x, value):
    seen = []

    @tf.custom_gradient
    def odd(x, option):
        seen.append(option)
        return x * x, lambda upstream: (upstream * 10.0, None)

    tape, y = record(lambda x: odd(x, value), x)

    assert float(tape.gradient(y, x)) == 10.0
    assert seen == [value]


def test_C2_a_gradient_of_another_dtype_is_cast(x):
    @tf.custom_gradient
    def odd(x):
        return x * x, lambda upstream: np.float64(10.0)

    tape, y = record(odd, x)

    assert tape.gradient(y, x).dtype == "float32"


def test_C2_jacobians_go_through_the_custom_rule():
    x = tf.constant([1.0, 2.0])
    tape, y = record(tenfold, x)

    assert tape.jacobian(y, x).numpy().tolist() == [[10.0, 0.0], [0.0, 10.0]]


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_C2_the_jacobian_transform_too(mode):
    jacobian = tf.jacobian(tenfold, mode=mode)(tf.constant([1.0, 2.0]))

    assert jacobian.numpy().tolist() == [[10.0, 0.0], [0.0, 10.0]]


def scaled_by(v, gradient):
    @tf.custom_gradient
    def scale(x):
        return x * v, gradient

    return scale


def test_C3_captured_variables_get_their_own_gradients(x):
    v = tf.Variable(2.0)
    seen = []

    def gradient(upstream, variables):
        seen.extend(variables)
        return upstream * 10.0, [upstream * 20.0]

    tape, y = record(scaled_by(v, gradient), x)

    assert [float(g) for g in tape.gradient(y, [x, v])] == [10.0, 20.0]
    assert [u.ref() for u in seen] == [v.ref()]


@pytest.mark.parametrize(
    "gradient",
    [
        lambda upstream, *, variables: (upstream, [upstream * 20.0]),
        lambda upstream, variables=None: (upstream, [upstream * 20.0]),
        lambda upstream, **keywords: (upstream, [upstream * 20.0]),
    ],
    ids=["keyword-only", "default", "keywords"],
)
def test_C3_variables_may_be_taken_in_any_form(x, gradient):
    v = tf.Variable(2.0)
    tape, y = record(scaled_by(v, gradient), x)

    assert float(tape.gradient(y, v)) == 20.0


def test_C3_a_gradient_function_without_variables_is_refused_in_the_forward_call(x):
    v = tf.Variable(2.0, name="scale")

    with tf.GradientTape(), pytest.raises(TypeError, match=r"variables 'scale:0'.*variables=None"):
        scaled_by(v, lambda upstream: upstream)(x)


def test_C3_the_wrong_number_of_variable_gradients_is_told(x):
    v = tf.Variable(2.0)
    tape, y = record(scaled_by(v, lambda upstream, variables: (upstream, [])), x)

    with pytest.raises(ValueError, match=r"must return 1 variable gradients.*returned 0"):
        tape.gradient(y, v)


def test_C4_without_variables_none_are_passed(x):
    @tf.custom_gradient
    def plain(x):
        def grad(upstream, variables="not passed"):
            assert variables == "not passed"
            return upstream

        return x * x, grad

    tape, y = record(plain, x)

    assert float(tape.gradient(y, x)) == 1.0


def test_C4_a_variable_passed_as_argument_is_an_input():
    v = tf.Variable(3.0)
    with tf.GradientTape() as tape:
        y = tenfold(v)

    assert float(tape.gradient(y, v)) == 10.0


def test_C4_variables_that_are_not_trainable_are_ignored(x):
    v = tf.Variable(2.0, trainable=False)
    tape, y = record(scaled_by(v, lambda upstream: upstream * 10.0), x)

    assert float(tape.gradient(y, x)) == 10.0


def test_C5_a_tensor_as_keyword_is_refused_with_its_name(x):
    @tf.custom_gradient
    def product(a, b):
        return a * b, lambda upstream: (upstream, upstream)

    with pytest.raises(TypeError, match="'b' as a keyword: pass tensors by position"):
        product(x, b=tf.constant(2.0))


def test_C5_other_keywords_are_passed_on(x):
    @tf.custom_gradient
    def power(x, twice=False):
        return (x * x if twice else x * 1.0), lambda upstream: upstream * 10.0

    tape, y = record(power, x, twice=True)

    assert (float(y), float(tape.gradient(y, x))) == (9.0, 10.0)


def test_C6_outputs_are_fresh_even_if_the_body_returns_its_input(x):
    @tf.custom_gradient
    def same(x):
        return x, lambda upstream: upstream * 10.0

    with tf.GradientTape() as tape:
        tape.watch(x)
        y = same(x)
        z = y + x

    assert [float(g) for g in tape.gradient(z, [x, y])] == [11.0, 1.0]


def test_C7_second_order_differentiates_what_the_gradient_function_computes(x):
    @tf.custom_gradient
    def odd(x):
        return x * 1.0, lambda upstream: upstream * x * x * x

    with tf.GradientTape() as outer:
        outer.watch(x)
        inner, y = record(odd, x)
        first = inner.gradient(y, x)

    assert (float(first), float(outer.gradient(first, x))) == (27.0, 27.0)


def test_C7_values_of_the_body_carry_second_order_too(x):
    @tf.custom_gradient
    def odd(x):
        square = x * x
        return square * x, lambda upstream: upstream * square * 3.0

    with tf.GradientTape() as outer:
        outer.watch(x)
        inner, y = record(odd, x)
        first = inner.gradient(y, x)

    assert (float(first), float(outer.gradient(first, x))) == (27.0, 18.0)


def test_C7_a_custom_gradient_inside_the_gradient_function_overrides_it(x):
    @tf.custom_gradient
    def odd(x):
        def grad(upstream):
            @tf.custom_gradient
            def slope(x):
                return x * 5.0, lambda inner: inner * 77.0

            return upstream * slope(x)

        return x * 1.0, grad

    with tf.GradientTape() as outer:
        outer.watch(x)
        inner, y = record(odd, x)
        first = inner.gradient(y, x)

    assert (float(first), float(outer.gradient(first, x))) == (15.0, 77.0)


def test_C8_numpy_inside_the_body_is_fine(x):
    @tf.custom_gradient
    def cube(x):
        array = np.asarray(x)
        return array**3, lambda upstream: upstream * 3.0 * array**2

    tape, y = record(cube, x)

    assert (float(y), float(tape.gradient(y, x))) == (27.0, 27.0)


def test_C8_numpy_arrays_as_arguments_are_accepted():
    assert tenfold(np.array([1.0, 2.0])).numpy().tolist() == [1.0, 4.0]


def test_C9_the_call_does_not_hold_its_outputs(x):
    gc.disable()
    try:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tenfold(x)
            output = weakref.ref(y)
            del y
            assert output() is None
        del tape
    finally:
        gc.enable()
