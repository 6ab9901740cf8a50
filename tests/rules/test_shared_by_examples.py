"""Inside vmap, a tape differentiates by tensors that all examples share, for each example."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.testing.sample import Sample
from tests.rules.test_samples import DIFFERENTIABLE
from tests.seeds import chosen

INTERNAL = ("matmul_sum", "matmul_with_sums")
"""Calls that only passes make: in eager mode they have no gradient."""


def positions(sample: Sample) -> list[int]:
    """Return the positions of the arguments with gradients."""
    return [k for k, array in enumerate(sample.make()) if np.asarray(array).dtype.kind == "f"]


CASES = [
    sample
    for sample in chosen(DIFFERENTIABLE, 25)
    if len(positions(sample)) > 1 and not repr(sample).startswith(INTERNAL)
]


def gradients(sample: Sample, tensors: list[Any], place: int, example: Any) -> list[Any]:
    """Return the gradients of a sum by one example and by what all of them share."""
    shared = [tensors[k] for k in positions(sample) if k != place]
    with tf.GradientTape() as tape:
        tape.watch([example, *shared])
        found = sample.function(*tensors[:place], example, *tensors[place + 1 :])
        loss = tf.add_n(
            [
                tf.reduce_sum(tf.cos(tf.cast(tf.math.real(y), "float64")))
                for y in tf.nest.flatten(found)
            ]
        )
    return tape.gradient(loss, [example, *shared], unconnected_gradients="zero")


@pytest.mark.parametrize("sample", CASES, ids=repr)
def test_each_example_has_its_own_gradient(sample: Sample) -> None:
    arrays = [np.asarray(array) for array in sample.make()]
    tensors, place = [tf.constant(array) for array in arrays], positions(sample)[0]
    examples = np.stack([arrays[place] * (1 + 0.001 * k) for k in range(3)])

    found = tf.vmap(lambda x: gradients(sample, tensors, place, x))(tf.constant(examples))

    each = [gradients(sample, tensors, place, tf.constant(x)) for x in examples]
    for one, others in zip(found, zip(*each, strict=True), strict=True):
        np.testing.assert_allclose(one, np.stack(others), rtol=1e-6, atol=1e-8)


def test_no_array_has_all_examples_twice() -> None:
    rng = np.random.default_rng(0)
    w, b = tf.constant(rng.normal(size=(3, 4))), tf.constant(rng.normal(size=4))
    examples = tf.constant(rng.normal(size=(50, 5, 3)))

    def own(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch([w, b])
            scaled = tf.sin(w) * 2.0
            y = tf.tanh(x @ scaled + b)
            loss = tf.reduce_sum(y * y) + tf.reduce_sum(scaled)
        return tape.gradient(loss, [w, b])

    recorded = tf.function(lambda x: tf.vectorized_map(own, x))

    found, each = recorded(examples), [own(x) for x in examples]

    for one, others in zip(found, zip(*each, strict=True), strict=True):
        np.testing.assert_allclose(one, np.stack(others), rtol=1e-12)
    sizes = [value.size for c in recorded.program(examples).graph.calls for value in c.results]
    assert max(sizes) <= math.prod(examples.shape) * 4


def test_a_gradient_of_gradients_per_example() -> None:
    rng = np.random.default_rng(1)
    w = rng.normal(size=(3, 2))
    examples = rng.normal(size=(4, 3))

    def loss_after_a_step(w: Any) -> Any:
        def learned(x: Any) -> Any:
            with tf.GradientTape() as tape:
                tape.watch(w)
                loss = tf.reduce_sum(tf.sin(x[None] @ w))
            return tf.reduce_sum(tf.cos(x[None] @ (w - 0.1 * tape.gradient(loss, w))))

        return tf.reduce_sum(tf.vectorized_map(learned, tf.constant(examples)))

    found = tf.grad(loss_after_a_step)(tf.constant(w))

    steps = 1e-6 * np.eye(w.size).reshape(-1, *w.shape)
    value = lambda at: float(loss_after_a_step(tf.constant(at)))  # noqa: E731
    numeric = [(value(w + step) - value(w - step)) / 2e-6 for step in steps]
    np.testing.assert_allclose(found.numpy().ravel(), numeric, rtol=1e-6, atol=1e-8)
