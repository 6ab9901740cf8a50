"""Samples of cumulative sums, products, log-sums, extrema and differences."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np

from tapegrad.ops.indexing import along_axis
from tapegrad.ops.indexing.primitives import slice_p
from tapegrad.ops.reduction import cumulative
from tapegrad.ops.reduction.recurrence import recurrence_p, shift
from tapegrad.testing.sample import (
    Sample,
    ValueSample,
    alike,
    complex_normal,
    distinct,
    fixed,
    integers,
    like_numpy,
    named,
    normal,
    uniform,
)

ZEROS = fixed([[2.0, 0.0, -3.0, 0.5, 0.0, 1.5], [0.0, 1.5, 0.5, -1.0, 2.0, 0.7]])
LOWEST = fixed([-math.inf, 0.5, -math.inf, 1.0])


def _recurrence(a: Any, b: Any) -> Any:
    y = b.copy()
    for i in range(1, len(b)):
        y[i] += a[i] * y[i - 1]
    return y


_forward = partial(recurrence_p, axis=0, reverse=False)


def _exclusive(y: Any, start: float) -> Any:
    return np.concatenate([np.full_like(y[:1], start), y[:-1]])


def _later(y: Any) -> Any:
    """Drop the first element: it is -inf, which has no finite differences."""
    return slice_p(y, index=(slice(1, None),))


SAMPLES = [
    named(cumulative.cumsum, [normal(4, 2)], lambda x: x.cumsum(0)),
    Sample(
        "cumsum-exclusive",
        lambda x: cumulative.cumsum(x, 0, exclusive=True),
        [normal(4, 2)],
        lambda x: _exclusive(x.cumsum(0), 0),
    ),
    Sample(
        "cumsum-reverse",
        lambda x: cumulative.cumsum(x, -1, True, True),
        [normal(2, 4)],
        lambda x: x.sum(1, keepdims=True) - x.cumsum(1),
    ),
    Sample("cumsum-empty", cumulative.cumsum, [normal(0, 2)], lambda x: x),
    Sample("cumsum-complex", cumulative.cumsum, [complex_normal(3)], np.cumsum),
    ValueSample("cumsum-integers", cumulative.cumsum, [integers(0, 9, 4)], np.cumsum),
    named(cumulative.cumprod, [normal(4, 2)], lambda x: x.cumprod(0)),
    like_numpy(cumulative.cumprod, [ZEROS], 1, case="zeros"),
    Sample(
        "cumprod-exclusive",
        lambda x: cumulative.cumprod(x, 0, exclusive=True),
        [fixed([2.0, 0.0, 3.0, 0.0, 1.5])],
        lambda x: _exclusive(x.cumprod(0), 1),
    ),
    Sample(
        "cumprod-reverse",
        lambda x: cumulative.cumprod(x, 1, reverse=True),
        [ZEROS],
        lambda x: x[:, ::-1].cumprod(1)[:, ::-1],
    ),
    Sample(
        "cumprod-reverse-exclusive",
        lambda x: cumulative.cumprod(x, 0, True, True),
        [normal(4)],
        lambda x: _exclusive(x[::-1].cumprod(), 1)[::-1],
    ),
    Sample("cumprod-complex", cumulative.cumprod, [complex_normal(4)], np.cumprod),
    Sample("cumprod-long", cumulative.cumprod, [uniform(0.9, 1.1, 70)], np.cumprod),
    Sample(
        "cumulative_sum",
        lambda x: cumulative.cumulative_sum(x, include_initial=True),
        [normal(4)],
        lambda x: np.concatenate([[0.0], x.cumsum()]),
    ),
    alike("cumulative_prod", cumulative.cumulative_prod, [normal(2, 3)], np.cumprod, 1),
    Sample(
        "cumulative_prod-initial",
        lambda x: cumulative.cumulative_prod(x, include_initial=True),
        [normal(3)],
        lambda x: np.concatenate([[1.0], x.cumprod()]),
    ),
    named(cumulative.cumulative_logsumexp, [normal(5, 2)], lambda x: np.log(np.exp(x).cumsum(0))),
    Sample(
        "cumulative_logsumexp-reverse",
        lambda x: cumulative.cumulative_logsumexp(x, axis=1, reverse=True),
        [normal(2, 5)],
        lambda x: np.log(np.exp(x)[:, ::-1].cumsum(1))[:, ::-1],
    ),
    Sample(
        "cumulative_logsumexp-exclusive",
        lambda x: _later(cumulative.cumulative_logsumexp(x, exclusive=True)),
        [normal(4)],
        lambda x: np.log(np.exp(x).cumsum())[:-1],
    ),
    Sample(
        "cumulative_logsumexp-lowest",
        lambda x: _later(cumulative.cumulative_logsumexp(x)),
        [LOWEST],
        lambda x: np.log(np.exp(x).cumsum()[1:]),
    ),
    named(cumulative.cummax, [distinct(6, 2)], lambda x: np.maximum.accumulate(x, 0)),
    alike("cummin", cumulative.cummin, [distinct(2, 6)], np.minimum.accumulate, -1),
    like_numpy(cumulative.diff, [normal(2, 4)]),
    like_numpy(cumulative.diff, [normal(4, 2)], 2, case="twice", axis=0, prepend=1.0),
    Sample(
        "diff-append",
        lambda x, y: cumulative.diff(x, append=y),
        [normal(2, 3), normal(2, 2)],
        lambda x, y: np.diff(x, append=y),
    ),
    Sample("linear_recurrence", _forward, [normal(5, 2), normal(5, 2)], _recurrence),
    Sample(
        "linear_recurrence-reverse",
        partial(recurrence_p, axis=0, reverse=True),
        [normal(6), normal(6)],
        lambda a, b: _recurrence(a[::-1], b[::-1])[::-1],
    ),
    Sample("linear_recurrence-long", _forward, [normal(67), normal(67)], _recurrence),
    Sample(
        "linear_recurrence-complex", _forward, [complex_normal(4), complex_normal(4)], _recurrence
    ),
    Sample(
        "shift",
        lambda x, y: shift(x, 1, -1, y),
        [normal(2, 3), normal(2, 1)],
        lambda x, y: np.concatenate([x[:, 1:], y], 1),
    ),
    like_numpy(along_axis.take_along_axis, [normal(2, 4), integers(0, 4, 2, 3)], 1),
    like_numpy(
        along_axis.take_along_axis, [normal(4, 3), integers(-4, 4, 2, 1)], 0, case="broadcast"
    ),
    Sample(
        "scatter_along_axis",
        lambda t, i: along_axis.scatter_along_axis(t, i, 0, 4),
        [normal(3, 2), integers(0, 4, 3, 2)],
        lambda t, i: np.stack([np.bincount(i[:, k], t[:, k], 4) for k in range(2)], 1),
    ),
]
