"""Programs on the GPU, with fused loops and CUDA graphs, give what eager mode gives there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.core import nest
from tapegrad.testing.sample import Sample
from tapegrad.testing.samples import all_samples
from tests.program.test_programs_equal_eager import READ_VALUES, value_and_gradients
from tests.program.test_random_programs import check_against_eager
from tests.steps import STEPS

pytest.importorskip("cupy")
capture_memory = pytest.importorskip("tapegrad_cupy.capture_memory")

PROGRAMS = 200
CALLS = 4
"""The first is recorded, the second runs launch by launch, the others as a graph."""


def assert_close(found: Any, expected: Any, precision: float) -> None:
    found, expected = nest.flatten(found), nest.flatten(expected)
    for one, other in zip(found, expected, strict=True):
        if other is None:
            assert one is None
            continue
        one, other = np.asarray(one), np.asarray(other)
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=precision, atol=precision)


@pytest.mark.parametrize(
    "sample", [s for s in all_samples() if s.name not in READ_VALUES], ids=repr
)
def test_a_sample_with_its_gradients(sample: Sample) -> None:
    eager = value_and_gradients(sample)
    recorded = tf.function(eager)
    with tf.device("cuda:0"):
        for seed in (0, 0, 0, 1):
            tensors = [tf.constant(array) for array in sample.make(seed)]
            assert_close(recorded(*tensors), eager(*tensors), 1e-11)


@pytest.mark.parametrize("name", STEPS)
def test_training_steps(name: str) -> None:
    results = []
    for wrap in (lambda step: step, tf.function):
        tf.random.set_seed(5)
        with tf.device("cuda:0"):
            step = wrap(STEPS[name]())
            results.append([[np.asarray(v) for v in nest.flatten(step())] for _ in range(6)])

    # In float32, and loops round at other places than single kernels do.
    assert_close(results[1], results[0], 1e-5)


@pytest.mark.parametrize("seed", range(2000, 2000 + PROGRAMS))
def test_a_random_program(seed: int) -> None:
    with tf.device("cuda:0"):
        check_against_eager(seed, CALLS, precision=1e-10)


@pytest.mark.parametrize("seed", range(2000, 2000 + PROGRAMS // 4))
def test_a_random_program_in_planned_places(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capture_memory, "WORTH", -(1 << 60))
    with tf.device("cuda:0"):
        check_against_eager(seed, CALLS, precision=1e-10)
