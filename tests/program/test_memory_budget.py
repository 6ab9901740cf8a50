"""With a memory budget, a program recomputes values instead of storing them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.errors import ArgumentError
from tests import capabilities
from tests.program.reference_loops import Reference

SIZE = 32


@pytest.fixture(autouse=True)
def loops_by_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    capabilities.use(monkeypatch, loops=Reference())


def step(x: Any, *weights: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(weights)
        for w in weights:
            x = tf.sin(tf.exp(tf.sin(x @ w)) * 0.5)
        loss = tf.reduce_sum(x * x)
    return loss, *tape.gradient(loss, weights)


@pytest.fixture
def arrays() -> list[Any]:
    rng = np.random.default_rng(0)
    return [tf.constant(rng.normal(size=(SIZE, SIZE)) * 0.1) for _ in range(5)]


def test_values_are_computed_again_until_the_budget_is_kept(arrays: list[Any]) -> None:
    plain = tf.function(step)
    plain(*arrays)
    peak = plain.program(*arrays).memory().peak
    budget = int(0.8 * peak)
    frugal = tf.function(step, memory_budget=budget)
    for _ in range(3):
        found = frugal(*arrays)

    assert frugal.program(*arrays).memory().peak <= budget
    for one, other in zip(found, step(*arrays)):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-11)


def test_a_budget_that_suffices_changes_nothing(arrays: list[Any]) -> None:
    plain, rich = tf.function(step), tf.function(step, memory_budget=1 << 30)
    plain(*arrays), rich(*arrays)

    assert str(rich.program(*arrays)) == str(plain.program(*arrays))


def test_a_budget_that_cannot_be_kept_gets_a_warning(arrays: list[Any]) -> None:
    with pytest.warns(UserWarning, match="more than its memory budget of 100 bytes"):
        tf.function(step, memory_budget=100)(*arrays)


@pytest.mark.parametrize("budget", [0, -1, "1 GB", 1.5])
def test_a_budget_is_a_number_of_bytes(budget: Any) -> None:
    with pytest.raises(ArgumentError, match="memory_budget must be a positive int"):
        tf.function(step, memory_budget=budget)
