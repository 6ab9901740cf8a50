"""Extending tapegrad: user-defined functions, primitives, gradients and backends."""

from __future__ import annotations

import pytest

import tapegrad as tf
import tapegrad_strict as strict
from tapegrad import extend


@pytest.fixture(autouse=True)
def forget_new_primitives():
    """Names are global, so every test starts with those of the package."""
    before = dict(extend.PRIMITIVES)
    yield
    extend.PRIMITIVES.clear()
    extend.PRIMITIVES.update(before)


def cube_without_rules():
    return extend.Primitive("cube", lambda xp, x: x * x * x)


def test_a_new_function_takes_two_lines():
    cube = extend.unary("cube", lambda t, x: t * 3.0 * x * x, forward=lambda xp, x: x * x * x)
    x = tf.constant([1.0, -2.0])

    with tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)) as accumulator:
        y = cube(x)

    assert y.numpy().tolist() == [1.0, -8.0]
    assert tf.grad(lambda x: tf.reduce_sum(cube(x)))(x).numpy().tolist() == [3.0, 12.0]
    assert accumulator.jvp(y).numpy().tolist() == [3.0, 12.0]
    assert tf.hessian(lambda x: tf.reduce_sum(cube(x)))(x).numpy().tolist() == [[6, 0], [0, -12]]
    assert tf.vmap(cube)(x).numpy().tolist() == [1.0, -8.0]


def test_a_new_primitive_takes_five_lines():
    flip = extend.linear(
        "flip_first",
        lambda xp, x: xp.flip(x, axis=0),
        transpose=lambda t: flip(t),
    )
    weights = tf.constant([1.0, 2.0, 3.0])

    gradient = tf.grad(lambda x: tf.reduce_sum(flip(x) * weights))(tf.zeros([3]))
    rows = tf.vmap(flip)(tf.constant([[1.0, 2.0], [3.0, 4.0]]))

    assert gradient.numpy().tolist() == [3.0, 2.0, 1.0]
    assert rows.numpy().tolist() == [[2.0, 1.0], [4.0, 3.0]]


def test_a_primitive_with_two_inputs_and_a_param():
    blend = extend.Primitive("blend", lambda xp, a, b, *, share: a * share + b * (1 - share))
    blend.vjps(lambda t, *, share: t * share, lambda t, *, share: t * (1.0 - share))
    a, b = tf.constant(1.0), tf.constant(3.0)

    with tf.GradientTape() as tape:
        tape.watch([a, b])
        y = blend(a, b, share=0.25)

    assert float(y) == 2.5
    assert [float(g) for g in tape.gradient(y, [a, b])] == [0.25, 0.75]


def test_rules_are_declared_in_one_expression():
    cube = (
        cube_without_rules().vjps(lambda t, x: 3.0 * t * x * x).jvps(lambda t, x: 3.0 * t * x * x)
    )
    x = tf.constant(2.0)

    with tf.autodiff.ForwardAccumulator(x, tf.constant(1.0)) as accumulator:
        y = cube(x)

    assert float(accumulator.jvp(y)) == 12.0
    assert float(tf.grad(cube)(x)) == 12.0


def test_C13_a_gradient_is_registered_and_reads_inputs_outputs_and_params():
    scale = extend.Primitive("scaled_cube", lambda xp, x, *, by: by * x * x * x)

    @extend.register_gradient(scale)
    def rule(t, x1, y, *, by):
        assert by == 2.0
        return (t * 3.0 * y / x1,)

    assert float(tf.grad(lambda x: scale(x, by=2.0))(3.0)) == 54.0
    assert float(tf.grad(tf.grad(lambda x: scale(x, by=2.0)))(3.0)) == 36.0


def test_C13_without_a_rule_the_gradient_is_an_error_that_names_the_primitive():
    cube = cube_without_rules()

    with pytest.raises(LookupError, match="cube"):
        tf.grad(cube)(2.0)


def test_C13_a_second_rule_is_refused():
    cube = cube_without_rules()
    extend.register_gradient(cube)(lambda t, x1: (t * 3.0 * x1 * x1,))

    with pytest.raises(KeyError, match="cube already has a gradient rule"):
        extend.register_gradient(cube)
    with pytest.raises(KeyError, match="cube already has a gradient rule"):
        extend.no_gradient(cube)


def test_C13_a_name_instead_of_a_primitive_is_refused():
    with pytest.raises(TypeError, match=r"takes a Primitive. Got str; PRIMITIVES\['name'\]"):
        extend.register_gradient("exp")


def test_C14_a_primitive_without_gradient_gives_none_and_says_so():
    cube = cube_without_rules()
    extend.no_gradient(cube)
    x = tf.Variable(2.0)

    with tf.GradientTape() as tape:
        y = cube(x)

    assert "cube has no derivative" in tape.explain(y, x)
    assert tape.gradient(y, x) is None
    with pytest.raises(KeyError, match="declared to have no gradient"):
        extend.register_gradient(cube)


def test_two_primitives_of_one_name_are_refused():
    cube_without_rules()

    with pytest.raises(KeyError, match="already a primitive called 'cube'"):
        cube_without_rules()


@pytest.mark.filterwarnings("ignore:You are comparing a array_api_strict dtype")
def test_a_backend_can_be_added_and_removed():
    extend.register_backend(strict.StrictBackend())
    try:
        with tf.device("strict:0"):
            x = tf.constant([1.0, 2.0])
        gradient = tf.grad(lambda x: tf.reduce_sum(x * x))(x)
        assert gradient.device == "strict:0"
        assert gradient.numpy().tolist() == [2.0, 4.0]
    finally:
        extend.unregister_backend("strict")

    with pytest.raises(ValueError, match="There is no device 'strict:0'"), tf.device("strict:0"):
        pass
