"""A part of the comparison with JAX and PyTorch, and whether it notices what is wrong."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.testing.sample import Sample, normal
from tapegrad.testing.samples import all_samples, scipy_special
from tests.oracles.arbiter import gradients_are_right, inner, values_are_right
from tests.oracles.comparison import Outcome, difference, forms, ours
from tests.oracles.peers import installed
from tests.oracles.reasons import reason_of
from tests.oracles.run import not_installed, outcomes
from tests.seeds import LONG, is_chosen

SLOW = {sample.name for sample in scipy_special.SAMPLES}
"""Formulas of thousands of calls, which only a long run compiles in another library."""


def test_a_part_of_the_samples_agrees_or_has_a_reason() -> None:
    """One sample in sixty, others for each commit; says in words where no library is installed."""
    if not installed():
        pytest.skip(not_installed())
    samples = [s for s in all_samples() if LONG or s.name not in SLOW]
    chosen = [s for s in samples if LONG or is_chosen(s.name, 60)]

    found = outcomes(chosen, installed())

    assert any(one.verdict == "agrees" for one in found)
    assert not [one for one in found if one.verdict != "agrees" and not reason_of(one)]


def test_a_real_sample_is_compared_with_complex_arguments_too() -> None:
    square = Sample("square", lambda x: x * x, [normal(3)])

    found = forms(square)

    assert list(found) == ["float64", "complex128"]
    assert found["complex128"].make()[0].dtype == np.complex128


def test_our_side_has_the_results_seeds_and_gradients_of_a_sample() -> None:
    mine = ours(Sample("square", lambda x: x * x, [normal(3)]))

    (x,), (seed,) = mine.arrays, mine.seeds
    np.testing.assert_allclose(mine.results[0], x * x)
    np.testing.assert_allclose(mine.gradients[0], 2 * x * seed)
    assert next(call.primitive.name for call in mine.graph.calls) in ("multiply", "square")


def test_differences_are_told() -> None:
    one = np.array([1.0, 2.0])

    assert difference("value", [one], [one + 1e-12]) == ""
    assert difference("value", [one], [one + 1e-3]).startswith("value 0 differs by 5.0e-04")
    assert "is finite at 2 places, theirs at 1" in difference(
        "value", [one], [np.array([1.0, np.inf])]
    )
    assert "theirs float32" in difference("gradient", [one], [one.astype("float32")])
    assert difference("gradient", [None], [0 * one]) == ""
    assert difference("gradient", [one], [None]) != ""
    assert difference("value", [np.array([1, 2])], [np.array([1, 3])]) == (
        "value 0 differs at 1 of 2 places"
    )


def test_the_arbiter_knows_right_values_and_gradients() -> None:
    sample = Sample("square", lambda x: x * x, [normal(3)], lambda x: x * x)
    arrays = sample.make()
    (x,) = arrays

    def weighted(moved: Any) -> float:
        return inner(np.ones(3), tf.square(moved[0]).numpy())

    assert values_are_right(sample, arrays, [x * x])
    assert not values_are_right(sample, arrays, [x * x + 1e-3])
    assert gradients_are_right(weighted, arrays, [2 * x])
    assert not gradients_are_right(weighted, arrays, [2 * x + [0.0, 1e-3, 0.0]])


def test_a_difference_without_a_reason_has_none() -> None:
    unknown = Outcome("sqrt", "float64", "jax", "differs", "value 0 differs by 1.0", "the library")

    assert reason_of(unknown) == ""
