"""Loops select from the parts of stacks, and slices of joined arrays read one part."""

from __future__ import annotations

from typing import Any

import pytest

import tapegrad as tf
from tapegrad.program.passes.joined_parts import with_parts_before_joins
from tests.program.recorded_graphs import assert_same_results, count, recorded
from tests.program.test_short_products import graphs_of
from tests.program.test_split_axes import compared, draw, gradients

pytest.importorskip("cupy")
pytest.importorskip("tests.house.host_cuda")

SHIFTS = [(0, 0), (1, 0), (0, 1), (-1, 0), (0, -1), (1, 1), (-1, 1), (-1, -1), (1, -1)]


def streamed(f: Any) -> Any:
    """Move populations to their neighbours, and let them approach their mean."""
    f = tf.stack([tf.roll(f[q], shift, (0, 1)) for q, shift in enumerate(SHIFTS)])
    return f - 0.3 * (f - tf.reduce_mean(f, 0)) ** 2


def test_a_stack_of_rolls_is_not_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    graphs_of(monkeypatch)
    f = tf.constant(draw(9, 12, 14))

    compiled = compared(gradients(lambda f: streamed(streamed(f))), f)

    text = str(compiled.program(f))
    assert "roll(" not in text
    assert "stack(" not in text


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_stacks_of_slices_along_any_axis(axis: int, monkeypatch: pytest.MonkeyPatch) -> None:
    graphs_of(monkeypatch)

    def step(x: Any, y: Any) -> Any:
        parts = [x[1], y[:, 2], x[0, ::-1], tf.roll(y[:, 0], 3, 0), x[2] * 2.0]
        return tf.stack(parts, axis) * 2.0 + 1.0

    args = tf.constant(draw(3, 20, 30)), tf.constant(draw(20, 4, 30))
    compared(gradients(step), *args)
    compiled = compared(lambda x, y: (step(x, y),), *args)
    assert "stack(" not in str(compiled.program(*args))


def test_parts_with_borders_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rows of a stack are padded arrays, and each has zeros outside of its part."""
    graphs_of(monkeypatch)

    def step(x: Any) -> Any:
        parts = [tf.pad(x[k, 2:], [(k, 2 - k), (0, 0)]) for k in range(3)]
        return tf.stack(parts) * x

    compared(gradients(step), tf.constant(draw(3, 16, 8)))


@pytest.mark.parametrize(
    "index",
    [
        (1,), (-1,), (slice(None), 2), (0, 1, slice(1, 3)), (slice(0, 2), 1), (2, slice(None), 3)
    ],
)  # fmt: skip
def test_slices_of_a_stack_are_slices_of_its_parts(index: tuple[Any, ...]) -> None:
    arrays = tuple(draw(4, 5) + k for k in range(3))

    graph = recorded(lambda *xs: (tf.stack(xs)[index] + 1.0,), arrays)
    after = with_parts_before_joins(graph)

    assert_same_results(graph, after, arrays)
    whole = not isinstance(index[0], int)
    assert count(after, "stack") == count(graph, "stack")
    reads = {v.number for call in after.calls if call.primitive.name == "slice" for v in call.reads}
    joined = {call.results[0].number for call in after.calls if call.primitive.name == "stack"}
    assert bool(reads & joined) == whole


@pytest.mark.parametrize(("start", "stop", "is_part"), [(0, 4, True), (4, 9, True), (5, 8, True),
                                                        (3, 6, False), (9, 12, True)])  # fmt: skip
def test_slices_of_a_concatenation(start: int, stop: int, is_part: bool) -> None:
    arrays = draw(2, 4), draw(2, 5), draw(2, 3)

    graph = recorded(lambda *xs: (tf.concat(xs, 1)[:, start:stop] * 2.0,), arrays)
    after = with_parts_before_joins(graph)

    assert_same_results(graph, after, arrays)
    (times,) = [call for call in after.calls if call.primitive.name == "multiply"]
    makers = {value.number: call for call in after.calls for value in call.results}
    source = makers.get(times.reads[0].number)
    while source is not None and source.primitive.name == "slice":
        source = makers.get(source.reads[0].number)
    assert (source is None) == is_part


def test_parts_of_joins_of_parts_of_joins() -> None:
    arrays = draw(2, 4), draw(2, 4) + 1.0

    def program(x: Any, y: Any) -> Any:
        first = tf.stack([x, y], 2)
        second = tf.stack([first[:, :, 1], first[:, :, 0] * 2.0], 0)
        return (second[0] * 3.0 + second[1],)

    graph = recorded(program, arrays)
    after = with_parts_before_joins(graph)

    assert_same_results(graph, after, arrays)
