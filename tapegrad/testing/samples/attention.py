"""Samples of attention and rotary embedding."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.ops.attention.functions import rotary_embedding, scaled_dot_product_attention
from tapegrad.testing.sample import Maker, Sample, booleans, named, normal


def _attention(q: Any, k: Any, v: Any, mask: Any = None, bias: Any = 0.0) -> Any:
    scores = q @ np.swapaxes(k, -1, -2) / np.sqrt(q.shape[-1]) + bias
    weights = np.exp(scores) * (1.0 if mask is None else mask)
    total = weights.sum(-1, keepdims=True)
    return weights / np.where(total == 0, 1, total) @ v


def _grouped(q: Any, k: Any, v: Any, mask: Any = None) -> Any:
    groups = q.shape[-3] // k.shape[-3]
    return _attention(q, np.repeat(k, groups, -3), np.repeat(v, groups, -3), mask)


def _rotary(x: Any) -> Any:
    half = x.shape[-1] // 2
    z = x[..., :half] + 1j * x[..., half:]
    places = np.arange(x.shape[-2])[:, None] * 10000.0 ** (-np.arange(half) / half)
    z = z * np.exp(1j * places)
    return np.concatenate([z.real, z.imag], -1)


_QKV = [normal(2, 3, 2), normal(2, 4, 2), normal(2, 4, 3)]


def _sample(label: str, args: list[Maker], reference: Any, *more: Any, **options: Any) -> Sample:
    return Sample(
        f"scaled_dot_product_attention-{label}",
        lambda *arrays: scaled_dot_product_attention(*arrays, *more, **options),
        args,
        reference,
    )


SAMPLES = [
    named(scaled_dot_product_attention, _QKV, _attention),
    _sample("2d", [normal(3, 2), normal(4, 2), normal(4, 2)], _attention),
    _sample("causal", _QKV, lambda q, k, v: _attention(q, k, v, np.tri(3, 4, 1)), causal=True),
    _sample(
        "causal-more-queries-than-keys",
        [normal(2, 5, 2), normal(2, 3, 2), normal(2, 3, 3)],
        lambda q, k, v: _attention(q, k, v, np.tri(5, 3, -2)),
        causal=True,
    ),
    _sample(
        "causal-mask",
        [*_QKV, booleans(3, 4)],
        lambda q, k, v, mask: _attention(q, k, v, mask * np.tri(3, 4, 1)),
        causal=True,
    ),
    _sample("mask", [*_QKV, booleans(3, 4)], _attention),
    _sample("bias", [*_QKV, normal(2, 1, 4)], lambda q, k, v, b: _attention(q, k, v, None, b)),
    _sample(
        "blind",
        _QKV,
        lambda q, k, v: _attention(q, k, v, np.array([[1], [0], [1]])),
        [[True], [False], [True]],
    ),
    _sample("grouped", [normal(2, 4, 3, 2), normal(2, 2, 3, 2), normal(2, 2, 3, 2)], _grouped),
    _sample(
        "grouped-causal",
        [normal(2, 6, 3, 2), normal(2, 2, 5, 2), normal(2, 2, 5, 3)],
        lambda q, k, v: _grouped(q, k, v, np.tri(3, 5, 2)),
        causal=True,
    ),
    _sample("one-head-of-keys", [normal(3, 3, 2), normal(1, 4, 2), normal(1, 4, 2)], _grouped),
    _sample(
        "broadcast-keys", [normal(2, 2, 3, 2), normal(1, 2, 4, 2), normal(1, 2, 4, 2)], _attention
    ),
    _sample("scale", _QKV, lambda q, k, v: _attention(q * np.sqrt(2), k, v), scale=1.0),
    named(rotary_embedding, [normal(2, 3, 4)], _rotary),
]
