"""Predicted calls of loops: the strides of their arrays, and the operands that they overwrite."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.core.backend.optional_parts import CompilesAtLaunch, LoopCall
from tests import capabilities
from tests.program.reference_loops import Reference

Places = tuple[tuple[tuple[int, ...], ...], tuple[int | None, ...]]


class _Loop:
    """A loop that knows which calls were predicted, and which were made."""

    def __init__(self, run: Callable[..., Any]) -> None:
        self.run = run
        self.predicted: set[Places] = set()
        self.made: set[Places] = set()

    def __call__(self, arrays: Sequence[Any], targets: Sequence[Any]) -> Any:
        addresses = [array.ctypes.data for array in arrays]
        overwritten = [
            None if target is None or target.ctypes.data not in addresses
            else addresses.index(target.ctypes.data)
            for target in targets
        ]  # fmt: skip
        self.made.add((tuple([array.strides for array in arrays]), tuple(overwritten)))
        results = self.run(arrays, targets)
        # The reference keeps the order of its operands, and compiled loops do not.
        return [
            np.ascontiguousarray(result) if target is None else result
            for result, target in zip(results, targets, strict=True)
        ]


class _Preparing(Reference):
    """The reference, as a compiler that compiles loops for the strides of their arrays."""

    def __init__(self) -> None:
        self.loops: list[_Loop] = []

    def compile(self, loops: Sequence[Any]) -> list[Any]:
        made = [_Loop(run) for run in super().compile(loops)]
        self.loops += made
        return list(made)

    def prepare(self, calls: Sequence[LoopCall]) -> None:
        for call in calls:
            assert isinstance(call.run, _Loop)
            strides = tuple(map(tuple, call.strides))
            call.run.predicted.add((strides, tuple(call.overwritten)))


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> _Preparing:
    made = _Preparing()
    assert isinstance(made, CompilesAtLaunch)
    capture = capabilities.Capture(lambda run, written, in_place: run)
    capabilities.use(monkeypatch, loops=made, capture=capture)
    return made


def _heads(x: tf.Tensor) -> tf.Tensor:
    """Return transposed parts of an array, which loops read where they lie."""
    q, k = tf.split(x, 2, axis=-1)
    q = tf.transpose(tf.reshape(q, (4, 6, 2, 5)), (0, 2, 1, 3))
    k = tf.transpose(tf.reshape(k, (4, 6, 2, 5)), (0, 2, 3, 1))
    return tf.nn.softmax(tf.matmul(tf.tanh(q), k))


def _attention() -> Callable[..., Any]:
    w = tf.Variable(np.linspace(-1, 1, 60).reshape(3, 20).astype("float32"))

    def step(x: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(tf.square(_heads(tf.tanh(x @ w))[:, ::2]))
        gradient = tape.gradient(loss, w)
        w.assign_sub(0.1 * gradient)
        return loss, tf.transpose(x, (2, 1, 0))[1:] * 2.0

    return step


def test_calls_are_those_that_were_predicted(compiler: _Preparing) -> None:
    x = tf.constant(np.linspace(0, 1, 72).reshape(4, 6, 3).astype("float32"))
    step = tf.function(_attention(), wait=True)
    expected = _attention()
    for _ in range(3):
        for one, other in zip(step(x), expected(x), strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-5)

    made = [loop for loop in compiler.loops if loop.made]
    assert len(made) > 3
    assert any(place is not None for loop in made for _, taken in loop.made for place in taken)
    assert any(not _is_contiguous(loop) for loop in made)
    for loop in made:
        assert loop.made <= loop.predicted


def _is_contiguous(loop: _Loop) -> bool:
    """Whether the strides of all arrays fall."""
    return all(
        list(strides) == sorted(strides, reverse=True)
        for arrays, _ in loop.made
        for strides in arrays
    )


def test_loops_are_prepared_before_the_first_call(compiler: _Preparing) -> None:
    step = tf.function(_attention())
    step.compile(tf.ones((4, 6, 3)))

    assert compiler.loops
    assert not any(loop.made for loop in compiler.loops)
    assert sum(len(loop.predicted) for loop in compiler.loops) > 3
