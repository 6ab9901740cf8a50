"""Products without a proper matrix become elementwise calls with the same results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.program.passes.thin_products import with_elementwise_products
from tests.program.recorded_graphs import assert_same_results, count, recorded


def draw(*shape: int) -> Any:
    return np.random.default_rng(len(shape)).normal(size=shape)


@pytest.mark.parametrize("transpose_a", [False, True])
@pytest.mark.parametrize("transpose_b", [False, True])
@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((5, 1), (1, 7)),
        ((3, 5, 1), (3, 1, 7)),
        ((2, 1, 5, 1), (3, 1, 7)),
        ((40, 1, 6), (40, 6, 1)),
        ((4, 1, 1, 6), (10, 6, 1)),
        ((40, 1, 1), (40, 1, 1)),
    ],
)
def test_thin_products_are_elementwise(
    first: tuple[int, ...], second: tuple[int, ...], transpose_a: bool, transpose_b: bool
) -> None:
    a = draw(*(first[:-2] + first[-2:][::-1] if transpose_a else first))
    b = draw(*(second[:-2] + second[-2:][::-1] if transpose_b else second))

    def function(a: Any, b: Any) -> Any:
        return tf.matmul(a, b, transpose_a=transpose_a, transpose_b=transpose_b) + 1.0

    graph = recorded(lambda a, b: (function(a, b),), (a, b))
    after = with_elementwise_products(graph)

    assert count(after, "matmul") + count(after, "matmul_stack") == 0
    assert_same_results(graph, after, (a, b))


@pytest.mark.parametrize(
    ("first", "second"), [((5, 2), (2, 7)), ((3, 1, 6), (3, 6, 1)), ((40, 2, 6), (40, 6, 1))]
)
def test_other_products_stay(first: tuple[int, ...], second: tuple[int, ...]) -> None:
    graph = recorded(lambda a, b: (tf.matmul(a, b),), (draw(*first), draw(*second)))
    after = with_elementwise_products(graph)

    assert count(after, "matmul") + count(after, "matmul_stack") == 1


def test_an_einsum_of_rows_and_its_gradients_need_no_product() -> None:
    def step(a: Any, b: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([a, b])
            loss = tf.reduce_sum(tf.square(tf.einsum("nmd,nmd->nm", a, b)))
        return loss, *tape.gradient(loss, [a, b])

    a, b = draw(6, 5, 4), draw(6, 5, 4)
    graph = recorded(step, (a, b))
    after = with_elementwise_products(graph)

    assert count(after, "matmul_stack") == 0
    assert_same_results(graph, after, (a, b))


MATRIX, SHORT_VECTOR, LONG_VECTOR = draw(90, 60), draw(60), draw(90)
VECTORS: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "matvec": (tf.linalg.matvec, (MATRIX, SHORT_VECTOR)),
    "of the transpose": (
        lambda a, x: tf.linalg.matvec(a, x, transpose_a=True),
        (MATRIX, LONG_VECTOR),
    ),
    "a column": (lambda a, x: a @ x[:, None], (MATRIX, SHORT_VECTOR)),
    "a column after the transpose": (
        lambda a, x: tf.matmul(a, x[:, None], transpose_a=True),
        (MATRIX, LONG_VECTOR),
    ),
    "a row": (lambda a, x: x[None] @ a, (MATRIX, LONG_VECTOR)),
    "a row before the transpose": (
        lambda a, x: tf.matmul(x[None], a, transpose_b=True),
        (MATRIX, SHORT_VECTOR),
    ),
}


@pytest.mark.parametrize("name", VECTORS)
def test_products_with_vectors_are_elementwise_where_loops_read_matrices(name: str) -> None:
    function, given = VECTORS[name]
    graph = recorded(lambda a, x: (function(a, x) + 1.0,), given)
    after = with_elementwise_products(graph, with_vectors=True)

    products = ("matmul", "matvec")
    assert sum(count(with_elementwise_products(graph), product) for product in products) == 1
    assert sum(count(after, product) for product in products) == 0
    assert_same_results(graph, after, given)


def test_products_of_small_matrices_with_vectors_stay() -> None:
    graph = recorded(lambda a, x: (tf.linalg.matvec(a, x),), (draw(9, 6), draw(6)))

    assert count(with_elementwise_products(graph, with_vectors=True), "matvec") == 1


def test_libraries_multiply_vectors_where_no_graph_is_launched() -> None:
    step = tf.function(lambda a, x: tf.tanh(tf.linalg.matvec(a, x)))
    given = tf.constant(draw(80, 60)), tf.constant(draw(60))
    step(*given)
    assert "matvec" in str(step.program(*given))
