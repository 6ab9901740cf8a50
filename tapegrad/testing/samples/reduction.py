"""Samples of reductions: sums, products, extremes, truth, norms, and arguments of extremes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tapegrad.ops import axes, logsumexp, reduction, squares
from tapegrad.testing.sample import (
    Sample,
    ValueSample,
    alike,
    booleans,
    complex_normal,
    distinct,
    fixed,
    integers,
    named,
    normal,
)

ONE_ZERO = fixed([[2.0, 0.0, -3.0], [1.5, 0.5, -1.0]])
TWO_ZEROS = fixed([[2.0, 0.0, 0.0, 1.5], [0.0, 0.0, 0.0, 2.0]])
LOWEST = fixed([[0.5, -math.inf, 1.0], [0.0, 0.25, -0.5]])


def _logsumexp(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    return np.log(np.sum(np.exp(x), axis=axis, keepdims=keepdims))


def _norm(x: Any, axis: Any = None) -> Any:
    return np.sqrt(np.sum(np.abs(x) ** 2, axis=axis))


SAMPLES = [
    alike("sum-keepdims", reduction.sum, [normal(2, 3)], np.sum, 1, keepdims=True),
    Sample("sum-no-axes", lambda x: reduction.sum(x, ()), [normal(2, 3)], lambda x: x),
    Sample("sum-0d", reduction.sum, [normal()], np.sum),
    alike("sum-empty", reduction.sum, [normal(2, 0)], np.sum, 1),
    alike("sum-complex", reduction.sum, [complex_normal(2, 3)], np.sum, 0),
    ValueSample("sum-integers", reduction.sum, [integers(0, 9, 2, 3)], np.sum),
    ValueSample("sum-booleans", reduction.sum, [booleans(2, 3)], np.sum),
    named(reduction.mean, [normal(2, 3)], np.mean),
    Sample(
        "mean-axis",
        lambda x: reduction.mean(x, (0, -1), True),
        [normal(2, 3, 4)],
        lambda x: x.mean((0, 2), keepdims=True),
    ),
    Sample("mean-0d", reduction.mean, [normal()], np.mean),
    Sample("mean-complex", reduction.mean, [complex_normal(2, 3)], np.mean),
    named(reduction.prod, [normal(2, 3)], np.prod),
    alike("prod-axis", reduction.prod, [normal(2, 3, 2)], np.prod, (0, 2)),
    alike("prod-one-zero", reduction.prod, [ONE_ZERO], np.prod, 1, keepdims=True),
    alike("prod-two-zeros", reduction.prod, [TWO_ZEROS], np.prod, 1),
    Sample("prod-all-zeros", lambda x: reduction.prod(x), [fixed([0.0, 0.0])], np.prod),
    alike("prod-complex", reduction.prod, [complex_normal(3, 2)], np.prod, 0),
    Sample("prod-0d", reduction.prod, [normal()], np.prod),
    ValueSample("prod-integers", reduction.prod, [integers(1, 4, 3)], np.prod),
    named(reduction.max, [distinct(2, 3)], np.max),
    alike("max-axis", reduction.max, [distinct(2, 3, 2)], np.max, (0, 2), keepdims=True),
    Sample(
        "max-last", lambda x: reduction.max(x * x, -1), [distinct(2, 3)], lambda x: (x * x).max(-1)
    ),
    ValueSample(
        "max-integers", lambda x: reduction.max(x, 0), [integers(0, 9, 2, 3)], lambda x: x.max(0)
    ),
    named(reduction.min, [distinct(2, 3)], np.min),
    alike("min-axis", reduction.min, [distinct(2, 3)], np.min, 1),
    ValueSample(
        "ties",
        lambda x: reduction.ties_p(x, reduction.max(x, 1), axis=(1,), keepdims=False),
        [fixed([[1.0, 2.0, 2.0], [3.0, 0.0, 1.0]])],
        lambda x: np.array([[0.0, 0.5, 0.5], [1.0, 0.0, 0.0]]),
    ),
    ValueSample("any", lambda x: reduction.any(x, 0), [booleans(2, 3)], lambda x: x.any(0)),
    ValueSample(
        "all",
        lambda x: reduction.all(x, 1, True),
        [booleans(2, 3)],
        lambda x: x.all(1, keepdims=True),
    ),
    ValueSample("any-numbers", reduction.any, [integers(0, 2, 3)], np.any),
    ValueSample("count_nonzero", reduction.count_nonzero, [integers(0, 3, 2, 3)], np.count_nonzero),
    ValueSample(
        "count_nonzero-axis",
        lambda x: reduction.count_nonzero(x, 1, True),
        [integers(0, 3, 2, 3)],
        lambda x: np.count_nonzero(x, 1, keepdims=True),
    ),
    ValueSample("argmax", reduction.argmax, [distinct(2, 3)], np.argmax),
    ValueSample(
        "argmax-axis",
        lambda x: reduction.argmax(x, -1, True),
        [distinct(2, 3)],
        lambda x: x.argmax(-1, keepdims=True),
    ),
    ValueSample("argmin", reduction.argmin, [distinct(2, 3)], np.argmin),
    ValueSample(
        "argmin-axis", lambda x: reduction.argmin(x, 0), [distinct(2, 3)], lambda x: x.argmin(0)
    ),
    named(logsumexp.logsumexp, [normal(2, 3)], _logsumexp),
    alike("logsumexp-axis", logsumexp.logsumexp, [normal(2, 3, 2)], _logsumexp, (0, 2), True),
    Sample("logsumexp-0d", logsumexp.logsumexp, [normal()], _logsumexp),
    alike("logsumexp-lowest", logsumexp.logsumexp, [LOWEST], _logsumexp, 1),
    Sample(
        "exp_difference",
        logsumexp.exp_difference,
        [normal(2, 3), normal(3)],
        lambda x, y: np.exp(x - y),
    ),
    named(squares.sum_of_squares, [normal(2, 3)], lambda x: (x * x).sum()),
    Sample(
        "sum_of_squares-axis",
        lambda x: squares.sum_of_squares(x, 0, True),
        [normal(2, 3)],
        lambda x: (x * x).sum(0, keepdims=True),
    ),
    Sample(
        "sum_of_squares-complex",
        lambda x: squares.sum_of_squares(x, 0),
        [complex_normal(2, 3)],
        lambda x: (np.abs(x) ** 2).sum(0),
    ),
    named(squares.euclidean_norm, [normal(2, 3)], _norm),
    alike("euclidean_norm-axis", squares.euclidean_norm, [normal(2, 3)], _norm, 1),
    alike("euclidean_norm-complex", squares.euclidean_norm, [complex_normal(2, 3)], _norm, 1),
    Sample(
        "spread",
        lambda x: axes.spread(reduction.sum(x, 0), (2, 3), (0,), False),
        [normal(2, 3)],
        lambda x: x.sum(0, keepdims=True),
    ),
]
