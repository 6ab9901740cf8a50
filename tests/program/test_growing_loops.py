"""Arrays that grow in a loop of computed length: the function runs eagerly, and says where."""

from __future__ import annotations

import itertools
from pathlib import Path

import numpy as np
import pytest

import tapegrad as tf


def by_range(n):
    x = tf.zeros([0], tf.int32)
    for i in tf.range(n):
        x = tf.concat([x, [i]], 0)
    return x


def by_condition(n):
    x = tf.zeros([0], tf.int32)
    while tf.size(x) < n:
        x = tf.concat([x, [tf.size(x)]], 0)
    return x


def by_while_loop(n):
    shapes = (tf.TensorShape([]), tf.TensorShape([None]))
    start = (tf.constant(0), tf.zeros([0], tf.int32))
    _, x = tf.while_loop(
        lambda i, x: i < n, lambda i, x: (i + 1, tf.concat([x, [i]], 0)), start, shapes
    )
    return x


def test_the_function_runs_eagerly_with_one_warning_that_names_the_line():
    for python_function in (by_range, by_condition, by_while_loop):
        function = tf.function(python_function)
        with pytest.warns(UserWarning, match=r"runs eagerly.*test_growing_loops\.py:\d+") as seen:
            found = [function(tf.constant(n)) for n in (3, 5)]
        assert len(seen) == 1
        for n, x in zip((3, 5), found):
            np.testing.assert_array_equal(x, np.arange(n))


def test_gradients_pass_through_the_loop():
    @tf.function
    def powers(x, n):
        terms = tf.ones([1])
        for _ in tf.range(n):
            terms = tf.concat([terms, terms[-1:] * x], 0)
        return tf.reduce_sum(terms)

    x = tf.Variable(2.0)
    with pytest.warns(UserWarning, match="runs eagerly"), tf.GradientTape() as tape:
        y = powers(x, tf.constant(3))
    terms = itertools.accumulate([1.0, 2.0, 2.0, 2.0], lambda a, b: a * b)
    assert float(y) == sum(terms)
    assert float(tape.gradient(y, x)) == 1 + 2 * 2.0 + 3 * 2.0**2


def test_such_a_function_cannot_be_saved_or_shown_as_a_graph(tmp_path: Path):
    for python_function in (by_range, by_while_loop):
        module = tf.Module()
        module.f = tf.function(python_function, input_signature=[tf.TensorSpec([], tf.int32)])
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"cannot be saved: .*:\d+"):
            tf.saved_model.save(module, str(tmp_path))
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"has no graph: .*:\d+"):
            _ = module.f.get_concrete_function().graph
