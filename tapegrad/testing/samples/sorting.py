"""Samples of sorting, top-k, searching and counting."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.ops.indexing import sorting
from tapegrad.ops.reduction import counting
from tapegrad.testing.sample import (
    Sample,
    ValueSample,
    alike,
    alike_in_value,
    distinct,
    fixed,
    integers,
    like_numpy,
    normal,
    uniform,
)

STEPS = fixed([1.0, 2.0, 2.0, 5.0])


def _top(x: Any, k: int) -> tuple[Any, Any]:
    order = np.argsort(-x, axis=-1, kind="stable")[..., :k]
    return np.take_along_axis(x, order, -1), order


SAMPLES = [
    like_numpy(sorting.sort, [distinct(2, 5)]),
    Sample(
        "sort-descending",
        lambda x: sorting.sort(x, 0, "DESCENDING"),
        [distinct(5, 2)],
        lambda x: np.sort(x, 0)[::-1],
    ),
    ValueSample("sort-integers", sorting.sort, [integers(0, 5, 6)], np.sort),
    alike_in_value("argsort", sorting.argsort, [distinct(5, 2)], np.argsort, 0),
    ValueSample(
        "argsort-descending",
        lambda x: sorting.argsort(x, -1, "DESCENDING", stable=True),
        [integers(0, 3, 2, 6)],
        lambda x: np.argsort(-x, -1, kind="stable"),
    ),
    alike("top_k", sorting.top_k, [distinct(2, 5)], _top, 2),
    alike("top_k-few", sorting.top_k, [distinct(2, 40)], _top, 3),
    alike("top_k-all", sorting.top_k, [distinct(5)], _top, 5),
    alike_in_value("top_k-ties", sorting.top_k, [integers(0, 4, 3, 40)], _top, 3),
    ValueSample(
        "in_top_k",
        lambda t, p: sorting.in_top_k(t, p, 2),
        [integers(0, 4, 3), distinct(3, 4)],
        lambda t, p: (p > p[np.arange(3), t][:, None]).sum(1) < 2,
    ),
    ValueSample("searchsorted", sorting.searchsorted, [STEPS, normal(2, 3)], np.searchsorted),
    ValueSample(
        "searchsorted-right",
        lambda v: sorting.searchsorted([1, 2, 2, 5], v, "right"),
        [integers(0, 6, 7)],
        lambda v: np.searchsorted([1, 2, 2, 5], v, "right"),
    ),
    ValueSample(
        "searchsorted-rows",
        lambda s, v: sorting.searchsorted(sorting.sort(s), v),
        [distinct(2, 4), normal(2, 3)],
        lambda s, v: np.stack([np.searchsorted(np.sort(a), b) for a, b in zip(s, v)]),
    ),
    ValueSample(
        "unique",
        lambda x: counting.unique(x),
        [fixed([5.0, 3.0, 5.0, 1.0])],
        lambda x: (np.array([5.0, 3.0, 1.0]), np.array([0, 1, 0, 2])),
        order=1,
        batches=False,
    ),
    Sample(
        "unique-distinct",
        lambda x: counting.unique(x)[0],
        [distinct(4)],
        lambda x: x,
        batches=False,
    ),
    ValueSample(
        "unique_with_counts",
        lambda x: counting.unique_with_counts(x),
        [fixed(np.array([4, 2, 4, 4]))],
        lambda x: (np.array([4, 2]), np.array([0, 1, 0, 0]), np.array([3, 1])),
        batches=False,
    ),
    ValueSample(
        "bincount",
        lambda i: counting.bincount(i, minlength=4, maxlength=4),
        [integers(0, 6, 9)],
        lambda i: np.bincount(i, minlength=4)[:4],
    ),
    Sample(
        "bincount-weights",
        lambda i, w: counting.bincount(i, w, minlength=5, maxlength=5),
        [integers(0, 5, 7), normal(7)],
        lambda i, w: np.bincount(i, w, 5),
    ),
    ValueSample(
        "bincount-rows",
        lambda i: counting.bincount(i, minlength=3, maxlength=3, axis=-1, binary_output=True),
        [integers(0, 3, 2, 4)],
        lambda i: np.stack([np.bincount(r, minlength=3) > 0 for r in i]),
    ),
    ValueSample(
        "histogram_fixed_width",
        lambda x: counting.histogram_fixed_width(x, [0.0, 5.0], 5),
        [uniform(0, 5, 20)],
        lambda x: np.histogram(x, 5, (0, 5))[0],
    ),
    ValueSample(
        "histogram_fixed_width_bins",
        lambda x: counting.histogram_fixed_width_bins(x, [0.0, 5.0], 5),
        [uniform(-2, 7, 8)],
        lambda x: np.clip(np.floor(x), 0, 4),
    ),
]
