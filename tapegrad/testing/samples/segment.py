"""Samples of reductions by segment."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.ops.indexing import segment, segment_functions as functions
from tapegrad.testing.sample import (
    Function,
    Maker,
    Sample,
    ValueSample,
    alike,
    complex_normal,
    distinct,
    fixed,
    integers,
    normal,
)

SORTED = fixed(np.array([0, 0, 1, 3, 3, 3]))
MIXED = fixed(np.array([2, 0, -1, 2, 0, 2]))
FULL = fixed(np.array([2, 0, -1, 2, 1, 2]))
ZEROS = fixed([[2.0, 0.0], [0.0, 0.5], [1.5, 2.0], [0.0, -1.0], [0.5, 0.0], [3.0, 0.0]])


def _by_segment(reduce: Function, num: int, empty: float) -> Function:
    def reference(x: Any, ids: Any) -> Any:
        rows = [x[ids == s] for s in range(num)]
        none = np.full(x.shape[ids.ndim :], empty)
        return np.stack([reduce(r, 0) if len(r) else none for r in rows])

    return reference


def _sqrt_n(rows: Any, axis: int) -> Any:
    return rows.sum(axis) / np.sqrt(len(rows))


def _unsorted(
    name: str,
    values: Maker,
    ids: Maker,
    reduce: Function,
    empty: float = 0,
    num: int = 3,
    kind: Callable[..., Sample] = Sample,
) -> Sample:
    """Sample `unsorted_segment_<name>` (up to a dash) with `num` segments."""
    name = f"unsorted_segment_{name}"
    function = getattr(functions, name.partition("-")[0])
    reference = _by_segment(reduce, num, empty)
    return kind(name, lambda x, i: function(x, i, num), [values, ids], reference)


# Segment 0 has only -inf in its first column and only inf in its last.
INFINITE = fixed(
    [[1.0, 2.0], [-np.inf, np.inf], [9.0, 9.0], [np.inf, 0.5], [-np.inf, np.inf], [3.0, -np.inf]]
)
LOWEST, HIGHEST = np.finfo(float).min, np.finfo(float).max

SAMPLES = [
    alike(
        "segment_sum",
        functions.segment_sum,
        [normal(6, 2)],
        _by_segment(np.sum, 4, 0),
        np.array([0, 0, 1, 3, 3, 3]),
    ),
    *[
        Sample(
            f"segment_{name}",
            getattr(functions, f"segment_{name}"),
            [values, SORTED],
            _by_segment(reduce, 4, empty),
            batches=False,
            records=False,
        )
        for name, values, reduce, empty in (
            ("mean", normal(6), np.mean, 0),
            ("prod", ZEROS, np.prod, 1),
            ("max", distinct(6, 2), np.max, 0),
            ("min", distinct(6, 2), np.min, 0),
        )
    ],
    _unsorted("sum", normal(6, 2), MIXED, np.sum),
    _unsorted("sum-random", normal(6, 2, 2), integers(-1, 4, 6), np.sum, num=4),
    _unsorted("sum-2d", normal(2, 3, 2), integers(0, 3, 2, 3), np.sum),
    _unsorted("sum-complex", complex_normal(6), MIXED, np.sum),
    _unsorted("sum-integers", integers(0, 9, 6), MIXED, np.sum, kind=ValueSample),
    _unsorted("mean", normal(6, 2), MIXED, np.mean),
    _unsorted("sqrt_n", normal(6, 2), MIXED, _sqrt_n),
    _unsorted("prod", ZEROS, MIXED, np.prod, 1),
    _unsorted("prod-random", normal(6), integers(-1, 3, 6), np.prod, 1),
    _unsorted("max", distinct(6, 2), FULL, np.max, LOWEST),
    _unsorted("min", distinct(6), FULL, np.min, HIGHEST),
    # Differences of the values for empty segments would overflow.
    _unsorted("max-empty", distinct(6), MIXED, np.max, LOWEST, kind=ValueSample),
    _unsorted("min-empty", distinct(6), MIXED, np.min, HIGHEST, kind=ValueSample),
    _unsorted("max-infinite", INFINITE, MIXED, np.max, LOWEST, kind=ValueSample),
    _unsorted("min-infinite", INFINITE, MIXED, np.min, HIGHEST, kind=ValueSample),
    ValueSample(
        "segment_ties-zero-outside",
        segment.segment_ties_p,
        [fixed([1.0, np.inf, 0.0, 1.0, 3.0, 0.0]), MIXED, fixed([np.inf, 0.0, 1.0])],
        lambda x, i, y: np.array([0.5, 1, 0, 0.5, 0, 0]),
    ),
    Sample(
        "segment_take",
        segment.segment_take_p,
        [normal(3, 2), MIXED],
        lambda x, i: np.where(i[:, None] < 0, 0, x[i]),
    ),
    ValueSample(
        "segment_ties",
        segment.segment_ties_p,
        [fixed([1.0, 2.0, 9.0, 1.0, 3.0, 0.0]), MIXED, fixed([3.0, 0.0, 1.0])],
        lambda x, i, y: np.array([0.5, 0, 0, 0.5, 1, 0]),
    ),
    ValueSample(
        "offset_segment_ids",
        lambda i: segment.offset_ids_p(i, num=4),
        [fixed(np.array([[0, -1], [1, 2]]))],
        lambda i: np.array([[0, -1], [5, 6]]),
    ),
]
