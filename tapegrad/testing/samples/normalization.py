"""Samples of normalization functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.ops.normalization import functions as norms
from tapegrad.ops.normalization.with_relu import normalize_relu_p
from tapegrad.testing.sample import Sample, named, normal, uniform


def _standard(x: Any, axes: Any, epsilon: float = 1e-5) -> Any:
    variance = x.var(axes, keepdims=True)
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(variance + epsilon)


def _rms(x: Any, epsilon: float = 1e-6) -> Any:
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + epsilon)


def _group(x: Any, gain: Any, bias: Any) -> Any:
    return _standard(x.reshape(2, 3, 2, 2), (1, 3)).reshape(2, 3, 4) * gain + bias


def _batch(x: Any, scale: Any, offset: Any) -> Any:
    axes = tuple(range(x.ndim - 1))
    return _standard(x, axes, 1e-3) * scale + offset


def _lrn(x: Any) -> Any:
    padded = np.pad(x * x, ((0, 0), (1, 1)))
    return x / (2 + 0.5 * (padded[:, :-2] + padded[:, 1:-1] + padded[:, 2:])) ** 0.75


def _fused(x: Any, scale: Any, offset: Any) -> Any:
    return norms.fused_batch_norm(x, scale, offset)[0]


def _fused_inference(x: Any, scale: Any, offset: Any, mean: Any, variance: Any) -> Any:
    return norms.fused_batch_norm(x, scale, offset, mean, variance, is_training=False)[0]


def _rectified(x: Any, gain: Any, bias: Any) -> Any:
    return np.maximum(_batch(x, gain, bias), 0.0)


SAMPLES = [
    Sample(
        "normalize_relu",
        lambda x, g, b: normalize_relu_p(x, g, b, axes=(0, 1), epsilon=1e-3)[0],
        [normal(3, 3, 2), normal(2), normal(2)],
        _rectified,
    ),
    Sample(
        "normalize_relu-moments",
        lambda x, g, b: normalize_relu_p(x, g, b, axes=(0,), epsilon=1e-3),
        [normal(5, 2), normal(2), normal(2)],
        lambda x, g, b: (_rectified(x, g, b), x.mean(0), x.var(0)),
    ),
    named(
        norms.layer_norm,
        [normal(2, 3, 4), normal(4), normal(4)],
        lambda x, g, b: _standard(x, -1) * g + b,
    ),
    Sample(
        "layer_norm-1d",
        norms.layer_norm,
        [normal(4), normal(4), normal(4)],
        lambda x, g, b: _standard(x, -1) * g + b,
    ),
    Sample("layer_norm-plain", norms.layer_norm, [normal(2, 4)], lambda x: _standard(x, -1)),
    Sample(
        "layer_norm-epsilon",
        lambda x, b: norms.layer_norm(x, bias=b, epsilon=0.5),
        [normal(2, 4), normal(4)],
        lambda x, b: _standard(x, -1, 0.5) + b,
    ),
    Sample(
        "layer_norm-axes",
        lambda x, g: norms.layer_norm(x, g, axis=(0, -1)),
        [normal(2, 3, 2), normal(2, 2)],
        lambda x, g: _standard(x, (0, 2)) * g.reshape(2, 1, 2),
    ),
    Sample(
        "layer_norm-empty",
        norms.layer_norm,
        [normal(0, 4), normal(4), normal(4)],
        lambda x, g, b: x,
    ),
    named(norms.rms_norm, [normal(2, 3), normal(3)], lambda x, g: _rms(x) * g),
    Sample("rms_norm-plain", norms.rms_norm, [normal(2, 3)], _rms),
    named(
        norms.batch_norm,
        [normal(2, 3, 2), normal(2), normal(2)],
        lambda x, g, b: _standard(x, (0, 1)) * g + b,
    ),
    named(
        norms.instance_norm,
        [normal(2, 3, 2, 2), normal(2), normal(2)],
        lambda x, g, b: _standard(x, (1, 2)) * g + b,
    ),
    Sample(
        "group_norm",
        lambda x, g, b: norms.group_norm(x, 2, g, b),
        [normal(2, 3, 4), normal(4), normal(4)],
        _group,
    ),
    Sample(
        "batch_normalization",
        lambda x, m, v, o, s: norms.batch_normalization(x, m, v, o, s, 1e-3),
        [normal(4, 3), normal(3), uniform(0.5, 2, 3), normal(3), normal(3)],
        lambda x, m, v, o, s: (x - m) / np.sqrt(v + 1e-3) * s + o,
    ),
    Sample(
        "batch_normalization-bare",
        lambda x, m, v: norms.batch_normalization(x, m, v, None, None, 1e-3),
        [normal(4, 3), normal(3), uniform(0.5, 2, 3)],
        lambda x, m, v: (x - m) / np.sqrt(v + 1e-3),
    ),
    Sample("fused_batch_norm", _fused, [normal(2, 3, 2, 2), normal(2), normal(2)], _batch),
    Sample(
        "fused_batch_norm-moments",
        lambda x: norms.fused_batch_norm(x, None, None),
        [normal(4, 2)],
        lambda x: (_standard(x, 0, 1e-3), x.mean(0), x.var(0, ddof=1)),
    ),
    Sample("fused_batch_norm-2d", _fused, [normal(4, 2), normal(2), normal(2)], _batch),
    Sample(
        "fused_batch_norm-inference",
        _fused_inference,
        [normal(4, 2), normal(2), normal(2), normal(2), uniform(0.5, 2, 2)],
        lambda x, s, o, m, v: (x - m) / np.sqrt(v + 1e-3) * s + o,
    ),
    Sample(
        "local_response_normalization",
        lambda x: norms.local_response_normalization(x, 1, 2.0, 0.5, 0.75),
        [normal(3, 4)],
        _lrn,
    ),
]
