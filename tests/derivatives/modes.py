"""The ways to compute a derivative, each as a check of one sample."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import tapegrad as tf
from tapegrad.core.values import nest
from tapegrad.testing import checks
from tapegrad.testing.sample import Sample
from tests.fuzz.special_values import values_and_gradients

Check = Callable[[Sample], None]


def check_function(sample: Sample) -> None:
    """Check that a recorded function gives the values and gradients of eager code."""
    eager = values_and_gradients(sample, has_gradients=True)
    recorded = tf.function(eager)
    tensors = [tf.constant(array) for array in sample.make()]
    expected = nest.flatten(eager(*tensors))
    for _ in range(2):  # recorded, then replayed
        found = nest.flatten(recorded(*tensors))
        for one, other in zip(found, expected, strict=True):
            if other is None:
                assert one is None
                continue
            assert one.dtype == other.dtype
            np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-12, atol=1e-13)


MODES: dict[str, Check] = {
    "value": checks.check_forward,
    "reverse": checks.check_vjp,
    "forward": checks.check_jvp,
    "second order": checks.check_second_order,
    "vmap": checks.check_batching,
    "single": checks.check_dtypes,
    "function": check_function,
}
"""The modes of one process; `single` checks that results keep single precision."""

DERIVATIVES = ("reverse", "forward", "second order")


def applies(sample: Sample, mode: str) -> bool:
    """Return whether a mode checks anything about a sample."""
    if mode == "value":
        return sample.reference is not None
    if mode in DERIVATIVES:
        return sample.differentiable and (mode != "second order" or sample.order >= 2)
    return {"vmap": sample.batches, "single": True, "function": sample.records}[mode]
