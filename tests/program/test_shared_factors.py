"""Systems with one matrix share its factors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf
import tapegrad.numpy as tnp
from tapegrad.ops.linalg.factored import factors_p, solve_factored_p
from tapegrad.program.passes.shared_factors import LEAST, with_shared_factors
from tests.program.recorded_graphs import assert_same_results, count, recorded

rng = np.random.default_rng(2)


def regular(*shape: int) -> Any:
    return rng.normal(size=shape) + 3.0 * np.sqrt(shape[-1]) * np.eye(shape[-1])


def gradients(a: Any, b: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch((a, b))
        x = tnp.linalg.solve(a, b)
        loss = tnp.sum(tnp.sin(x))
    return x, *tape.gradient(loss, (a, b))


@pytest.mark.parametrize("lead", [(), (3,)])
def test_a_gradient_takes_one_factorisation(lead: tuple[int, ...]) -> None:
    arrays = regular(*lead, LEAST, LEAST), rng.normal(size=(*lead, LEAST, 2))

    before = recorded(gradients, arrays)
    after = with_shared_factors(before)

    assert_same_results(before, after, arrays)
    assert count(before, "solve") == 2
    assert count(after, "lu_factors", "solve") == 1
    assert count(after, "solve_factored") == 2


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (regular(8, 8), rng.normal(size=(8, 2))),
        (regular(40, 40), rng.normal(size=(5, 40, 2))),
        (regular(40, 40) + 0j, rng.normal(size=(40, 2)) + 0j),
    ],
    ids=["small", "broadcast", "complex"],
)
def test_other_systems_stay_as_they_are(a: Any, b: Any) -> None:
    graph = recorded(lambda a, b: (tnp.linalg.solve(a, b), tnp.linalg.solve(a, 2 * b)), (a, b))

    assert with_shared_factors(graph) is graph


def test_matrices_that_are_solved_once_are_not_factored() -> None:
    a, c, b = regular(40, 40), regular(40, 40), rng.normal(size=(40, 2))

    graph = recorded(lambda a, c, b: (tnp.linalg.solve(a, tnp.linalg.solve(c, b)),), (a, c, b))

    assert with_shared_factors(graph) is graph


@pytest.mark.parametrize("adjoint", [False, True])
def test_batches_of_matrices(adjoint: bool) -> None:
    a, b = regular(4, 5, 5), rng.normal(size=(4, 5, 3))

    def solved(a: Any, b: Any) -> Any:
        return solve_factored_p(*factors_p(a), b, adjoint=adjoint)

    found = tf.vectorized_map(lambda pair: solved(*pair), (tf.constant(a), tf.constant(b)))

    expected = np.linalg.solve(a.swapaxes(-1, -2) if adjoint else a, b)
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-10)
