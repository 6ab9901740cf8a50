"""Optimizers inside functions give the same values as eager steps."""

from __future__ import annotations

import numpy as np
import pytest

import tapegrad as tf
from tapegrad.optimizers import updates


def stepping(optimizer, variables):
    @tf.function
    def step(*gradients):
        optimizer.apply_gradients(list(zip(gradients, variables)))

    return step


def test_averages_move_at_every_call():
    v = tf.Variable(0.0)
    optimizer = tf.optimizers.SGD(1.0, use_ema=True, ema_momentum=0.75)
    step = stepping(optimizer, [v])

    for g in (-1.0, -3.0, -4.0):
        step(tf.constant(g))
    optimizer.swap_in_averages()

    assert float(v) == 0.75 * (0.75 * 1.0 + 0.25 * 4.0) + 0.25 * 8.0


@pytest.mark.parametrize("first", ["eager", "function"])
def test_averages_do_not_care_where_a_step_is_made(first):
    v, w = tf.Variable([1.0, -2.0]), tf.Variable([1.0, -2.0])
    mixed, plain = [tf.optimizers.Adam(0.1, use_ema=True, ema_momentum=0.6) for _ in range(2)]
    recorded = stepping(mixed, [v])

    for number in range(6):
        g = tf.constant([number - 2.5, 1.0])
        plain.apply_gradients([(g, w)])
        if (number % 2 == 0) == (first == "eager"):
            mixed.apply_gradients([(g, v)])
        else:
            recorded(g)

    for optimizer in (mixed, plain):
        optimizer.swap_in_averages()
    np.testing.assert_allclose(v.numpy(), w.numpy(), 1e-6)


def test_an_average_of_half_precision_moves_too():
    v = tf.Variable(np.ones(3), dtype="float16")
    optimizer = tf.optimizers.SGD(1.0, use_ema=True, ema_momentum=0.9)
    step = stepping(optimizer, [v])

    for g in (0.0, -0.5):
        step(tf.constant([g] * 3, "float16"))
    optimizer.swap_in_averages()

    assert v.dtype == "float16"
    np.testing.assert_array_equal(v.numpy(), np.full(3, 1.05, "float16"))


@pytest.mark.parametrize("inside", [False, True], ids=["eager", "function"])
def test_weight_decay_has_the_precision_of_the_variable(inside):
    start = np.linspace(0.5, 2.0, 7)
    v = tf.Variable(start)
    optimizer = tf.optimizers.SGD(0.1, weight_decay=0.3)
    step = stepping(optimizer, [v])
    zeros = tf.constant(np.zeros(7))

    for _ in range(3):
        if inside:
            step(zeros)
        else:
            optimizer.apply_gradients([(zeros, v)])

    rate = float(np.float32(0.1))  # which is kept in single precision
    np.testing.assert_allclose(v.numpy(), start * (1 - rate * 0.3) ** 3, 1e-14)


@pytest.mark.parametrize(
    ("update", "numbers", "slots", "params"),
    [
        (updates.adam_update, (1,), 2, {"beta_1": 0.9, "beta_2": 0.5, "epsilon": 1e-7}),
        (updates.adagrad_update, (), 1, {"epsilon": 1e-7}),
        (
            updates.rmsprop_update,
            (),
            2,
            {"rho": 0.5, "momentum": 0.0, "epsilon": 1e-7, "centered": True},
        ),
        (updates.adadelta_update, (), 2, {"rho": 0.5, "epsilon": 1e-2}),
        (updates.nadam_update, (0.5, 0.7, 2.0), 2, {"beta_1": 0.9, "beta_2": 0.5, "epsilon": 1e-7}),
    ],
    ids=lambda value: getattr(value, "name", ""),
)
def test_what_programs_are_made_of_squares_half_precision_without_overflow(
    update, numbers, slots, params
):
    p, g = np.ones(2, "float16"), np.array([3000.0, -3000.0], "float16")
    states = [np.zeros(2, "float32") for _ in range(slots)]
    scalars = [np.array(0.5, "float32"), *map(np.asarray, numbers)]

    new = update.forward(np, p, g, *scalars, *states, **params)

    assert [x.dtype.name for x in new] == ["float16", *["float32"] * slots]
    assert all(np.isfinite(x).all() for x in new)
    assert new[0][0] < 1.0 < new[0][1]
