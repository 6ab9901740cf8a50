"""Writes into parts of arrays are elementwise calls in programs, and do what NumPy does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tests.seeds import program_seeds

Function = Callable[[Any, Any], Any]


@pytest.fixture(autouse=True)
def without_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the calls of programs one by one: what the pass makes does not depend on loops in C."""
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CC", raising=False)


def with_gradients(function: Function) -> Any:
    def run(x: Any, s: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([x, s])
            y = function(x, s)
            loss = tf.reduce_sum(tf.cos(y))
        return y, *tape.gradient(loss, [x, s], unconnected_gradients="zero")

    return run


def calls_of(function: Function, x: np.ndarray, s: np.ndarray) -> Counter[str]:
    """Compare values with NumPy and gradients with eager mode; return the calls of the program."""
    tensors, run = (tf.constant(x), tf.constant(s)), with_gradients(function)
    recorded = tf.function(run, wait=True)
    recorded(*tensors)

    found, expected = recorded(*tensors), run(*tensors)

    np.testing.assert_allclose(found[0], function(x.copy(), s.copy()), rtol=1e-12, atol=1e-12)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
    return Counter(call.primitive.name for call in recorded.program(*tensors).graph.calls)


def mesh(x: Any, s: Any) -> Any:
    """Return forces that springs between neighbours add to both, with a wall and gravity."""
    f = -0.5 * x
    f[..., 2] -= 9.81
    f[:, :-1] += s[:, 1:]
    f[:, 1:] -= s[:, 1:]
    f[:-1, 1:] += s[1:, :-1]
    f[0] = 0.0
    f[-1, 2:4] = s[0, 2:4]
    return f


def test_additions_to_parts_are_no_writes() -> None:
    rng = np.random.default_rng(0)
    x, s = rng.normal(size=(2, 4, 5, 3))

    calls = calls_of(mesh, x, s)

    assert calls["slice_set"] == 0
    assert calls["where"] <= 6


def test_the_gradient_of_an_addition_to_a_part_is_the_cotangent() -> None:
    def added(x: Any, s: Any) -> Any:
        f = 2.0 * x
        f[1:] += s[1:]
        return f

    calls = calls_of(added, *np.random.default_rng(1).normal(size=(2, 6)))

    assert calls["slice_set"] == calls["where"] == 0
    assert calls["unslice"] <= 2  # the part that is added, and the gradient by `s`


def test_borders_are_set_where_there_are_nan() -> None:
    def with_borders(x: Any, s: Any) -> Any:
        u = x * s
        u[0] = u[-1] = 0.0
        u[:, :1] = s[:, -1:]
        return u

    x, s = np.random.default_rng(2).normal(size=(2, 4, 5))
    x[0] = np.inf
    x[-1] = np.nan

    with np.errstate(invalid="ignore"):
        calls = calls_of(with_borders, x, s)

    assert calls["slice_set"] == 0


def test_arrays_that_loops_fill_keep_their_writes() -> None:
    def path(x: Any, s: Any) -> Any:
        states = 0.0 * x
        for k in range(1, 60):
            states[k] = (
                tf.sin(states[k - 1] + s[k])
                if isinstance(x, tf.Tensor)
                else np.sin(states[k - 1] + s[k])
            )
        return states

    calls = calls_of(path, *np.random.default_rng(3).normal(size=(2, 60, 2)))

    assert calls["slice_set"] >= 20


def test_an_array_of_one_number_is_a_view_that_nothing_overwrites() -> None:
    def filled(x: Any, s: Any) -> Any:
        y = 1.0 * x
        y[:] = 3.0
        y[1] = s[1]
        return y

    x, s = np.random.default_rng(4).normal(size=(2, 4))
    recorded = tf.function(filled, wait=True)
    recorded(tf.constant(x), tf.constant(s))

    assert calls_of(filled, x, s)["broadcast_to"]
    calls = recorded.program(tf.constant(x), tf.constant(s)).graph.calls
    assert all(call.aliases for call in calls if call.primitive.name == "broadcast_to")


def part(rng: np.random.Generator, shape: tuple[int, ...]) -> tuple[Any, ...]:
    """Return a random basic index with at least one entry."""
    kinds: list[Callable[[int], Any]] = [
        lambda n: int(rng.integers(-n, n)),
        lambda n: slice(None),
        lambda n: slice(1, None),
        lambda n: slice(None, -1),
        lambda n: slice(None, None, 2),
        lambda n: slice(start := int(rng.integers(n)), int(rng.integers(start + 1, n + 1))),
    ]
    index = tuple(kinds[rng.integers(len(kinds))](n) for n in shape)
    return index[: int(rng.integers(1, len(index) + 1))]


WRITES: list[Callable[[Any, Any, Any], Any]] = [
    lambda old, s, x: old + s,
    lambda old, s, x: s + old,
    lambda old, s, x: old - s * x,
    lambda old, s, x: s - old,
    lambda old, s, x: old * s,
    lambda old, s, x: old + 0.5,
    lambda old, s, x: old,
    lambda old, s, x: s,
    lambda old, s, x: 0.0,
]


@pytest.mark.parametrize("seed", program_seeds(12, 200))
def test_random_writes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = tuple(int(n) for n in rng.integers(1, 6, rng.integers(1, 4)))
    steps = [(part(rng, shape), WRITES[rng.integers(len(WRITES))]) for _ in range(6)]

    def program(x: Any, s: Any) -> Any:
        f = 2.0 * x
        for number, (index, change) in enumerate(steps):
            f[index] = change(f[index], s[index], x[index])
            f = f * s + x if number == 2 else f
        return f

    x, s = rng.normal(size=(2, *shape))
    calls_of(program, x, s)
