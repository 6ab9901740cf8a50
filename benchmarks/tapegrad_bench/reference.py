"""The values that every library's loss and gradients are compared with, in float64.

Most come from the hand-written NumPy steps. Two models are too long to differentiate by hand:
their loss is plain NumPy's, their gradients are those of tapegrad on NumPy in float64, which a test
compares with differences of NumPy's loss.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import numpy as np

import tapegrad as tf
from tapegrad_bench.adapters.numpy_ops import NumpyOps
from tapegrad_bench.adapters.tapegrad_ops import TapegradOps
from tapegrad_bench.handwritten import STEPS, Updates
from tapegrad_bench.workload import Array, Arrays, Problem

CHECKED_STEPS = 3
"""How many steps are followed, each with another set of inputs."""


@dataclass(frozen=True)
class Reference:
    """What one step gives, and the losses of the first training steps."""

    outputs: list[Arrays]
    """Loss (or output), then gradients: of the first set, or of several without an update."""
    losses: tuple[float, ...] = ()
    start: Arrays = field(default_factory=list)
    """The parameters before the first update, if the step makes updates."""
    parameters: Arrays = field(default_factory=list)
    """The parameters after the last update."""
    moments: Arrays = field(default_factory=list)
    """Adam's running means of the gradients after the last update."""


def reference(problem: Problem) -> Reference:
    """Compute loss, gradients, and the first losses and updates of training.

    >>> from tapegrad_bench.workloads import WORKLOADS
    >>> problem = Problem(WORKLOADS["chain"], {"n": 3, "links": 2}, "float32")
    >>> [array.shape for array in reference(problem).outputs[0]]
    [(), (3,)]
    """
    optimizer = problem.workload.optimizer
    outputs = list(outputs_of(problem, CHECKED_STEPS if optimizer is None else 1))
    if optimizer is None:
        return Reference(outputs)
    params = as_double(problem.params)
    start = [p.copy() for p in params]
    updates = Updates(np, optimizer, params)
    losses = []
    for batch in islice(problem.batches(), CHECKED_STEPS):
        loss, gradients = _step(problem, params, as_double(batch))
        losses.append(float(loss))
        updates.apply(gradients)
    return Reference(outputs, tuple(losses), start, params, updates.moments())


def outputs_of(problem: Problem, sets: int = CHECKED_STEPS) -> Iterator[Arrays]:
    """Yield loss (or output) and gradients of the first sets, one set at a time."""
    for params, batch in islice(problem.inputs(), sets):
        yield _outputs(problem, as_double(params), as_double(batch))


def _outputs(problem: Problem, params: Arrays, batch: Arrays) -> Arrays:
    loss, gradients = _step(problem, params, batch)
    return [np.array(value, np.float64) for value in (loss, *gradients)]


def plain_loss(problem: Problem, params: Arrays, batch: Arrays) -> Any:
    """Return the loss, or the output, by plain NumPy."""
    return problem.apply(NumpyOps(np), params, batch)


def as_double(arrays: Arrays) -> Arrays:
    """Return copies; floating values in float64."""
    return [
        array.astype(np.float64 if array.dtype.kind == "f" else array.dtype) for array in arrays
    ]


def _step(problem: Problem, params: Arrays, batch: Arrays) -> tuple[Array, list[Array]]:
    by_hand = STEPS.get(problem.workload.name)
    if by_hand is not None:
        return by_hand(np, problem.dims, params, batch)
    with tf.device("cpu"):
        sources = [tf.constant(p, dtype="float64") for p in params]
        data = [tf.constant(array, dtype=str(array.dtype)) for array in batch]
        with tf.GradientTape() as tape:
            tape.watch(sources)
            loss = problem.apply(TapegradOps("float64"), sources, data)
        gradients = tape.gradient(loss, sources)
    return plain_loss(problem, params, batch), [np.array(dense(g).numpy()) for g in gradients]


def dense(gradient: Any) -> Any:
    """Return the gradient of a table as a table."""
    return gradient.dense() if isinstance(gradient, tf.IndexedSlices) else gradient
