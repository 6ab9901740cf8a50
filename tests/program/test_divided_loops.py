"""Loops in segments: the gradient runs rounds again, computes the same, and needs less memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.program.loops import counted, recorded, segments

Function = Callable[..., Any]
rng = np.random.default_rng(11)


def array(*shape: int) -> Any:
    return tf.constant(rng.standard_normal(shape) * 0.5)


@pytest.fixture(autouse=True)
def loops_of_any_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """Record short loops as one call, too, so that eager code is quick."""
    monkeypatch.setattr(counted, "LEAST_CALLS", 0)
    monkeypatch.setattr(recorded, "LEAST_ROUNDS", 1)


def step(state: Any, y: Any) -> Any:
    return tf.sin(tf.exp(tf.sin(state * 1.5) * 0.5) * y) + y


def gradients(function: Function, sources: list[Any]) -> list[Any]:
    with tf.GradientTape() as tape:
        tape.watch(sources)
        loss = function()
    return [loss, *tape.gradient(loss, sources)]


def lengths(program: Any) -> list[int]:
    """The rounds of all loops, with those inside of the rounds."""
    found = []
    for call in program.recorded.calls:
        if call.primitive.name == "counted_loop":
            found += [call.params["length"], *lengths(call.params["body"])]
    return found


def rounds(program: Any) -> int:
    """How many rounds of innermost loops run."""
    total = 0
    for call in program.recorded.calls:
        if call.primitive.name == "counted_loop":
            total += call.params["length"] * (rounds(call.params["body"]) or 1)
    return total


def check(function: Function, *args: Any, **options: Any) -> Any:
    """Compare a recorded function with eager code; return its program."""
    expected = tf.nest.flatten(function(*args))
    compiled = tf.function(function, **options)
    for _ in range(2):
        found = tf.nest.flatten(compiled(*args))
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-9, atol=1e-12)
    return compiled.program(*args)


def folded(wrap: Function, run: Function = tf.foldl) -> Function:
    """The gradient of a fold that `wrap` wraps."""
    fold = wrap(lambda x, h: run(step, x, h))
    return lambda x, h: gradients(lambda: tf.reduce_sum(fold(x, h) ** 2), [x, h])


def plain(function: Function) -> Function:
    return function


@pytest.mark.parametrize("run", [tf.foldl, tf.foldr])
@pytest.mark.parametrize("length", [400, 401])
@pytest.mark.parametrize("count", [None, 7, 1, 1000])
def test_gradients_have_the_same_bits(run: Function, length: int, count: int | None) -> None:
    x, h = array(length, 3), array(3)
    divided = tf.function(folded(lambda f: tf.recompute_grad(f, segments=count), run))
    for _ in range(2):
        found = divided(x, h)
        for one, other in zip(found, tf.function(folded(plain, run))(x, h), strict=True):
            np.testing.assert_array_equal(one.numpy(), other.numpy())
    program = divided.program(x, h)
    assert rounds(program) == 3 * length  # forth, again, and back
    if count is None:
        assert max(lengths(program)) < length / 2
    else:
        assert {7: -(-length // 7), 1: length, 1000: 1}[count] in lengths(program)


def test_the_gradient_is_right() -> None:
    """By differences in float64."""
    x, h = array(40, 2), array(2)
    divided = tf.function(folded(tf.recompute_grad))
    grad = divided(x, h)[2]
    for place in range(2):
        shift = np.zeros(2)
        shift[place] = 1e-6
        more, less = divided(x, h + shift)[0], divided(x, h - shift)[0]
        assert float((more - less) / 2e-6) == pytest.approx(float(grad[place]), rel=1e-6)
    assert 40 not in lengths(divided.program(x, h))[1:]


def peak(function: Function, length: int, **options: Any) -> int:
    args = array(length, 3), array(3)
    compiled = tf.function(function, **options)
    compiled(*args)
    found: int = compiled.program(*args).memory().peak
    return found


def test_memory_grows_with_the_square_root_of_the_rounds() -> None:
    function = folded(plain)
    divided = folded(tf.recompute_grad)

    assert peak(function, 6400) > 3.9 * peak(function, 1600)
    assert peak(divided, 6400) < 2.2 * peak(divided, 1600)
    assert peak(divided, 6400) < 0.1 * peak(function, 6400)


def test_the_stacks_of_a_segment_belong_to_the_peak() -> None:
    """Two segments keep half of what is kept otherwise, not next to nothing."""
    function = folded(lambda f: tf.recompute_grad(f, segments=2))
    assert 0.4 < peak(function, 1600) / peak(folded(plain), 1600) < 0.75


def test_recompute_grad_around_the_body() -> None:
    again = tf.recompute_grad(step)

    def function(x: Any, h: Any) -> Any:
        return gradients(lambda: tf.reduce_sum(tf.foldl(again, x, h) ** 2), [x, h])

    program = check(function, array(400, 3), array(3))
    assert lengths(program).count(400) == 0
    assert peak(function, 6400) < 2.2 * peak(function, 1600)


def test_a_body_that_is_recomputed_in_part_is_not_divided() -> None:
    part = tf.recompute_grad(lambda state: tf.exp(tf.sin(state)))

    def function(x: Any) -> Any:
        return gradients(
            lambda: tf.reduce_sum(tf.foldl(lambda s, y: tf.tanh(part(s) * y) * tf.sin(y), x)), [x]
        )

    assert lengths(check(function, array(101, 3))) == [100, 100]


def test_scans_with_weights() -> None:
    weights, bias = tf.Variable(array(3, 3)), tf.Variable(array(3))

    def function(x: Any, h: Any) -> Any:
        @tf.recompute_grad
        def run(x: Any, h: Any) -> Any:
            scale = tf.reduce_sum(h)

            def layer(state: Any, y: Any) -> Any:
                return tf.tanh(tf.exp(tf.sin(state) @ weights) * y * scale + bias)

            states = tf.scan(layer, x, h)
            return tf.reduce_sum(states[-1] ** 2) + tf.reduce_sum(states[::2])

        return gradients(lambda: run(x, h), [x, h, weights, bias])

    for length in (100, 101):
        program = check(function, array(length, 2, 3), array(2, 3))
        assert length not in lengths(program)[1:]


@pytest.mark.parametrize("options", [{}, {"memory_budget": 8192}])
def test_random_numbers_are_the_same_when_rounds_run_again(options: Any) -> None:
    """The numbers of the plain gradient, which keeps them."""

    def layer(state: Any, y: Any) -> Any:
        return tf.sin(state * tf.random.normal(y.shape, dtype="float64")) + y

    def function(x: Any, h: Any) -> Any:
        return gradients(lambda: tf.reduce_sum(tf.foldl(layer, x, h) ** 2), [h])

    def draws(run: Function) -> list[Any]:
        tf.random.set_seed(3)
        return [value.numpy() for _ in range(3) for value in run(x, h)]

    x, h = array(100, 4), array(4)
    compiled = tf.function(function, **options)
    for one, other in zip(draws(compiled), draws(function), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9)
    assert (100 in lengths(compiled.program(x, h))) is not bool(options)


def test_variables_assigned_by_rounds() -> None:
    total = tf.Variable(tf.zeros(3, "float64"), trainable=False)

    def function(x: Any, h: Any) -> Any:
        total.assign(tf.zeros(3, "float64"))

        def layer(state: Any, y: Any) -> Any:
            total.assign(total * 0.5 + y)
            return tf.sin(tf.exp(state * 0.1) * total) * y

        found = gradients(lambda: tf.reduce_sum(tf.foldl(layer, x, h)), [h])
        return [*found, total * 1.0]

    program = check(function, array(100, 3), array(3), memory_budget=4096)
    assert 100 not in lengths(program)


def test_loops_inside_loops() -> None:
    def outer(state: Any, rows: Any) -> Any:
        return tf.foldl(step, rows, state) * 0.9

    def function(x: Any) -> Any:
        run = tf.recompute_grad(lambda x: tf.foldl(outer, x, x[0, 0]))
        return gradients(lambda: tf.reduce_sum(run(x) ** 2), [x])

    program = check(function, array(36, 49, 3))
    found = lengths(program)
    assert 36 not in found
    assert found.count(49) == 1  # in the rounds of the value; those of the gradient are divided


def test_a_scan_runs_its_rounds_again_once() -> None:
    def function(x: Any, h: Any) -> Any:
        run = tf.recompute_grad(lambda x, h: tf.scan(step, x, h))
        return gradients(lambda: tf.reduce_sum(run(x, h) ** 2), [x, h])

    assert rounds(check(function, array(400, 3), array(3))) == 3 * 400


def test_several_loops_continue_from_their_own_first_runs() -> None:
    def function(x: Any, h: Any) -> Any:
        @tf.recompute_grad
        def run(x: Any, h: Any) -> Any:
            for k in range(1, 4):
                h = tf.foldl(step, x * k, h) + k
            unused = tf.foldl(step, tf.stop_gradient(x), tf.zeros_like(h))
            return tf.foldr(step, x, h) + tf.stop_gradient(unused)

        return gradients(lambda: tf.reduce_sum(run(x, h) ** 2), [x, h])

    program = check(function, array(100, 3), array(3))
    assert rounds(program) == (4 * 3 + 1) * 100


def test_a_variable_that_is_assigned_before_the_gradient_is_read_again() -> None:
    """As it is outside of functions: the function runs again with what the variable is then."""
    weight = tf.Variable(array(3))

    def function(x: Any, h: Any) -> Any:
        weight.assign(tf.ones([3], "float64") * 0.5)
        run = tf.recompute_grad(lambda h: tf.foldl(lambda s, y: step(s * weight, y), x, h))
        with tf.GradientTape() as tape:
            tape.watch(h)
            loss = tf.reduce_sum(run(h) ** 2)
        weight.assign(weight * 0.9)
        return loss, tape.gradient(loss, h)

    check(function, array(100, 3), array(3))


def test_no_loop_is_divided_without_a_tape() -> None:
    function = tf.function(lambda x, h: tf.recompute_grad(lambda h: tf.foldl(step, x, h))(h))
    x, h = array(100, 3), array(3)
    function(x, h)

    assert lengths(function.program(x, h)) == [100]


def test_second_derivatives() -> None:
    def function(x: Any, h: Any) -> Any:
        run = tf.recompute_grad(lambda h: tf.foldl(step, x, h))
        with tf.GradientTape() as outer:
            outer.watch(h)
            grad = gradients(lambda: tf.reduce_sum(run(h) ** 2), [h])[1]
        return grad, outer.gradient(grad, h)

    def expected(x: Any, h: Any) -> Any:
        with tf.GradientTape() as outer:
            outer.watch(h)
            grad = gradients(lambda: tf.reduce_sum(tf.foldl(step, x, h) ** 2), [h])[1]
        return grad, outer.gradient(grad, h)

    x, h = array(40, 2), array(2)
    for one, other in zip(tf.function(function)(x, h), expected(x, h), strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-9)


def test_second_derivatives_within_a_budget() -> None:
    def function(x: Any, h: Any) -> Any:
        with tf.GradientTape() as outer:
            outer.watch(h)
            grad = gradients(lambda: tf.reduce_sum(tf.foldl(step, x, h) ** 2), [h])[1]
        return grad, outer.gradient(grad, h)

    check(function, array(40, 2), array(2), memory_budget=1 << 13)


def test_jacobians() -> None:
    def function(x: Any, h: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(h)
            y = tf.foldl(step, x, h)
        return tape.jacobian(y, h)

    program = check(function, array(100, 2), array(2), memory_budget=1 << 12)
    assert 100 not in lengths(program)


# Memory budgets


def test_a_budget_divides_loops_that_keep_too_much() -> None:
    args = array(1600, 3), array(3)
    function = folded(plain)
    whole = peak(function, 1600)
    program = check(function, *args, memory_budget=whole // 4)
    assert program.memory().peak <= whole // 4
    assert 1600 not in lengths(program)

    assert lengths(check(function, *args, memory_budget=4 * whole)) == [1600, 1600]


def test_loops_share_a_budget() -> None:
    """Each of them fits, but not both."""

    def function(x: Any, h: Any) -> Any:
        def loss() -> Any:
            return tf.reduce_sum(tf.foldl(step, x, h) * tf.foldr(step, x, h))

        return gradients(loss, [x, h])

    one = peak(folded(plain), 400)
    program = check(function, array(400, 3), array(3), memory_budget=5 * one // 2)
    assert lengths(program).count(400) == 2
    assert program.memory().peak <= 5 * one // 2


def test_a_budget_divides_inner_loops_if_that_is_needed() -> None:
    def outer(state: Any, rows: Any) -> Any:
        return tf.foldl(step, rows, state) * 0.9

    def function(x: Any, h: Any) -> Any:
        return gradients(lambda: tf.reduce_sum(tf.foldl(outer, x, h) ** 2), [h])

    x, h = array(16, 400, 3), array(3)
    program = check(function, x, h, memory_budget=1 << 15)
    assert 400 not in lengths(program)
    assert program.memory().peak <= 1 << 15


def test_a_budget_that_cannot_be_met_says_so() -> None:
    function = tf.function(folded(plain), memory_budget=1000)
    with pytest.warns(UserWarning, match="more than its memory budget of 1000 bytes"):
        found = function(array(400, 3), array(3))
    assert found[0].shape == ()


def test_tapes_outside_of_the_function() -> None:
    x, h = array(400, 3), array(3)
    function = tf.function(lambda x, h: tf.foldl(step, x, h), memory_budget=1 << 14)
    expected = gradients(lambda: tf.reduce_sum(tf.foldl(step, x, h) ** 2), [x, h])
    for _ in range(2):
        found = gradients(lambda: tf.reduce_sum(function(x, h) ** 2), [x, h])
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-9)


@pytest.mark.parametrize("count", [0, -1, 2.5, "4", True])
def test_segments_are_a_positive_int(count: Any) -> None:
    with pytest.raises(tf.errors.ArgumentError, match="segments must be a positive int"):
        tf.recompute_grad(step, segments=count)


def test_short_loops_are_not_divided() -> None:
    length = segments.LEAST_ROUNDS - 1
    found = tf.function(folded(tf.recompute_grad))
    x, h = array(length, 3), array(3)
    found(x, h)
    assert {*lengths(found.program(x, h))} == {length}


def test_recording_does_not_grow_with_the_rounds() -> None:
    counts = set()
    for length in (400, 10_000):
        compiled = tf.function(folded(tf.recompute_grad))
        x, h = array(length, 2), array(2)
        compiled(x, h)
        counts.add(len(compiled.program(x, h).recorded.calls))
    assert len(counts) == 1
