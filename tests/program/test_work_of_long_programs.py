"""The work of building a program grows with its length, not faster: lines of code are counted."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.core.backend.registry import capabilities_of
from tapegrad.program.emit.lowering import CompiledLoop
from tapegrad.program.fusion import repeated_parts
from tapegrad.program.fusion.fusion import fused
from tapegrad.program.fusion.fusion_groups import Grouping
from tapegrad.program.program import program_of

FOLDER = "/tapegrad/program/"


def lines_run(work: Callable[[], Any]) -> int:
    """Return how many lines of the compiler run, those of comprehensions once per item."""
    count = 0

    def note(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal count
        count += event == "line"
        return note

    def enter(frame: FrameType, event: str, argument: Any) -> Any:
        return note if FOLDER in frame.f_code.co_filename.replace("\\", "/") else None

    before = sys.gettrace()
    sys.settrace(enter)
    try:
        work()
    finally:
        sys.settrace(before)
    return count


def values(*shape: int) -> np.ndarray:
    rng = np.random.default_rng(len(shape))
    return rng.normal(scale=0.3, size=shape).astype(np.float32)


def residual_network(layers: int) -> tuple[Callable[..., Any], list[Any]]:
    """A training step that overwrites three variables per weight."""
    weights = [tf.Variable(values(4, 4)) for _ in range(layers)]
    optimizer = tf.optimizers.Adam(1e-3)

    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            y = x
            for weight in weights:
                y = y + tf.nn.relu(y @ weight)
            loss = tf.reduce_mean(tf.square(y))
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
        return loss

    return step, [tf.constant(values(3, 4))]


def markov_chain(steps: int) -> tuple[Callable[..., Any], list[Any]]:
    """Gradients that are joined with values which do not wait for them."""
    weight = tf.Variable(values(4, 4))

    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            state = x[0]
            for k in range(1, steps):
                state = tf.reduce_logsumexp(state[:, None] + weight, axis=0) + x[k]
            loss = tf.reduce_logsumexp(state)
        return loss, tape.gradient(loss, weight)

    return step, [tf.constant(values(steps, 4))]


def filtered_series(steps: int) -> tuple[Callable[..., Any], list[Any]]:
    """Steps that are no loops, so that a program has many sequences, with views between them."""
    weight = tf.Variable(values(3, 3))

    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            matrix, loss = tf.eye(3), tf.constant(0.0)
            for k in range(steps):
                matrix = weight @ matrix @ tf.transpose(weight) + tf.eye(3)
                loss += tf.reduce_sum(tf.linalg.solve(matrix, x[k][:, None])[:, 0] * x[k])
        return loss, tape.gradient(loss, weight)

    return step, [tf.constant(values(steps, 3))]


Shape = Callable[[int], tuple[Callable[..., Any], list[Any]]]


def stencil(steps: int) -> tuple[Callable[..., Any], list[Any]]:
    """Steps that shift what all steps before have computed, and nothing but loops."""

    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x
            for _ in range(steps):
                y = y + 0.1 * (tf.roll(y, 1, 0) + tf.roll(y, -1, 0) - 2.0 * y)
            loss = tf.reduce_sum(y * y)
        return tape.gradient(loss, x)

    return step, [tf.constant(values(16, 16))]


def language_model(steps: int) -> tuple[Callable[..., Any], list[Any]]:
    """Steps with a loss each, whose gradients read what the losses keep."""
    weights = [tf.Variable(values(5, 3)), tf.Variable(values(3, 3)), tf.Variable(values(3, 5))]

    def step(tokens: Any) -> Any:
        with tf.GradientTape() as tape:
            state, loss = tf.zeros([2, 3]), tf.constant(0.0)
            for k in range(steps):
                state = tf.tanh(tf.gather(weights[0], tokens[k]) + state @ weights[1])
                logits = state @ weights[2]
                losses = tf.nn.sparse_softmax_cross_entropy_with_logits(tokens[k + 1], logits)
                loss += tf.reduce_mean(losses)
        return loss, tape.gradient(loss, weights)

    return step, [tf.constant(np.arange(2 * steps + 2).reshape(-1, 2) % 5)]


@pytest.mark.usefixtures("quick_compiler")
@pytest.mark.parametrize(
    ("shape", "sizes"),
    [
        (residual_network, (10, 20, 30)),
        (markov_chain, (15, 30, 45)),
        (filtered_series, (16, 32, 48)),
        (stencil, (12, 24, 36)),
        (language_model, (12, 24, 36)),
    ],
)
def test_each_further_round_takes_as_much_work_as_the_rounds_before(
    shape: Shape, sizes: Sequence[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    works = []

    def counting(*arguments: Any) -> Any:
        made = []
        works.append(lines_run(lambda: made.append(program_of(*arguments))))
        return made[0]

    monkeypatch.setattr("tapegrad.program.building.program_of", counting)

    for size in sizes:
        step, arguments = shape(size)
        tf.function(step, wait=True)(*arguments)

    first, second = np.diff(works[-3:])
    assert second < 1.06 * first


@pytest.mark.usefixtures("quick_compiler")
def test_a_deeper_network_has_no_more_different_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    counts = []
    compiler: Any = capabilities_of(np.ndarray).loops
    compile_all = type(compiler).compile

    def counting(self: Any, loops: Sequence[Any]) -> Any:
        counts.append(len(loops))
        return compile_all(self, loops)

    monkeypatch.setattr(type(compiler), "compile", counting)

    for layers in (6, 12):
        step, arguments = residual_network(layers)
        function = tf.function(step, wait=True)
        function(*arguments)
        steps = function.program(*arguments).steps
        assert sum(isinstance(one, CompiledLoop) for one in steps) > 3 * layers

    assert counts[0] == counts[1] < 12


@pytest.mark.usefixtures("quick_compiler")
@pytest.mark.parametrize("most", [7, 30])
def test_a_long_program_without_repetition_is_fused_piece_by_piece(
    most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repeated_parts, "LEAST_CALLS", 0)
    monkeypatch.setattr(repeated_parts, "MOST_CALLS", most)
    sizes = []

    def counting(graph: Any, *arguments: Any) -> Any:
        sizes.append(len(graph.calls))
        return fused(graph, *arguments)

    def function(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.sin(x) * tf.reduce_max(x, axis=0) + tf.exp(-tf.square(x))
            y = tf.nn.softmax(y @ tf.transpose(x)) @ tf.roll(x, 1, axis=0)
            loss = tf.reduce_mean(tf.math.log1p(tf.abs(y)) * tf.cumsum(x))
        return loss, tape.gradient(loss, x)

    monkeypatch.setattr(repeated_parts, "fused", counting)
    x = tf.constant(values(5, 4).astype(np.float64))

    found = tf.function(function, wait=True)(x)

    assert len(sizes) > 1
    for one, other in zip(found, function(x), strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-10, atol=1e-12)


class Needs:
    """What a grouping sees of a call."""

    effects = False

    def __init__(self, reads: Sequence[int], number: int) -> None:
        self.reads = [Number(read) for read in reads]
        self.results = [Number(number)]


class Number:
    def __init__(self, number: int) -> None:
        self.number = number


def test_a_late_value_joins_an_early_one_without_a_visit_to_all_calls_between() -> None:
    """Slopes that need no gradient join the chain of gradients, one after the other."""
    works = []
    for length in (100, 200, 300):
        slopes = [Needs([], k) for k in range(length)]
        chain = [
            Needs([k, length + k - 1] if k else [k], length + k) for k in range(length)
        ]  # fmt: skip
        groups = Grouping([*slopes, *chain])

        def merge_all(groups: Grouping = groups, length: int = length) -> None:
            for k in range(length):
                one, other = groups.group_of(k), groups.group_of(length + k)
                assert groups.can_merge(one, other)
                groups.merge(one, other)

        works.append(lines_run(merge_all))

    first, second = np.diff(works)
    assert second < 1.06 * first
