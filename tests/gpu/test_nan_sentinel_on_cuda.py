"""The NaN sentinel on the GPU: eager code, programs that become CUDA graphs, and memory by line."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.errors import NonFiniteError

pytest.importorskip("cupy")

HERE = r"test_nan_sentinel_on_cuda\.py:\d+"


@pytest.fixture(autouse=True)
def on_the_gpu():
    with tf.device("cuda:0"):
        yield


def test_eager_code_names_the_line_in_both_passes() -> None:
    v = tf.Variable([0.0, 1.0])

    with tf.debug.nan_sentinel():
        with pytest.raises(NonFiniteError, match=rf"log at .*{HERE} made NaN in the forward pass"):
            tf.math.log(v - 2.0)
        with tf.GradientTape() as tape:
            y = tf.reduce_sum(tf.sqrt(v * 0.0))
        with pytest.raises(NonFiniteError, match=rf"gradient of multiply at .*{HERE} became NaN"):
            tape.gradient(y, v)


def test_a_training_step_as_a_graph_stops_before_it_assigns() -> None:
    rng = np.random.default_rng(0)
    weights = [tf.Variable(rng.normal(size=(64, 64)).astype("float32") * 0.1) for _ in range(3)]
    optimizer = tf.keras.optimizers.Adam(1e-3)
    optimizer.build(weights)

    @tf.function
    def step(x: Any) -> Any:
        with tf.GradientTape() as tape:
            h = x
            for w in weights:
                h = tf.nn.gelu(h @ w)
            loss = tf.reduce_mean(tf.sqrt(h + 1.0))
        optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights))
        return loss

    x = tf.constant(rng.normal(size=(32, 64)).astype("float32"))
    with tf.debug.nan_sentinel():
        losses = [float(step(x)) for _ in range(6)]
        before = [w.numpy() for w in weights]
        with pytest.raises(NonFiniteError, match="Input 0 of the program had NaN before the call"):
            step(tf.where(x > 2.0, np.nan, x))
        for w, kept in zip(weights, before, strict=True):
            np.testing.assert_array_equal(w.numpy(), kept)
        after = float(step(x))

    assert np.isfinite([*losses, after]).all()
    assert len(set(losses)) == 6


def test_a_program_names_the_operation_and_masks_are_allowed() -> None:
    root = tf.function(lambda x: tf.reduce_sum(tf.sqrt(x) * 2.0))
    masked = tf.function(lambda x: tf.nn.softmax(tf.where(x > 0.0, x, -np.inf)))
    x = tf.constant(np.linspace(0.5, 2.0, 3000, dtype="float32"))

    with tf.debug.nan_sentinel():
        for _ in range(3):
            root(x)
            assert np.isfinite(masked(x - 1.0).numpy()).all()
        with pytest.raises(NonFiniteError, match=rf"sqrt at .*{HERE} made NaN"):
            root(x - 1.0)


def test_memory_is_named_by_line() -> None:
    with tf.debug.trace_memory():
        large = tf.ones([1024, 1024]) * 2.0
        found = tf.debug.memory().holders

    here = [holder for holder in found if "test_nan_sentinel_on_cuda.py" in holder.where]
    assert sum(holder.bytes for holder in here) >= large.shape[0] * large.shape[1] * 4
