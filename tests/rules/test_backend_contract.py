"""The backend contract: each backend passes the checks of the parts that it lists."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
import tapegrad_strict
from tapegrad.core.backend.capabilities import NO_CAPABILITIES, Capabilities
from tapegrad.core.backend.registry import (
    capabilities_of,
    get_backend,
    register_backend,
    unregister_backend,
)
from tapegrad.testing import check_backend
from tapegrad.testing.capability_checks import check_capabilities
from tapegrad.testing.samples import all_samples

pytestmark = pytest.mark.filterwarnings("ignore:You are comparing a array_api_strict dtype")
FEW = [s for s in all_samples() if s.name in ("add", "matmul", "tanh", "sum-axis", "where")]


@pytest.fixture
def strict() -> Iterator[Any]:
    backend = tapegrad_strict.load()
    register_backend(backend)
    yield backend
    unregister_backend("strict")


def test_numpy_passes() -> None:
    check_backend("numpy", FEW)


def test_the_third_backend_passes_with_all_its_parts(strict: Any) -> None:
    with tapegrad_strict.forbidding_reads():
        check_backend("strict", FEW)


def test_capabilities_are_read_once_when_a_backend_is_registered() -> None:
    calls = []

    class Counting(tapegrad_strict.StrictBackend):
        def capabilities(self) -> Capabilities:
            calls.append(self)
            return NO_CAPABILITIES

    register_backend(Counting())
    try:
        for _ in range(3):
            capabilities_of(tapegrad_strict.Array)
    finally:
        unregister_backend("strict")

    assert len(calls) == 1


def test_a_type_without_a_backend_has_no_capabilities() -> None:
    assert capabilities_of(str) is NO_CAPABILITIES


def broken_parts() -> dict[str, Any]:
    """For each part, one that computes something wrong."""
    parts = tapegrad_strict.load().capabilities()
    zeros = tapegrad_strict.pack(np.zeros((3, 4)))

    class Loops(type(parts.loops)):  # type: ignore[misc]
        def compile(self, loops: Any) -> list[Any]:
            return [lambda arrays, targets: (zeros, zeros, zeros) for _ in loops]

    return {
        "pullbacks": SimpleNamespace(pullback=lambda _: lambda *_: [zeros, zeros]),
        "in_place": SimpleNamespace(add=lambda total, addend: None),
        "loops": Loops(),
        "capture": SimpleNamespace(capture=lambda run, *_: lambda i, v: ([zeros], [zeros])),
        "casts": SimpleNamespace(cast=lambda arrays, dtypes: arrays),
        "updates": SimpleNamespace(
            prepare=lambda *_: lambda arrays, *_: arrays, clip=lambda *_: None
        ),
        "rows": SimpleNamespace(take=lambda arrays, rows: arrays, place=lambda *_: None),
        "specializer": SimpleNamespace(
            primitives={"matmul"}, specialize=lambda calls: [lambda a, b, **_: a]
        ),
    }


@pytest.mark.parametrize("name", broken_parts())
def test_a_part_that_computes_something_wrong_is_noticed(name: str, strict: Any) -> None:
    broken = replace(NO_CAPABILITIES, **{name: broken_parts()[name]})

    with pytest.raises(AssertionError):
        check_capabilities(strict, broken)


def train(steps: int) -> tuple[list[float], np.ndarray]:
    """Losses and the final weights of a small network, in a compiled step."""
    w = tf.Variable(np.linspace(-1, 1, 6).reshape(3, 2))
    b = tf.Variable(np.zeros(2))

    @tf.function
    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(tf.tanh(x @ w + b)) * tf.exp(-x[:, :1]))
        for v, g in zip((w, b), tape.gradient(loss, [w, b])):
            v.assign_sub(0.1 * g)
        return loss

    losses = [step(tf.constant(np.sin(np.arange(12.0).reshape(4, 3) + k))) for k in range(steps)]
    return [loss.numpy().item() for loss in losses], w.numpy()


def test_a_compiled_step_runs_on_the_third_backend_with_its_loops(strict: Any) -> None:
    with tf.device("cpu"):
        expected, weights = train(4)
    with tf.device("strict:0"):
        found, there = train(4)

    np.testing.assert_allclose(found, expected, rtol=1e-12)
    np.testing.assert_allclose(there, weights, rtol=1e-12)
    assert get_backend("strict") is strict
