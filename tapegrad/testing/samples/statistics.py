"""Samples of statistics, order statistics, reductions that ignore NaN, and `reduce_*`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tapegrad.ops.reduction import functions as reduce, nan_reduction, quantile, statistics
from tapegrad.testing.sample import (
    Sample,
    ValueSample,
    alike,
    booleans,
    complex_normal,
    distinct,
    fixed,
    integers,
    like_numpy,
    named,
    normal,
    uniform,
)

GAPS = fixed([[1.0, math.nan, 3.0, -2.0], [0.5, 2.0, math.nan, 0.25]])
WEIGHTS = uniform(0.5, 2.0, 4)


def _log_sum(x: Any, axis: Any = None) -> Any:
    return np.log(np.exp(x).sum(axis))


def _weighted(x: Any, w: Any) -> Any:
    mean = (x * w).sum(0) / w.sum(0)
    return mean, (w * (x - mean) ** 2).sum(0) / w.sum(0)


def _statistics(x: Any) -> Any:
    return statistics.sufficient_statistics(x, [0], 0.5)[1:3]


def _finish(a: Any, b: Any) -> Any:
    return statistics.normalize_moments(4.0, a, b, 0.5)


def _finished(a: Any, b: Any) -> Any:
    return a / 4 + 0.5, b / 4 - (a / 4) ** 2


REDUCE = [
    alike("reduce_sum", reduce.reduce_sum, [normal(2, 3)], np.sum, -1),
    alike("reduce_mean", reduce.reduce_mean, [normal(2, 3)], np.mean, 0),
    named(reduce.reduce_prod, [normal(2, 2)], np.prod),
    alike("reduce_max", reduce.reduce_max, [distinct(2, 3)], np.max, 1),
    alike("reduce_min", reduce.reduce_min, [distinct(2, 3)], np.min, 1),
    ValueSample("reduce_any", reduce.reduce_any, [booleans(3)], np.any),
    ValueSample("reduce_all", reduce.reduce_all, [booleans(3)], np.all),
    alike("reduce_variance", reduce.reduce_variance, [normal(4, 2)], np.var, 0),
    alike("reduce_std", reduce.reduce_std, [normal(4, 2)], np.std, 0, keepdims=True),
    alike("reduce_logsumexp", reduce.reduce_logsumexp, [normal(2, 3)], _log_sum, 1),
    named(reduce.reduce_euclidean_norm, [normal(2, 3)], lambda x: np.sqrt((x * x).sum())),
    ValueSample("argmax-tensorflow", reduce.argmax, [distinct(3, 2)], lambda x: x.argmax(0)),
    ValueSample(
        "argmin-tensorflow",
        lambda x: reduce.argmin(x, 1, "int32"),
        [distinct(3, 2)],
        lambda x: x.argmin(1),
    ),
    ValueSample(
        "count_nonzero-tensorflow",
        lambda x: reduce.count_nonzero(x, 0, dtype="int32"),
        [integers(0, 2, 3, 2)],
        lambda x: np.count_nonzero(x, 0),
    ),
]

STATISTICS = [
    like_numpy(statistics.var, [normal(5)]),
    like_numpy(statistics.var, [normal(2, 4)], 1, case="correction", correction=1, keepdims=True),
    like_numpy(statistics.var, [complex_normal(4, 2)], 0, case="complex"),
    Sample("var-constant", statistics.var, [fixed([2.0, 2.0, 2.0])], np.var),
    like_numpy(statistics.std, [normal(4, 2)], 0, correction=1),
    Sample("std-complex", statistics.std, [complex_normal(4)], np.std),
    Sample(
        "moments",
        lambda x: statistics.moments(x, [0, 1]),
        [normal(2, 3, 2)],
        lambda x: (x.mean((0, 1)), x.var((0, 1))),
    ),
    Sample(
        "moments-keepdims",
        lambda x: statistics.moments(x, [-1], keepdims=True),
        [normal(2, 4)],
        lambda x: (x.mean(1, keepdims=True), x.var(1, keepdims=True)),
    ),
    Sample(
        "weighted_moments",
        lambda x, w: statistics.weighted_moments(x, [0], w),
        [normal(4, 2), uniform(0.5, 2.0, 4, 1)],
        lambda x, w: _weighted(x, w + 0 * x),
    ),
    Sample(
        "sufficient_statistics",
        _statistics,
        [normal(4, 2)],
        lambda x: ((x - 0.5).sum(0), ((x - 0.5) ** 2).sum(0)),
    ),
    Sample("normalize_moments", _finish, [normal(3), normal(3)], _finished),
    ValueSample(
        "zero_fraction", statistics.zero_fraction, [integers(0, 2, 7)], lambda x: np.mean(x == 0)
    ),
    Sample(
        "average",
        lambda x, w: statistics.average(x, 1, w),
        [normal(2, 4), WEIGHTS],
        lambda x, w: np.average(x, 1, w),
    ),
    Sample(
        "average-all",
        lambda x, w: statistics.average(x, weights=w),
        [normal(4), WEIGHTS],
        lambda x, w: np.average(x, weights=w),
    ),
    like_numpy(statistics.ptp, [distinct(4, 2)], 0),
    like_numpy(statistics.cov, [normal(3, 5)]),
    Sample(
        "cov-columns",
        lambda x: statistics.cov(x, False, 0),
        [normal(5, 2)],
        lambda x: np.cov(x, rowvar=False, ddof=0),
    ),
    Sample("cov-vector", statistics.cov, [normal(5)], np.cov),
    like_numpy(statistics.corrcoef, [normal(3, 5)]),
    like_numpy(statistics.trapezoid, [normal(4, 2)], dx=0.5, axis=0),
    Sample("trapezoid-points", statistics.trapezoid, [normal(2, 4), normal(4)], np.trapezoid),
    like_numpy(quantile.median, [distinct(2, 3)]),
    like_numpy(quantile.median, [distinct(2, 5)], 1, case="odd", keepdims=True),
    like_numpy(quantile.quantile, [distinct(6, 2)], [0.1, 0.5, 1.0], 0),
    like_numpy(quantile.percentile, [distinct(2, 3, 2)], 30.0, (0, 2)),
]

WITHOUT_NAN = [
    like_numpy(nan_reduction.nansum, [GAPS], 1),
    like_numpy(nan_reduction.nanprod, [GAPS]),
    like_numpy(nan_reduction.nanmean, [GAPS], 0, keepdims=True),
    like_numpy(nan_reduction.nanvar, [GAPS], 1, correction=1),
    like_numpy(nan_reduction.nanstd, [GAPS], 1),
    like_numpy(nan_reduction.nanmax, [GAPS], 1),
    like_numpy(nan_reduction.nanmin, [GAPS]),
    ValueSample("nansum-integers", nan_reduction.nansum, [integers(0, 5, 4)], np.sum),
]

SAMPLES = [*REDUCE, *STATISTICS, *WITHOUT_NAN]
