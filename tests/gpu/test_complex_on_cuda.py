"""Complex input on the GPU is refused as on the CPU."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad as tf
from tests.rules.test_complex import REAL_ONLY, Z, _refuses

pytest.importorskip("cupy")


@pytest.mark.parametrize("name", REAL_ONLY)
def test_real_functions_refuse_complex_input_by_name(name: str) -> None:
    with tf.device("cuda:0"):
        _refuses(name, REAL_ONLY[name], tf.constant(Z))


def test_complex_softmax_is_that_of_the_cpu() -> None:
    for function in (tf.nn.softmax, tf.nn.log_softmax, tf.reduce_logsumexp):
        want = function(tf.constant(Z)).numpy()
        with tf.device("cuda:0"):
            found = function(tf.constant(Z))
        np.testing.assert_allclose(found.numpy(), want, rtol=1e-12)
