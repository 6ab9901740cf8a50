"""Samples of losses."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.ops.nn import cross_entropy, losses, regression_losses as regression
from tapegrad.testing.sample import (
    Sample,
    ValueSample,
    alike,
    fixed,
    integers,
    named,
    normal,
    uniform,
)


def _log_softmax(x: Any, axis: int = -1) -> Any:
    return x - np.log(np.exp(x).sum(axis, keepdims=True))


def _dense(y: Any, x: Any) -> Any:
    return -(y * _log_softmax(x)).sum(-1)


def _sigmoid(y: Any, x: Any) -> Any:
    return np.logaddexp(0, x) - x * y


def _sparse(labels: Any, x: Any) -> Any:
    return -np.take_along_axis(_log_softmax(x), labels[..., None], -1)[..., 0]


def _huber(y: Any, p: Any, delta: float) -> Any:
    e = np.abs(p - y)
    return np.where(e <= delta, e * e / 2, delta * e - delta**2 / 2).mean(-1)


def _cosine(y: Any, p: Any) -> Any:
    return -(y * p).sum(-1) / np.linalg.norm(y, axis=-1) / np.linalg.norm(p, axis=-1)


def _full_poisson(z: Any, c: Any) -> Any:
    safe = np.maximum(z, 1e-9)
    stirling = safe * np.log(safe) - safe + 0.5 * np.log(2 * np.pi * safe)
    return np.exp(c) - z * c + np.where(z > 1, stirling, 0)


def _categorical_hinge(y: Any, p: Any) -> Any:
    return np.maximum(((1 - y) * p).max(-1) - (y * p).sum(-1) + 1, 0)


def _dense_gradient(x: Any, y: Any, t: Any) -> Any:
    return t[..., None] * (np.exp(_log_softmax(x)) * y.sum(-1, keepdims=True) - y)


def _sparse_gradient(x: Any, labels: Any, t: Any) -> Any:
    return _dense_gradient(x, np.eye(x.shape[-1])[labels], t)


_PAIR = [normal(2, 3), normal(2, 3)]

_sparse_loss = losses.sparse_softmax_cross_entropy_with_logits
_dense_loss = losses.softmax_cross_entropy_with_logits

SAMPLES = [
    named(_sparse_loss, [integers(0, 4, 3), normal(3, 4)], _sparse),
    Sample(
        "sparse_softmax_cross_entropy_with_logits-3d",
        _sparse_loss,
        [integers(0, 3, 2, 2), normal(2, 2, 3)],
        _sparse,
    ),
    Sample(
        "sparse_softmax_cross_entropy_with_logits-1d",
        _sparse_loss,
        [integers(0, 4), normal(4)],
        _sparse,
    ),
    named(_dense_loss, [uniform(0.1, 1, 3, 4), normal(3, 4)], _dense),
    Sample(
        "softmax_cross_entropy_with_logits-axis",
        lambda y, x: _dense_loss(y, x, axis=0),
        [uniform(0.1, 1, 3, 2), normal(3, 2)],
        lambda y, x: -(y * _log_softmax(x, 0)).sum(0),
    ),
    Sample(
        "softmax_cross_entropy_with_logits-1d",
        _dense_loss,
        [uniform(0.1, 1, 3), normal(3)],
        _dense,
    ),
    ValueSample(
        "sparse_cross_entropy_and_gradient-loss",
        lambda x, labels, t: cross_entropy.sparse_cross_entropy_and_gradient_p(x, labels, t)[0],
        [normal(3, 4), integers(0, 4, 3), normal(3)],
        lambda x, labels, t: _sparse(labels, x),
    ),
    ValueSample(
        "sparse_cross_entropy_and_gradient-gradient",
        lambda x, labels, t: cross_entropy.sparse_cross_entropy_and_gradient_p(x, labels, t)[1],
        [normal(2, 3, 4), integers(0, 4, 2, 3), normal(2, 3)],
        _sparse_gradient,
    ),
    ValueSample(
        "cross_entropy_and_gradient-loss",
        lambda x, y, t: cross_entropy.cross_entropy_and_gradient_p(x, y, t)[0],
        [normal(3, 4), uniform(0.1, 1, 3, 4), normal(3)],
        lambda x, y, t: _dense(y, x),
    ),
    ValueSample(
        "cross_entropy_and_gradient-gradient",
        lambda x, y, t: cross_entropy.cross_entropy_and_gradient_p(x, y, t)[1],
        [normal(3, 4), uniform(0.1, 1, 3, 4), normal(3)],
        _dense_gradient,
    ),
    named(losses.sigmoid_cross_entropy_with_logits, [uniform(0, 1, 3), normal(2, 3)], _sigmoid),
    Sample(
        "sigmoid_cross_entropy_with_logits-zero",
        losses.sigmoid_cross_entropy_with_logits,
        [uniform(0, 1, 3), fixed([0.0, 300.0, -300.0])],
        _sigmoid,
    ),
    named(
        losses.weighted_cross_entropy_with_logits,
        [uniform(0, 1, 3), normal(3), uniform(0.5, 2)],
        lambda y, x, q: (1 - y) * x + (1 + (q - 1) * y) * np.logaddexp(0, -x),
    ),
    named(losses.l2_loss, [normal(2, 3)], lambda x: (x * x).sum() / 2),
    named(losses.log_poisson_loss, [uniform(0, 3, 4), normal(4)], lambda z, c: np.exp(c) - z * c),
    Sample(
        "log_poisson_loss-full",
        lambda z, c: losses.log_poisson_loss(z, c, True),
        [fixed([0.0, 0.5, 1.5, 4.0]), normal(4)],
        _full_poisson,
    ),
    named(regression.mean_squared_error, _PAIR, lambda y, p: ((y - p) ** 2).mean(-1)),
    named(regression.mean_absolute_error, _PAIR, lambda y, p: np.abs(y - p).mean(-1)),
    named(
        regression.mean_absolute_percentage_error,
        _PAIR,
        lambda y, p: 100 * np.abs((y - p) / y).mean(-1),
    ),
    named(
        regression.mean_squared_logarithmic_error,
        [uniform(0.1, 2, 2, 3), uniform(0.1, 2, 2, 3)],
        lambda y, p: ((np.log1p(y) - np.log1p(p)) ** 2).mean(-1),
    ),
    alike("huber", regression.huber, _PAIR, _huber, 0.7),
    named(regression.log_cosh, _PAIR, lambda y, p: np.log(np.cosh(p - y)).mean(-1)),
    named(
        regression.hinge,
        [fixed([[1.0, -1.0, 1.0]]), normal(2, 3)],
        lambda y, p: np.maximum(1 - y * p, 0).mean(-1),
    ),
    Sample(
        "hinge-zero-one",
        lambda p: regression.hinge([0.0, 1.0, 1.0], p),
        [normal(2, 3)],
        lambda p: np.maximum(1 - np.array([-1, 1, 1]) * p, 0).mean(-1),
    ),
    named(
        regression.squared_hinge,
        [fixed([[1.0, -1.0, 1.0]]), normal(2, 3)],
        lambda y, p: (np.maximum(1 - y * p, 0) ** 2).mean(-1),
    ),
    Sample(
        "categorical_hinge",
        lambda p: regression.categorical_hinge([[0, 1, 0]], p),
        [normal(2, 3)],
        lambda p: _categorical_hinge(np.array([[0, 1, 0]]), p),
    ),
    named(
        regression.kl_divergence,
        [uniform(0.1, 0.9, 2, 3)] * 2,
        lambda y, p: (y * np.log(y / p)).sum(-1),
    ),
    Sample(
        "poisson_loss",
        regression.poisson,
        [uniform(0, 3, 2, 3), uniform(0.5, 2, 2, 3)],
        lambda y, p: (p - y * np.log(p + 1e-7)).mean(-1),
    ),
    named(regression.cosine_similarity, _PAIR, _cosine),
]
