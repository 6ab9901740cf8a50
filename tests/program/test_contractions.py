"""Sums of products of elements become matrix products with the same results."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf
import tapegrad.numpy as tnp
from tapegrad.program.graph.graph import Graph
from tapegrad.program.passes.contractions import with_contractions
from tests.program.recorded_graphs import assert_same_results, count, recorded


def draw(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).normal(size=shape)


def products(graph: Graph) -> int:
    return count(graph, "matmul") + count(graph, "matmul_stack")


A, B, C = draw(40, 24), draw(50, 24), draw(24)
CASES: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "two matrices": (lambda a, b: tf.reduce_sum(a[:, None] * b, -1), (A, B)),
    "axes kept": (lambda a, b: tf.reduce_sum(a[:, None] * b, -1, keepdims=True), (A, B)),
    "a mean": (lambda a, b: tf.reduce_mean(b * a[:, None], -1), (A, B)),
    "the first axis": (
        lambda a, b: tf.reduce_sum(a[:, :, None] * b[:, None, :], 0),
        (A.T.copy(), B.T.copy()),
    ),
    "an axis in between": (
        lambda a, b: tf.reduce_sum(a[:, :, None] * b[None], 1),
        (A, B.T.copy()),
    ),
    "several terms": (
        lambda a, b, c: tf.reduce_sum(
            -(a[:, None] * b / 3.0 + 2.0 * a[:, None] * tf.exp(b) - tf.sin(a)[:, None] * b * c), -1
        ),
        (A, B, C),
    ),
    "divisors of both sides": (
        lambda a, b: tf.reduce_sum(a[:, None] / tf.exp(b) * b / tf.exp(a)[:, None], -1),
        (A, B),
    ),
    "stacks of matrices": (
        lambda a, b: tf.reduce_sum(a[:, :, None] * b[:, None], -1),
        (draw(3, 40, 24), draw(3, 50, 24)),
    ),
    "two summed axes": (
        lambda a, b: tf.reduce_sum(a[:, None] * b, (-2, -1)),
        (draw(40, 4, 6), draw(50, 4, 6)),
    ),
    "two axes of rows": (
        lambda a, b: tf.reduce_sum(a[:, :, None] * b, -1),
        (draw(5, 8, 24), B),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_sum_of_products_is_a_matrix_product(name: str) -> None:
    function, given = CASES[name]
    graph = recorded(lambda *args: (function(*args),), given)
    after = with_contractions(graph)

    assert products(after) == 1
    assert_same_results(graph, after, given)


@pytest.mark.parametrize(
    ("function", "given"),
    [
        pytest.param(lambda a, b: tf.reduce_sum((a[:, None] - b) ** 2, -1), (A, B), id="square"),
        pytest.param(lambda a, b: tf.reduce_sum(a[:, None] * b + a[:, None], -1), (A, B), id="add"),
        pytest.param(lambda a, b: tf.reduce_sum(a[:, None] * b, 0), (A, B), id="no rows"),
        pytest.param(lambda a, b: tf.reduce_max(a[:, None] * b, -1), (A, B), id="maximum"),
        pytest.param(lambda a, b: tf.reduce_sum(1.0 / (a[:, None] * b), -1), (A, B), id="inverse"),
        pytest.param(lambda a, b: tf.reduce_sum(a[:, None] * b, -1), (A[:4], B), id="few rows"),
        pytest.param(
            lambda a, b: tf.reduce_sum(a[:, None] * b, -1), (draw(99, 4),) * 2, id="few terms"
        ),
        pytest.param(lambda a, b: tf.reduce_sum(a[:9, None] * b[:9], -1), (A, B), id="small"),
    ],
)  # fmt: skip
def test_other_sums_stay(function: Any, given: tuple[Any, ...]) -> None:
    graph = recorded(lambda *args: (function(*args),), given)

    assert products(with_contractions(graph)) == 0


def test_a_value_that_is_read_elsewhere_is_not_computed_twice() -> None:
    def function(a: Any, b: Any) -> Any:
        pairs = a[:, None] * b
        return tf.reduce_sum(pairs, -1), tf.reduce_max(pairs, -1)

    graph = recorded(function, (A, B))

    assert products(with_contractions(graph)) == 0


def test_sums_of_one_value_along_the_same_axis_share_it() -> None:
    def function(a: Any, b: Any) -> Any:
        pairs = a[:, None] * b
        return tf.reduce_sum(pairs, -1), tf.reduce_sum(pairs * tf.exp(b), -1)

    graph = recorded(function, (A, B))
    after = with_contractions(graph)

    assert products(after) == 2
    assert_same_results(graph, after, (A, B))


def test_products_that_round_their_operands_are_made_in_float64_only() -> None:
    def products_in(dtype: str) -> int:
        given = A.astype(dtype), B.astype(dtype)
        graph = recorded(lambda a, b: (tf.reduce_sum(a[:, None] * b, -1),), given)
        return products(with_contractions(graph, rounds_operands=True))

    assert products_in("float32") == 0
    assert products_in("float64") == 1


def test_integers_stay() -> None:
    given = np.ones((40, 24), np.int64), np.ones((50, 24), np.int64)
    graph = recorded(lambda a, b: (tf.reduce_sum(a[:, None] * b, -1),), given)

    assert products(with_contractions(graph)) == 0


@pytest.mark.parametrize("mode", ["forward", "reverse"])
def test_a_jacobian_of_sums_is_a_product_of_matrices(mode: str) -> None:
    """The derivatives of peaks, by hand."""
    x, theta = np.linspace(0.0, 1.0, 200), draw(30)

    def peaks(theta: Any) -> Any:
        place, height = tnp.reshape(theta, (2, 15))
        return tnp.sum(height * tnp.exp(-((x[:, None] - place) ** 2)), axis=1)

    step = tf.function(lambda theta: tf.jacobian(peaks, mode=mode)(theta))
    for _ in range(2):
        got = step(tf.constant(theta))

    place, height = theta.reshape(2, 15)
    bell = np.exp(-((x[:, None] - place) ** 2))
    want = np.concatenate([height * bell * 2 * (x[:, None] - place), bell], 1)
    np.testing.assert_allclose(got.numpy(), want, rtol=1e-12, atol=1e-12)
    if mode == "forward":
        names = [getattr(step_, "primitive", None) for step_ in step.program(theta).steps]
        assert "matmul" in [primitive.name for primitive in names if primitive is not None]
