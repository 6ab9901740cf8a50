"""Random programs: views, broadcasting, dtypes, writes in place, tapes inside tapes, variables.

A program is a list of instructions drawn from a seed. It runs eagerly and as a function, three
times each on different inputs, and must give the same values and leave the same variables. Half
of the seeds are new for each commit; TAPEGRAD_SEED repeats a run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tests.seeds import program_seeds

LENGTH = 14
MOST_ELEMENTS = 400

UNARY: list[Callable[[Any], Any]] = [
    tf.tanh, tf.sin, tf.nn.relu, tf.sigmoid, tf.square, tf.abs, tf.math.log1p,
    lambda x: -x, lambda x: x * 0.5, lambda x: 1.0 - x, lambda x: tf.nn.softmax(x),
    lambda x: tf.clip_by_value(x, -1.0, 1.0), lambda x: tf.cast(tf.cast(x, "float32"), "float64"),
    lambda x: tf.cumsum(x, axis=-1), lambda x: tf.stop_gradient(x) + x,
]  # fmt: skip
BINARY: list[Callable[[Any, Any], Any]] = [
    tf.add, tf.subtract, tf.multiply, tf.maximum,
    lambda x, y: x / (tf.square(y) + 1.0),
    # Continuous, because rounding decides the condition where x is the mean of equal numbers y.
    lambda x, y: tf.where(x > y, x, 1.5 * y - 0.5 * x),
]  # fmt: skip


class Machine:
    """Runs a program: a growing list of values, and variables that live from call to call."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.variables = [
            tf.Variable(np.random.default_rng([seed, k]).normal(size=(3, 4))) for k in range(2)
        ]

    def __call__(self, *inputs: Any) -> list[Any]:
        rng = np.random.default_rng(self.seed)
        values = [tf.tanh(x) for x in inputs]
        for _ in range(LENGTH):
            made = self.instruction(rng, values)
            if 0 < made.shape.num_elements() <= MOST_ELEMENTS:
                values.append(made)
        return values[-5:]

    def instruction(self, rng: np.random.Generator, values: list[Any]) -> Any:
        kinds = (
            self.unary, self.binary, self.shape, self.reduce, self.product, self.index,
            self.write, self.gradient, self.variable, self.join,
        )  # fmt: skip
        return kinds[rng.integers(len(kinds))](rng, values)

    def pick(self, rng: np.random.Generator, values: list[Any]) -> Any:
        return values[rng.integers(len(values))]

    def unary(self, rng: np.random.Generator, values: list[Any]) -> Any:
        x = self.pick(rng, values)
        function = UNARY[rng.integers(len(UNARY))]
        if function is tf.math.log1p:
            x = tf.square(x)
        return function(x if x.ndim else tf.reshape(x, (1,)))

    def binary(self, rng: np.random.Generator, values: list[Any]) -> Any:
        x, y = self.pick(rng, values), self.pick(rng, values)
        try:
            np.broadcast_shapes(x.shape, y.shape)
        except ValueError:
            y = tf.reduce_mean(y)
        return BINARY[rng.integers(len(BINARY))](x, y)

    def shape(self, rng: np.random.Generator, values: list[Any]) -> Any:
        x = self.pick(rng, values)
        choice = rng.integers(4)
        if choice == 0:
            return tf.reshape(x, (-1,))
        if choice == 1 and x.ndim:
            return tf.transpose(x, rng.permutation(x.ndim).tolist())
        if choice == 2:
            return tf.expand_dims(x, int(rng.integers(x.ndim + 1))) if x.ndim < 4 else x * 1.0
        return tf.broadcast_to(x, (2, *x.shape)) if x.ndim < 3 else x + 0.0

    def reduce(self, rng: np.random.Generator, values: list[Any]) -> Any:
        x = self.pick(rng, values)
        function = (tf.reduce_sum, tf.reduce_mean, tf.reduce_max)[rng.integers(3)]
        axis = int(rng.integers(x.ndim)) if x.ndim else None
        return function(x, axis=axis, keepdims=bool(rng.integers(2)))

    def product(self, rng: np.random.Generator, values: list[Any]) -> Any:
        x = self.pick(rng, values)
        flat = tf.reshape(x, (-1, 1)) if x.ndim < 2 else tf.reshape(x, (-1, x.shape[-1]))
        return tf.tanh(tf.matmul(flat, flat, transpose_a=True) * 0.1)

    def index(self, rng: np.random.Generator, values: list[Any]) -> Any:
        x = self.pick(rng, values)
        if not x.ndim:
            return x * 2.0
        choice = rng.integers(4)
        if choice == 0:
            return x[::-1]
        if choice == 1:
            return x[..., : max(1, x.shape[-1] // 2)]
        if choice == 2:
            return x[int(rng.integers(x.shape[0]))]
        return tf.gather(x, rng.integers(x.shape[0], size=3).tolist())

    def write(self, rng: np.random.Generator, values: list[Any]) -> Any:
        x = tf.identity(self.pick(rng, values))
        if not x.ndim:
            return x - 1.0
        place = int(rng.integers(x.shape[0]))
        x[place] = tf.tanh(x[place]) * 0.5
        x[place] += 0.25
        return x

    def gradient(self, rng: np.random.Generator, values: list[Any]) -> Any:
        """The gradient of a small function by a value; every other time of its gradient."""
        x, w = self.pick(rng, values), self.variables[0]
        twice = bool(rng.integers(2))
        with tf.GradientTape(persistent=True) as outer:
            outer.watch(x)
            with tf.GradientTape() as inner:
                inner.watch(x)
                y = tf.reduce_sum(tf.sin(x) * x) * tf.reduce_mean(w)
            first = inner.gradient(y, x)
            total = tf.reduce_sum(first * first)
        return outer.gradient(total, x) * 0.1 if twice else first

    def variable(self, rng: np.random.Generator, values: list[Any]) -> Any:
        variable = self.variables[rng.integers(2)]
        change = tf.tanh(tf.reduce_mean(self.pick(rng, values)))
        if rng.integers(2):
            variable.assign(variable * 0.9 + change)
        else:
            variable.assign_sub(0.1 * variable.value() + change)
        return variable * 1.0

    def join(self, rng: np.random.Generator, values: list[Any]) -> Any:
        x = self.pick(rng, values)
        if rng.integers(2):
            return tf.stack([x, x * 0.5], axis=0) if x.ndim < 4 else x
        flat = tf.reshape(x, (-1,))
        return tf.concat([flat, tf.sort(flat), tf.random.normal([2], dtype="float64")], axis=0)


def inputs_of(seed: int, call: int) -> list[Any]:
    rng = np.random.default_rng([seed, call, 77])
    return [tf.constant(rng.normal(size=shape)) for shape in ((3, 4), (4,), (2, 3, 4), ())]


def check_against_eager(seed: int, calls: int, precision: float) -> None:
    """Run a program eagerly and as a function; compare the results and the variables."""
    eager, recorded = Machine(seed), Machine(seed)
    results: list[list[Any]] = []
    for run in (eager, tf.function(recorded.__call__)):
        tf.random.set_seed(seed)
        results.append([[v.numpy() for v in run(*inputs_of(seed, call))] for call in range(calls)])

    for expected, found in zip(*results):
        for a, b in zip(found, expected, strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_allclose(a, b, rtol=precision, atol=precision / 10)
    for one, other in zip(eager.variables, recorded.variables):
        np.testing.assert_allclose(other.numpy(), one.numpy(), rtol=precision, atol=precision / 10)


@pytest.mark.usefixtures("quick_compiler")
@pytest.mark.parametrize("seed", program_seeds(160, most=1000))
def test_a_random_program_gives_what_it_gives_eagerly(seed: int) -> None:
    check_against_eager(seed, calls=3, precision=1e-11)
