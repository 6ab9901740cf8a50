"""Recorded loops under vmap and forward mode: one loop for all examples and for all tangents."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.program.loops import counted, recorded

Function = Callable[..., Any]
rng = np.random.default_rng(5)


def array(*shape: int) -> Any:
    return tf.constant(rng.standard_normal(shape) * 0.7)


@pytest.fixture(autouse=True)
def loops_of_any_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """Record short loops as one call, too, so that eager code is quick."""
    monkeypatch.setattr(counted, "LEAST_CALLS", 0)
    monkeypatch.setattr(recorded, "LEAST_ROUNDS", 1)


def names(program: Any) -> list[str]:
    return [call.primitive.name for call in program.recorded.calls]


def check(function: Function, *args: Any, loops: int) -> Any:
    """Compare a recorded function with eager code, which unrolls, and count its loops."""
    expected = tf.nest.flatten(function(*args))
    compiled = tf.function(function)
    for _ in range(2):
        found = tf.nest.flatten(compiled(*args))
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-9, atol=1e-12)
    program = compiled.program(*args)
    assert sum("loop" in name for name in names(program)) == loops
    return program


def rows_of(function: Function, *args: Any) -> list[Any]:
    """The results of a function for each example, stacked."""
    found = [tf.nest.flatten(function(*[x[k] for x in args])) for k in range(len(args[0]))]
    return [np.stack([one.numpy() for one in parts]) for parts in zip(*found, strict=True)]


def fold(total: Any, y: Any) -> Any:
    return tf.sin(total * 1.5) + y * tf.cos(total)


def gradient_of(function: Function, x: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(function(x) ** 2)
    return tape.gradient(y, x)


# vmap


@pytest.mark.parametrize("run", [tf.foldl, tf.foldr, tf.scan])
def test_vmap_over_a_loop(run: Function) -> None:
    x = array(3, 6, 4)
    check(lambda x: tf.vmap(lambda row: run(fold, row))(x), x, loops=1)
    found = tf.function(lambda x: tf.vmap(lambda row: run(fold, row))(x))(x)
    np.testing.assert_allclose(found.numpy(), rows_of(lambda row: run(fold, row), x)[0], rtol=1e-9)


def test_vectorized_map_over_map_fn_and_loops_of_keras() -> None:
    ops = tf.keras.ops

    def one(row: Any) -> Any:
        last, made = ops.scan(lambda c, y: (c * 0.5 + y, tf.sin(c)), row[0], row)
        powers = ops.fori_loop(0, 9, lambda i, c: tf.sin(c) + row[0], row[1])
        return last, made, powers, tf.map_fn(lambda y: y * tf.sin(y), row)

    check(lambda x: tf.vectorized_map(one, x), array(3, 6, 4), loops=3)


def test_values_that_examples_share_have_no_axis_of_examples() -> None:
    """The stack of entries, a counter, and a weight stay as they are."""

    def function(x: Any, h: Any, weights: Any) -> Any:
        def one(start: Any) -> Any:
            def step(state: Any, y: Any) -> Any:
                count, total = state
                return count + 1.0, tf.tanh(total @ weights + y * count)

            return tf.foldl(step, x, (tf.constant(0.0, "float64"), start))

        return tf.vmap(one)(h)

    program = check(function, array(6, 4), array(3, 4), array(4, 4), loops=1)
    (call,) = [call for call in program.recorded.calls if call.primitive.name == "counted_loop"]
    shapes = [value.shape for value in call.reads]
    assert shapes == [(), (3, 4), (6, 4), (4, 4)]


def test_a_carried_value_that_becomes_different_in_the_first_round() -> None:
    def function(x: Any, scale: Any) -> Any:
        return tf.vmap(lambda s: tf.foldl(lambda total, y: tf.sin(total) * s + y, x))(scale)

    check(function, array(6, 4), array(3), loops=1)


def test_carried_values_that_become_different_one_after_the_other() -> None:
    def step(state: Any, y: Any) -> Any:
        _, b, c = state
        return b * 0.5, c + y, tf.sin(c)

    def function(x: Any, c: Any) -> Any:
        start = tf.zeros(4, "float64")
        return tf.vmap(lambda c: tf.scan(step, x, (start, start, c)))(c)

    check(function, array(6, 4), array(3, 4), loops=1)


def test_vmap_inside_vmap() -> None:
    def function(x: Any, h: Any) -> Any:
        return tf.vmap(lambda row: tf.vmap(lambda one: tf.foldl(fold, row, one))(h))(x)

    check(function, array(2, 6, 4), array(3, 4), loops=1)


def test_vmap_inside_the_body() -> None:
    def step(total: Any, y: Any) -> Any:
        return tf.vmap(lambda a, b: tf.sin(a) + b)(total, y)

    check(lambda x: tf.vmap(lambda row: tf.foldl(step, row))(x), array(3, 6, 4), loops=1)


def test_loops_inside_loops() -> None:
    def outer(state: Any, rows: Any) -> Any:
        return tf.foldl(fold, rows, state) * 0.9

    def function(x: Any) -> Any:
        return tf.vmap(lambda block: tf.foldl(outer, block, block[0, 0]))(x)

    check(function, array(3, 5, 6, 2), loops=1)


def test_gradients_around_vmap() -> None:
    weights = tf.Variable(array(4, 4))

    def function(x: Any, h: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([x, h])
            shift = tf.reduce_sum(h)

            def one(row: Any) -> Any:
                return tf.foldl(lambda s, y: tf.tanh(s @ weights + y * shift), row, h)

            loss = tf.reduce_sum(tf.vmap(one)(x) ** 2)
        return loss, tape.gradient(loss, [x, h, weights])

    check(function, array(3, 6, 4), array(4), loops=2)


def test_gradients_inside_vmap() -> None:
    def one(row: Any) -> Any:
        return gradient_of(lambda row: tf.scan(fold, row), row)

    x = array(3, 6, 4)
    check(lambda x: tf.vmap(one)(x), x, loops=2)
    found = tf.function(lambda x: tf.vmap(one)(x))(x)
    np.testing.assert_allclose(found.numpy(), rows_of(one, x)[0], rtol=1e-9)


def test_gradients_of_variables_inside_vmap() -> None:
    """Each example has its own gradient, so the loop is unrolled."""
    weights = tf.Variable(array(4, 4))

    def one(row: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.foldl(lambda s, y: tf.tanh(s @ weights + y), row) ** 2)
        return tape.gradient(loss, weights)

    check(lambda x: tf.vmap(one)(x), array(3, 6, 4), loops=0)


def test_second_derivatives_around_vmap() -> None:
    def function(x: Any) -> Any:
        return gradient_of(
            lambda x: gradient_of(lambda x: tf.vmap(lambda row: tf.foldl(fold, row))(x), x), x
        )

    check(function, array(3, 6, 4), loops=6)


def test_random_numbers_inside_vmap_are_those_of_eager_code() -> None:
    def function(x: Any) -> Any:
        def step(total: Any, y: Any) -> Any:
            return tf.sin(total) + y * tf.random.normal(y.shape, dtype="float64")

        return tf.vmap(lambda row: tf.foldl(step, row, tf.zeros(4, "float64")))(x)

    def draws(run: Function) -> list[Any]:
        tf.random.set_seed(3)
        return [run(x).numpy() for _ in range(3)]

    x = array(3, 6, 4)
    compiled = tf.function(function)
    for one, other in zip(draws(compiled), draws(function), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)
    assert names(compiled.program(x)).count("counted_loop") == 1


def test_a_carried_value_that_grows_is_unrolled() -> None:
    def one(row: Any) -> Any:
        return tf.foldl(lambda rows, y: tf.concat([rows, y[None]], 0), row, row[:1])

    check(lambda x: tf.vmap(one)(x), array(3, 5, 4), loops=0)


def test_jacobians_by_rows() -> None:
    weights = tf.Variable(array(3, 3))

    def function(x: Any, h: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([x, h])
            states = tf.scan(lambda s, y: tf.tanh(s @ weights + y), x, h)
            y = tf.reduce_sum(states, 0)
        return tape.jacobian(y, [x, h, weights])

    check(function, array(5, 3), array(3), loops=2)


def test_jacobians_of_gradients() -> None:
    def function(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = gradient_of(lambda x: tf.foldl(fold, x), x)
        return tape.jacobian(y, x)

    check(function, array(5, 2), loops=6)


def halving(x: Any) -> Any:
    return tf.while_loop(
        lambda n, y: tf.reduce_sum(y * y) > 1e-3,
        lambda n, y: (n + 1, y * 0.5 + 0.01 * tf.sin(y)),
        (tf.constant(0), x),
    )


def test_examples_end_a_while_loop_at_different_rounds() -> None:
    x = tf.constant([[1.0, 2.0], [100.0, 5.0], [0.0, 0.0], [0.1, 3.0]], "float64")
    compiled = tf.function(lambda x: tf.vmap(halving)(x))
    for factor in (1.0, 1e4):
        for one, other in zip(compiled(x * factor), rows_of(halving, x * factor), strict=True):
            np.testing.assert_allclose(one.numpy(), other, rtol=1e-12)
    assert len({*compiled(x)[0].tolist()}) > 2
    assert names(compiled.program(x)).count("conditional_loop") == 1


def test_a_while_loop_whose_condition_examples_share() -> None:
    def function(x: Any, n: Any) -> Any:
        def one(row: Any) -> Any:
            return tf.while_loop(lambda k, y: k < n, lambda k, y: (k + 1, tf.sin(y)), (0 * n, row))

        return tf.vmap(one)(x)[1]

    program = check_while(function, array(3, 4), tf.constant(7))
    (call,) = [call for call in program.recorded.calls if "loop" in call.primitive.name]
    assert call.reads[0].shape == ()


def check_while(function: Function, x: Any, n: Any) -> Any:
    compiled = tf.function(function)
    expected = x
    for _ in range(int(n)):
        expected = tf.sin(expected)
    for _ in range(2):
        np.testing.assert_allclose(compiled(x, n).numpy(), expected.numpy(), rtol=1e-12)
    return compiled.program(x, n)


def test_a_while_loop_whose_condition_becomes_different() -> None:
    """The first condition is the same for all examples, later ones are not."""

    def one(row: Any, zero: Any) -> Any:
        return tf.while_loop(
            lambda total, y: tf.abs(total) < 4.0,
            lambda total, y: (total + tf.reduce_sum(y * y) + 0.1, y * 1.1),
            (zero, row),
        )

    x, zero = array(3, 4), tf.constant(0.0, "float64")
    compiled = tf.function(lambda x, zero: tf.vmap(lambda row: one(row, zero))(x))
    for ours, other in zip(compiled(x, zero), rows_of(lambda row: one(row, zero), x), strict=True):
        np.testing.assert_allclose(ours.numpy(), other, rtol=1e-12)
    assert names(compiled.program(x, zero)).count("conditional_loop") == 1


def test_gradients_of_examples_of_a_while_loop() -> None:
    x = tf.constant([[1.0, 2.0], [100.0, 5.0], [0.1, 3.0]], "float64")
    compiled = tf.function(
        lambda x: gradient_of(lambda x: tf.vmap(lambda row: halving(row)[1])(x), x)
    )
    expected = rows_of(lambda row: gradient_of(lambda row: halving(row)[1], row), x)[0]
    for _ in range(2):
        np.testing.assert_allclose(compiled(x).numpy(), expected, rtol=1e-9)
    assert "conditional_loop_gradient" in names(compiled.program(x))


def chosen(x: Any) -> Any:
    return tf.cond(tf.reduce_sum(x) > 0.0, lambda: tf.sin(x), lambda: x * 2.0)


def test_vectorized_map_becomes_a_loop_if_a_function_reads_a_value() -> None:
    x = array(6, 4)
    expected = np.stack([chosen(row).numpy() for row in x])
    compiled = tf.function(lambda x: tf.vectorized_map(chosen, x, warn=False))
    for _ in range(2):
        np.testing.assert_allclose(compiled(x).numpy(), expected, rtol=1e-12)
    assert names(compiled.program(x)) == ["counted_loop"]

    with pytest.warns(UserWarning, match="one element after the other"):
        np.testing.assert_allclose(tf.vectorized_map(chosen, x).numpy(), expected, rtol=1e-12)
    with pytest.raises(tf.errors.ArgumentTypeError, match="stands for many examples"):
        tf.vectorized_map(chosen, x, fallback_to_while_loop=False)


def test_vectorized_map_hides_no_other_error() -> None:
    with pytest.raises(tf.errors.ArgumentTypeError, match="abc"):
        tf.vectorized_map(lambda x: tf.sin("abc"), array(3), warn=False)


def test_structures_of_a_vectorized_map_that_becomes_a_loop() -> None:
    def one(elems: Any) -> Any:
        return {"y": chosen(elems[0]), "n": elems[1] + 1}

    x, n = array(6, 4), tf.range(6)
    found = tf.function(lambda x, n: tf.vectorized_map(one, (x, n), warn=False))(x, n)
    assert found["n"].tolist() == [1, 2, 3, 4, 5, 6]
    np.testing.assert_allclose(found["y"].numpy(), [chosen(row).numpy() for row in x], rtol=1e-12)


# Forward mode


def jvp(function: Function, x: Any, t: Any) -> Any:
    with tf.autodiff.ForwardAccumulator(x, t) as accumulator:
        y = function(x)
    return y, accumulator.jvp(y)


@pytest.mark.parametrize("run", [tf.foldl, tf.foldr, tf.scan])
def test_tangents_are_carried_with_the_values(run: Function) -> None:
    x, t = array(6, 4), array(6, 4)
    check(lambda x, t: jvp(lambda x: run(fold, x), x, t), x, t, loops=1)


def test_tangents_equal_differences() -> None:
    x, t = array(6, 4), array(6, 4)
    tangent = tf.function(lambda x, t: jvp(lambda x: tf.foldl(fold, x), x, t)[1])(x, t)
    more, less = tf.foldl(fold, x + 1e-6 * t), tf.foldl(fold, x - 1e-6 * t)
    np.testing.assert_allclose(tangent.numpy(), (more - less).numpy() / 2e-6, rtol=1e-6, atol=1e-8)


def test_tangents_of_all_that_a_loop_reads() -> None:
    weights = tf.Variable(array(4, 4))

    def function(x: Any, h: Any, t: Any) -> Any:
        primals = (h, weights)
        with tf.autodiff.ForwardAccumulator(primals, (t, tf.ones_like(weights))) as accumulator:
            scale = tf.reduce_sum(h)
            states, counts = tf.scan(
                lambda s, y: (tf.tanh(s[0] @ weights + y * scale), s[1] + 1), x, (h, 0)
            )
            loss = tf.reduce_sum(states**2)
        return loss, counts, accumulator.jvp(loss), accumulator.jvp(states)

    check(function, array(6, 4), array(4), array(4), loops=1)


def test_values_without_tangents() -> None:
    def function(x: Any, h: Any) -> Any:
        with tf.autodiff.ForwardAccumulator(h, tf.ones_like(h)) as accumulator:
            a, b = tf.foldl(lambda s, y: (s[0] * 0.5 + y, s[1] * y), x, (x[0], h))
            other = tf.foldl(fold, x)
        assert accumulator.jvp(other) is None
        return a, b, other, accumulator.jvp(b)

    check(function, array(6, 4), array(4), loops=2)


def test_forward_over_reverse_and_reverse_over_forward() -> None:
    def forward_over_reverse(x: Any, t: Any) -> Any:
        return jvp(lambda x: gradient_of(lambda x: tf.foldl(fold, x), x), x, t)

    def reverse_over_forward(x: Any, t: Any) -> Any:
        return gradient_of(lambda x: jvp(lambda x: tf.foldl(fold, x), x, t)[1], x)

    x, t = array(6, 4), array(6, 4)
    program = check(forward_over_reverse, x, t, loops=4)
    assert len(program.recorded.calls) < 60
    check(reverse_over_forward, x, t, loops=2)


def test_tangents_of_tangents() -> None:
    def function(x: Any, t: Any) -> Any:
        return jvp(lambda x: jvp(lambda x: tf.foldl(fold, x), x, t)[1], x, t)

    check(function, array(6, 4), array(6, 4), loops=1)


def test_forward_jacobian_by_vmap() -> None:
    def function(x: Any, directions: Any) -> Any:
        return tf.vmap(lambda t: jvp(lambda x: tf.foldl(fold, x), x, t)[1])(directions)

    check(function, array(6, 2), array(5, 6, 2), loops=1)


def test_tangents_inside_and_around_vmap() -> None:
    def inside(x: Any, t: Any) -> Any:
        return tf.vmap(lambda row, t: jvp(lambda x: tf.foldl(fold, x), row, t)[1])(x, t)

    def around(x: Any, t: Any) -> Any:
        return jvp(lambda x: tf.vmap(lambda row: tf.foldl(fold, row))(x), x, t)

    check(inside, array(3, 6, 2), array(3, 6, 2), loops=1)
    check(around, array(3, 6, 2), array(3, 6, 2), loops=1)


def test_variables_that_rounds_assign_change_once() -> None:
    count = tf.Variable(0)

    def function(x: Any, t: Any) -> Any:
        def step(total: Any, y: Any) -> Any:
            count.assign_add(1)
            return tf.sin(total) * tf.random.normal(y.shape, dtype="float64") + y

        with tf.GradientTape() as tape:  # values and tangents are two loops
            tape.watch(x)
            y, dot = jvp(lambda x: tf.foldl(step, x, x[0]), x, t)
        return y, dot, tape.gradient(y, x)

    def draws(run: Function) -> list[Any]:
        count.assign(0)
        tf.random.set_seed(4)
        found = [value.numpy() for _ in range(3) for value in run(x, t)]
        return [*found, count.numpy()]

    x, t = array(6, 4), array(6, 4)
    compiled = tf.function(function)
    for one, other in zip(draws(compiled), draws(function), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)
    assert "counted_loop" in names(compiled.program(x, t))


def test_tangents_of_a_while_loop() -> None:
    def function(x: Any, t: Any) -> Any:
        (_, y), (_, dot) = jvp(halving, x, t)
        return y, dot

    x, t = array(4) * 50.0, array(4)
    compiled = tf.function(function)
    for _ in range(2):
        for one, other in zip(compiled(x, t), function(x, t), strict=True):
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-9)
    assert names(compiled.program(x, t)).count("conditional_loop") == 1


def test_tangents_of_examples_of_a_while_loop() -> None:
    def one(row: Any, t: Any) -> Any:
        return jvp(lambda row: halving(row)[1], row, t)

    x, t = array(3, 4) * 50.0, array(3, 4)
    compiled = tf.function(lambda x, t: tf.vmap(one)(x, t))
    for ours, other in zip(compiled(x, t), rows_of(one, x, t), strict=True):
        np.testing.assert_allclose(ours.numpy(), other, rtol=1e-9)


@pytest.mark.parametrize("kind", ["vmap", "forward", "jacobian"])
def test_recording_does_not_grow_with_the_rounds(kind: str) -> None:
    def function(x: Any) -> Any:
        if kind == "vmap":
            return tf.vmap(lambda row: tf.scan(fold, row), in_axes=1)(x)
        if kind == "forward":
            return jvp(lambda x: tf.scan(fold, x), x, tf.ones_like(x))
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.foldl(fold, x)
        return tape.jacobian(y, x)

    counts = set()
    for length in (50, 1000):
        compiled = tf.function(function)
        x = array(length, 2)
        compiled(x)
        counts.add(len(compiled.program(x).recorded.calls))
    assert len(counts) == 1
