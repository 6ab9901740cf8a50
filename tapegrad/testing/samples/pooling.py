"""Samples of maximum and average pooling."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.ops import pooling
from tapegrad.testing.sample import Sample, distinct, named, normal


def _pooled(x: Any, reduce: Any, window: Any, strides: Any, low: Any, counts: Any) -> Any:
    """Pooling by its definition, over the real elements of each window."""
    y = np.empty((x.shape[0], *counts, x.shape[-1]))
    for at in np.ndindex(*counts):
        parts = tuple(
            slice(max(0, o * s - p), o * s - p + k) for o, s, p, k in zip(at, strides, low, window)
        )
        block = x[(slice(None), *parts)].reshape(x.shape[0], -1, x.shape[-1])
        y[(slice(None), *at)] = reduce(block, 1)
    return y


def _argmax(x: Any) -> Any:
    """Positions of the maxima of the four 2 by 2 windows of a 4 by 4 image with 2 channels."""
    blocks = x.reshape(2, 2, 2, 2, 2, 2).transpose(0, 1, 3, 2, 4, 5).reshape(2, 2, 2, 4, 2)
    inner = blocks.argmax(3)
    rows = np.arange(2).reshape(1, 2, 1, 1) * 2 + inner // 2
    columns = np.arange(2).reshape(1, 1, 2, 1) * 2 + inner % 2
    return blocks.max(3), (rows * 4 + columns) * 2 + np.arange(2)


SAMPLES = [
    Sample(
        "max_pool",
        lambda x: pooling.max_pool(x, 2, 2, "VALID"),
        [distinct(2, 4, 5, 2)],
        lambda x: _pooled(x, np.max, (2, 2), (2, 2), (0, 0), (2, 2)),
    ),
    Sample(
        "max_pool-overlap",
        lambda x: pooling.max_pool(x * x, 3, 1, "SAME"),
        [distinct(1, 4, 3, 2)],
        lambda x: _pooled(x * x, np.max, (3, 3), (1, 1), (1, 1), (4, 3)),
    ),
    Sample(
        "max_pool-channels-first",
        lambda x: pooling.max_pool2d(x, [1, 1, 2, 2], [1, 1, 2, 2], "VALID", "NCHW"),
        [distinct(1, 2, 4, 4)],
        lambda x: x.reshape(1, 2, 2, 2, 2, 2).max((3, 5)),
    ),
    Sample(
        "max_pool1d",
        lambda x: pooling.max_pool1d(x, 3, 2, "SAME"),
        [distinct(2, 5, 2)],
        lambda x: _pooled(x, np.max, (3,), (2,), (1,), (3,)),
    ),
    Sample(
        "max_pool3d",
        lambda x: pooling.max_pool3d(x, 2, 2, "VALID"),
        [distinct(1, 2, 4, 2, 2)],
        lambda x: _pooled(x, np.max, (2, 2, 2), (2, 2, 2), (0, 0, 0), (1, 2, 1)),
    ),
    Sample(
        "max_pool_with_argmax",
        lambda x: pooling.max_pool_with_argmax(x, 2, 2, "VALID"),
        [distinct(2, 4, 4, 2)],
        _argmax,
    ),
    Sample(
        "avg_pool",
        lambda x: pooling.avg_pool(x, 2, 2, "VALID"),
        [normal(2, 4, 5, 2)],
        lambda x: _pooled(x, np.mean, (2, 2), (2, 2), (0, 0), (2, 2)),
    ),
    Sample(
        "avg_pool-overlap",
        lambda x: pooling.avg_pool2d(x, 3, 1, "SAME"),
        [normal(1, 4, 3, 2)],
        lambda x: _pooled(x, np.mean, (3, 3), (1, 1), (1, 1), (4, 3)),
    ),
    Sample(
        "avg_pool1d",
        lambda x: pooling.avg_pool1d(x, 3, 2, "SAME"),
        [normal(2, 5, 2)],
        lambda x: _pooled(x, np.mean, (3,), (2,), (1,), (3,)),
    ),
    Sample(
        "avg_pool3d",
        lambda x: pooling.avg_pool3d(x, 2, 2, "VALID"),
        [normal(1, 2, 4, 2, 2)],
        lambda x: _pooled(x, np.mean, (2, 2, 2), (2, 2, 2), (0, 0, 0), (1, 2, 1)),
    ),
    Sample(
        "pool-max-dilated",
        lambda x: pooling.pool(x, [2], "MAX", dilations=[2]),
        [distinct(2, 5, 2)],
        lambda x: np.maximum(x[:, :3], x[:, 2:]),
    ),
    Sample(
        "pool-avg",
        lambda x: pooling.pool(x, [2, 2], "AVG", strides=[1, 2]),
        [normal(1, 3, 4, 1)],
        lambda x: _pooled(x, np.mean, (2, 2), (1, 2), (0, 0), (2, 2)),
    ),
    named(pooling.global_avg_pool, [normal(2, 3, 2, 2)], lambda x: x.mean((1, 2))),
    Sample(
        "global_max_pool",
        lambda x: pooling.global_max_pool(x, keepdims=True),
        [distinct(2, 3, 2, 2)],
        lambda x: x.max((1, 2), keepdims=True),
    ),
]
