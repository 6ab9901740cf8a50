"""A NaN that is planted at a known line is found there: eager, compiled, forward and backward."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.errors import NonFiniteError

SOURCE = Path(__file__).read_text(encoding="utf-8").splitlines()

pytestmark = pytest.mark.filterwarnings("ignore:.*encountered in")


def place_of(marker: str) -> str:
    """The file and line of the line that ends with a marker."""
    (number,) = [k for k, line in enumerate(SOURCE, 1) if line.endswith(f"# {marker}")]
    return f"test_nan_sentinel.py:{number} "


def message_of(call: Callable[..., Any], *args: Any) -> str:
    with pytest.raises(NonFiniteError) as caught:
        call(*args)
    return str(caught.value)


def root(x: Any) -> Any:
    return tf.sqrt(x)  # root


def through_root(x: Any) -> Any:
    scaled = x * 2.0
    return tf.reduce_sum(root(scaled) + 1.0)


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_nan_of_the_forward_pass_names_its_line(compiled: bool, dtype: str) -> None:
    run = tf.function(through_root) if compiled else through_root
    good, bad = np.array([1, 4, 9], dtype), np.array([1, -4, 9], dtype)

    with tf.debug.nan_sentinel():
        fine = float(run(tf.constant(good)))
        message = message_of(run, tf.constant(bad))

    assert fine == pytest.approx(np.sum(np.sqrt(2.0 * good.astype("float64")) + 1), rel=1e-2)
    assert message.startswith("sqrt at ")
    assert place_of("root") in message
    assert "made NaN in the forward pass: 1 of 3 elements are NaN" in message


def sharp(x: Any) -> Any:
    y = tf.sqrt(x)  # sharp
    return tf.reduce_sum(y * tf.constant([1.0, 1.0]))


def gradient(x: Any) -> Any:
    """The slope of sqrt is infinite at 0, and 0 times infinity is NaN."""
    with tf.GradientTape() as tape:
        tape.watch(x)
        scaled = x * tf.constant([0.0, 2.0])  # scaled
        loss = sharp(scaled)
    return tape.gradient(loss, x)


@pytest.mark.parametrize("compiled", [True, False])
def test_a_nan_of_the_backward_pass_names_the_line_of_the_forward_pass(compiled: bool) -> None:
    run = tf.function(gradient) if compiled else gradient
    x = tf.constant([3.0, 4.0])

    assert np.isnan(run(x).numpy()).tolist() == [True, False]
    with tf.debug.nan_sentinel():
        message = message_of(run, x)

    assert message.startswith("The gradient of multiply at ")
    assert place_of("scaled") in message
    assert "became NaN in the backward pass: 1 of 2 elements are NaN" in message
    assert re.search("Before that, the gradient of sqrt at .*" + place_of("sharp"), message)


def test_a_nan_behind_an_infinity_names_both_lines() -> None:
    @tf.function
    def overflow(x: Any) -> Any:
        large = tf.exp(x)  # large
        return large - large  # difference

    with tf.debug.nan_sentinel():
        message = message_of(overflow, tf.constant([1.0, 1000.0]))

    assert message.startswith("subtract at ")
    assert place_of("difference") in message
    assert re.search("Before that, exp at .*" + place_of("large"), message)


def counted(x: Any) -> Any:
    return tf.foldl(lambda s, _: tf.math.log(s), tf.range(4000), x)  # counted


def conditional(x: Any) -> Any:
    while tf.reduce_max(x) > -1e30:
        x = tf.math.log(x)  # conditional
    return x


@pytest.mark.parametrize(
    ("loop", "marker"),
    [(counted, "counted"), (conditional, "conditional")],
    ids=["counted", "conditional"],
)
def test_a_nan_in_a_loop_names_the_line_and_the_round(loop: Any, marker: str) -> None:
    x = np.array([1e6], "float64")
    rounds, value = 0, 1e6
    while value > 0:
        value, rounds = np.log(value), rounds + 1

    with tf.debug.nan_sentinel():
        message = message_of(tf.function(loop), tf.constant(x))

    assert message.startswith("log at ")
    assert place_of(marker) in message
    assert f"in the forward pass, in round {rounds} of a loop" in message


def folded(x: Any) -> Any:
    return tf.foldl(lambda s, _: tf.sqrt(s * x), tf.range(3000), x)  # folded


def until(x: Any) -> Any:
    y, done = x, tf.constant(0)
    while tf.cast(done, "float32") < 3.0 + 0.0 * tf.reduce_sum(x):
        y = tf.sqrt(y * x)  # until
        done += 1
    return y


@pytest.mark.parametrize(("loop", "marker"), [(folded, "folded"), (until, "until")])
def test_a_gradient_through_a_loop_names_the_line_in_the_loop(loop: Any, marker: str) -> None:
    @tf.function
    def slope(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(loop(x))
        return tape.gradient(loss, x)

    with tf.debug.nan_sentinel():
        fine = slope(tf.constant([4.0])).numpy()
        message = message_of(slope, tf.constant([0.0]))

    assert np.isfinite(fine).all()
    assert "in the backward pass, in round " in message
    assert place_of(marker) in message


def test_a_function_in_a_function_names_the_inner_line() -> None:
    inner = tf.function(root)

    @tf.function
    def outer(x: Any) -> Any:
        return tf.reduce_mean(inner(x - 1.0))

    with tf.debug.nan_sentinel():
        assert float(outer(tf.constant([2.0, 5.0]))) == 1.5
        message = message_of(outer, tf.constant([0.0, 5.0]))

    assert place_of("root") in message


def test_a_function_under_a_tape_is_checked_in_both_passes() -> None:
    function = tf.function(lambda x: tf.reduce_sum(tf.sqrt(x)))  # under a tape
    x = tf.Variable([0.0, 4.0])

    with tf.debug.nan_sentinel():
        with tf.GradientTape() as tape:
            loss = function(x)
        message = message_of(tape.gradient, loss, x)
        x.assign([-1.0, 4.0])
        with tf.GradientTape():
            forward = message_of(function, x)

    assert "The gradient of sqrt at" in message
    assert "became infinite in the backward pass" in message
    assert place_of("under a tape") in message
    assert place_of("under a tape") in forward
    assert "forward pass" in forward


def test_no_variable_changes_if_a_new_value_is_nan() -> None:
    w, count = tf.Variable([1.0, 4.0], name="weights"), tf.Variable(0)

    @tf.function
    def step(x: Any) -> Any:
        count.assign_add(1)
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(w * x)
        grad = tape.gradient(loss, w)
        w.assign_sub(tf.math.log(grad))  # update
        return loss

    with tf.debug.nan_sentinel():
        step(tf.constant([1.0, 1.0]))
        message = message_of(step, tf.constant([1.0, -1.0]))

    assert place_of("update") in message
    assert "It reached the new value of variable 'weights" in message
    assert w.numpy().tolist() == [1.0, 4.0]
    assert int(count) == 1


@pytest.mark.parametrize("place", [(0, 0), (17, 130), (299, 410)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
def test_one_nan_in_a_large_array_is_seen(place: tuple[int, int], dtype: str) -> None:
    state = tf.Variable(np.ones((300, 411), dtype), name="state")

    @tf.function
    def step(x: Any) -> Any:
        state.assign(state * 0.5 - x * x)
        return tf.shape(x)

    x = np.ones((300, 411), dtype)
    with tf.debug.nan_sentinel():
        step(tf.constant(x))
        before = state.numpy().copy()
        x[place] = np.nan
        message = message_of(step, tf.constant(x))

    assert message.startswith("Input 0 of the program had NaN before the call.")
    np.testing.assert_array_equal(state.numpy(), before)


def test_a_nan_that_was_given_is_named() -> None:
    w = tf.Variable([np.nan], name="bad")
    read = tf.function(lambda x: x + w)
    double = tf.function(lambda x, y: x * y)

    with tf.debug.nan_sentinel():
        of_variable = message_of(read, tf.constant([1.0]))
        of_input = message_of(double, tf.constant([1.0]), tf.constant([np.nan]))

    assert of_variable.startswith("Variable 'bad")
    assert "had NaN before the call" in of_variable
    assert of_input.startswith("Input 1 of the program had NaN before the call.")


def masked(x: Any) -> Any:
    mask = tf.where(x > 0.0, 0.0, -np.inf)
    return tf.nn.softmax(x + mask)


def guarded(x: Any) -> Any:
    return tf.where(x > 0.0, tf.math.log(x), 0.0)


def left_out(x: Any) -> Any:
    return tf.math.log(x)[:2]


def unread(x: Any) -> Any:
    return tf.cast(tf.math.is_nan(tf.math.log(x)), "float32")


@pytest.mark.parametrize("function", [masked, guarded, left_out, unread])
def test_what_never_reaches_a_result_does_not_raise(function: Any) -> None:
    x = np.array([1.0, 2.0, -3.0], "float32")
    run = tf.function(function)
    expected = run(tf.constant(x)).numpy()

    with tf.debug.nan_sentinel():
        np.testing.assert_allclose(run(tf.constant(x)).numpy(), expected)


def test_a_nan_that_ends_in_a_decision_raises() -> None:
    @tf.function
    def best(x: Any) -> Any:
        return tf.argmax(tf.math.log(x))  # decision

    with tf.debug.nan_sentinel():
        assert int(best(tf.constant([1.0, 2.0]))) == 1
        message = message_of(best, tf.constant([1.0, -2.0]))

    assert message.startswith("log at ")
    assert place_of("decision") in message


def test_an_infinite_result_raises_and_an_infinite_variable_does_not() -> None:
    least = tf.Variable(np.inf)
    result = tf.function(lambda x: 1.0 / x)
    keep = tf.function(lambda x: least.assign(tf.minimum(least, tf.where(x > 0, x, np.inf))) * 0.0)

    with tf.debug.nan_sentinel():
        message = message_of(result, tf.constant([1.0, 0.0]))

    assert "made infinities in the forward pass: 1 of 2 elements are infinite" in message
    assert np.isnan(float(keep(tf.constant(-1.0))))
    track = tf.function(lambda x: tf.cast(least.assign(tf.minimum(least, x)) > 0, "int32"))
    with tf.debug.nan_sentinel():
        assert int(track(tf.constant(np.inf))) == 1


def test_the_switch_costs_nothing_after_the_block() -> None:
    run = tf.function(through_root)
    x = tf.constant([1.0, 4.0])
    run(x)
    before = str(run.program(x))

    with tf.debug.nan_sentinel():
        run(x)
        during = str(run.program(x))

    assert str(run.program(x)) == before != during
    assert np.isnan(float(run(-x)))
    assert run.experimental_get_tracing_count() == 1


def test_enable_check_numerics_is_the_same_switch() -> None:
    x = tf.constant([-1.0])
    tf.debugging.enable_check_numerics()
    try:
        tf.debugging.enable_check_numerics()  # as often as one likes
        assert "sqrt at" in message_of(tf.sqrt, x)
        assert "sqrt at" in message_of(tf.function(root), x)
    finally:
        tf.debugging.disable_check_numerics()
    assert np.isnan(tf.sqrt(x).numpy()).all()


def test_keras_fit_names_the_line_of_a_layer() -> None:
    class Root(tf.keras.layers.Layer):
        def call(self, x: Any) -> Any:
            return tf.sqrt(x)  # layer

    model = tf.keras.Sequential([tf.keras.Input((2,)), Root(), tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    x, y = np.ones((8, 2), "float32"), np.ones((8, 1), "float32")
    before = [w.numpy() for w in model.trainable_variables]

    with tf.debug.nan_sentinel():
        model.fit(x, y, batch_size=4, verbose=0)
        after = [w.numpy() for w in model.trainable_variables]
        x[5, 1] = -1.0
        with pytest.raises(NonFiniteError) as caught:
            model.fit(x[4:], y[4:], batch_size=4, verbose=0)

    assert place_of("layer") in str(caught.value)
    assert "forward pass" in str(caught.value)
    assert any((a != b).any() for a, b in zip(before, after, strict=True))
    for variable, value in zip(model.trainable_variables, after, strict=True):
        np.testing.assert_array_equal(variable.numpy(), value)


def test_keras_fit_names_the_line_of_a_backward_nan() -> None:
    class Distance(tf.keras.layers.Layer):
        def call(self, x: Any) -> Any:
            return tf.sqrt(tf.reduce_sum(x * x, axis=-1, keepdims=True))  # distance

    dense = tf.keras.layers.Dense(2, kernel_initializer="zeros")
    model = tf.keras.Sequential([tf.keras.Input((2,)), dense, Distance()])
    model.compile("sgd", "mse")

    with tf.debug.nan_sentinel(), pytest.raises(NonFiniteError) as caught:
        model.fit(np.ones((4, 2), "float32"), np.ones((4, 1), "float32"), verbose=0)

    assert place_of("distance") in str(caught.value)
    assert "backward pass" in str(caught.value)
