"""Horovod's optimizer in one process: gradients of several calls make one step."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad as tf
import tapegrad.compat.horovod as hvd
from tapegrad import keras

GRADIENTS = (np.array([1.0, 3.0], "float32"), np.array([2.0, -1.0], "float32"))


@pytest.mark.parametrize("is_mean", [False, True])
def test_the_gradients_of_several_passes_make_one_step(is_mean: bool) -> None:
    sgd = keras.optimizers.SGD(0.5)
    optimizer = hvd.DistributedOptimizer(
        sgd, backward_passes_per_step=2, average_aggregated_gradients=is_mean
    )
    w = tf.Variable([1.0, 1.0])
    values = []
    for gradient in GRADIENTS:
        optimizer.apply_gradients([(tf.constant(gradient), w)])
        values.append(w.numpy())
    total = sum(GRADIENTS) / (2 if is_mean else 1)
    np.testing.assert_allclose(values, [[1.0, 1.0], 1.0 - 0.5 * total], rtol=1e-6)


def test_an_optimizer_that_was_used_cannot_begin_to_add_gradients() -> None:
    optimizer = keras.optimizers.SGD(0.5)
    optimizer.build([tf.Variable(1.0)])
    with pytest.raises(tf.errors.InvalidArgumentError, match="has not been used"):
        hvd.DistributedOptimizer(optimizer, backward_passes_per_step=2)
    hvd.DistributedOptimizer(optimizer, backward_passes_per_step=1)


def test_compile_takes_an_argument_that_programs_for_horovod_pass() -> None:
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse", experimental_run_tf_function=False)
    assert "experimental_run_tf_function" not in model.get_compile_config()
