"""recompute_grad, grad_pass_through, stop_gradient and user-defined primitives."""

from __future__ import annotations

from functools import partial

import pytest

import tapegrad as tf
from tapegrad.extend import PRIMITIVES, Primitive


@pytest.fixture
def x():
    return tf.constant(3.0)


def record(function, *inputs, **keywords):
    """Run a function on watched inputs; return the tape and the result."""
    with tf.GradientTape() as tape:
        tape.watch(list(inputs))
        result = function(*inputs, **keywords)
    return tape, result


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


@pytest.fixture
def primitive():
    """A primitive without rules that exists for one test."""
    yield Primitive("cubed_here", lambda xp, a: a * a * a)
    del PRIMITIVES["cubed_here"]


def test_C13_a_registered_rule_is_used(x, primitive):
    @tf.extend.register_gradient(primitive)
    def rule(t, x1):
        return (t * x1 * x1 * 3.0,)

    tape, y = record(primitive, x)

    assert float(tape.gradient(y, x)) == 27.0


def test_C13_the_rule_may_read_the_output(x, primitive):
    @tf.extend.register_gradient(primitive)
    def rule(t, x1, y):
        return (t * y / x1 * 3.0,)

    tape, y = record(primitive, x)

    assert float(tape.gradient(y, x)) == 27.0


def test_C13_a_second_rule_is_refused(primitive):
    tf.extend.register_gradient(primitive)(lambda t: (t,))

    with pytest.raises(KeyError, match="cubed_here already has a gradient rule"):
        tf.extend.register_gradient(primitive)


def test_C13_a_name_instead_of_a_primitive_is_refused():
    with pytest.raises(TypeError, match=r"takes a Primitive. Got str"):
        tf.extend.register_gradient("cubed_here")


def test_C13_the_same_name_twice_is_refused():
    with pytest.raises(KeyError, match="'add'"):
        Primitive("add")


def test_C14_no_gradient_marks_a_primitive(x, primitive):
    tf.extend.no_gradient(primitive)
    tape, y = record(primitive, x)

    assert tape.gradient(y, x) is None


def test_a_function_that_writes_to_its_argument_is_refused():
    def f(x):
        x[1:] *= 3.0
        return tf.reduce_sum(x * x)

    x = tf.constant([1.0, 2.0])
    for transform in (tf.grad, lambda f: tf.vmap(tf.grad(lambda x: f(x * 1.0)))):
        with pytest.raises(tf.errors.ArgumentError, match="must not write to its arguments"):
            transform(tf.recompute_grad(f))(x if transform is tf.grad else x[None])


class Scaled:
    """An object whose method reads a tensor."""

    def __init__(self, factor):
        self.factor = factor

    def product(self, x):
        return x * self.factor * self.factor


def closure_of(w):
    return lambda x: x * w * w


def nested_closure_of(w):
    def square(x):
        return x * w * w

    return lambda x: square(x)


def default_of(w):
    def product(x, factor=w):
        return x * factor * factor

    return product


CAPTURES = {
    "dictionary with keys of two kinds": (
        lambda w: (lambda held: lambda x: x * held[1] ** 2)({"w": 0, 1: w})
    ),
    "closure": closure_of,
    "closure of a function in the closure": nested_closure_of,
    "default": default_of,
    "method": lambda w: Scaled(w).product,
    "partial": lambda w: partial(lambda factor, x: x * factor * factor, w),
    "list in the closure": lambda w: (lambda held: lambda x: x * held["w"][0] ** 2)({"w": [w]}),
}


@pytest.mark.parametrize("is_recorded", [False, True])
@pytest.mark.parametrize("name", CAPTURES)
def test_tensors_that_the_function_captures_get_gradients(name, is_recorded, x):
    def gradients(x, source):
        with tf.GradientTape() as tape:
            tape.watch([x, source])
            w = source * 1.0
            y = tf.recompute_grad(CAPTURES[name](w))(x)
        return tape.gradient(y, [x, source, w])

    run = tf.function(gradients) if is_recorded else gradients
    for _ in range(2):
        assert [float(g) for g in run(x, tf.constant(2.0))] == [4.0, 12.0, 12.0]


def test_an_argument_that_is_captured_as_well_has_the_sum_of_both(x):
    tape, y = record(lambda x: tf.recompute_grad(lambda z: z * z * x)(x), x)
    assert float(tape.gradient(y, x)) == 27.0


def test_captured_tensors_have_second_derivatives_tangents_and_examples(x):
    def f(w):
        return tf.recompute_grad(lambda z: z * w * w * w)(tf.constant(2.0))

    assert float(tf.grad(tf.grad(f))(x)) == 36.0
    assert float(tf.jvp(f, [x], [tf.constant(1.0)])[1]) == 54.0
    rows = tf.constant([1.0, 2.0])
    assert tf.vmap(tf.grad(f))(rows).numpy().tolist() == [6.0, 24.0]
    assert tf.vmap(tf.grad(f))(rows).dtype == "float32"
