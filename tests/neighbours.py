"""Each test begins with random numbers of its own, and leaves nothing on a device that goes."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

import tapegrad as tf
from tapegrad.core.values.variable import live_variables


@pytest.fixture(autouse=True)
def alone() -> Iterator[None]:
    """Functions record all variables there are: none may lie on a backend that was taken away."""
    yield
    tf.random.set_seed(0)  # the global generator lives where it was first used
    if any(type(v.array).__module__.startswith("array_api_strict") for v in live_variables()):
        gc.collect()
