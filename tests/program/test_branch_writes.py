"""In-place writes in branches on tensors: only those of the taken branch happen."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad as tf

POINTS = [
    np.array(p) for p in ([0.5, 1.2, -0.3, 0.8], [-0.5, 1.2, 0.3, 0.8], [-0.5, -1.0, 0.3, -2])
]


def one_branch(x):
    y = x * 1.0
    if x[0] > 0:
        y[1:3] = 0.5 * x[:2]
    return y


def two_branches(x):
    y = x * 1.0
    if x[0] > 0:
        y[1] = 0.5
    else:
        y[0] = x[1] * x[2]
    y[-1] += y[0]
    return y


def nested(x):
    y, z = x * 1.0, x * 2.0
    if x[0] > 0:
        y[0] = 1.0
    elif x[1] > 0:
        y[2:] = z[:2]
        if x[3] > 0:
            z[1:] = 0.25 * y[:-1]
    else:
        y[[0, 2]] = x[1:3] ** 2
    return y * z


def through_views(x):
    y = x * 1.0
    part = y[1:3]
    if x[0] > 0:
        part *= 2.0
    else:
        y[:] = x[::-1]
        last = y[2:]
        last[0] = x[0] * 3.0
    return y + part[0]


def views_that_branches_make(x):
    y = x * 1.0
    if x[0] > 0:
        part = y[1:3]
        part[0] = 9.0 * x[3]
    else:
        part = y[:2]
        part[1] = 8.0
    y[3] = part[0]
    return y


def in_lists_and_calls(x):
    kept = {"a": [x * 1.0]}

    def change(k):
        kept["a"][0][k] = x[k] * 5.0

    if x[1] > 0:
        change(0)
    else:
        change(2)
    return kept["a"][0]


def returned_early(x):
    y = x * 1.0
    if x[0] > 0:
        y[1] = 0.5
        return y
    y[0] = 2.0
    return y + 1.0


def rebound_in_one_branch(x):
    y = x * 1.0
    if x[0] > 0:
        y[1] = 0.5
    else:
        y = x * 3.0
    return y


def in_rounds_of_a_loop(x):
    y = x * 1.0
    for i in range(3):
        if y[i] > 0.4:
            y[i] = 0.1
        else:
            y[i + 1] = 0.7 * x[i]
        if y[3] < -1:
            break
    return y


def after_the_condition(x):
    is_positive = x[0] > 0
    y = x * 1.0
    if is_positive:
        y[0] = 4.0
        y[1] = 5.0
    return y


FUNCTIONS = [
    one_branch, after_the_condition, two_branches, nested, through_views, views_that_branches_make,
    in_lists_and_calls, returned_early, rebound_in_one_branch, in_rounds_of_a_loop,
]  # fmt: skip


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_recorded_functions_write_as_numpy_does(function):
    recorded = tf.function(function)
    for point in [*POINTS, *POINTS]:
        expected = function(point.copy())
        np.testing.assert_allclose(recorded(tf.constant(point)).numpy(), expected)


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_gradients_flow_through_the_writes_of_the_taken_branch(function):
    @tf.function
    def inside(x):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(tf.sin(function(x)))
        return tape.gradient(y, x)

    recorded = tf.function(function)
    for point in POINTS:
        steps = 1e-6 * np.eye(4)
        pairs = [(np.sin(function(point + s)), np.sin(function(point - s))) for s in steps]
        slopes = np.array([(up - down).sum() / 2e-6 for up, down in pairs])
        x = tf.constant(point)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.reduce_sum(tf.sin(recorded(x)))
        np.testing.assert_allclose(tape.gradient(y, x).numpy(), slopes, atol=1e-7)
        np.testing.assert_allclose(inside(x).numpy(), slopes, atol=1e-7)


def test_functions_given_to_cond_and_switch_case():
    def write(y, k):
        y[k] = 5.0 + k
        return y

    @tf.function
    def f(x):
        y, z = x * 1.0, x * 2.0
        found = tf.cond(x[0] > 0, lambda: write(y, 0), lambda: x)
        index = tf.cast(x[1] > 0, tf.int32)
        tf.switch_case(index, [lambda: write(z, 1), lambda: write(z, 2)])
        return y, z, found

    for point in POINTS:
        y, z = point.copy(), point * 2.0
        if point[0] > 0:
            y[0] = 5.0
        k = 2 if point[1] > 0 else 1
        z[k] = 5.0 + k
        for found, expected in zip(f(tf.constant(point)), (y, z, y), strict=True):
            np.testing.assert_array_equal(found.numpy(), expected)


def test_constants_and_arguments():
    @tf.function
    def f(x):
        made = tf.zeros([4], tf.float64)
        if x[1] > 0:
            made[1] = 0.25
            made[1] = 0.5
            x[0] = 3.0
        else:
            made[2] = 2.0
            made[3] = 4.0
        return made

    for point, made in zip(POINTS, ([0, 0.5, 0, 0], [0, 0.5, 0, 0], [0, 0, 2, 4]), strict=True):
        x = tf.constant(point)
        np.testing.assert_array_equal(f(x).numpy(), made)
        first = 3.0 if point[1] > 0 else point[0]
        np.testing.assert_array_equal(x.numpy(), [first, *point[1:]])


def test_examples_inside_vmap():
    @tf.function
    def f(x, choice):
        def one(entry):
            y = entry * tf.ones([2], tf.float64)
            if choice > 0:
                y[0] = entry * 3.0
            else:
                y[1] = 0.0
            return y

        return tf.vectorized_map(one, x)

    for choice in (1.0, -1.0):
        expected = np.outer(POINTS[0], [3.0, 1.0] if choice > 0 else [1.0, 0.0])
        found = f(tf.constant(POINTS[0]), tf.constant(choice))
        np.testing.assert_allclose(found.numpy(), expected)
