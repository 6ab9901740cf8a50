"""Elementwise loops of Python become loops of compiled programs, with the results of eager mode."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
import tapegrad.numpy as tnp
from tapegrad_numpy.loops import compiler

pytestmark = pytest.mark.skipif(compiler.find() is None, reason="this machine has no C compiler")

STEPS = 24


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(0.5, 0.9, size=shape)


def all_states(w: Any, x: Any) -> Any:
    h, states = tnp.zeros_like(x[:, 0]), []
    for t in range(STEPS):
        h = w * h + x[:, t]
        states.append(h)
    return tnp.stack(states, axis=1)


def last_state(w: Any, x: Any) -> Any:
    h = x[:, 0]
    for t in range(1, STEPS):
        h = tnp.tanh(w * h + x[:, t])
    return h


def backwards(w: Any, x: Any) -> Any:
    total, states = tnp.zeros_like(x[:, 0]), []
    for t in reversed(range(STEPS)):
        total = x[:, t] + 0.9 * w * total
        states.append(total)
    return tnp.stack(states[::-1], axis=-1)


def two_before(w: Any, x: Any) -> Any:
    a, b, states = x[:, 0], x[:, 1], []
    for t in range(2, STEPS):
        a, b = b, 1.2 * b - w * a + 0.1 * x[:, t]
        states.append(b)
    return tnp.concatenate([s[None] for s in states], axis=0)


def with_numbers(w: Any, x: Any) -> Any:
    h = tnp.ones_like(x[:, 0])
    for t in range(STEPS):
        h = h + (t / STEPS - 0.4) * w * tnp.sin(h * x[:, t] + (t + 0.5))
    return h


def with_sums(w: Any, x: Any) -> Any:
    h, total = tnp.zeros_like(x[:, 0]), 0.0
    for t in range(STEPS):
        h = tnp.where(x[:, t] > 0.7, w * h, h + x[:, t])
        total = total + tnp.sum(h * h)
    return total


def with_new_axes(w: Any, x: Any) -> Any:
    h, rows = x[:, 0], x[:, None, :, None]
    for t in range(STEPS):
        h = w * h + rows[:, 0, t, 0]
    return h


def with_means(w: Any, x: Any) -> Any:
    h = x[:, 0]
    for t in range(STEPS):
        h = w * (h - tnp.sum(h, axis=-1, keepdims=True) / 3) + x[:, t]
    return h


def two_states(w: Any, x: Any) -> Any:
    position, speed = x[:, 0], tnp.zeros_like(x[:, 0])
    for _ in range(STEPS):
        speed = speed - 0.1 * w * position
        position = position + 0.1 * speed
    return position, speed


def of_parts(w: Any, x: Any) -> Any:
    h, kept = tnp.zeros_like(x[:, 0]), []
    for part in tf.unstack(x, axis=1):
        h = 0.5 * h + w * part
        kept.append(h)
    return kept[3] * kept[-2], kept[5:9], h


def in_layers(w: Any, x: Any) -> Any:
    for _ in range(2):
        x = all_states(w, tnp.sin(x))
    return x


def complex_states(w: Any, x: Any) -> Any:
    h, states = tnp.zeros_like(x[:, 0]) * 0j, []
    for t in range(STEPS):
        h = w * tnp.exp(0.3j) * h + x[:, t]
        states.append(h)
    found = tnp.stack(states)
    return tnp.real(found * tnp.conj(found))


CASES: list[tuple[Callable[..., Any], int]] = [
    (all_states, 2),
    (last_state, 2),
    (backwards, 2),
    (two_before, 2),
    (with_numbers, 2),
    (with_sums, 2),
    (with_means, 2),
    (with_new_axes, 1),  # backwards
    (two_states, 2),
    (of_parts, 1),
    (in_layers, 4),
    (complex_states, 1),
]


def with_gradients(function: Callable[..., Any]) -> Callable[..., Any]:
    def run(w: Any, x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([w, x])
            results = tf.nest.flatten(function(w, x))
            target = sum(tf.reduce_sum(tf.sin(one)) for one in results)
        return results, tape.gradient(target, [w, x])

    return run


def loops_in(compiled: Any, *arguments: Any) -> int:
    steps = compiled.program(*arguments).steps
    names = [getattr(step, "primitive", None) for step in steps]
    return sum(name is not None and name.name == "counted_loop" for name in names)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(("function", "count"), CASES, ids=lambda x: getattr(x, "__name__", ""))
def test_rounds_run_as_loops(function: Callable[..., Any], count: int, dtype: str) -> None:
    w, x = tf.constant(numbers(3), dtype), tf.constant(numbers(2, STEPS, 3, seed=1), dtype)
    run = with_gradients(function)
    compiled = tf.function(run, wait=True)

    for scale in (1.0, 0.5):
        found, expected = compiled(w, x * scale), run(w, x * scale)
        for one, other in zip(tf.nest.flatten(found), tf.nest.flatten(expected), strict=True):
            limit = 1e-12 if dtype == "float64" else 2e-5
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=limit, atol=limit)

    assert loops_in(compiled, w, x) == count


def test_derivatives_of_derivatives() -> None:
    w, x = tf.constant(numbers(3)), tf.constant(numbers(2, STEPS, 3, seed=1))

    def slopes(w: Any, x: Any) -> Any:
        with tf.GradientTape() as outer:
            outer.watch(w)
            with tf.GradientTape() as inner:
                inner.watch(w)
                y = tf.reduce_sum(last_state(w, x) ** 2)
            slope = inner.gradient(y, w)
        return outer.gradient(slope, w)

    compiled = tf.function(slopes, wait=True)
    compiled(w, x)
    np.testing.assert_allclose(compiled(w, x).numpy(), slopes(w, x).numpy(), rtol=1e-11)
    assert loops_in(compiled, w, x) > 0


def test_other_loops_stay_unrolled() -> None:
    def few(x: Any) -> Any:
        for _ in range(8):
            x = tnp.sin(x) + 0.1
        return x

    def moving(x: Any) -> Any:
        for _ in range(STEPS):
            x = x + 0.1 * (tnp.roll(x, 1) - x)
        return x

    def interleaved(x: Any) -> Any:
        for _ in range(STEPS):
            x = tnp.sin(x) + 0.01 * tnp.sort(x)
        return x

    x = tf.constant(numbers(50))
    for function in (few, moving, interleaved):
        compiled = tf.function(function, wait=True)
        compiled(x)
        np.testing.assert_allclose(compiled(x).numpy(), function(x).numpy(), rtol=1e-12)
        assert loops_in(compiled, x) == 0
