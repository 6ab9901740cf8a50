"""Recorded programs translated to NumPy: the same values without passes, loops or backends."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.errors import ArgumentError
from tapegrad_bench.translation import Peer, translated

pytest.importorskip("scipy")


def run_translated(program, inputs, variables):
    """Run the recorded graph on NumPy arrays; return its outputs and the new variables."""
    run = translated(program.recorded, Peer("numpy"))
    return run([np.asarray(x) for x in inputs], [variables[n] for n in program.recorded.variables])


def test_a_training_step_gives_the_same_loss_and_weights():
    w, b = tf.Variable([[0.5, -1.0], [2.0, 0.25]]), tf.Variable([0.1, 0.2])
    optimizer = tf.optimizers.SGD(0.5, momentum=0.9)
    optimizer.build([w, b])

    @tf.function
    def step(x):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.nn.softplus(x @ w + b) ** 2)
        optimizer.apply_gradients(list(zip(tape.gradient(loss, [w, b]), [w, b])))
        return loss

    x = tf.constant([[1.0, 2.0], [-0.5, 0.3]])
    known = [w, b, *optimizer.variables]
    step(x)
    before = {v.number: np.array(v.numpy()) for v in known}
    expected = float(step(x))
    program = step.program(x)

    (loss,), written = run_translated(program, [x], before)

    assert float(loss) == pytest.approx(expected, rel=1e-6)
    after = {v.number: v.numpy() for v in known}
    assert set(program.recorded.written) <= set(after)
    for number, value in zip(program.recorded.written, written):
        np.testing.assert_allclose(value, after[number], rtol=1e-5)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: tf.nn.softmax(x) * tf.cumsum(x, 1),
        lambda x: tf.where(x > 0, tf.exp(x), -1.0),
        lambda x: tf.linalg.solve(x @ tf.transpose(x) + 3.0 * tf.eye(3, dtype="float64"), x),
        lambda x: tf.math.real(tf.signal.fft(tf.cast(x, "complex128"))),
        lambda x: tf.gather(x, [2, 0], axis=1) + tf.reduce_max(x, 1, keepdims=True),
        lambda x: tf.nn.gelu(x, approximate=False),
    ],
)
def test_functions_and_their_gradients(function):
    def value_and_gradient(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
        return y, tape.gradient(y, x)

    recorded = tf.function(value_and_gradient)
    x = tf.constant(np.random.default_rng(0).normal(size=(3, 3)))
    expected = [value.numpy() for value in recorded(x)]

    found, _ = run_translated(recorded.program(x), [x], {})

    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)


def test_an_unknown_library_is_refused():
    with pytest.raises(ArgumentError, match="numpy, jax or torch"):
        Peer("matlab")
