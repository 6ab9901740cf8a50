"""What `fit` adds to a training loop written by hand: epochs of both in turns, and their ratio.

python benchmarks/fit_overhead.py
TAPEGRAD_DEVICE=cuda python benchmarks/fit_overhead.py --limit 1.05
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np

import tapegrad as tf
from tapegrad_bench.quantities import format_time

Epoch = Callable[[], float]
"""Trains for one epoch and returns a loss: so it has waited for the device."""


@dataclass(frozen=True)
class Task:
    """What is trained: a dense network like `mlp_small` on random data."""

    examples: int = 6400
    batch: int = 64
    inputs: int = 784
    hidden: int = 128
    classes: int = 10

    def data(self) -> tuple[Any, Any]:
        """Draw inputs and labels; they stay on the host, as users' data does."""
        rng = np.random.default_rng(0)
        x = rng.standard_normal((self.examples, self.inputs), dtype=np.float32)
        return x, rng.integers(0, self.classes, self.examples)

    def model(self) -> Any:
        """Make a network without weights."""
        dense = tf.keras.layers.Dense
        hidden = [dense(self.hidden, activation="relu") for _ in range(2)]
        return tf.keras.Sequential([*hidden, dense(self.classes)])

    @property
    def steps(self) -> int:
        """How many steps an epoch has; a last batch that is smaller counts."""
        return -(-self.examples // self.batch)


@dataclass(frozen=True)
class Overhead:
    """Seconds per step, one pair for each turn."""

    mode: str
    fit: tuple[float, ...]
    by_hand: tuple[float, ...]

    @property
    def ratio(self) -> float:
        """The middle of the ratios of the turns: both of a turn ran on the same busy machine.

        >>> Overhead("eager", (2.2, 1.0, 4.4), (2.0, 1.0, 4.0)).ratio
        1.1
        """
        return median([fit / by_hand for fit, by_hand in zip(self.fit, self.by_hand)])

    @property
    def line(self) -> str:
        """The result in words."""
        return (
            f"{self.mode:9} fit {format_time(median(self.fit)):>8} a step, by hand "
            f"{format_time(median(self.by_hand)):>8}, ratio {self.ratio:.3f}"
        )


def _loss() -> Any:
    return tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def make_fit(task: Task, is_eager: bool) -> Epoch:
    """Return an epoch by `fit`."""
    x, y = task.data()
    model = task.model()
    model.compile(tf.keras.optimizers.Adam(1e-3), _loss(), run_eagerly=is_eager)

    def epoch() -> float:
        history = model.fit(x, y, batch_size=task.batch, epochs=1, verbose=0)
        return float(history.history["loss"][-1])

    return epoch


def make_loop(task: Task, is_eager: bool) -> Epoch:
    """Return an epoch by the loop that a user would write."""
    x, y = task.data()
    model, loss_of, optimizer = task.model(), _loss(), tf.keras.optimizers.Adam(1e-3)
    rng = np.random.default_rng(1)

    def step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            loss = loss_of(y, model(x, training=True))
        variables = model.trainable_variables
        optimizer.apply_gradients(zip(tape.gradient(loss, variables), variables))
        return loss

    run = step if is_eager else tf.function(step)

    def epoch() -> float:
        order = rng.permutation(task.examples)
        loss: Any = None
        for start in range(0, task.examples, task.batch):
            rows = order[start : start + task.batch]
            loss = run(tf.constant(x[rows]), tf.constant(y[rows]))
        return float(loss)

    return epoch


def measure(task: Task, is_eager: bool, turns: int) -> Overhead:
    """Time epochs of both in turns, after one of each that is not timed.

    >>> small = Task(examples=8, batch=4, inputs=3, hidden=2, classes=2)
    >>> len(measure(small, is_eager=True, turns=2).fit)
    2
    """
    epochs = (make_fit(task, is_eager), make_loop(task, is_eager))
    for epoch in epochs:
        epoch()
    tf.wait_for_programs()
    times: tuple[list[float], list[float]] = ([], [])
    for turn in range(turns):
        # Who goes first changes, so that neither always comes after the other.
        for which in (0, 1) if turn % 2 else (1, 0):
            start = time.perf_counter()
            epochs[which]()
            times[which].append((time.perf_counter() - start) / task.steps)
    return Overhead("eager" if is_eager else "function", tuple(times[0]), tuple(times[1]))


def main(argv: Sequence[str] | None = None) -> int:
    """Print one line per mode; the exit status is 1 if a ratio is above the limit."""
    parser = argparse.ArgumentParser(prog="python benchmarks/fit_overhead.py", description=__doc__)
    parser.add_argument("--modes", default="function,eager", help="of function, eager")
    parser.add_argument("--turns", type=int, default=15, help="epochs of each (default: 15)")
    parser.add_argument("--examples", type=int, default=Task.examples, help="in an epoch")
    parser.add_argument("--limit", type=float, help="the highest ratio that is no failure")
    arguments = parser.parse_args(argv)
    task = Task(examples=arguments.examples)
    status = 0
    for mode in arguments.modes.split(","):
        found = measure(task, mode == "eager", arguments.turns)
        print(found.line)
        if arguments.limit is not None and found.ratio > arguments.limit:
            status = 1
    return status


if __name__ == "__main__":
    raise SystemExit(main())
