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
from tests.api import device_kernels

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
    broken = NO_CAPABILITIES._replace(**{name: broken_parts()[name]})

    with pytest.raises(AssertionError):
        check_capabilities(strict, broken)


def test_loops_whose_later_passes_are_wrong_are_noticed(strict: Any) -> None:
    right = strict.capabilities().loops

    class Loops(type(right)):  # type: ignore[misc]
        def compile(self, loops: Any) -> list[Any]:
            # The sum is not of the shifted exponentials.
            wrong = [
                replace(loop, stages=(loop.stages[0], loop.stages[0]))
                if getattr(loop, "stages", ())
                else loop
                for loop in loops
            ]
            return list(right.compile(wrong))

    with pytest.raises(AssertionError, match="a loop with stages differs"):
        check_capabilities(strict, NO_CAPABILITIES._replace(loops=Loops()))


class Updates:
    """Steps of gradient descent, moving averages and clipping, in NumPy."""

    def prepare(self, name: str, arrays: Any, count: int, averaged: bool) -> Any:
        return lambda arrays, gradients, rate, step, params: [
            array - rate * gradient for array, gradient in zip(arrays, gradients)
        ]

    def prepare_averages(self, arrays: Any) -> Any:
        return lambda averages, seen, share: [
            average + np.float32(share) * (new - average) for average, new in zip(averages, seen)
        ]

    def clip(self, arrays: Any, limit: float) -> Any:
        norm = np.sqrt(sum(np.sum(array * array) for array in arrays))
        return [array * np.float32(limit) / norm for array in arrays], norm


class Rows:
    """Batches of rows, in NumPy."""

    def take(self, arrays: Any, rows: Any) -> Any:
        return [array[rows] for array in arrays]

    def place(self, arrays: Any, rows: Any, like: Any) -> Any:
        return [array[rows] for array in arrays]


class Faulty:
    """A part with one wrong method."""

    def __init__(self, part: Any, method: str, wrong: Any) -> None:
        self._part = part
        setattr(self, method, wrong)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._part, name)


RIGHT: dict[str, Any] = {
    "casts": device_kernels.Casts(),
    "in_place": device_kernels.InPlace(),
    "pullbacks": device_kernels.Pullbacks(),
    "rows": Rows(),
    "updates": Updates(),
}


def wrong_after_writing(total: Any, *operands: Any, **params: Any) -> bool:
    total += 1.0
    return False


# The part, its method, a wrong form of that, and the words of the error.
FAULTS: list[tuple[str, str, Any, str]] = [
    ("casts", "cast", lambda arrays, dtypes: arrays, "casts.cast has dtype float64"),
    ("casts", "prepare", lambda *_: lambda arrays: arrays, "casts.prepare has dtype float64"),
    ("in_place", "add", lambda total, addend: None, "in_place.add differs"),
    ("in_place", "accumulate", lambda _: lambda *_, **__: True, "accumulate.'matmul'. differs"),
    ("in_place", "accumulate", lambda _: wrong_after_writing, "a refused accumulation differs"),
    ("pullbacks", "pullback", lambda _: lambda *_: [np.ones((3, 4))] * 2, "pullback.'multiply'."),
    ("pullbacks", "pullback", lambda _: lambda *_: None, "pullback.'argmax'. must be None"),
    ("rows", "take", lambda arrays, rows: [arrays[0][:3]], "rows.take differs"),
    ("rows", "place", lambda arrays, rows, like: [arrays[0][:3]], "rows.place differs"),
    ("updates", "prepare", lambda *_: lambda arrays, *_: arrays, "updates.prepare differs"),
    ("updates", "prepare_averages", lambda _: lambda arrays, *_: arrays, "prepare_averages differ"),
    ("updates", "clip", lambda arrays, _: (arrays, Updates().clip(arrays, 1.0)[1]), "updates.clip"),
    (
        "updates", "clip", lambda arrays, _: (Updates().clip(arrays, 1.0)[0], np.float32(1)),
        "the norm of updates.clip",
    ),
]  # fmt: skip


@pytest.mark.parametrize("name", RIGHT)
def test_right_parts_pass(name: str) -> None:
    check_capabilities(get_backend("numpy"), NO_CAPABILITIES._replace(**{name: RIGHT[name]}))


@pytest.mark.parametrize(("name", "method", "wrong", "words"), FAULTS)
def test_each_wrong_method_is_named(name: str, method: str, wrong: Any, words: str) -> None:
    parts: dict[str, Any] = {name: Faulty(RIGHT[name], method, wrong)}

    with pytest.raises(AssertionError, match=words):
        check_capabilities(get_backend("numpy"), NO_CAPABILITIES._replace(**parts))


@pytest.mark.parametrize(
    ("name", "method"), [("casts", "prepare"), ("updates", "prepare"), ("updates", "clip")]
)
def test_a_method_may_decline(name: str, method: str) -> None:
    parts: dict[str, Any] = {name: Faulty(RIGHT[name], method, lambda *_: None)}

    check_capabilities(get_backend("numpy"), NO_CAPABILITIES._replace(**parts))


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
