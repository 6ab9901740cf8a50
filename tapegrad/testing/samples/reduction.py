"""Samples of reductions: sums, products, extrema, logic, norms, argmax and argmin."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tapegrad.ops.elementwise import exponential
from tapegrad.ops.reduction import axes, logsumexp, primitives as reduction, squares
from tapegrad.testing.sample import (
    Sample,
    ValueSample,
    alike,
    alike_in_value,
    booleans,
    complex_normal,
    distinct,
    fixed,
    integers,
    like_numpy,
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
    like_numpy(reduction.sum, [normal(2, 3)], 1, case="keepdims", keepdims=True),
    Sample("sum-no-axes", lambda x: reduction.sum(x, ()), [normal(2, 3)], lambda x: x),
    Sample("sum-0d", reduction.sum, [normal()], np.sum),
    like_numpy(reduction.sum, [normal(2, 0)], 1, case="empty"),
    like_numpy(reduction.sum, [complex_normal(2, 3)], 0, case="complex"),
    ValueSample("sum-integers", reduction.sum, [integers(0, 9, 2, 3)], np.sum),
    ValueSample("sum-booleans", reduction.sum, [booleans(2, 3)], np.sum),
    like_numpy(reduction.mean, [normal(2, 3)]),
    like_numpy(reduction.mean, [normal(2, 3, 4)], (0, -1), case="axis", keepdims=True),
    Sample("mean-0d", reduction.mean, [normal()], np.mean),
    Sample("mean-complex", reduction.mean, [complex_normal(2, 3)], np.mean),
    like_numpy(reduction.prod, [normal(2, 3)]),
    like_numpy(reduction.prod, [normal(2, 3, 2)], (0, 2), case="axis"),
    like_numpy(reduction.prod, [ONE_ZERO], 1, case="one-zero", keepdims=True),
    like_numpy(reduction.prod, [TWO_ZEROS], 1, case="two-zeros"),
    Sample("prod-all-zeros", lambda x: reduction.prod(x), [fixed([0.0, 0.0])], np.prod),
    like_numpy(reduction.prod, [complex_normal(3, 2)], 0, case="complex"),
    Sample("prod-0d", reduction.prod, [normal()], np.prod),
    ValueSample("prod-integers", reduction.prod, [integers(1, 4, 3)], np.prod),
    like_numpy(reduction.max, [distinct(2, 3)]),
    like_numpy(reduction.max, [distinct(2, 3, 2)], (0, 2), case="axis", keepdims=True),
    Sample(
        "max-last", lambda x: reduction.max(x * x, -1), [distinct(2, 3)], lambda x: (x * x).max(-1)
    ),
    alike_in_value("max-integers", reduction.max, [integers(0, 9, 2, 3)], np.max, 0),
    like_numpy(reduction.min, [distinct(2, 3)]),
    like_numpy(reduction.min, [distinct(2, 3)], 1, case="axis"),
    ValueSample(
        "ties",
        lambda x: reduction.ties_p(x, reduction.max(x, 1), axis=(1,), keepdims=False),
        [fixed([[1.0, 2.0, 2.0], [3.0, 0.0, 1.0]])],
        lambda x: np.array([[0.0, 0.5, 0.5], [1.0, 0.0, 0.0]]),
    ),
    alike_in_value("any", reduction.any, [booleans(2, 3)], np.any, 0),
    alike_in_value("all", reduction.all, [booleans(2, 3)], np.all, 1, keepdims=True),
    ValueSample("any-numbers", reduction.any, [integers(0, 2, 3)], np.any),
    ValueSample("count_nonzero", reduction.count_nonzero, [integers(0, 3, 2, 3)], np.count_nonzero),
    alike_in_value(
        "count_nonzero-axis",
        reduction.count_nonzero,
        [integers(0, 3, 2, 3)],
        np.count_nonzero,
        1,
        keepdims=True,
    ),
    ValueSample("argmax", reduction.argmax, [distinct(2, 3)], np.argmax),
    alike_in_value("argmax-axis", reduction.argmax, [distinct(2, 3)], np.argmax, -1, keepdims=True),
    ValueSample("argmin", reduction.argmin, [distinct(2, 3)], np.argmin),
    alike_in_value("argmin-axis", reduction.argmin, [distinct(2, 3)], np.argmin, 0),
    named(logsumexp.logsumexp, [normal(2, 3)], _logsumexp),
    alike("logsumexp-axis", logsumexp.logsumexp, [normal(2, 3, 2)], _logsumexp, (0, 2), True),
    Sample("logsumexp-0d", logsumexp.logsumexp, [normal()], _logsumexp),
    alike("logsumexp-lowest", logsumexp.logsumexp, [LOWEST], _logsumexp, 1),
    Sample(
        "exp_difference",
        exponential.exp_difference,
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
