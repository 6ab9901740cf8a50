"""Samples of activation functions and softmax."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.ops.elementwise import activations, sigmoids
from tapegrad.ops.nn import softmax
from tapegrad.testing.sample import (
    Function,
    Maker,
    Sample,
    ValueSample,
    fixed,
    named,
    normal,
    uniform,
)

_WIDE = uniform(-5.0, 5.0, 3, 4)


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _elu(x: Any, alpha: float = 1.0) -> Any:
    return np.where(x > 0, x, alpha * np.expm1(x))


def _gelu(x: Any) -> Any:
    from scipy.special import ndtr  # only samples need SciPy

    return x * ndtr(x)


def _gelu_tanh(x: Any) -> Any:
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def _slope(function: Function, x: Any) -> Any:
    """Return a central difference, accurate to about nine digits."""
    h = 1e-3
    outer = function(x + 2 * h) - function(x - 2 * h)
    return (8 * (function(x + h) - function(x - h)) - outer) / (12 * h)


_ROWS: list[tuple[str, Function, Function, Maker]] = [
    ("relu", activations.relu, lambda x: np.maximum(x, 0), normal(2, 3)),
    ("relu-0d", activations.relu, lambda x: np.maximum(x, 0), fixed(1.5)),
    ("relu-empty", activations.relu, lambda x: np.maximum(x, 0), normal(0, 2)),
    ("relu6", activations.relu6, lambda x: np.clip(x, 0, 6), uniform(-9.0, 9.0, 9)),
    ("leaky_relu", activations.leaky_relu, lambda x: np.where(x > 0, x, 0.2 * x), normal(5)),
    (
        "leaky_relu-steep",
        lambda x: activations.leaky_relu(x, 3),
        lambda x: np.where(x > 0, x, 3 * x),
        normal(5),
    ),
    ("elu", activations.elu, _elu, normal(6)),
    ("elu-alpha", lambda x: activations.elu(x, 0.5), lambda x: _elu(x, 0.5), normal(6)),
    ("elu-0d", activations.elu, _elu, fixed(-0.5)),
    (
        "selu",
        activations.selu,
        lambda x: 1.0507009873554805 * _elu(x, 1.6732632423543772),
        normal(6),
    ),
    (
        "celu",
        lambda x: activations.celu(x, 2.0),
        lambda x: np.where(x > 0, x, 2 * np.expm1(x / 2)),
        normal(6),
    ),
    (
        "crelu",
        lambda x: activations.crelu(x, 0),
        lambda x: np.concatenate([np.maximum(x, 0), np.maximum(-x, 0)]),
        normal(2, 3),
    ),
    ("hard_sigmoid", activations.hard_sigmoid, lambda x: np.clip(x + 3, 0, 6) / 6, _WIDE),
    ("hard_tanh", activations.hard_tanh, lambda x: np.clip(x, -1, 1), _WIDE),
    ("hard_swish", activations.hard_swish, lambda x: x * np.clip(x + 3, 0, 6) / 6, _WIDE),
    ("hard_shrink", activations.hard_shrink, lambda x: np.where(abs(x) > 0.5, x, 0), _WIDE),
    ("soft_shrink", activations.soft_shrink, lambda x: x - np.clip(x, -0.5, 0.5), _WIDE),
    (
        "threshold",
        lambda x: activations.threshold(x, 0.5, 2.0),
        lambda x: np.where(x > 0.5, x, 2.0),
        _WIDE,
    ),
    (
        "sparse_plus",
        activations.sparse_plus,
        lambda x: np.where(x >= 1, x, np.where(x <= -1, 0, (x + 1) ** 2 / 4)),
        _WIDE,
    ),
    ("glu", lambda x: activations.glu(x, 1), lambda x: x[:, :2] * _sigmoid(x[:, 2:]), normal(3, 4)),
    ("sigmoid", sigmoids.sigmoid, _sigmoid, _WIDE),
    ("sigmoid-far", sigmoids.sigmoid, _sigmoid, fixed([-700.0, 30.0, 700.0])),
    ("sigmoid-0d", sigmoids.sigmoid, _sigmoid, normal()),
    ("logit", sigmoids.logit, lambda x: np.log(x / (1 - x)), uniform(0.1, 0.9, 4)),
    ("softplus", sigmoids.softplus, lambda x: np.logaddexp(x, 0), _WIDE),
    ("softplus-far", sigmoids.softplus, lambda x: np.logaddexp(x, 0), fixed([-900.0, 900.0])),
    ("log_sigmoid", sigmoids.log_sigmoid, lambda x: -np.logaddexp(-x, 0), _WIDE),
    ("softsign", sigmoids.softsign, lambda x: x / (1 + abs(x)), normal(4)),
    ("log1mexp", sigmoids.log1mexp, lambda x: np.log(1 - np.exp(-x)), uniform(0.1, 3.0, 6)),
    ("silu", sigmoids.silu, lambda x: x * _sigmoid(x), _WIDE),
    ("silu-beta", lambda x: sigmoids.silu(x, 1.5), lambda x: x * _sigmoid(1.5 * x), _WIDE),
    ("mish", sigmoids.mish, lambda x: x * np.tanh(np.logaddexp(x, 0)), _WIDE),
    ("gelu", sigmoids.gelu, _gelu, _WIDE),
    ("gelu_slope", sigmoids.gelu_slope, lambda x: _slope(_gelu, x), _WIDE),
    ("gelu_tanh", lambda x: sigmoids.gelu(x, approximate=True), _gelu_tanh, _WIDE),
    (
        "silu_slope",
        lambda x: sigmoids.silu_slope_p(x, beta=1.5),
        lambda x: _slope(lambda v: v * _sigmoid(1.5 * v), x),
        _WIDE,
    ),
    ("gelu_tanh_slope", sigmoids.gelu_tanh_slope, lambda x: _slope(_gelu_tanh, x), _WIDE),
    ("tanh_shrink", sigmoids.tanh_shrink, lambda x: x - np.tanh(x), _WIDE),
    ("squareplus", sigmoids.squareplus, lambda x: (x + np.sqrt(x * x + 4)) / 2, _WIDE),
]


def _softmax(x: Any, axis: int = -1) -> Any:
    weights = np.exp(x)
    return weights / weights.sum(axis, keepdims=True)


_MASKED = [[0.3, -np.inf, -0.2], [-np.inf, 1.1, -np.inf]]

SAMPLES = [
    *[Sample(name, function, [maker], reference) for name, function, reference, maker in _ROWS],
    Sample(
        "silu-tensor-beta",
        sigmoids.silu,
        [normal(2, 3), normal(3)],
        lambda x, b: x * _sigmoid(b * x),
    ),
    Sample(
        "leaky_relu-tensor-alpha",
        activations.leaky_relu,
        [normal(2, 3), normal(3)],
        lambda x, a: np.where(x > 0, x, a * x),
    ),
    named(softmax.softmax, [normal(2, 3)], _softmax),
    Sample("softmax-1d", softmax.softmax, [normal(4)], _softmax),
    Sample(
        "softmax-axis",
        lambda x: softmax.softmax(x, axis=1),
        [normal(2, 3, 4)],
        lambda x: _softmax(x, 1),
    ),
    Sample("softmax-empty", softmax.softmax, [normal(0, 3)], lambda x: x),
    # Adding 1e4 rounds the argument, and a difference with step 1e-4 amplifies the error.
    Sample(
        "softmax-large", lambda x: softmax.softmax(x + 1e4), [normal(2, 3)], _softmax, rtol=1e-5
    ),
    Sample(
        "softmax-masked",
        lambda x: softmax.softmax(x + np.array(_MASKED)),
        [normal(2, 3)],
        lambda x: _softmax(x + np.array(_MASKED)),
    ),
    ValueSample(
        "softmax-all-masked", softmax.softmax, [fixed([[-np.inf] * 3])], lambda x: np.zeros((1, 3))
    ),
    named(softmax.log_softmax, [normal(2, 3)], lambda x: np.log(_softmax(x))),
    Sample(
        "log_softmax-axis",
        lambda x: softmax.log_softmax(x, axis=0),
        [normal(3, 2)],
        lambda x: np.log(_softmax(x, 0)),
    ),
]
