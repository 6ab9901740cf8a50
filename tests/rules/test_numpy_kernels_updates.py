"""Optimizer kernels of the NumPy backend, each against its formula in float64.

The formulas are those of the papers, written with as many temporaries as they like. Three steps in
a row, so that what a step leaves in its slots counts too.
"""

from __future__ import annotations

import numpy as np
import pytest

from tapegrad.core.backend.registry import get_backend

K = get_backend("numpy").kernels
RATE = 0.1


def sgd(p, g, slots, step, o):
    return p - RATE * g, []


def momentum(p, g, slots, step, o):
    m = o["momentum"] * slots[0] - RATE * g
    return (p + o["momentum"] * m - RATE * g if o["nesterov"] else p + m), [m]


def adam(p, g, slots, step, o):
    m = o["beta_1"] * slots[0] + (1 - o["beta_1"]) * g
    v = o["beta_2"] * slots[1] + (1 - o["beta_2"]) * abs(g) ** 2
    peak = [np.maximum(slots[2], v)] if len(slots) == 3 else []
    scale = RATE * np.sqrt(1 - o["beta_2"] ** step) / (1 - o["beta_1"] ** step)
    return p - scale * m / (np.sqrt(peak[0] if peak else v) + o["epsilon"]), [m, v, *peak]


def rmsprop(p, g, slots, step, o):
    v = o["rho"] * slots[0] + (1 - o["rho"]) * abs(g) ** 2
    new, spread = [v], v
    if o["centered"]:
        mean = o["rho"] * slots[1] + (1 - o["rho"]) * g
        new.append(mean)
        spread = v - abs(mean) ** 2
    change = RATE * g / np.sqrt(spread + o["epsilon"])
    if o["momentum"]:
        change = o["momentum"] * slots[-1] + change
        new.append(change)
    return p - change, new


def adagrad(p, g, slots, step, o):
    total = slots[0] + abs(g) ** 2
    return p - RATE * g / np.sqrt(total + o["epsilon"]), [total]


def adadelta(p, g, slots, step, o):
    squares = o["rho"] * slots[0] + (1 - o["rho"]) * g**2
    change = np.sqrt(slots[1] + o["epsilon"]) / np.sqrt(squares + o["epsilon"]) * g
    changes = o["rho"] * slots[1] + (1 - o["rho"]) * change**2
    return p - RATE * change, [squares, changes]


def adamax(p, g, slots, step, o):
    m = o["beta_1"] * slots[0] + (1 - o["beta_1"]) * g
    norm = np.maximum(o["beta_2"] * slots[1], abs(g))
    return p - RATE / (1 - o["beta_1"] ** step) * m / (norm + o["epsilon"]), [m, norm]


def lion(p, g, slots, step, o):
    direction = np.sign(o["beta_1"] * slots[0] + (1 - o["beta_1"]) * g)
    return p - RATE * direction, [o["beta_2"] * slots[0] + (1 - o["beta_2"]) * g]


def ftrl(p, g, slots, step, o):
    total = slots[0] + g * g
    sigma = (total ** o["power"] - slots[0] ** o["power"]) / RATE
    linear = slots[1] + g + 2 * o["shrinkage"] * p - sigma * p
    curve = (total ** o["power"] + o["beta"]) / RATE + 2 * o["l2"]
    shrunk = np.sign(linear) * o["l1"] - linear
    return np.where(abs(linear) > o["l1"], shrunk / curve, 0.0), [total, linear]


ADAM = {"beta_1": 0.9, "beta_2": 0.99, "epsilon": 1e-3}
FTRL = {"beta": 0.1, "l1": 0.0, "l2": 0.0, "shrinkage": 0.0}
RMS = {"rho": 0.9, "epsilon": 1e-3}
# Kernel, formula, options, number of slots, whether it gets the number of the step.
ROWS = [
    ("sgd_update", sgd, {}, 0, False),
    ("momentum_update", momentum, {"momentum": 0.9, "nesterov": False}, 1, False),
    ("momentum_update", momentum, {"momentum": 0.9, "nesterov": True}, 1, False),
    ("adam_update", adam, ADAM, 2, True),
    ("adam_update", adam, ADAM, 3, True),
    ("rmsprop_update", rmsprop, {**RMS, "momentum": 0.0, "centered": False}, 1, False),
    ("rmsprop_update", rmsprop, {**RMS, "momentum": 0.0, "centered": True}, 2, False),
    ("rmsprop_update", rmsprop, {**RMS, "momentum": 0.8, "centered": True}, 3, False),
    ("rmsprop_update", rmsprop, {**RMS, "momentum": 0.8, "centered": False}, 2, False),
    ("adagrad_update", adagrad, {"epsilon": 1e-3}, 1, False),
    ("adadelta_update", adadelta, {"rho": 0.9, "epsilon": 1e-3}, 2, False),
    ("adamax_update", adamax, ADAM, 2, True),
    ("lion_update", lion, {"beta_1": 0.9, "beta_2": 0.99}, 1, False),
    ("ftrl_update", ftrl, {**FTRL, "power": 0.5}, 2, False),
    ("ftrl_update", ftrl, {**FTRL, "power": 0.4, "l1": 0.5, "l2": 0.2, "shrinkage": 0.3}, 2, False),
]


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16"])
@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row[0]}-{row[3]}-{list(row[2].values())}")
def test_three_steps(row, dtype):
    name, formula, options, count, has_step = row
    rng = np.random.default_rng(29)
    slot_dtype = "float32" if dtype == "float16" else dtype
    start = 0.1 if name in ("ftrl_update", "adagrad_update") else 0.0
    p = rng.normal(size=(3, 2)).astype(dtype)
    slots = [np.full(p.shape, start if k == 0 else 0.0, slot_dtype) for k in range(count)]
    expected, wanted = p.astype("float64"), [s.astype("float64") for s in slots]
    rtol = {"float64": 1e-12, "float32": 1e-5, "float16": 4e-3}[dtype]

    for step in (1, 2, 3):
        g = rng.normal(size=p.shape).astype(dtype)
        before = [a.copy() for a in (p, g, *slots)]
        steps = (np.asarray(step),) if has_step else ()
        new, *new_slots = K[name](p, g, np.asarray(RATE), *steps, *slots, **options)
        for one, other in zip((p, g, *slots), before):
            np.testing.assert_array_equal(one, other)  # what comes in is not written to
        expected, wanted = formula(expected, g.astype("float64"), wanted, step, options)
        p, slots = new, new_slots

        assert p.dtype == dtype
        np.testing.assert_allclose(p, expected, rtol=rtol, atol=rtol)
        for one, other in zip(slots, wanted, strict=True):
            assert one.dtype == slot_dtype
            np.testing.assert_allclose(one, other, rtol=rtol, atol=rtol)


