"""A user's program, which ci/test.sh checks with mypy: what the names of tapegrad resolve to.

`assert_type` fails for any other type, Any included. A typo that mypy does not flag makes its
`type: ignore` unused, which is an error.
"""

from __future__ import annotations

from typing import Any, assert_type

import numpy as np

import tapegrad as tf

Array = np.ndarray[tuple[Any, ...], np.dtype[Any]]

x = tf.constant([1.0, 2.0])
w = tf.Variable([1.0, 2.0])
assert_type(x + 1, tf.Tensor)
assert_type(2.0 * w, tf.Tensor)
assert_type(x[0], tf.Tensor)
assert_type(x.numpy(), Array)
assert_type(x.shape, tf.TensorShape)
assert_type(tf.reduce_sum(x), tf.Tensor)
assert_type(tf.nn.relu(x), tf.Tensor)
assert_type(tf.math.log(x), tf.Tensor)
assert_type(tf.linalg.qr(tf.eye(2)), tuple[tf.Tensor, tf.Tensor])
assert_type(tf.split(x, 2), list[tf.Tensor])
with tf.GradientTape() as tape:
    loss = tf.reduce_sum(w * x)
assert_type(tape.gradient(loss, w), tf.Tensor)


@tf.function
def step(a: tf.Tensor, scale: float = 1.0) -> tf.Tensor:
    return a * scale


@tf.function(jit=False)
def other_step(a: tf.Tensor) -> tf.Tensor:
    return step(a, scale=2.0)


class Counter(tf.Module):
    """A module with a compiled method."""

    @tf.function
    def count(self, a: tf.Tensor) -> tf.Tensor:
        return a + 1.0


assert_type(step(x), tf.Tensor)
assert_type(other_step(x), tf.Tensor)
assert_type(Counter().count(x), tf.Tensor)

model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
model.compile("sgd", "mse")
assert_type(model(tf.ones([2, 3])), tf.Tensor)
assert_type(model.fit(np.ones((2, 3)), np.ones((2, 1)), verbose=0), tf.keras.callbacks.History)
assert_type(model.predict(np.ones((2, 3)), verbose=0), Array)


def typos() -> None:
    """Make mistakes that a checker must find; this is never called."""
    tf.reduce_summ(x)  # type: ignore[attr-defined]
    tf.nn.rellu(x)  # type: ignore[attr-defined]
    tf.keras.layers.Densse(1)  # type: ignore[attr-defined]
    model.fitt()  # type: ignore[attr-defined]
    x.numppy()  # type: ignore[attr-defined]
    step("text")  # type: ignore[arg-type]
    step(x, scalle=2.0)  # type: ignore[call-arg]
    w.assing(x)  # type: ignore[attr-defined]
    tf.keras.losses.MeanSquareError()  # type: ignore[attr-defined]
    tf.keras.metrics.Acuracy()  # type: ignore[attr-defined]
    tf.data.DataSet.range(3)  # type: ignore[attr-defined]
    tf.train.Checkpont()  # type: ignore[attr-defined]
