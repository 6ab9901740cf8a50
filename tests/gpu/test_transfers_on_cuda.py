"""No training step copies from the GPU to the host, neither in tapegrad nor inside CuPy."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext

import numpy as np
import pytest

import tapegrad as tf
from tests import steps

cupyx = pytest.importorskip("cupyx")
# Deprecated because it misses some synchronizations; it detects those that matter here.
pytestmark = pytest.mark.filterwarnings("ignore:cupyx.allow_synchronize")


@contextmanager
def staying_on_the_gpu() -> Iterator[None]:
    with ExitStack() as stack:
        stack.enter_context(tf.debug.transfers("raise"))
        if hasattr(cupyx, "allow_synchronize"):
            stack.enter_context(cupyx.allow_synchronize(False))
        yield


@pytest.mark.parametrize("name", steps.STEPS)
def test_a_step_copies_nothing_to_the_host_and_equals_the_cpu(name: str) -> None:
    here = steps.results(name, "cuda:0", staying_on_the_gpu)
    there = steps.results(name, "cpu", nullcontext)

    for one, other in zip(here, there, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-4, atol=1e-5)


def test_reads_are_counted_and_refused() -> None:
    with tf.device("cuda:0"):
        x = tf.constant([1.5, -2.5])

    with tf.debug.transfers("count") as seen:
        assert float(x[0]) == 1.5
        assert x[x > 0.0].shape == (1,)
    with tf.debug.transfers("raise"), pytest.raises(tf.errors.TransferError, match="cuda:0"):
        x.numpy()

    assert seen.count == 2
    assert x.numpy().tolist() == [1.5, -2.5]
