"""Groups of calls that pass over their rows several times: what joins them, and what does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
import tapegrad.numpy as tnp
from tapegrad.core.trace.loop import Loop
from tapegrad.program.passes import pipeline
from tests import capabilities
from tests.program.test_fusion import Watching, draw, kinds, steps_of

X = draw(6, 5)
SQUARE = draw(5, 5, seed=1)


@pytest.fixture
def target(monkeypatch: pytest.MonkeyPatch) -> Watching:
    """Run loops in NumPy instead of C, so that these tests need no compiler."""
    found = Watching()
    capabilities.use(monkeypatch, loops=found)
    return found


def loops_of(function: Callable[..., Any], *tensors: Any) -> list[Loop]:
    """Return the loops of a function that consists of loops, after a comparison with eager mode."""
    steps = steps_of(function, *tensors)
    assert set(kinds(steps)) == {"loop"}
    return [step.made_of.loop for step in steps]


def softmax(x: Any) -> Any:
    shifted = tf.exp(x - tf.reduce_max(x, -1, keepdims=True))
    return shifted / tf.reduce_sum(shifted, -1, keepdims=True)


def layer_norm(x: Any, gain: Any, bias: Any) -> Any:
    rest = x - tf.reduce_mean(x, -1, keepdims=True)
    return rest / tf.sqrt(tf.reduce_mean(rest * rest, -1, keepdims=True) + 1e-5) * gain + bias


def test_a_softmax_by_hand_is_one_loop_with_two_stages(target: Watching) -> None:
    (loop,) = loops_of(softmax, X)

    assert [stage.combine for stage in loop.stages] == ["maximum", "add"]
    assert [read.shape for read in loop.inputs] == [(6, 5)]
    assert [output.axes for output in loop.outputs] == [()]


def test_a_layer_norm_by_hand_is_one_loop(target: Watching) -> None:
    (loop,) = loops_of(layer_norm, X, draw(5, seed=2), draw(5, seed=3))

    assert len(loop.stages) == 2


def test_the_gradient_of_a_layer_norm_joins_its_rows(target: Watching) -> None:
    def gradients(x: Any, gain: Any, bias: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([x, gain, bias])
            y = tf.reduce_sum(tf.sin(layer_norm(x, gain, bias)))
        return tape.gradient(y, [x, gain, bias])

    loops = loops_of(gradients, X, draw(5, seed=2), draw(5, seed=3))

    assert [len(loop.stages) for loop in loops] == [4, 0]
    assert [output.axes for output in loops[1].outputs] == [(0,), (0,)]


def test_values_of_rows_are_stored_once_per_row(target: Watching) -> None:
    def log_sum_exp(x: Any) -> Any:
        top = tf.reduce_max(x, -1)
        return tf.math.log(tf.reduce_sum(tf.exp(x - top[:, None]), -1)) + top, top

    (loop,) = loops_of(log_sum_exp, X)

    assert [output.axes for output in loop.outputs] == [(1,), (1,)]
    assert [output.shape for output in loop.outputs] == [(6,), (6,)]


def test_rows_of_several_axes(target: Watching) -> None:
    (loop,) = loops_of(lambda x: x / tf.reduce_sum(x, (1, 2), keepdims=True), draw(4, 3, 5))

    assert loop.axes == (1, 2)


def test_all_elements_may_be_one_row(target: Watching) -> None:
    (loop,) = loops_of(lambda x: x / tf.sqrt(tf.reduce_sum(x * x)), X)

    assert loop.axes == (0, 1)


def test_a_sum_of_rows_read_along_columns_is_finished_first(target: Watching) -> None:
    loops = loops_of(lambda x: tf.exp(x) - tf.reduce_sum(tf.exp(x), 1), SQUARE)

    assert [len(loop.stages) for loop in loops] == [0, 0]


def test_values_of_rows_read_along_columns_are_finished_first(target: Watching) -> None:
    def function(x: Any) -> Any:
        rows = tf.exp(tf.reduce_sum(tf.exp(x), 1)) * 1e-9
        return tf.exp(x) * rows[:, None] + rows

    loops = loops_of(function, SQUARE)

    assert sum(bool(loop.stages) for loop in loops) <= 1
    assert len(loops) > 1


def test_a_reduction_of_values_of_rows_is_another_loop(target: Watching) -> None:
    def function(x: Any) -> Any:
        return tf.reduce_mean(tf.math.log(tf.reduce_sum(tf.exp(x), -1)))

    steps = steps_of(function, X)

    assert kinds(steps) == ["loop", "mean"]


def test_sums_along_both_axes_are_different_loops(target: Watching) -> None:
    def function(x: Any) -> Any:
        scaled = x / tf.reduce_sum(x * x, 1, keepdims=True)
        return scaled, tf.reduce_sum(scaled * x, 0)

    loops = loops_of(function, SQUARE)

    assert [loop.axes for loop in loops] == [(1,), (0,)]


def test_a_product_in_between_keeps_passes_apart(target: Watching) -> None:
    def function(x: Any) -> Any:
        total = tf.reduce_sum(tf.exp(x), 1, keepdims=True)
        return (x @ tf.exp(x)) / total + tf.exp(x) * total

    steps = steps_of(function, SQUARE)

    assert kinds(steps).count("matmul") == 1


def test_a_compiler_that_refuses_stages_gets_none(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refusing(Watching):
        def takes_stages(self, rows: int, length: int, stride: int = 1) -> bool:
            return (rows, length) != (6, 5)

    capabilities.use(monkeypatch, loops=Refusing())

    assert [len(loop.stages) for loop in loops_of(softmax, draw(7, 5))] == [2]
    assert not any(
        step.made_of.loop.stages for step in steps_of(softmax, X) if not hasattr(step, "primitive")
    )


# Definitions

NAMED: dict[str, Callable[..., Any]] = {
    "softmax": lambda x: tf.nn.softmax(x),
    "log_softmax": lambda x: tf.nn.log_softmax(x),
    "logsumexp": lambda x: tf.reduce_logsumexp(x, -1),
    "norm": lambda x: tf.norm(x, axis=-1),
    "maximum": lambda x: tf.reduce_max(x, -1),
    "layer norm": lambda x: tf.nn.batch_normalization(
        x, *tf.nn.moments(x, [-1], keepdims=True), None, None, 1e-3
    ),
    "l2 normalize": lambda x: tf.math.l2_normalize(x, -1),
}


@pytest.mark.parametrize("name", NAMED)
def test_named_reductions_with_gradients_are_loops(target: Watching, name: str) -> None:
    def function(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(tf.sin(NAMED[name](x * 2.0)))
        return y, tape.gradient(y, x)

    steps = steps_of(function, X)

    assert set(kinds(steps)) <= {"loop", "sum"}
    assert any(step.made_of.loop.stages for step in steps if not hasattr(step, "primitive"))


@pytest.mark.parametrize("special", [[-np.inf] * 3, [np.nan, 1.0, 2.0], [np.inf, 0.0, np.inf]])
@pytest.mark.parametrize("name", ["softmax", "log_softmax", "logsumexp", "norm", "maximum"])
def test_definitions_treat_special_values_alike(
    target: Watching, name: str, special: list[float]
) -> None:
    x = tf.constant([special, [1.0, -2.0, 1.0]])

    with np.errstate(all="ignore"):
        expected = NAMED[name](x)
        found = tf.function(NAMED[name])(x)

    np.testing.assert_array_equal(found.numpy(), expected.numpy())


# Half precision


def normalized_by_squares(x: Any) -> Any:
    rest = x - tf.reduce_mean(x, -1, keepdims=True)
    squares = tf.reduce_sum(rest * rest, -1, keepdims=True)
    return rest * tf.math.rsqrt(squares / 64 + 1e-3)


HALF: dict[str, Callable[..., Any]] = {
    "softmax": softmax,
    "named softmax": tf.nn.softmax,
    "norm": normalized_by_squares,
    "euclidean norm": lambda x: x / tf.norm(x, axis=-1, keepdims=True),
}


@pytest.mark.parametrize("name", HALF)
def test_rows_of_half_precision_are_one_loop(target: Watching, name: str) -> None:
    """It reads one array, writes one array, and rounds no more often than eager mode does."""
    pytest.importorskip("ml_dtypes")
    x = tf.cast(draw(6, 64), "bfloat16")
    function = tf.function(HALF[name])
    function(x)

    found = function(x).numpy().astype("float64")

    (step,) = function.program(x).steps
    assert sum(value.nbytes for value in (*step.arguments, *step.results)) == 2 * 6 * 64 * 2
    exact = HALF[name](tf.cast(x, "float64")).numpy()
    np.testing.assert_allclose(found, exact, rtol=2.0**-6, atol=2.0**-8)


def test_the_gradient_of_a_softmax_by_hand_in_half_precision_is_loops(target: Watching) -> None:
    pytest.importorskip("ml_dtypes")

    def function(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(tf.square(softmax(x)))
        return tape.gradient(y, x)

    x = tf.cast(draw(6, 64), "bfloat16")
    compiled = tf.function(function)
    compiled(x)

    found = compiled(x).numpy().astype("float64")

    assert set(kinds(compiled.program(x).steps)) == {"loop"}
    exact = function(tf.cast(x, "float64")).numpy()
    eager = function(x).numpy().astype("float64")
    assert np.abs(found - exact).max() <= 1.2 * np.abs(eager - exact).max()


def picked_by_one_hot(x: Any, labels: Any) -> Any:
    return tf.reduce_sum(tf.one_hot(labels, 5, dtype=x.dtype) * tf.nn.log_softmax(x), -1)


def picked_along_axis(x: Any, labels: Any) -> Any:
    return tnp.take_along_axis(tf.nn.log_softmax(x), labels[:, None], -1)


@pytest.mark.parametrize("pick", [picked_by_one_hot, picked_along_axis])
def test_a_loss_of_picked_elements_is_one_loop_over_all(target: Watching, pick: Any) -> None:
    """The gradient of a pick is a comparison of positions; nothing is scattered."""

    def function(x: Any, labels: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_mean(pick(x, labels))
        return y, tape.gradient(y, x)

    steps = steps_of(function, X, tf.constant([0, 4, 2, -1, 3, 3]))

    whole = [step for step in steps if any(value.shape == (6, 5) for value in step.results)]
    assert kinds(whole) == ["loop"]


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_a_scatter_of_one_element_along_any_axis_is_a_loop(target: Watching, axis: int) -> None:
    shape = [4, 3, 5]
    shape[axis] = 1
    indices = tf.constant(np.random.default_rng(0).integers(-2, 3, shape))

    def function(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(tf.exp(tnp.take_along_axis(x, indices, axis)))
        return tape.gradient(y, x) * 2.0

    steps = steps_of(function, draw(4, 3, 5))

    assert kinds(steps)[-1] == "loop"
    assert "scatter_along_axis" not in kinds(steps)


def test_a_one_hot_along_another_axis_stays(target: Watching) -> None:
    steps = steps_of(lambda i: tf.one_hot(i, 3, axis=0), tf.constant([0, 2, 1, 5]))

    assert kinds(steps) == ["one_hot"]


def test_the_gradient_of_a_norm_of_ones_counts_all_rows(target: Watching) -> None:
    """The gradient of the bias is a sum of constants, which only the definition shows."""
    layer = tf.keras.layers.LayerNormalization()
    layer.build((6, 5))

    def function(x: Any) -> Any:
        with tf.GradientTape() as tape:
            y = tf.reduce_sum(layer(x))
        return tape.gradient(y, [layer.gamma, layer.beta])

    steps_of(function, tf.cast(X, "float32"))


def test_sums_of_constants_that_no_pass_has_folded_are_right(
    target: Watching, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pipeline, "with_known_constants", lambda graph: graph)

    steps_of(lambda x: tf.reduce_sum(tf.ones_like(x) * 2.0, 0) + x[0], X)


def test_positions_that_are_no_numbers_of_the_dtype_of_indices(target: Watching) -> None:
    steps = steps_of(lambda i: tf.one_hot(i, 300) + 1.0, tf.constant([3, 255], "uint8"))

    assert kinds(steps) == ["one_hot", "loop"]


@pytest.mark.parametrize(("size", "as_a_whole"), [(12, True), (13, False)])
def test_an_embedding_of_which_many_rows_change_is_updated_as_a_whole(
    target: Watching, size: int, as_a_whole: bool
) -> None:
    start = np.random.default_rng(0).normal(size=(size, 3))
    table, optimizer = tf.Variable(start), tf.optimizers.SGD(0.5)

    @tf.function
    def step(indices: Any) -> Any:
        with tf.GradientTape() as tape:
            y = tf.reduce_sum(tf.square(tf.gather(table, indices)))
        optimizer.apply_gradients([(tape.gradient(y, table), table)])
        return y

    indices = tf.constant([2, 0, 2])
    step(indices)

    expected = start - 0.5 * 2 * start * np.bincount([2, 0, 2], minlength=size)[:, None]
    np.testing.assert_allclose(table.numpy(), expected, rtol=1e-12)
    # The loop that computes the rows adds them up, and another one updates the embedding.
    assert ("sgd_rows_update" not in kinds(step.program(indices).steps)) == as_a_whole
