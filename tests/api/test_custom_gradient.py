"""custom_gradient and its neighbours: rows C1 to C14 of the semantics table."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.core.families import nondifferentiable
from tapegrad.core.primitive import PRIMITIVES, Primitive


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


@tf.custom_gradient
def constant_slope(x, w):
    return x * w, lambda upstream: (tf.constant(5.0), upstream * 7.0)


def test_C2_inside_vmap_gradients_are_per_example():
    def gradients(x):
        return tf.grad(lambda x: constant_slope(x, x), argnums=0)(x)

    assert tf.vmap(gradients)(tf.constant([1.0, 2.0])).numpy().tolist() == [12.0, 12.0]


def test_C2_around_vmap_gradients_of_shared_values_add_up():
    xs, w = tf.constant([1.0, 2.0, 3.0]), tf.constant(2.0)
    tape, y = record(lambda xs, w: tf.vmap(lambda x: constant_slope(x, w))(xs), xs, w)

    of_xs, of_w = tape.gradient(y, [xs, w])

    assert of_xs.numpy().tolist() == [5.0, 5.0, 5.0]
    assert float(of_w) == 21.0


def test_C2_a_captured_variable_inside_vmap():
    v = tf.Variable(2.0)

    @tf.custom_gradient
    def scale(x):
        return x * v, lambda upstream, variables: (upstream * 10.0, [upstream * x])

    with tf.GradientTape() as tape:
        y = tf.vmap(scale)(tf.constant([1.0, 2.0, 3.0]))

    assert float(tape.gradient(y, v)) == 6.0


def test_C2_a_captured_variable_and_a_tape_inside_vmap():
    v = tf.Variable(2.0)

    @tf.custom_gradient
    def scale(x):
        return x * v, lambda upstream, variables: (upstream * 10.0, [upstream * x])

    def gradient(x):
        with tf.GradientTape() as tape:
            y = scale(x)
        return tape.gradient(y, v)

    assert tf.vmap(gradient)(tf.constant([1.0, 2.0, 3.0])).numpy().tolist() == [1.0, 2.0, 3.0]


def test_C2_two_batches_inside_each_other():
    rows, columns = tf.constant([1.0, 2.0]), tf.constant([3.0, 4.0, 5.0])
    with tf.GradientTape() as tape:
        tape.watch([rows, columns])
        y = tf.vmap(lambda x: tf.vmap(lambda w: constant_slope(x, w))(columns))(rows)
    of_rows, of_columns = tape.gradient(y, [rows, columns])

    assert y.numpy().tolist() == [[3.0, 4.0, 5.0], [6.0, 8.0, 10.0]]
    assert of_rows.numpy().tolist() == [15.0, 15.0]
    assert of_columns.numpy().tolist() == [14.0, 14.0, 14.0]


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


def cube(x):
    return x * x * x


def test_C10_recompute_grad_gives_the_same_gradient(x):
    tape, y = record(tf.recompute_grad(cube), x)

    assert (float(y), float(tape.gradient(y, x))) == (27.0, 27.0)


def test_C10_it_runs_the_function_again_in_the_backward_pass(x):
    calls = []

    def counted(x):
        calls.append(1)
        return cube(x)

    tape, y = record(tf.recompute_grad(counted), x)
    assert len(calls) == 1
    tape.gradient(y, x)

    assert len(calls) == 2


def test_C10_the_function_is_still_there():
    assert tf.recompute_grad(cube).__wrapped__ is cube


def test_C10_variables_get_gradients(x):
    v = tf.Variable(2.0)
    tape, y = record(tf.recompute_grad(lambda x: x * v * v), x)

    assert [float(g) for g in tape.gradient(y, [x, v])] == [4.0, 12.0]


def test_C10_structures_go_in_and_out(x):
    w = tf.constant(2.0)
    checkpointed = tf.recompute_grad(
        lambda pair: {"sum": pair[0] + pair[1], "mul": pair[0] * pair[1]}
    )
    tape, y = record(lambda x, w: checkpointed((x, w)), x, w)

    assert [float(g) for g in tape.gradient(y["mul"], [x, w])] == [2.0, 3.0]


def test_C10_inputs_of_other_dtypes_are_allowed(x):
    n = tf.constant([1, 0])
    tape, y = record(lambda x: tf.recompute_grad(lambda x, n: x * tf.cast(n, "float32"))(x, n), x)

    assert float(tape.gradient(y, x)) == 1.0


def test_C10_unconnected_inputs_do_no_harm(x):
    w = tf.constant(2.0)
    tape, y = record(tf.recompute_grad(lambda x, w: x * x), x, w)

    assert [float(g) for g in tape.gradient(y, [x, w])] == [6.0, 0.0]


def test_C10_higher_orders_work(x):
    with tf.GradientTape() as outer:
        outer.watch(x)
        inner, y = record(tf.recompute_grad(cube), x)
        first = inner.gradient(y, x)

    assert float(outer.gradient(first, x)) == 18.0


def test_C10_methods_can_be_checkpointed(x):
    class Layer:
        @tf.recompute_grad
        def call(self, x):
            return cube(x)

    tape, y = record(Layer().call, x)

    assert float(tape.gradient(y, x)) == 27.0


def test_C11_grad_pass_through_computes_f_and_differentiates_the_identity(x):
    tape, y = record(tf.grad_pass_through(lambda x: x * x), x)

    assert (float(y), float(tape.gradient(y, x))) == (9.0, 1.0)


def test_C11_variables_used_inside_get_none(x):
    v = tf.Variable(2.0)
    tape, y = record(tf.grad_pass_through(lambda x: x * v), x)

    assert [g if g is None else float(g) for g in tape.gradient(y, [x, v])] == [1.0, None]


def test_C11_an_assignment_passes_the_gradient_on(x):
    v = tf.Variable(0.0)
    tape, y = record(lambda x: tf.grad_pass_through(v.assign)(x * x) * 2.0, x)

    assert (float(v), float(tape.gradient(y, x))) == (9.0, 12.0)


def test_C12_stop_gradient_keeps_the_value_in_a_new_tensor(x):
    stopped = tf.stop_gradient(x)

    assert float(stopped) == 3.0
    assert stopped is not x


def test_C12_it_cuts_reverse_mode(x):
    tape, y = record(lambda x: tf.stop_gradient(x * x) * x, x)

    assert float(tape.gradient(y, x)) == 9.0


def test_C12_it_cuts_forward_mode(x):
    with tf.autodiff.ForwardAccumulator(x, 1.0) as accumulator:
        y = tf.stop_gradient(x * x) * x

    assert float(accumulator.jvp(y)) == 9.0


def test_C12_backward_functions_behind_it_never_run(x):
    @tf.custom_gradient
    def broken(x):
        def grad(upstream):
            raise AssertionError("ran")

        return x * x, grad

    tape, y = record(lambda x: tf.stop_gradient(broken(x)) * x, x)

    assert float(tape.gradient(y, x)) == 9.0


def test_C13_a_primitive_of_ones_own_has_a_rule(x):
    cubed = Primitive("cubed_here", lambda xp, a: a * a * a)
    cubed.vjps(lambda t, x: t * x * x * 3.0)
    tape, y = record(cubed, x)
    gradient = tape.gradient(y, x)
    del PRIMITIVES["cubed_here"]

    assert float(gradient) == 27.0


def test_C13_the_same_name_twice_is_refused():
    with pytest.raises(KeyError, match="'add'"):
        Primitive("add")


def test_C14_a_primitive_can_be_declared_nondifferentiable(x):
    steps = nondifferentiable("steps_here", lambda xp, a: xp.floor(a))
    tape, y = record(steps, x)
    del PRIMITIVES["steps_here"]

    assert tape.gradient(y, x) is None
