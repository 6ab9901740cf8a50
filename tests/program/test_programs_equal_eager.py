"""Replayed functions give the same results as eager code."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.core.values import nest
from tapegrad.testing.sample import Sample
from tapegrad.testing.samples import all_samples
from tests.long_formulas import affordable
from tests.steps import STEPS


def value_and_gradients(sample: Sample) -> Any:
    def run(*tensors: Any) -> Any:
        sources = [x for x in tensors if x.dtype.is_differentiable]
        if not sample.differentiable or not sources:
            return sample.function(*tensors)
        with tf.GradientTape() as tape:
            tape.watch(sources)
            result = sample.function(*tensors)
        targets = [r for r in nest.flatten(result) if r.dtype.is_differentiable]
        return result, tape.gradient(targets, sources) if targets else None

    return run


def assert_same(found: Any, expected: Any) -> None:
    found, expected = nest.flatten(found), nest.flatten(expected)
    assert len(found) == len(expected)
    for one, other in zip(found, expected):
        if other is None:
            assert one is None
            continue
        one, other = np.asarray(one), np.asarray(other)
        assert one.dtype == other.dtype
        # Sums of a thousand terms may come in another order where BLAS chooses it by alignment.
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)


@pytest.mark.filterwarnings("ignore:.*depends on values")  # nonzero and the like run eagerly
@pytest.mark.usefixtures("quick_compiler")
@pytest.mark.parametrize("sample", affordable(all_samples(), one_in=5), ids=repr)
def test_a_sample_with_its_gradients(sample: Sample) -> None:
    eager = value_and_gradients(sample)
    recorded = tf.function(eager)
    for seed in (0, 0, 1):
        tensors = [tf.constant(array) for array in sample.make(seed)]
        assert_same(recorded(*tensors), eager(*tensors))


@pytest.mark.parametrize("name", STEPS)
def test_training_steps(name: str) -> None:
    tf.random.set_seed(5)
    eager = STEPS[name]()
    expected = [[np.asarray(v) for v in nest.flatten(eager())] for _ in range(4)]

    tf.random.set_seed(5)
    recorded = tf.function(STEPS[name]())
    found = [[np.asarray(v) for v in nest.flatten(recorded())] for _ in range(4)]

    for one, other in zip(found, expected):
        for a, b in zip(one, other):
            # In float32, and loops round at other places than single kernels do; the samples and
            # the random programs say in float64 that nothing else differs.
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