def test_nadam():
    rng = np.random.default_rng(31)
    p, g, m, v = rng.normal(size=(4, 5))
    v = v * v
    given = {"rate": 0.1, "share_of_m": 0.7, "share_of_g": 0.2, "unbias": 1.9}

    new, new_m, new_v = K["nadam_update"](p, g, *map(np.asarray, given.values()), m, v, **ADAM)

    wanted_m, wanted_v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
    change = 0.1 * (0.7 * wanted_m + 0.2 * g) / (np.sqrt(1.9 * wanted_v) + 1e-3)
    np.testing.assert_allclose(new, p - change, rtol=1e-12)
    np.testing.assert_allclose(new_m, wanted_m, rtol=1e-12)
    np.testing.assert_allclose(new_v, wanted_v, rtol=1e-12)


@pytest.mark.parametrize("order", ["C", "F"])
def test_rows_that_repeat_are_added_up(order):
    rng = np.random.default_rng(37)
    p = np.array(rng.normal(size=(5, 3)), order=order)
    rows, indices = rng.normal(size=(4, 3)), np.array([1, 4, 1, 0])
    dense = np.zeros_like(p)
    np.add.at(dense, indices, rows)
    before = p.copy()

    (new,) = K["sgd_rows_update"](p, rows, indices, np.asarray(RATE))
    np.testing.assert_allclose(new, p - RATE * dense, rtol=1e-14)

    total = np.full(p.shape, 0.1)
    new, new_total = K["adagrad_rows_update"](
        p, rows, indices, np.asarray(RATE), total, epsilon=1e-3
    )
    wanted = total.copy()
    np.add.at(wanted, indices, rows * rows)
    np.testing.assert_allclose(new_total, wanted, rtol=1e-14)
    expected = p - RATE * dense / np.sqrt(wanted + 1e-3)
    np.testing.assert_allclose(new, expected, rtol=1e-13)
    np.testing.assert_array_equal(p, before)
    assert (total == 0.1).all()


@pytest.mark.parametrize("dtype", ["float64", "float16"])
def test_averages_tallies_and_decay(dtype):
    rng = np.random.default_rng(41)
    a, b, c, d = rng.normal(size=(4, 6)).astype(dtype)
    rtol = 1e-14 if dtype == "float64" else 2e-3

    def near(found, expected):
        assert found.dtype == dtype
        np.testing.assert_allclose(found, expected, rtol=rtol, atol=rtol)

    a64, b64, c64, d64 = (x.astype("float64") for x in (a, b, c, d))
    near(K["average_update"](a, b, np.asarray(1), share=0.25)[0], b64)
    near(K["average_update"](a, b, np.asarray(2), share=0.25)[0], 0.75 * a64 + 0.25 * b64)
    mean, variance = K["moments_update"](a, b, c, d, share=0.1)
    near(mean, 0.9 * a64 + 0.1 * c64)
    near(variance, 0.9 * b64 + 0.1 * d64)
    total, count = K["tally_update"](a, b, c, weight=3.0)
    near(total, a64 + 3 * c64)
    near(count, b64 + 3)
    near(K["decay_update"](a, np.asarray(0.1), amount=0.5)[0], a64 * (1 - 0.05))


def test_the_first_average_is_a_copy():
    p = np.ones(3)

    (average,) = K["average_update"](np.zeros(3), p, np.asarray(1), share=0.5)
    p += 1

    assert (average == 1).all()


def test_complex_gradients_have_real_squares():
    p, g = np.zeros(2, "complex128"), np.array([3 + 4j, 1j])
    m, v = np.zeros(2, "complex128"), np.zeros(2)

    _, _, new_v = K["adam_update"](p, g, np.asarray(RATE), np.asarray(1), m, v, **ADAM)

    np.testing.assert_allclose(new_v, [0.25, 0.01], rtol=1e-12)
    assert new_v.dtype == "float64"
