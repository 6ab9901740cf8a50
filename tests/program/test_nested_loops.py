"""Loops inside of loops and branches run in one call, and compute what eager code computes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.program.loops import body, counted, native_calls, primitives, recorded
from tests.program.native_calls import items_of

Function = Callable[[Any], Any]


@pytest.fixture(autouse=True)
def loops_of_any_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """Record short loops as one call, too, so that eager code is quick."""
    monkeypatch.setattr(counted, "LEAST_CALLS", 0)
    monkeypatch.setattr(recorded, "LEAST_ROUNDS", 1)


def start() -> Any:
    return tf.constant(np.linspace(0.1, 0.9, 3))


def steps(count: int) -> Any:
    return tf.constant(np.linspace(-1.0, 1.0, count))


def newton(target: Any) -> Any:
    """Return the solution x of x + x ** 3 = target, which takes some rounds."""
    x = target
    error = tf.reduce_max(tf.abs(target)) + 1.0
    while error > 1e-3:
        change = (x + x**3 - target) / (1.0 + 3.0 * x**2)
        x = x - change
        error = tf.reduce_max(tf.abs(change))
    return x


def while_in_scan(x: Any) -> Any:
    made = tf.scan(lambda u, t: newton(u + 0.1 * tf.cos(t)), steps(5), x)
    return tf.reduce_sum(made * made)


def scan_in_while(x: Any) -> Any:
    total = tf.reduce_sum(x)
    while total < 6.0:
        x = tf.scan(lambda u, t: tf.sin(u + 0.3) + 0.1 * t, steps(4), x)[-1]
        total = total + tf.reduce_sum(x)
    return tf.reduce_sum(x * x)


def while_in_while(x: Any) -> Any:
    rounds = tf.reduce_sum(x) * 0.0
    while rounds < 3.0:
        inner = rounds * 0.0
        while inner < rounds + 2.0:
            x = tf.sin(x) + 0.1 * inner
            inner = inner + 1.0
        rounds = rounds + 1.0
    return tf.reduce_sum(x * x)


def branch_in_while(x: Any) -> Any:
    rounds = tf.reduce_sum(x) * 0.0
    while rounds < 5.0:
        if tf.reduce_sum(x) > 1.0:
            x = tf.sin(x) * 0.5
        else:
            x = x + 0.3
        rounds = rounds + 1.0
    return tf.reduce_sum(x * x)


def while_in_branch(x: Any) -> Any:
    if tf.reduce_sum(x) > 1.0:
        y = newton(x)
    else:
        y = x * 2.0
    return tf.reduce_sum(y * y)


NESTS = (while_in_scan, scan_in_while, while_in_while, branch_in_while, while_in_branch)


def gradient(f: Function) -> Function:
    def evaluate(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = f(x)
        return tape.gradient(y, x)

    return evaluate


def forward(f: Function) -> Function:
    def evaluate(x: Any) -> Any:
        with tf.autodiff.ForwardAccumulator(x, x * x) as accumulator:
            y = f(x)
        return accumulator.jvp(y)

    return evaluate


def check(f: Function, x: Any) -> None:
    """Compare a recorded function with eager code, before and after it is compiled."""
    expected = f(x).numpy()
    compiled = tf.function(f)
    first = compiled(x)
    tf.wait_for_programs()
    for found in (first, compiled(x)):
        np.testing.assert_allclose(found.numpy(), expected, rtol=1e-9, atol=1e-12)
    assert len(items_of(compiled, x)) == 1


@pytest.mark.parametrize("f", NESTS)
def test_values_and_gradients_in_both_modes(f: Function) -> None:
    check(lambda x: tf.stack([f(x), *tf.unstack(gradient(f)(x)), forward(f)(x)]), start())


def limited(x: Any) -> Any:
    """Compute a loop in a loop, whose length a tensor limits."""

    def advance(u: Any, t: Any) -> Any:
        return tf.while_loop(
            lambda v: tf.reduce_sum(v) < 2.0,
            lambda v: (v * 1.3 + 0.1 * tf.sin(v) * t,),
            (u,),
            maximum_iterations=40,
        )[0]

    return tf.reduce_sum(tf.scan(lambda u, t: 0.5 * advance(u, t), steps(3), x) ** 2)


def test_second_order() -> None:
    check(forward(gradient(limited)), start())


def test_examples() -> None:
    batch = tf.constant(np.linspace(-0.5, 0.9, 6).reshape(2, 3))
    each = np.stack([gradient(limited)(x).numpy() for x in batch])
    found = tf.function(lambda x: tf.vectorized_map(gradient(limited), x))(batch)
    np.testing.assert_allclose(found.numpy(), each, rtol=1e-7)


def test_a_tape_grows_with_the_rounds() -> None:
    def long(x: Any) -> Any:
        rounds = tf.reduce_sum(x) * 0.0
        while rounds < 3000.0:
            x = x + 0.001 * tf.cos(x)
            rounds = rounds + 1.0
        return tf.reduce_sum(x)

    x, slope = start().numpy(), np.ones(3)
    for _ in range(3000):
        slope = slope * (1.0 - 0.001 * np.sin(x))
        x = x + 0.001 * np.cos(x)
    compiled = tf.function(gradient(long), wait=True)
    for _ in range(2):
        np.testing.assert_allclose(compiled(start()).numpy(), slope, rtol=1e-9)


def test_long_loops_are_compiled_while_they_are_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds: list[int] = []
    run = body.Body.__call__

    def counted_run(self: Any, arrays: Any) -> Any:
        rounds.append(1)
        return run(self, arrays)

    monkeypatch.setattr(body.Body, "__call__", counted_run)
    monkeypatch.setattr(body, "PATIENCE", 60.0)
    monkeypatch.setattr(body, "MOST_PLAIN_CALLS", 100)

    def long(x: Any) -> Any:
        n = tf.reduce_sum(x) * 0.0
        while n < 1000.0:
            x = tf.sin(x) + 0.5
            n = n + 1.0
        return tf.reduce_sum(x)

    compiled = tf.function(gradient(long))
    compiled(start())
    assert len(rounds) < 200
    expected = gradient(long)(start()).numpy()
    np.testing.assert_allclose(compiled(start()).numpy(), expected, rtol=1e-9)


def test_an_inner_loop_that_never_ends_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (native_calls, primitives):
        monkeypatch.setattr(module, "MOST_ROUNDS", 500)

    def f(x: Any) -> Any:
        def advance(u: Any, t: Any) -> Any:
            return tf.while_loop(lambda v: v != t, lambda v: (tf.sin(v) + 0.5,), (u,))[0]

        return tf.foldl(advance, x, tf.zeros([], "float64"))

    compiled = tf.function(f, wait=True)
    assert float(compiled(tf.zeros(3, "float64"))) == 0.0
    with pytest.raises(tf.errors.ArgumentError, match="has not ended after 500 iterations"):
        compiled(start())


def test_an_index_out_of_range_in_an_inner_loop_raises() -> None:
    def f(limit: Any) -> Any:
        table, place = tf.constant(np.arange(5.0)), limit * 0
        total = tf.constant(0.0, "float64")
        while place < limit:
            inner = place * 0
            while inner < 2:
                total = total + tf.gather(table, place + inner)
                inner = inner + 1
            place = place + 1
        return total

    compiled = tf.function(f, wait=True)
    assert float(compiled(tf.constant(4))) == 16.0
    assert float(compiled(tf.constant(3))) == 9.0
    with pytest.raises(IndexError, match=r"out of (bounds|range)"):
        compiled(tf.constant(9))
