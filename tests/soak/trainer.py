"""The training that a soak repeats: a model with its optimizer, generator and checkpoints.

Every step depends on the seed, the number of the step and the state that a checkpoint holds, and on
nothing else. So a segment that starts from a checkpoint has one result.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import tapegrad as tf

FEATURES, HIDDEN, CLASSES = 12, 16, 4
SIZES = (1, 2, 5, 8, 16, 31)
"""The batch sizes that take turns."""


class StepError(Exception):
    """What a step of the soak raises on purpose."""


class Trainer:
    """A small network with batch normalization by hand, dropout and Adam."""

    def __init__(self, seed: int) -> None:
        rng = np.random.default_rng(seed)

        def weights(*shape: int) -> Any:
            return tf.Variable(rng.normal(0.0, 0.3, shape).astype("float32"))

        self.variables = [weights(FEATURES, HIDDEN), weights(HIDDEN), weights(HIDDEN, CLASSES)]
        self.mean = tf.Variable(np.zeros(HIDDEN, "float32"))
        self.generator = tf.random.Generator.from_seed(seed)
        self.optimizer = tf.optimizers.Adam(0.003)
        self.optimizer.build(self.variables)
        self.checkpoint = tf.train.Checkpoint(
            variables=self.variables,
            mean=self.mean,
            optimizer=self.optimizer,
            state=self.generator.state,
        )
        self.compiled = tf.function(self.eager)

    def eager(self, x: Any, labels: Any, is_failing: bool = False) -> Any:
        """Make a step and return its loss; a failing one raises before it changes anything."""
        w1, b1, w2 = self.variables
        with tf.GradientTape() as tape:
            hidden = tf.nn.relu(x @ w1 + b1 - self.mean)
            keep = self.generator.uniform(tf.shape(hidden)) < 0.9
            logits = tf.where(keep, hidden, 0.0) @ w2
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
            loss = tf.reduce_mean(losses)
            if is_failing:
                raise StepError("on purpose")
        gradients = tape.gradient(loss, self.variables)
        self.mean.assign_add(0.01 * (tf.reduce_mean(hidden, 0) - self.mean))
        self.optimizer.apply_gradients(zip(gradients, self.variables, strict=True))
        return loss

    def digest(self) -> str:
        """Return a hash of all that the next step depends on."""
        found = hashlib.sha256()
        held = [*self.variables, self.mean, *self.optimizer.variables, self.generator.state]
        for variable in held:
            found.update(variable.numpy().tobytes())
        return found.hexdigest()

    def save(self, path: Path) -> str:
        """Write a checkpoint and return its name."""
        return str(self.checkpoint.write(str(path)))

    @classmethod
    def loaded(cls, name: str, seed: int) -> Trainer:
        """Return a new trainer with the state of a checkpoint."""
        trainer = cls(seed + 1)  # other weights, which the checkpoint replaces
        trainer.checkpoint.read(name).assert_consumed()
        return trainer


def batches(seed: int, first: int, count: int) -> Iterator[tuple[Any, Any]]:
    """Yield the batches of some steps, read ahead by a thread, of sizes that change."""

    def rows() -> Iterator[tuple[np.ndarray, np.ndarray]]:
        for step in range(first, first + count):
            rng = np.random.default_rng([seed, step])
            size = SIZES[rng.integers(len(SIZES))]
            x = rng.normal(size=(size, FEATURES)).astype("float32")
            yield x, (x[:, :CLASSES].argmax(-1)).astype("int64")

    signature = (
        tf.TensorSpec([None, FEATURES], "float32"),
        tf.TensorSpec([None], "int64"),
    )
    yield from tf.data.Dataset.from_generator(rows, output_signature=signature).prefetch(2)
