"""Samples of optimizer update steps, which have no derivative.

The learning rate is arbitrary; the step count is 3.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.ops.indexing import sparse_rows
from tapegrad.optimizers import updates
from tapegrad.testing.sample import (
    Maker,
    Sample,
    ValueSample,
    complex_normal,
    fixed,
    normal,
    uniform,
)

_P = [normal(2, 3), normal(2, 3), fixed(0.1)]
_SLOT, _SQUARES, _STEP = normal(2, 3), uniform(1.5, 2.5, 2, 3), fixed(3)
_ROWS = [normal(4, 3), normal(3, 3), fixed([2, 0, 3]), fixed(0.1)]


def _update(name: str, args: list[Maker], reference: Any, **params: Any) -> Sample:
    update = getattr(updates, name.partition("-")[0])
    return ValueSample(name, lambda *arrays: update(*arrays, **params), args, reference)


def _momentum(p: Any, g: Any, rate: Any, m: Any) -> Any:
    return p + 0.9 * m - rate * g, 0.9 * m - rate * g


def _nesterov(p: Any, g: Any, rate: Any, m: Any) -> Any:
    m = 0.9 * m - rate * g
    return p + 0.9 * m - rate * g, m


def _adam(p: Any, g: Any, rate: Any, step: Any, m: Any, v: Any, *peak: Any) -> Any:
    m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * np.abs(g) ** 2
    peak = tuple(np.maximum(old, v) for old in peak)
    unbiased = m / (1 - 0.9**step)
    root = np.sqrt((peak[0] if peak else v) / (1 - 0.99**step))
    change = rate * unbiased / (root + 1e-7 / np.sqrt(1 - 0.99**step))
    return p - change, m, v, *peak


def _rmsprop(p: Any, g: Any, rate: Any, v: Any) -> Any:
    v = 0.9 * v + 0.1 * g**2
    return p - rate * g / np.sqrt(v + 1e-7), v


def _centered(p: Any, g: Any, rate: Any, v: Any, mean: Any, m: Any) -> Any:
    v, mean = 0.9 * v + 0.1 * g**2, 0.9 * mean + 0.1 * g
    m = 0.5 * m + rate * g / np.sqrt(v - mean**2 + 1e-7)
    return p - m, v, mean, m


def _adagrad(p: Any, g: Any, rate: Any, total: Any) -> Any:
    return p - rate * g / np.sqrt(total + g**2 + 1e-7), total + g**2


def _adadelta(p: Any, g: Any, rate: Any, squares: Any, changes: Any) -> Any:
    squares = 0.9 * squares + 0.1 * g**2
    change = g * np.sqrt((changes + 1e-7) / (squares + 1e-7))
    return p - rate * change, squares, 0.9 * changes + 0.1 * change**2


def _adamax(p: Any, g: Any, rate: Any, step: Any, m: Any, norm: Any) -> Any:
    m, norm = 0.9 * m + 0.1 * g, np.maximum(0.99 * norm, np.abs(g))
    return p - rate * m / (1 - 0.9**step) / (norm + 1e-7), m, norm


def _nadam_product(product: Any, step: Any) -> Any:
    now, later = (0.9 * (1 - 0.5 * 0.96**t) for t in (step, step + 1))
    new = product * now
    return new, later / (1 - new * later), (1 - now) / (1 - new), 1 / (1 - 0.99**step)


def _nadam(p: Any, g: Any, rate: Any, *others: Any) -> Any:
    share_of_m, share_of_g, unbias, m, v = others
    m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g**2
    mean = share_of_m * m + share_of_g * g
    return p - rate * mean / (np.sqrt(v * unbias) + 1e-7), m, v


def _lamb_change(p: Any, g: Any, step: Any, m: Any, v: Any) -> Any:
    m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g**2
    return m / (1 - 0.9**step) / (np.sqrt(v / (1 - 0.99**step)) + 1e-7), m, v


def _lion(p: Any, g: Any, rate: Any, m: Any) -> Any:
    return p - rate * np.sign(0.9 * m + 0.1 * g), 0.99 * m + 0.01 * g


def _ftrl(power: float) -> Any:
    def ftrl(p: Any, g: Any, rate: Any, total: Any, linear: Any) -> Any:
        new = total + g**2
        linear = linear + g + 2 * 0.1 * p - (new**power - total**power) / rate * p
        curve = (new**power + 0.5) / rate + 2 * 0.2
        return (np.clip(linear, -0.3, 0.3) - linear) / curve, new, linear

    return ftrl


def _spread(values: Any, indices: Any) -> Any:
    dense = np.zeros((4, 3))
    np.add.at(dense, indices, values)
    return dense


def _merge(values: Any, indices: Any) -> Any:
    return sparse_rows.merge_rows(values, indices)[0]


_MOMENTUM = {"momentum": 0.9}
_ADAM: dict[str, Any] = {"beta_1": 0.9, "beta_2": 0.99, "epsilon": 1e-7}
_FTRL: dict[str, Any] = {"beta": 0.5, "l1": 0.3, "l2": 0.2, "shrinkage": 0.1}
_RMSPROP: dict[str, Any] = {"rho": 0.9, "epsilon": 1e-7}

SAMPLES = [
    _update("count_update", [_STEP], lambda count: count + 1),
    _update("sgd_update", _P, lambda p, g, rate: p - rate * g),
    _update("sgd_update-scalar", [normal(), normal(), fixed(0.1)], lambda p, g, rate: p - rate * g),
    _update(
        "sgd_rows_update",
        [normal(4, 3), normal(3, 3), fixed([2, 0, 2]), fixed(0.1)],
        lambda p, values, indices, rate: p - rate * _spread(values, indices),
    ),
    _update("momentum_update", [*_P, _SLOT], _momentum, nesterov=False, **_MOMENTUM),
    _update("momentum_update-nesterov", [*_P, _SLOT], _nesterov, nesterov=True, **_MOMENTUM),
    _update("adam_update", [*_P, _STEP, _SLOT, _SQUARES], _adam, **_ADAM),
    _update("adam_update-amsgrad", [*_P, _STEP, _SLOT, _SQUARES, _SQUARES], _adam, **_ADAM),
    _update(
        "adam_update-complex",
        [
            complex_normal(3),
            complex_normal(3),
            fixed(0.1),
            _STEP,
            complex_normal(3),
            uniform(1.0, 2.0, 3),
        ],
        _adam,
        **_ADAM,
    ),
    _update("rmsprop_update", [*_P, _SQUARES], _rmsprop, momentum=0.0, centered=False, **_RMSPROP),
    _update(
        "rmsprop_update-centered",
        [*_P, _SQUARES, uniform(-0.5, 0.5, 2, 3), _SLOT],
        _centered,
        momentum=0.5,
        centered=True,
        **_RMSPROP,
    ),
    _update("adagrad_update", [*_P, _SQUARES], _adagrad, epsilon=1e-7),
    _update(
        "adagrad_rows_update",
        [*_ROWS, uniform(1.0, 2.0, 4, 3)],
        lambda p, values, indices, rate, total: _adagrad(p, _spread(values, indices), rate, total),
        epsilon=1e-7,
    ),
    _update(
        "decay_update", [normal(2, 3), fixed(0.1)], lambda p, rate: p * (1 - rate * 0.5), amount=0.5
    ),
    _update(
        "average_update",
        [normal(2, 3), normal(2, 3), _STEP],
        lambda average, p, step: 0.75 * average + 0.25 * p,
        share=0.25,
    ),
    _update(
        "average_update-first",
        [normal(2, 3), normal(2, 3), fixed(1)],
        lambda average, p, step: p,
        share=0.25,
    ),
    _update(
        "moments_update",
        [normal(2, 3) for _ in range(4)],
        lambda m, v, mean, variance: (0.75 * m + 0.25 * mean, 0.75 * v + 0.25 * variance),
        share=0.25,
    ),
    _update(
        "tally_update",
        [fixed(2.5), fixed(3.0), fixed(-0.75)],
        lambda total, count, value: (total + 8.0 * value, count + 8.0),
        weight=8.0,
    ),
    _update("adadelta_update", [*_P, _SQUARES, _SQUARES], _adadelta, **_RMSPROP),
    _update("adamax_update", [*_P, _STEP, _SLOT, _SQUARES], _adamax, **_ADAM),
    _update("nadam_product_update", [fixed(0.25), _STEP], _nadam_product, beta_1=0.9, beta_2=0.99),
    _update(
        "nadam_update", [*_P, fixed(0.7), fixed(0.6), fixed(30.0), _SLOT, _SQUARES], _nadam, **_ADAM
    ),
    _update(
        "lamb_change_update",
        [normal(2, 3), normal(2, 3), _STEP, _SLOT, _SQUARES],
        _lamb_change,
        **_ADAM,
    ),
    _update(
        "lamb_update",
        [*_P, fixed(3.0), fixed(2.0)],
        lambda p, change, rate, size, length: p - rate * 1.5 * change,
    ),
    _update(
        "lamb_update-of-zeros",
        [*_P, fixed(0.0), fixed(2.0)],
        lambda p, change, rate, size, length: p - rate * change,
    ),
    _update("lion_update", [*_P, _SLOT], _lion, beta_1=0.9, beta_2=0.99),
    _update("ftrl_update", [*_P, _SQUARES, _SLOT], _ftrl(0.5), power=0.5, **_FTRL),
    _update("ftrl_update-power", [*_P, _SQUARES, _SLOT], _ftrl(0.75), power=0.75, **_FTRL),
    Sample(
        "merge_rows",
        _merge,
        [normal(4, 2), fixed([5, 1, 5, 0])],
        lambda v, i: np.stack([v[3], v[1], v[0] + v[2], 0 * v[0]]),
    ),
]
