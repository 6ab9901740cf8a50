"""Loops inside recorded functions are one call, and compute what eager code computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.program.loops import counted, recorded

Function = Callable[..., Any]
rng = np.random.default_rng(7)


def array(*shape: int) -> Any:
    return tf.constant(rng.standard_normal(shape))


@pytest.fixture(autouse=True)
def loops_of_any_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """Record short loops as one call, too, so that eager code is quick."""
    monkeypatch.setattr(counted, "LEAST_CALLS", 0)
    monkeypatch.setattr(recorded, "LEAST_ROUNDS", 1)


def names(program: Any) -> list[str]:
    return [call.primitive.name for call in program.recorded.calls]


def check(function: Function, *args: Any, loops: int) -> Any:
    """Compare a recorded function with eager code, and count its loops."""
    expected = tf.nest.flatten(function(*args))
    compiled = tf.function(function)
    for _ in range(2):  # the first call, and a replay
        found = tf.nest.flatten(compiled(*args))
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-9, atol=1e-12)
    program = compiled.program(*args)
    assert sum("loop" in name for name in names(program)) == loops
    return program


def step_of(weights: Any) -> Function:
    return lambda state, x: tf.tanh(state @ weights + x)


def test_scan_is_one_call() -> None:
    weights = array(3, 3)
    check(lambda x, h: tf.scan(step_of(weights), x, h), array(10, 2, 3), array(2, 3), loops=1)


@pytest.mark.parametrize("is_reversed", [False, True])
def test_scan_without_initial_value(is_reversed: bool) -> None:
    def function(x: Any) -> Any:
        return tf.scan(lambda total, y: total * 0.5 + tf.sin(y), x, reverse=is_reversed)

    check(function, array(9, 4), loops=1)


def test_folds_and_maps() -> None:
    def function(x: Any) -> Any:
        left = tf.foldl(lambda total, y: total * 0.9 + y, x)
        right = tf.foldr(lambda total, y: total * 0.9 + y * y, x, tf.zeros(4, "float64"))
        return left, right, tf.map_fn(lambda y: tf.exp(-y) * y, x)

    check(function, array(9, 4), loops=3)


def test_loops_with_the_names_of_keras() -> None:
    ops = tf.keras.ops

    def function(x: Any) -> Any:
        last, made = ops.scan(lambda c, y: (c * 0.5 + y, tf.sin(c)), tf.zeros(4, "float64"), x)
        counted_total, nothing = ops.scan(lambda c, _: (c * 0.9, None), x[0], length=9)
        assert nothing is None
        powers = ops.fori_loop(2, 9, lambda i, c: c + x[i % 9] / tf.cast(i, "float64"), x[0])
        return last, made, counted_total, powers, ops.map(lambda y: y * y, x)

    check(function, array(9, 4), loops=3)


def test_structures_of_carried_values_and_entries() -> None:
    def function(x: Any) -> Any:
        def step(state: Any, entry: Any) -> Any:
            total, (last,) = state
            return total + entry["a"] * last, (entry["b"],)

        start = (tf.zeros(4, "float64"), (tf.ones(4, "float64"),))
        return tf.scan(step, {"a": x, "b": x * 2.0}, start)

    check(function, array(9, 4), loops=1)


def gradients(function: Function, sources: list[Any]) -> list[Any]:
    with tf.GradientTape() as tape:
        tape.watch(sources)
        loss = function()
    return [loss, *tape.gradient(loss, sources)]


def test_gradients_of_all_that_a_loop_reads() -> None:
    weights, bias = tf.Variable(array(3, 3)), tf.Variable(array(3))

    def function(x: Any, h: Any) -> Any:
        def loss() -> Any:
            scale = tf.reduce_sum(h)  # a tensor from outside of the loop

            def step(state: Any, y: Any) -> Any:
                return tf.tanh(state @ weights + y * scale + bias)

            states = tf.scan(step, x, h)
            return tf.reduce_sum(states[-1] ** 2) + tf.reduce_sum(states[::2])

        return gradients(loss, [x, h, weights, bias])

    check(function, array(10, 2, 3), array(2, 3), loops=2)


def test_gradient_of_a_fold_from_the_last_entry() -> None:
    def function(x: Any) -> Any:
        return gradients(
            lambda: tf.reduce_sum(tf.foldr(lambda total, y: tf.sin(total) + y * y, x)), [x]
        )

    check(function, array(9, 4), loops=2)


def test_gradient_of_an_embedding_inside_a_loop() -> None:
    table = tf.Variable(array(5, 3))

    def function(words: Any) -> Any:
        def step(state: Any, word: Any) -> Any:
            return tf.tanh(state + tf.gather(table, word))

        return gradients(
            lambda: tf.reduce_sum(tf.foldl(step, words, tf.zeros((2, 3), "float64")) ** 2), [table]
        )

    words = tf.constant(rng.integers(0, 5, (8, 2)).astype("int32"))

    def dense(words: Any) -> Any:
        loss, grad = function(words)
        return loss, tf.convert_to_tensor(grad)

    check(dense, words, loops=2)


def test_second_derivatives() -> None:
    weights = tf.Variable(array(3, 3))

    def function(x: Any, h: Any) -> Any:
        with tf.GradientTape() as outer:
            outer.watch([x, h])
            with tf.GradientTape() as tape:
                tape.watch(h)
                loss = tf.reduce_sum(tf.foldl(step_of(weights), x, h) ** 2)
            grad, of_weights = tape.gradient(loss, [h, weights])
            total = tf.reduce_sum(grad**2) + tf.reduce_sum(of_weights**3)
        return outer.gradient(total, [x, h, weights])

    program = check(function, array(10, 2, 3), array(2, 3), loops=6)
    assert len(program.recorded.calls) < 100


def test_jacobians() -> None:
    weights = array(3, 3)

    def function(x: Any, h: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([x, h])
            y = tf.reduce_sum(tf.foldl(step_of(weights), x, h), axis=0)
        return tape.jacobian(y, [x, h])

    check(function, array(10, 2, 3), array(2, 3), loops=2)


def test_gradients_and_effects_of_functions_around_a_loop() -> None:
    """Branches, recomputation, persistent tapes, and tapes inside the body."""
    weights = tf.Variable(array(4, 4) * 0.3)

    def step(state: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(state)
            energy = tf.reduce_sum(tf.tanh(state @ weights) * y)
        return state - 0.1 * tape.gradient(energy, state)

    def function(x: Any) -> Any:
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = tf.recompute_grad(lambda x: tf.foldl(step, x))(x)
            z = tf.cond(
                tf.reduce_sum(x) > 0.0, lambda: tf.foldl(step, x), lambda: tf.foldl(step, x * 2.0)
            )
            first, second = tf.reduce_sum(y**2), tf.reduce_sum(z)
        return tape.gradient(first, [x, weights]), tape.gradient(second, [x, weights])

    check(function, array(6, 3, 4), loops=7)
    check(function, -array(6, 3, 4), loops=7)


def test_tapes_outside_of_the_function() -> None:
    weights = tf.Variable(array(3, 3))
    function = tf.function(lambda x, h: tf.reduce_sum(tf.foldl(step_of(weights), x, h) ** 2))
    x, h = array(10, 2, 3), array(2, 3)
    expected = gradients(
        lambda: tf.reduce_sum(tf.foldl(step_of(weights), x, h) ** 2), [x, h, weights]
    )
    for _ in range(2):
        found = gradients(lambda: function(x, h), [x, h, weights])
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-9)


def test_loops_inside_loops() -> None:
    weights = tf.Variable(array(3, 3) * 0.5)

    def function(x: Any) -> Any:
        def inner(state: Any, y: Any) -> Any:
            return tf.tanh(state @ weights + y)

        def outer(state: Any, rows: Any) -> Any:
            return tf.foldl(inner, rows, state) * 0.9

        return gradients(
            lambda: tf.reduce_sum(tf.foldl(outer, x, tf.ones((2, 3), "float64")) ** 2), [x, weights]
        )

    check(function, array(6, 5, 2, 3), loops=2)


def test_writes_to_the_results_of_a_loop_change_nothing_else() -> None:
    """A stack of results and what the gradient reads are one memory, and so are passed values."""
    weights = tf.Variable(array(3, 3))

    def function(x: Any, h: Any) -> Any:
        def step(state: Any, y: Any) -> Any:
            return tf.sin(state[0] @ weights) * 0.5 + y, state[1] * 1.0

        with tf.GradientTape() as tape:
            tape.watch([x, h])
            states, passed = tf.scan(step, x, (h, h))
            last = tf.foldl(lambda state, y: state * 1.0, x, h)
            states[2], last[0], passed[1] = x[0] * 5.0, 9.0, 7.0
            loss = tf.reduce_sum(states**2) + tf.reduce_sum(last * h) + tf.reduce_sum(passed)
        return loss, last, passed, h * 2.0, tape.gradient(loss, [x, h, weights])

    check(function, array(6, 2, 3), array(2, 3), loops=4)


@pytest.mark.parametrize("is_counted", [True, False])
def test_a_loop_returns_arrays_of_its_own(is_counted: bool) -> None:
    """Also values that its body passes on unchanged, and those of a loop without a round."""

    def function(x: Any, h: Any) -> Any:
        if is_counted:
            return tf.foldl(lambda state, y: (state[0], state[1] + y), x, (h, h))
        return tf.while_loop(
            lambda a, b: tf.reduce_sum(b) > 1e9, lambda a, b: (a, b * 2.0), (h, x[0])
        )

    compiled = tf.function(function)
    with tf.device("cpu"):
        x, h = tf.ones((6, 3), "float64"), tf.ones(3, "float64")
        compiled(x, h)
        graph = compiled.program(x, h).graph
    (call,) = [call for call in graph.calls if "loop" in call.primitive.name]
    operands = [np.ones(value.shape, value.dtype) for value in call.reads]
    operands = [np.zeros_like(a) if a.dtype == bool else a for a in operands]

    results = call.primitive.kernel(np.ndarray)(*operands, **call.params)

    assert not any(np.shares_memory(one, other) for one in results for other in operands)


def test_custom_gradients_and_stopped_gradients_inside_a_loop() -> None:
    @tf.custom_gradient
    def doubled(x: Any) -> Any:
        return x * x, lambda upstream: upstream * 3.0

    def function(x: Any) -> Any:
        def step(state: Any, y: Any) -> Any:
            return doubled(state * 0.1) + y * tf.stop_gradient(y)

        return gradients(lambda: tf.reduce_sum(tf.foldl(step, x)), [x])

    check(function, array(9, 4), loops=2)


def test_variables_assigned_inside_a_loop() -> None:
    count, total = tf.Variable(0), tf.Variable(tf.zeros(4, "float64"))

    def function(x: Any) -> Any:
        def step(state: Any, y: Any) -> Any:
            count.assign_add(1)
            total.assign(total * 0.5 + y)
            return state + y * total

        return tf.foldl(step, x, tf.zeros(4, "float64"))

    def fresh(run: Function) -> list[Any]:
        count.assign(0)
        total.assign(tf.zeros(4, "float64"))
        results = [run(x).numpy() for _ in range(3)]
        return [*results, count.numpy(), total.numpy()]

    x = array(9, 4)
    compiled = tf.function(function)
    for one, other in zip(fresh(compiled), fresh(function), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    assert "counted_loop" in names(compiled.program(x))


def test_random_numbers_inside_a_loop_are_those_of_eager_code() -> None:
    def function(x: Any) -> Any:
        def step(state: Any, y: Any) -> Any:
            return state * 0.5 + y * tf.random.normal(y.shape, dtype="float64")

        return gradients(lambda: tf.reduce_sum(tf.scan(step, x) ** 2), [x])

    def draws(run: Function) -> list[Any]:
        tf.random.set_seed(3)
        return [value.numpy() for _ in range(3) for value in run(x)]

    x = array(9, 4)
    compiled = tf.function(function)
    for one, other in zip(draws(compiled), draws(function), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)
    assert names(compiled.program(x)).count("counted_loop") == 2


def test_a_carried_value_that_grows_is_unrolled() -> None:
    def function(x: Any) -> Any:
        return tf.foldl(lambda rows, y: tf.concat([rows, y[None]], 0), x, x[:1])

    check(function, array(5, 4), loops=0)


# Loops that end by a condition


def halving(x: Any, most: int | None = None) -> Any:
    return tf.while_loop(
        lambda n, y: tf.reduce_sum(y * y) > 1e-3,
        lambda n, y: (n + 1, y * 0.5 + 0.01 * tf.sin(y)),
        (tf.constant(0), x),
        maximum_iterations=most,
    )


@pytest.mark.parametrize("most", [None, 1000])
def test_while_loop_is_one_call(most: int | None) -> None:
    program = check(lambda x: halving(x, most), array(4), loops=1)
    assert len(program.recorded.calls) < 10


def test_while_loop_that_never_runs() -> None:
    check(halving, tf.zeros(4, "float64"), loops=1)


def test_replays_of_a_while_loop_run_as_many_rounds_as_their_arguments_need() -> None:
    compiled = tf.function(halving)
    for scale in (1.0, 100.0, 0.0, 1e6):
        x = array(4) * scale
        for one, other in zip(compiled(x), halving(x), strict=True):
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-12)


def test_gradient_of_a_while_loop() -> None:
    factor = tf.Variable(tf.constant(0.5, "float64"))

    def function(x: Any) -> Any:
        def loss() -> Any:
            shift = tf.reduce_mean(x)
            found = tf.while_loop(
                lambda y: tf.reduce_sum(y * y) > 1e-3,
                lambda y: (y * factor + 1e-3 * tf.sin(y * shift),),
                (x,),
            )
            return tf.reduce_sum(found[0])

        return gradients(loss, [x, factor])

    check(function, array(4), loops=2)


def test_second_derivative_of_a_while_loop_needs_a_limit() -> None:
    def function(x: Any, most: int | None) -> Any:
        with tf.GradientTape() as outer:
            outer.watch(x)
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = tf.while_loop(
                    lambda y: tf.reduce_sum(y) > 1.0,
                    lambda y: (y * 0.5 + 0.01 * y * y,),
                    (x,),
                    maximum_iterations=most,
                )
                loss = tf.reduce_sum(y[0])
            grad = tape.gradient(loss, x)
        return outer.gradient(grad, x)

    x = tf.constant([3.0, 2.0])
    np.testing.assert_allclose(
        tf.function(lambda x: function(x, 50))(x).numpy(), function(x, 50).numpy(), rtol=1e-5
    )
    with pytest.raises(tf.errors.RecordingError, match="Pass maximum_iterations"):
        tf.function(lambda x: function(x, None))(x)


def test_numbers_among_the_loop_variables_become_tensors_after_many_rounds() -> None:
    def function(x: Any) -> Any:
        return tf.while_loop(
            lambda n, y: n < 5000, lambda n, y: (n + 1, y * 0.999 + 0.001), (0, x)
        )[1]

    program = check(function, array(4), loops=1)
    assert len(program.recorded.calls) < 2000


def test_a_loop_that_never_ends_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    from tapegrad.program.loops import primitives

    monkeypatch.setattr(primitives, "MOST_ROUNDS", 1000)
    endless = tf.function(
        lambda x: tf.while_loop(lambda y: tf.reduce_sum(y) > 0, lambda y: (y * 1.0,), (x,))
    )
    with pytest.raises(tf.errors.ArgumentError, match="has not ended after 1,000 iterations"):
        endless(tf.ones(3))


def test_an_unrolled_loop_that_never_ends_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    from tapegrad.ops.control import control_flow

    monkeypatch.setattr(control_flow, "MOST_UNROLLED", 300)

    def grow(most: int | None) -> Any:
        return lambda x: tf.while_loop(
            lambda y: True,
            lambda y: (tf.concat([y, y[:1]], 0),),
            (x,),
            maximum_iterations=most,
        )

    with pytest.raises(tf.errors.ArgumentError, match="has not ended after 300 iterations"):
        tf.function(grow(None))(tf.ones(2))
    assert tf.function(grow(300))(tf.ones(2))[0].shape == (302,)
    assert grow(400)(tf.ones(2))[0].shape == (402,)  # eager code keeps nothing


def test_recording_does_not_grow_with_the_rounds() -> None:
    counts = set()
    for length in (50, 5000):
        compiled = tf.function(lambda x: tf.scan(lambda h, y: tf.tanh(h) + y, x))
        x = array(length, 2)
        compiled(x)
        counts.add(len(compiled.program(x).recorded.calls))
    assert len(counts) == 1


def test_loops_of_few_calls_are_unrolled(monkeypatch: pytest.MonkeyPatch) -> None:
    """What counts is the calls of all rounds together."""
    monkeypatch.setattr(counted, "LEAST_CALLS", 100)
    run = tf.function(lambda x: tf.foldl(lambda state, entry: tf.sin(state) + entry, x))
    long, short = tf.zeros([60]), tf.zeros([30])
    assert float(run(long)) == float(run(short)) == 0.0
    assert "counted_loop" in str(run.program(long).recorded)
    assert "counted_loop" not in str(run.program(short).recorded)
