"""Samples of a family on both devices: the CPU, and the stand-in that refuses host copies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import tapegrad as tf
import tapegrad_strict as strict
from tapegrad.core.backend.registry import register_backend, unregister_backend
from tapegrad.core.values.device import device
from tapegrad.testing.battery import check_sample
from tapegrad.testing.sample import Sample


def check_on_cpu(sample: Sample) -> None:
    """Values, both modes of differentiation, second order, vmap and dtypes; then tf.function."""
    check_sample(sample)
    if sample.batches:
        check_recorded(sample.function, sample.make())


def check_on_strict_device(sample: Sample) -> None:
    register_backend(strict.StrictBackend())
    try:
        with device("strict:0"), strict.forbidding_reads():
            check_sample(sample)
    finally:
        unregister_backend("strict")


def check_recorded(function: Callable[..., Any], arrays: list[np.ndarray[Any, Any]]) -> None:
    """A recorded function gives what the eager one gives, also on a second call."""
    recorded = tf.function(function)
    for scale in (1.0, 0.9):
        tensors = [tf.constant(a * scale if a.dtype.kind == "f" else a) for a in arrays]
        np.testing.assert_allclose(
            recorded(*tensors).numpy(), function(*tensors).numpy(), rtol=1e-12, atol=1e-13
        )
