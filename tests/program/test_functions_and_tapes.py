"""Tapes around and inside functions give the same gradients as eager code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.core.values import nest
from tapegrad.testing.sample import Sample
from tapegrad.testing.samples import all_samples
from tests.long_formulas import affordable
from tests.program.test_programs_equal_eager import assert_same

# Their second derivatives raise in eager mode too: some have no closed form, one is singular.
WITHOUT_SECOND_ORDER = {"det-singular", "stateless_gamma", "gamma", "igamma", "igammac"}
SAMPLES = [
    sample
    for sample in affordable(all_samples()[::10], one_in=5)
    if sample.differentiable and sample.name not in WITHOUT_SECOND_ORDER
]

pytestmark = pytest.mark.filterwarnings("ignore:.*depends on values")  # segment_mean runs eagerly


def derivatives(function: Any, tensors: list[Any]) -> list[Any]:
    """Value, gradients, and the gradients of their sum."""
    sources = [x for x in tensors if x.dtype.is_differentiable]
    with tf.GradientTape() as outer:
        outer.watch(sources)
        with tf.GradientTape() as inner:
            inner.watch(sources)
            value = function(*tensors)
        targets = [y for y in nest.flatten(value) if y.dtype.is_differentiable]
        first = inner.gradient(targets, sources)
        found = [g for g in first if g is not None]
    second = outer.gradient(found, sources) if found else []
    return [*nest.flatten(value), *first, *second]


@pytest.mark.usefixtures("quick_compiler")
# The second order of a long formula takes up to a minute.
@pytest.mark.parametrize("sample", affordable(SAMPLES, one_in=20), ids=repr)
def test_a_sample_to_second_order_with_tapes_outside(sample: Sample) -> None:
    recorded = tf.function(sample.function)

    for seed in (0, 1):
        tensors = [tf.constant(array) for array in sample.make(seed)]
        found = derivatives(recorded, tensors)
        expected = derivatives(sample.function, tensors)
        assert [g is None for g in found] == [g is None for g in expected]
        for one, other in zip(found, expected):
            if other is not None:
                np.testing.assert_allclose(
                    np.asarray(one), np.asarray(other), rtol=1e-9, atol=1e-11
                )


def gradients(function: Any, tensors: list[Any]) -> list[Any]:
    """Value and gradients for random cotangents."""
    sources = [x for x in tensors if x.dtype.is_differentiable]
    with tf.GradientTape() as tape:
        tape.watch(sources)
        value = nest.flatten(function(*tensors))
    targets = [y for y in value if y.dtype.is_differentiable]
    rng = np.random.default_rng(0)
    seeds = [tf.cast(tf.constant(rng.normal(size=y.shape)), y.dtype) for y in targets]
    return [*value, *tape.gradient(targets, sources, seeds)]


@pytest.mark.usefixtures("quick_compiler")
@pytest.mark.parametrize("sample", SAMPLES, ids=repr)
def test_a_sample_with_one_tape_outside(sample: Sample) -> None:
    recorded = tf.function(sample.function)

    for seed in (0, 1):
        tensors = [tf.constant(array) for array in sample.make(seed)]
        assert_same(gradients(recorded, tensors), gradients(sample.function, tensors))


def model() -> tuple[Any, list[Any], list[int]]:
    """A layer as a function, its variables, and a list that grows when its Python code runs."""
    w = tf.Variable(np.linspace(-1, 1, 6).reshape(3, 2))
    b = tf.Variable([0.5, -0.5], dtype="float64")
    runs: list[int] = []

    @tf.function
    def layer(x: Any) -> Any:
        runs.append(1)
        return tf.tanh(x @ w + b)

    return layer, [w, b], runs


X = np.random.default_rng(0).normal(size=(4, 3))


def test_gradients_reach_the_variables_that_a_function_reads() -> None:
    layer, (w, b), _ = model()

    for scale in (1.0, 2.0):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(layer(tf.constant(X * scale)))
        grads = tape.gradient(loss, [w, b])
        slope = 1 - np.tanh(X * scale @ w.numpy() + b.numpy()) ** 2
        np.testing.assert_allclose(grads[0].numpy(), (X * scale).T @ slope)
        np.testing.assert_allclose(grads[1].numpy(), slope.sum(0))
        assert {v.name for v in tape.watched_variables()} == {w.name, b.name}


def test_the_python_code_runs_once_for_value_and_gradient_together() -> None:
    layer, variables, runs = model()

    for _ in range(5):
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(layer(tf.constant(X)))
        tape.gradient(loss, variables)

    assert len(runs) == 1


def test_a_training_loop_with_the_tape_outside_learns_as_eager_code_does() -> None:
    results = []
    for wrap in (tf.function, lambda f: f):
        tf.random.set_seed(2)
        w = tf.Variable(np.full((3, 1), 0.1))
        optimizer = tf.optimizers.Adam(0.05)
        predict = wrap(lambda x, w=w: tf.nn.dropout(x, 0.25) @ w)
        for _ in range(6):
            with tf.GradientTape() as tape:
                loss = tf.reduce_mean(tf.square(predict(tf.constant(X)) - 1.0))
            optimizer.apply_gradients([(tape.gradient(loss, w), w)])
        results.append(w.numpy())

    np.testing.assert_allclose(*results, rtol=1e-6)


def test_a_variable_assigned_between_call_and_gradient_keeps_its_old_value_for_it() -> None:
    v = tf.Variable(3.0)
    square = tf.function(lambda x: v * v * x)
    x = tf.constant(2.0)

    with tf.GradientTape() as tape:
        y = square(x)
    v.assign(100.0)

    assert float(tape.gradient(y, v)) == 12.0
    assert float(v) == 100.0


def test_a_function_that_changes_the_variable_it_is_differentiated_by() -> None:
    v = tf.Variable(2.0)

    @tf.function
    def step(x: Any) -> Any:
        y = v * v * x
        v.assign_add(1.0)
        return y

    for value in (2.0, 3.0, 4.0):
        with tf.GradientTape() as tape:
            y = step(tf.constant(5.0))
        assert float(y) == 5.0 * value**2
        assert float(tape.gradient(y, v)) == 10.0 * value
    assert float(v) == 5.0


def test_statistics_are_updated_once_per_call() -> None:
    mean = tf.Variable(0.0, trainable=False)
    runs = []

    @tf.function
    def centred(x: Any) -> Any:
        runs.append(1)
        mean.assign(0.5 * mean + 0.5 * tf.reduce_mean(x))
        return (x - mean) ** 2

    x = tf.constant([1.0, 3.0])
    for expected in (1.0, 1.5, 1.75):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = centred(x)
        grad = tape.gradient(y, x).numpy()
        assert float(mean) == expected
        # Assigned values are state, through which no gradient flows.
        np.testing.assert_allclose(grad, 2 * (x.numpy() - expected), rtol=1e-6)
    assert len(runs) == 1


def test_unconnected_inputs_have_no_gradient() -> None:
    f = tf.function(lambda x, y, k: (x * 2.0, tf.stop_gradient(y) * x, k + 1))
    x, y, k = tf.constant(1.0), tf.constant(2.0), tf.constant(3)

    with tf.GradientTape(persistent=True) as tape:
        tape.watch([x, y])
        first, second, third = f(x, y, k)

    assert float(tape.gradient(first, x)) == 2.0
    assert float(tape.gradient(second, x)) == 2.0
    assert tape.gradient([first, second], y) is None
    assert tape.gradient(third, x) is None
    assert float(tape.gradient(second, y, unconnected_gradients="zero")) == 0.0


def test_a_persistent_tape_gives_each_gradient_of_several_results() -> None:
    f = tf.function(lambda x: [x * x, x * x * x])
    x = tf.constant(2.0)

    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        square, cube = f(x)

    grads = [tape.gradient(target, x) for target in (square, cube, [square, cube])]
    assert [float(g) for g in grads] == [4.0, 12.0, 16.0]


def test_the_same_tensor_as_two_arguments() -> None:
    f = tf.function(lambda a, b: a * a * b)
    x = tf.constant(3.0)

    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x, x)

    assert float(tape.gradient(y, x)) == 27.0


def test_functions_one_after_the_other_and_inside_each_other() -> None:
    double = tf.function(lambda x: 2.0 * x)
    square = tf.function(lambda x: double(x) * x)
    x = tf.constant(3.0)

    with tf.GradientTape() as tape:
        tape.watch(x)
        y = square(double(x) + 1.0) * x

    assert float(y) == 2 * 49.0 * 3.0
    assert float(tape.gradient(y, x)) == 2 * 49.0 + 3.0 * 4 * 7.0 * 2


def test_three_orders() -> None:
    f = tf.function(lambda x: x**5)
    x = tf.constant(2.0)

    with tf.GradientTape() as third:
        third.watch(x)
        with tf.GradientTape() as second:
            second.watch(x)
            with tf.GradientTape() as first:
                first.watch(x)
                y = f(x)
            dy = first.gradient(y, x)
        ddy = second.gradient(dy, x)
    found = [float(v) for v in (y, dy, ddy, third.gradient(ddy, x))]

    assert found == [32.0, 80.0, 160.0, 240.0]


def test_second_order_by_variables() -> None:
    v = tf.Variable(3.0)
    f = tf.function(lambda x: v * v * v * x)

    with tf.GradientTape() as outer:
        with tf.GradientTape() as inner:
            y = f(tf.constant(2.0))
        first = inner.gradient(y, v)

    assert float(first) == 54.0
    assert float(outer.gradient(first, v)) == 36.0


def test_jacobian_hessian_jvp_and_vmap() -> None:
    f = tf.function(lambda x: tf.reduce_sum(x**3))
    rows = tf.function(lambda x: tf.sin(x) * x[0])
    x = tf.constant(np.array([0.5, 2.0]))

    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y, z = f(x), rows(x)

    value = x.numpy()
    slopes = np.diag(np.cos(value) * value[0])
    slopes[:, 0] += np.sin(value)
    np.testing.assert_allclose(tape.jacobian(z, x).numpy(), slopes)
    np.testing.assert_allclose(tape.hessian(y, x).numpy(), np.diag(6 * value))
    np.testing.assert_allclose(tf.hessian(f)(x).numpy(), np.diag(6 * value))
    np.testing.assert_allclose(tf.jvp(f, (x,), (x,))[1].numpy(), (3 * value**3).sum())
    np.testing.assert_allclose(tf.vmap(tf.function(lambda x: x * x))(x).numpy(), value**2)


def test_gradients_of_gathered_rows_stay_sparse() -> None:
    table = tf.Variable(np.arange(6.0).reshape(3, 2))
    rows = tf.function(lambda ids: tf.gather(table, ids) * 2.0)

    for ids in ([0, 2], [1, 1]):
        with tf.GradientTape() as tape:
            y = tf.reduce_sum(rows(tf.constant(ids)))
        grad = tape.gradient(y, table)
        assert isinstance(grad, tf.IndexedSlices)
        expected = np.zeros((3, 2))
        np.add.at(expected, ids, 2.0)
        np.testing.assert_array_equal(grad.numpy(), expected)


def test_a_custom_gradient_inside_is_respected() -> None:
    @tf.custom_gradient
    def clipped(x: Any) -> Any:
        return x * 1.0, lambda t: tf.clip_by_value(t, -1.0, 1.0)

    f = tf.function(lambda x: clipped(x) * 10.0)
    x = tf.constant(2.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)

    assert float(tape.gradient(y, x)) == 1.0


def test_a_function_inside_recompute_grad() -> None:
    v = tf.Variable(3.0)
    f = tf.function(lambda x: v * x * x)
    x = tf.constant(2.0)

    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.recompute_grad(f)(x)

    dx, dv = tape.gradient(y, [x, v])
    assert (float(dx), float(dv)) == (12.0, 4.0)


def test_the_operation_frees_what_it_kept() -> None:
    f = tf.function(lambda x: x * x)
    x = tf.constant(2.0)

    with tf.GradientTape() as tape:
        tape.watch(x)
        y = f(x)
    tape.gradient(y, x)

    assert y.node is None or not y.node.inputs
