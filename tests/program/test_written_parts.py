"""Programs that write to parts of arrays: they read what was written, and write in place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf
import tapegrad.numpy as tnp
from tests.seeds import SEED

rng = np.random.default_rng(5)


def array(*shape: int) -> Any:
    return tf.constant(rng.standard_normal(shape))


def check(function: Any, *args: Any) -> Any:
    """Compare values and gradients of a program with eager code."""

    def with_gradients(*args: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(args)
            values = tf.nest.flatten(function(*args))
            loss = sum(tf.reduce_sum(tf.sin(value)) for value in values)
        return *values, *tape.gradient(loss, args, unconnected_gradients="zero")

    expected = with_gradients(*args)
    compiled = tf.function(with_gradients)
    for _ in range(3):
        for one, other in zip(compiled(*args), expected, strict=True):
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-11, atol=1e-12)
    return compiled.program(*args)


def history(x: Any, rounds: int) -> Any:
    path = tnp.zeros((rounds + 1, *x.shape))
    path[0] = x
    for i in range(rounds):
        path[i + 1] = path[i] * 0.9 + tf.sin(path[i])
    return path


def test_a_history_is_written_in_place() -> None:
    program = check(lambda x: history(x, 20), array(3, 4))
    names = [step.primitive.name for step in program.steps if hasattr(step, "primitive")]
    assert names.count("slice_set") >= 20
    assert len(program._over) >= 19


def test_reading_two_rounds_back() -> None:
    def function(x: Any) -> Any:
        path = tnp.zeros((12, 4))
        path[0], path[1] = x, x * 2.0
        for i in range(2, 12):
            path[i] = path[i - 1] + 0.5 * path[i - 2]
        return path

    check(function, array(4))


def test_older_arrays_that_are_still_needed_are_not_overwritten() -> None:
    def function(x: Any) -> Any:
        first = tf.sin(x)
        second = first.copy()
        second[1] = x[0] * 3.0
        third = second.copy()
        third[2:] = second[:-2] + first[2:]
        return first, second, third

    check(function, array(5, 3))


def test_overlapping_writes_and_reads() -> None:
    def function(x: Any) -> Any:
        y = tf.cos(x)
        y[1:4] = x[2:5] * 2.0
        part = y[2:5]
        y[3] = part[0] * y[1]
        y[::2] = y[::-2] * 0.5
        return y, part

    check(function, array(5, 3))


def test_a_number_and_a_row_that_are_repeated() -> None:
    def function(x: Any) -> Any:
        y = tf.exp(x)
        y[1] = 2.0
        y[2:4] = x[0]
        return y[1] * y[2], y[2:4], y

    check(function, array(5, 3))


class Writes:
    """Random writes to and reads from parts of an array."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def part(self) -> Any:
        kind, start = self.rng.integers(0, 3), int(self.rng.integers(0, 5))
        if kind == 0:
            return slice(start, start + 2)
        return (slice(start, start + 2), slice(None, None, int(self.rng.choice([1, -1]))))

    def __call__(self, x: Any) -> Any:
        y, kept = tf.sin(x), []
        for _ in range(8):
            here, there = self.part(), self.part()
            if self.rng.integers(0, 4) == 0:
                kept.append(y.copy())
            y[here] = y[there] * 0.7 + x[here]
            if self.rng.integers(0, 3) == 0:
                kept.append(y[here] * 2.0)
        return [y, *kept]


@pytest.mark.parametrize("case", range(20))
def test_random_writes(case: int) -> None:
    check(lambda x: Writes(SEED * 100 + case)(x), array(6, 3))
