"""Attention that is spelled out becomes calls of attention, with results at least as accurate."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.program.emit.lowering import plain_steps, to_python
from tapegrad.program.graph.graph import Graph
from tapegrad.program.passes.algebra import simplified
from tapegrad.program.passes.attention import with_attention

BATCH, HEADS, QUERIES, KEYS, DEPTH, WIDTH = 2, 3, 7, 9, 16, 8
SCALE = DEPTH**-0.5
SHAPES = [(BATCH, HEADS, QUERIES, DEPTH), (BATCH, HEADS, KEYS, DEPTH), (BATCH, HEADS, KEYS, WIDTH)]

Function = Callable[..., Any]


def draw(dtype: str = "float16", shapes: Any = SHAPES) -> list[Any]:
    rng = np.random.default_rng(3)
    return [rng.normal(size=shape).astype(dtype) for shape in shapes]


def attend(q: Any, k: Any, v: Any) -> Any:
    return tf.matmul(tf.nn.softmax(tf.matmul(q, k, transpose_b=True) * SCALE), v)


def with_gradient(function: Function) -> Function:
    """Return a function of the same arguments that returns a result and its three gradients."""

    def both(*arrays: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(arrays)
            y = function(*arrays)
            loss = tf.reduce_sum(y * y)
        return y, *tape.gradient(loss, arrays)

    return both


def record(function: Function, arrays: list[Any]) -> Graph:
    recorded = tf.function(function)
    tensors = [tf.constant(array) for array in arrays]
    recorded(*tensors)
    return simplified(recorded.program(*tensors).recorded)


def run(graph: Graph, arrays: list[Any]) -> list[Any]:
    outputs, _ = to_python(graph, plain_steps(graph))(arrays, [])
    return [np.asarray(output, "float64") for output in outputs]


def names(graph: Graph) -> list[str]:
    return [call.primitive.name for call in graph.calls]


def passed(function: Function, arrays: list[Any]) -> list[str]:
    """Apply the pass, and compare its errors with those of the graph without it."""
    before = record(function, arrays)
    after = with_attention(before)
    precise = [array.astype("float64") for array in arrays]
    exact = run(record(function, precise), precise)
    for one, other, want in zip(run(after, arrays), run(before, arrays), exact, strict=True):
        bound = np.linalg.norm(other - want) + 2**-11 * np.linalg.norm(want)
        assert np.linalg.norm(one - want) <= bound
    return names(after)


ABSENT = {"softmax", "softmax_gradient", "matmul_stack"}


@pytest.mark.parametrize(
    "function",
    [
        attend,
        lambda q, k, v: tf.matmul(tf.nn.softmax(tf.matmul(q, k, transpose_b=True) / 4.0), v),
        lambda q, k, v: tf.matmul(tf.nn.softmax(tf.matmul(q * SCALE, k, transpose_b=True)), v),
        lambda q, k, v: tf.nn.softmax(0.5 * (q @ tf.linalg.matrix_transpose(k))) @ v,
    ],
)
@pytest.mark.parametrize("change", [lambda function: function, with_gradient])
def test_products_around_a_softmax_become_attention(function: Function, change: Any) -> None:
    found = passed(change(function), draw())

    assert found.count("attention") == 1
    assert found.count("attention_gradient") == (change is with_gradient)
    assert not ABSENT.intersection(found)


def test_gradients_of_some_operands() -> None:
    def for_queries(q: Any, k: Any, v: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(q)
            y = tf.reduce_sum(tf.square(attend(q, k, v)))
        return tape.gradient(y, q)

    found = passed(for_queries, draw())

    assert found.count("attention_gradient") == 1
    assert not ABSENT.intersection(found)


def test_a_stack_of_one_matrix_with_a_mask_of_its_shape() -> None:
    def causal(q: Any, k: Any, v: Any) -> Any:
        scores = tf.matmul(q, k, transpose_b=True)
        return tf.nn.softmax(tf.where(positions()[None], scores, -1e4)) @ v

    shapes = [(1, *shape[2:]) for shape in SHAPES]

    assert "attention" in passed(with_gradient(causal), draw(shapes=shapes))


def test_layers_after_each_other() -> None:
    def twice(x: Any) -> Any:
        return attend(*[attend(x, x, x)] * 3)

    found = passed(with_gradient(twice), draw(shapes=[(HEADS, QUERIES, DEPTH)]))

    assert found.count("attention") == found.count("attention_gradient") == 2
    assert not ABSENT.intersection(found)


def test_products_by_einsum() -> None:
    def attention(q: Any, k: Any, v: Any) -> Any:
        weights = tf.nn.softmax(tf.einsum("bqhd,bkhd->bhqk", q, k) * SCALE)
        return tf.einsum("bhqk,bkhd->bqhd", weights, v)

    shapes = [(BATCH, n, HEADS, d) for n, d in ((QUERIES, DEPTH), (KEYS, DEPTH), (KEYS, WIDTH))]
    found = passed(with_gradient(attention), draw(shapes=shapes))

    assert found.count("attention") == found.count("attention_gradient") == 1
    assert not ABSENT.intersection(found)


@pytest.mark.parametrize("is_stored", [(True, False), (False, True), (True, True)])
def test_keys_and_values_that_are_stored_by_features(is_stored: tuple[bool, bool]) -> None:
    def attention(q: Any, k: Any, v: Any) -> Any:
        scores = tf.matmul(q, k, transpose_b=not is_stored[0]) * SCALE
        return tf.matmul(tf.nn.softmax(scores), v, transpose_b=is_stored[1])

    arrays = draw()
    for place, is_turned in zip((1, 2), is_stored):
        if is_turned:
            arrays[place] = np.ascontiguousarray(arrays[place].swapaxes(-1, -2))
    found = passed(with_gradient(attention), arrays)

    assert found.count("attention") == found.count("attention_gradient") == 1
    assert not ABSENT.intersection(found)


def lower(dtype: Any) -> Any:
    return tf.linalg.band_part(tf.ones((QUERIES, KEYS), dtype), -1, KEYS - QUERIES)


def positions() -> Any:
    return tf.range(QUERIES)[:, None] + (KEYS - QUERIES) >= tf.range(KEYS)[None, :]


@pytest.mark.parametrize(
    "hide",
    [
        lambda scores: tf.where(positions(), scores * SCALE, -1e4),
        lambda scores: tf.where(lower(tf.int32) > 0, scores, tf.constant(-np.inf, scores.dtype)),
        lambda scores: tf.where(lower(tf.bool)[None, None], scores, -np.inf) * SCALE,
        lambda scores: scores * SCALE - 1e4 * (1 - lower(scores.dtype)),
        lambda scores: 1e4 * (lower(scores.dtype) - 1) + scores,
        lambda scores: scores / 4 + tf.constant(np.triu(np.full((7, 9), -3e4), 3), scores.dtype),
    ],
)
@pytest.mark.parametrize("change", [lambda function: function, with_gradient])
def test_constant_causal_masks_are_recognised(hide: Function, change: Any) -> None:
    def causal(q: Any, k: Any, v: Any) -> Any:
        return tf.nn.softmax(hide(tf.matmul(q, k, transpose_b=True))) @ v

    found = passed(change(causal), draw())

    assert found.count("attention") == 1
    assert not ABSENT.union({"where", "keep"}).intersection(found)


@pytest.mark.parametrize(
    "hide",
    [
        lambda scores: tf.where(~positions(), scores, -1e4),
        lambda scores: tf.where(positions(), scores, -10.0),
        lambda scores: tf.where(positions(), -1e4, scores),
        lambda scores: scores + lower(scores.dtype),
        lambda scores: tf.where(tf.roll(positions(), 1, axis=1), scores, -1e4),
    ],
)
def test_other_masks_stay(hide: Function) -> None:
    def attention(q: Any, k: Any, v: Any) -> Any:
        return tf.nn.softmax(hide(tf.matmul(q, k, transpose_b=True) * SCALE)) @ v

    assert "attention" not in passed(with_gradient(attention), draw())


def masked(q: Any, k: Any, v: Any) -> Any:
    scores = tf.matmul(q, k, transpose_b=True) * SCALE
    return tf.nn.softmax(tf.where(scores > 0, scores, -1e4)) @ v


def with_weights(q: Any, k: Any, v: Any) -> Any:
    weights = tf.nn.softmax(tf.matmul(q, k, transpose_b=True) * SCALE)
    return weights @ v, weights


def with_dropped_weights(q: Any, k: Any, v: Any) -> Any:
    weights = tf.nn.softmax(tf.matmul(q, k, transpose_b=True) * SCALE)
    return tf.matmul(weights * weights, v)


@pytest.mark.parametrize(
    "function",
    [
        masked,
        with_weights,
        with_dropped_weights,
        lambda q, k, v: tf.nn.softmax(tf.matmul(q, k, transpose_b=True) * -SCALE) @ v,
        lambda q, k, v: tf.nn.softmax(tf.matmul(q, k, transpose_b=True), axis=-2) @ v,
        lambda q, k, v: tf.matmul(tf.nn.softmax(tf.matmul(q, k, transpose_b=True)), v[:1]),
    ],
)
def test_other_uses_of_the_weights_stay(function: Function) -> None:
    assert "attention" not in passed(function, draw())


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_single_precision_stays(dtype: str) -> None:
    assert "attention" not in passed(attend, draw(dtype))


def test_wide_or_odd_heads_stay() -> None:
    for depth in (12, 256):
        arrays = draw(shapes=[(HEADS, QUERIES, depth)] * 3)
        assert "attention" not in passed(attend, arrays)


def test_weights_of_which_a_second_gradient_is_taken_stay() -> None:
    def second(q: Any, k: Any, v: Any) -> Any:
        with tf.GradientTape() as outer:
            outer.watch(q)
            with tf.GradientTape() as tape:
                tape.watch(q)
                y = tf.reduce_sum(attend(q, k, v) ** 3)
            inner = tf.reduce_sum(tape.gradient(y, q))
        return outer.gradient(inner, q)

    assert "attention" not in passed(second, draw())
