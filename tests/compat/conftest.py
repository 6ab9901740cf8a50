"""What the tests of autograd's modules share."""

from __future__ import annotations

import pytest

import tapegrad as tf


@pytest.fixture
def on_the_cpu():
    """For what holds there only: outside of a trace and inside rules, values are NumPy's arrays."""
    with tf.device("cpu"):
        yield
