"""The NaN sentinel does not raise for functions whose values and gradients are finite."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.core.values import nest
from tapegrad.testing.sample import Sample
from tapegrad.testing.samples import all_samples
from tests.seeds import chosen

SAMPLES = [sample for sample in all_samples() if sample.differentiable]

pytestmark = pytest.mark.filterwarnings("ignore:.*encountered in")


def values_and_gradients(sample: Sample) -> Any:
    def run(*args: Any) -> list[Any]:
        with tf.GradientTape() as tape:
            sources = [x for x in args if x.dtype.is_floating or x.dtype.is_complex]
            tape.watch(sources)
            results = nest.flatten(sample.function(*args))
            targets = [y for y in results if y.dtype.is_floating]
        grads = tape.gradient(targets, sources) if targets and sources else []
        return [*results, *[grad for grad in grads if isinstance(grad, tf.Tensor)]]

    return run


def arguments_of(sample: Sample) -> list[Any]:
    return [tf.constant(array) for array in sample.make()]


def are_finite(values: list[Any]) -> bool:
    arrays = [value.numpy() for value in values]
    return all(np.isfinite(array).all() for array in arrays if array.dtype.kind in "fc")


@pytest.mark.parametrize("sample", chosen(SAMPLES, 6), ids=repr)
def test_eager_code(sample: Sample) -> None:
    args, run = arguments_of(sample), values_and_gradients(sample)
    expected = run(*args)
    is_fine = are_finite([*expected, *args])

    with tf.debug.nan_sentinel():
        found = run(*args) if is_fine else expected

    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("sample", chosen([s for s in SAMPLES if s.records], 40), ids=repr)
def test_compiled_code(sample: Sample) -> None:
    args, run = arguments_of(sample), tf.function(values_and_gradients(sample))
    expected = run(*args)
    is_fine = are_finite(expected)

    with tf.debug.nan_sentinel():
        found = run(*args) if is_fine else expected

    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-9, atol=1e-11)
