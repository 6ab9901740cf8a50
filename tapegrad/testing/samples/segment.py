"""Samples of reductions by segment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.ops import segment
from tapegrad.ops import segment_functions as functions
from tapegrad.testing.sample import Sample, complex_normal, distinct, fixed, integers, normal

SORTED = fixed(np.array([0, 0, 1, 3, 3, 3]))
MIXED = fixed(np.array([2, 0, -1, 2, 0, 2]))
FULL = fixed(np.array([2, 0, -1, 2, 1, 2]))
ZEROS = fixed([[2.0, 0.0], [0.0, 0.5], [1.5, 2.0], [0.0, -1.0], [0.5, 0.0], [3.0, 0.0]])


def _by_segment(reduce: Callable[..., Any], num: int, empty: float) -> Callable[..., Any]:
    def reference(x: Any, ids: Any) -> Any:
        rows = [x[ids == s] for s in range(num)]
        return np.stack([reduce(r, 0) if len(r) else np.full(x.shape[1:], empty) for r in rows])

    return reference


def _sqrt_n(rows: Any, axis: int) -> Any:
    return rows.sum(axis) / np.sqrt(len(rows))


# Segment 0 holds -inf only in its first column and inf only in its last.
INFINITE = fixed(
    [[1.0, 2.0], [-np.inf, np.inf], [9.0, 9.0], [np.inf, 0.5], [-np.inf, np.inf], [3.0, -np.inf]]
)
LOWEST, HIGHEST = np.finfo(float).min, np.finfo(float).max

SAMPLES = [
    Sample(
        "segment_sum",
        lambda x: functions.segment_sum(x, np.array([0, 0, 1, 3, 3, 3])),
        [normal(6, 2)],
        lambda x: _by_segment(np.sum, 4, 0)(x, np.array([0, 0, 1, 3, 3, 3])),
    ),
    Sample(
        "segment_mean",
        functions.segment_mean,
        [normal(6), SORTED],
        _by_segment(np.mean, 4, 0),
        batches=False,
        records=False,
    ),
    Sample(
        "segment_prod",
        functions.segment_prod,
        [ZEROS, SORTED],
        _by_segment(np.prod, 4, 1),
        batches=False,
        records=False,
    ),
    Sample(
        "segment_max",
        functions.segment_max,
        [distinct(6, 2), SORTED],
        _by_segment(np.max, 4, 0),
        batches=False,
        records=False,
    ),
    Sample(
        "segment_min",
        functions.segment_min,
        [distinct(6, 2), SORTED],
        _by_segment(np.min, 4, 0),
        batches=False,
        records=False,
    ),
    Sample(
        "unsorted_segment_sum",
        lambda x, i: functions.unsorted_segment_sum(x, i, 3),
        [normal(6, 2), MIXED],
        _by_segment(np.sum, 3, 0),
    ),
    Sample(
        "unsorted_segment_sum-random",
        lambda x, i: functions.unsorted_segment_sum(x, i, 4),
        [normal(6, 2, 2), integers(-1, 4, 6)],
        _by_segment(np.sum, 4, 0),
    ),
    Sample(
        "unsorted_segment_sum-2d",
        lambda x, i: functions.unsorted_segment_sum(x, i, 3),
        [normal(2, 3, 2), integers(0, 3, 2, 3)],
        _by_segment(np.sum, 3, 0),
    ),
    Sample(
        "unsorted_segment_sum-complex",
        lambda x, i: functions.unsorted_segment_sum(x, i, 3),
        [complex_normal(6), MIXED],
        _by_segment(np.sum, 3, 0),
    ),
    Sample(
        "unsorted_segment_sum-integers",
        lambda x, i: functions.unsorted_segment_sum(x, i, 3),
        [integers(0, 9, 6), MIXED],
        _by_segment(np.sum, 3, 0),
        differentiable=False,
    ),
    Sample(
        "unsorted_segment_mean",
        lambda x, i: functions.unsorted_segment_mean(x, i, 3),
        [normal(6, 2), MIXED],
        _by_segment(np.mean, 3, 0),
    ),
    Sample(
        "unsorted_segment_sqrt_n",
        lambda x, i: functions.unsorted_segment_sqrt_n(x, i, 3),
        [normal(6, 2), MIXED],
        _by_segment(_sqrt_n, 3, 0),
    ),
    Sample(
        "unsorted_segment_prod",
        lambda x, i: functions.unsorted_segment_prod(x, i, 3),
        [ZEROS, MIXED],
        _by_segment(np.prod, 3, 1),
    ),
    Sample(
        "unsorted_segment_prod-random",
        lambda x, i: functions.unsorted_segment_prod(x, i, 3),
        [normal(6), integers(-1, 3, 6)],
        _by_segment(np.prod, 3, 1),
    ),
    Sample(
        "unsorted_segment_max",
        lambda x, i: functions.unsorted_segment_max(x, i, 3),
        [distinct(6, 2), FULL],
        _by_segment(np.max, 3, LOWEST),
    ),
    Sample(
        "unsorted_segment_min",
        lambda x, i: functions.unsorted_segment_min(x, i, 3),
        [distinct(6), FULL],
        _by_segment(np.min, 3, HIGHEST),
    ),
    # Differences of the numbers that stand for an empty segment would overflow.
    Sample(
        "unsorted_segment_max-empty",
        lambda x, i: functions.unsorted_segment_max(x, i, 3),
        [distinct(6), MIXED],
        _by_segment(np.max, 3, LOWEST),
        differentiable=False,
    ),
    Sample(
        "unsorted_segment_min-empty",
        lambda x, i: functions.unsorted_segment_min(x, i, 3),
        [distinct(6), MIXED],
        _by_segment(np.min, 3, HIGHEST),
        differentiable=False,
    ),
    Sample(
        "unsorted_segment_max-infinite",
        lambda x, i: functions.unsorted_segment_max(x, i, 3),
        [INFINITE, MIXED],
        _by_segment(np.max, 3, LOWEST),
        differentiable=False,
    ),
    Sample(
        "unsorted_segment_min-infinite",
        lambda x, i: functions.unsorted_segment_min(x, i, 3),
        [INFINITE, MIXED],
        _by_segment(np.min, 3, HIGHEST),
        differentiable=False,
    ),
    Sample(
        "segment_ties-zero-outside",
        segment.segment_ties_p,
        [fixed([1.0, np.inf, 0.0, 1.0, 3.0, 0.0]), MIXED, fixed([np.inf, 0.0, 1.0])],
        lambda x, i, y: np.array([0.5, 1, 0, 0.5, 0, 0]),
        differentiable=False,
    ),
    Sample(
        "segment_take",
        segment.segment_take_p,
        [normal(3, 2), MIXED],
        lambda x, i: np.where(i[:, None] < 0, 0, x[i]),
    ),
    Sample(
        "segment_ties",
        segment.segment_ties_p,
        [fixed([1.0, 2.0, 9.0, 1.0, 3.0, 0.0]), MIXED, fixed([3.0, 0.0, 1.0])],
        lambda x, i, y: np.array([0.5, 0, 0, 0.5, 1, 0]),
        differentiable=False,
    ),
    Sample(
        "offset_segment_ids",
        lambda i: segment.offset_ids_p(i, num=4),
        [fixed(np.array([[0, -1], [1, 2]]))],
        lambda i: np.array([[0, -1], [5, 6]]),
        differentiable=False,
    ),
]
