"""Derivatives inside derivatives: pairs and triples of wrappers around and inside custom gradients.

Every function here is the elementwise sine, implemented in a different way. Every wrapper returns
either an equivalent function or the elementwise derivative. Any composition is therefore the sine,
shifted by a quarter period per derivative.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import tapegrad as tf
from tests.seeds import chosen

X = np.array([[0.3, -0.7, 1.1], [0.9, 0.2, -1.3]])
ONE = tf.constant(1.0, dtype="float64")
V = tf.Variable(1.0, dtype="float64")
Accumulator = tf.autodiff.ForwardAccumulator


# The sine


@tf.custom_gradient
def closed_form(x):
    return tf.sin(x), lambda g: g * tf.cos(x)


@tf.custom_gradient
def tape_in_gradient(x):
    def gradient(g):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.sin(x)
        return tape.gradient(y, x, g)

    return tf.sin(x), gradient


@tf.custom_gradient
def tape_over_upstream(x):
    """The target on the tape has the upstream gradient in it, the source does not."""

    def gradient(g):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.sin(x) * g
        return tape.gradient(y, x)

    return tf.sin(x), gradient


@tf.custom_gradient
def upstream_watched(x):
    def gradient(g):
        with tf.GradientTape() as tape:
            tape.watch(g)
            y = g * g * tf.cos(x)
        return tape.gradient(y, g) / 2.0

    return tf.sin(x), gradient


@tf.custom_gradient
def accumulator_in_gradient(x):
    def gradient(g):
        with Accumulator(x, g) as accumulator:
            y = tf.sin(x)
        return accumulator.jvp(y)

    return tf.sin(x), gradient


@tf.custom_gradient
def accumulator_over_upstream(x):
    """The tangent is the upstream gradient, which is also in what is differentiated."""

    def gradient(g):
        with Accumulator(x, g) as accumulator:
            y = tf.sin(x) + g
        return accumulator.jvp(y)

    return tf.sin(x), gradient


@tf.custom_gradient
def tape_in_body(x):
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = -tf.cos(x)
    return tape.gradient(y, x), lambda g: g * tf.cos(x)


@tf.custom_gradient
def accumulator_in_body(x):
    with Accumulator(x, tf.ones_like(x)) as accumulator:
        y = -tf.cos(x)
    return accumulator.jvp(y), lambda g: g * tf.cos(x)


@tf.custom_gradient
def _cosine(x):
    return tf.cos(x), lambda g: -g * tape_in_gradient(x)


@tf.custom_gradient
def custom_in_gradient(x):
    return closed_form(x), lambda g: g * _cosine(x)


@tf.custom_gradient
def _pair(x, number, scale=None):
    def gradient(of_cosine, of_number, of_sine):  # as a dict is flattened
        return of_sine * tf.cos(x) - of_cosine * tf.sin(x), None

    return {"sine": tf.sin(x) * scale, "cosine": tf.cos(x), "number": number}, gradient


def several_outputs(x):
    """Two floating outputs and an integer one; an integer input, a keyword, a None."""
    made = _pair(x, tf.constant([1, 2]), scale=1.0)
    sine, cosine = made["sine"], made["cosine"]
    return sine * sine * sine + sine * cosine * cosine


@tf.custom_gradient
def _with_variable(x):
    def gradient(g, variables):
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = V * tf.sin(x)
        of_x, of_v = tape.gradient(y, [x, V], g)
        return of_x, [of_v]

    return V * tf.sin(x), gradient


def variable_read(x):
    return _with_variable(x)


@tf.custom_gradient
def _scaled(x, scale):
    def gradient(g):
        with tf.GradientTape() as tape:
            tape.watch([x, scale])
            y = scale * tf.sin(x)
        return tape.gradient(y, [x, scale], g)

    return scale * tf.sin(x), gradient


def shared_input(x):
    return _scaled(x, ONE)


def computed_again(x):
    return tf.recompute_grad(lambda x, scale: V * scale * tf.sin(x))(x, ONE)


SINES = [
    tf.sin,
    closed_form,
    tape_in_gradient,
    tape_over_upstream,
    upstream_watched,
    accumulator_in_gradient,
    accumulator_over_upstream,
    tape_in_body,
    accumulator_in_body,
    custom_in_gradient,
    several_outputs,
    variable_read,
    shared_input,
    computed_again,
]


# Wrappers: what they are called, and how many derivatives they take


def tape(f):
    def derivative(x):
        x = tf.identity(x)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = f(x)
        return tape.gradient(y, x)

    return derivative


def accumulator(f):
    def derivative(x):
        x = tf.identity(x)
        with Accumulator(x, tf.ones_like(x)) as accumulator:
            y = f(x)
        return accumulator.jvp(y)

    return derivative


def _sum_of_columns(rows, x):
    """The derivative by element, which is the diagonal of the jacobian of such a function."""
    rank = len(x.shape)
    return tf.reduce_sum(rows, axis=list(range(rank, 2 * rank))) if rank else rows


def jacobian(f):
    def derivative(x):
        x = tf.identity(x)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = f(x)
        return _sum_of_columns(tape.jacobian(y, x), x)

    return derivative


def forward_jacobian(f):
    return lambda x: _sum_of_columns(tf.jacobian(f, mode="forward")(x), x)


def batch_jacobian(f):
    def derivative(x):
        rows = tf.reshape(x, (-1, 1))
        with tf.GradientTape() as tape:
            tape.watch(rows)
            y = f(rows)
        return tf.reshape(tape.batch_jacobian(y, rows), x.shape)

    return derivative


def hvp(f):
    return lambda x: tf.hvp(lambda x: tf.reduce_sum(f(x)), x, tf.ones_like(x))


def vmap(f):
    def mapped(x):
        return tf.vmap(f)(x) if len(x.shape) else tf.vmap(f)(x[None])[0]

    return mapped


FACTORS = tf.constant([1.0, 2.0], dtype="float64")


def vmap_around_shared(f):
    def mapped(x):
        rows = tf.vmap(lambda factor, x: f(x) * factor, in_axes=(0, None))(FACTORS, x)
        return rows[1] - rows[0]

    return mapped


def tape_in_vmap(f):
    """The derivative with respect to a value that the examples share."""

    def derivative(x):
        x = tf.identity(x)

        def of_one(factor):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = f(x) * factor
            return tape.gradient(y, x)

        rows = tf.vmap(of_one)(FACTORS)
        return rows[1] - rows[0]

    return derivative


def accumulator_in_vmap(f):
    """Along a direction per example, from a value that the examples share."""

    def derivative(x):
        x = tf.identity(x)

        def along(factor):
            with Accumulator(x, tf.ones_like(x) * factor) as accumulator:
                y = f(x)
            return accumulator.jvp(y)

        rows = tf.vmap(along)(FACTORS)
        return rows[1] - rows[0]

    return derivative


def seeds_in_vmap(f):
    def derivative(x):
        x = tf.identity(x)
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(x)
            y = f(x)
        ones = tf.ones_like(x)
        rows = tf.vmap(lambda factor: tape.gradient(y, x, ones * factor))(FACTORS)
        return rows[1] - rows[0]

    return derivative


def custom_tape(f):
    @tf.custom_gradient
    def custom(x):
        def gradient(g, variables=()):
            with tf.GradientTape() as tape:
                tape.watch(x)
                y = f(x)
            of_x, *rest = tape.gradient(y, [x, *variables], g)
            return (of_x, rest) if variables else of_x

        return f(x), gradient

    return custom


def custom_accumulator(f):
    @tf.custom_gradient
    def custom(x):
        def gradient(g, variables=()):
            with Accumulator(x, g) as accumulator:
                y = f(x)
            of_x = accumulator.jvp(y)
            return (of_x, [None] * len(variables)) if variables else of_x

        return f(x), gradient

    return custom


def while_loop(f):
    def looped(x):
        once = (tf.constant(0), x)
        return tf.while_loop(lambda i, y: i < 1, lambda i, y: (i + 1, f(y)), once)[1]

    return looped


def cond(f):
    return lambda x: tf.cond(ONE > 0.0, lambda: f(x), lambda: x)


def scan(f):
    def scanned(x):
        if not len(x.shape):
            return f(x)
        return tf.scan(lambda _, row: f(row), x, initializer=tf.zeros_like(x[0]))

    return scanned


WRAPPERS = {
    tape: 1,
    accumulator: 1,
    jacobian: 1,
    forward_jacobian: 1,
    batch_jacobian: 1,
    hvp: 2,
    vmap: 0,
    vmap_around_shared: 0,
    tape_in_vmap: 1,
    accumulator_in_vmap: 1,
    seeds_in_vmap: 1,
    tf.function: 0,
    tf.recompute_grad: 0,
    custom_tape: 0,
    custom_accumulator: 0,
    while_loop: 0,
    cond: 0,
    scan: 0,
}
AT_THE_HEART = (tape, accumulator, jacobian, vmap, tf.function, tf.recompute_grad, custom_tape)


def is_possible(wrappers):
    """batch_jacobian is for use outside vmap."""
    return batch_jacobian not in itertools.dropwhile(lambda w: "vmap" not in w.__name__, wrappers)


def named(wrappers):
    return "-".join(wrapper.__name__ for wrapper in wrappers)


def check(sine, wrappers):
    function, order = sine, 0
    for wrapper in reversed(wrappers):
        function, order = wrapper(function), order + WRAPPERS[wrapper]

    result = function(tf.constant(X))

    expected = np.sin(X + order * math.pi / 2)
    np.testing.assert_allclose(result.numpy(), expected, atol=1e-12, err_msg=sine.__name__)


PAIRS = [pair for pair in itertools.product(WRAPPERS, repeat=2) if is_possible(pair)]
TRIPLES = list(itertools.product(AT_THE_HEART, repeat=3))


@pytest.mark.parametrize("wrapper", WRAPPERS, ids=lambda wrapper: wrapper.__name__)
def test_a_wrapper_around_every_sine(wrapper):
    for sine in SINES:
        check(sine, (wrapper,))


@pytest.mark.parametrize("wrappers", chosen(PAIRS, 2, named), ids=named)
def test_a_pair_of_wrappers_around_every_sine(wrappers):
    for sine in SINES:
        check(sine, wrappers)


@pytest.mark.parametrize(
    "number",
    chosen(range(len(TRIPLES)), 3, lambda number: named(TRIPLES[number])),
    ids=lambda number: named(TRIPLES[number]),
)
def test_three_wrappers_around_two_sines(number):
    check(SINES[number % len(SINES)], TRIPLES[number])
    check(tape_over_upstream, TRIPLES[number])
