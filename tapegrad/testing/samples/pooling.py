"""Samples of maximum and average pooling."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.ops.convolution import pooling
from tapegrad.testing.sample import Maker, Sample, distinct, named, normal


def _pooled(x: Any, reduce: Any, window: Any, strides: Any, low: Any, counts: Any) -> Any:
    """Pooling by its definition, over the elements of each window that are not padding."""
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


def _sample(name: str, maker: Maker, given: tuple[Any, ...], geometry: Any) -> Sample:
    """Make a sample; `given` follows the array, and `_pooled` explains the geometry."""
    function = getattr(pooling, name.partition("-")[0])
    reduce = np.max if name.startswith("max") else np.mean
    return Sample(
        name, lambda x: function(x, *given), [maker], lambda x: _pooled(x, reduce, *geometry)
    )


_HALVES, _HALVES_3D = ((2, 2), (2, 2), (0, 0), (2, 2)), ((2, 2, 2), (2, 2, 2), (0, 0, 0), (1, 2, 1))
_OVERLAP, _ODD = ((3, 3), (1, 1), (1, 1), (4, 3)), ((3,), (2,), (1,), (3,))

SAMPLES = [
    _sample("max_pool", distinct(2, 4, 5, 2), (2, 2, "VALID"), _HALVES),
    Sample(
        "max_pool-overlap",
        lambda x: pooling.max_pool(x * x, 3, 1, "SAME"),
        [distinct(1, 4, 3, 2)],
        lambda x: _pooled(x * x, np.max, *_OVERLAP),
    ),
    Sample(
        "max_pool-channels-first",
        lambda x: pooling.max_pool2d(x, [1, 1, 2, 2], [1, 1, 2, 2], "VALID", "NCHW"),
        [distinct(1, 2, 4, 4)],
        lambda x: x.reshape(1, 2, 2, 2, 2, 2).max((3, 5)),
    ),
    _sample("max_pool1d", distinct(2, 5, 2), (3, 2, "SAME"), _ODD),
    _sample("max_pool3d", distinct(1, 2, 4, 2, 2), (2, 2, "VALID"), _HALVES_3D),
    Sample(
        "max_pool_with_argmax",
        lambda x: pooling.max_pool_with_argmax(x, 2, 2, "VALID"),
        [distinct(2, 4, 4, 2)],
        _argmax,
    ),
    _sample("avg_pool", normal(2, 4, 5, 2), (2, 2, "VALID"), _HALVES),
    Sample(
        "avg_pool-overlap",
        lambda x: pooling.avg_pool2d(x, 3, 1, "SAME"),
        [normal(1, 4, 3, 2)],
        lambda x: _pooled(x, np.mean, *_OVERLAP),
    ),
    _sample("avg_pool1d", normal(2, 5, 2), (3, 2, "SAME"), _ODD),
    _sample("avg_pool3d", normal(1, 2, 4, 2, 2), (2, 2, "VALID"), _HALVES_3D),
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
