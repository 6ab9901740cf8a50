"""Samples of short compositions and of control flow."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.ops import composed
from tapegrad.ops.control import control_flow
from tapegrad.testing.sample import Sample, ValueSample, fixed, integers, named, normal


def _reversed(x: Any, lengths: Any) -> Any:
    result = np.array(x)
    for row, length in enumerate(lengths):
        result[row, :length] = x[row, :length][::-1]
    return result


def _confusion(labels: Any, predictions: Any) -> Any:
    counts = np.zeros((3, 3))
    np.add.at(counts, (labels, predictions), 1)
    return counts


SAMPLES = [
    named(composed.scalar_mul, [normal(), normal(3)], np.multiply),
    ValueSample(
        "reciprocal_no_nan",
        composed.reciprocal_no_nan,
        [fixed([2.0, 0.0, -0.5])],
        lambda x: np.array([0.5, 0.0, -2.0]),
        order=0,  # not differentiable at 0
    ),
    Sample(
        "polyval",
        lambda a, b, c, x: composed.polyval([a, b, c], x),
        [normal(), normal(), normal(), normal(3)],
        lambda a, b, c, x: np.polyval([a, b, c], x),
    ),
    ValueSample(
        "saturate_cast",
        lambda x: composed.saturate_cast(x, "int8"),
        [fixed([-1e3, 3.7, 1e3])],
        lambda x: np.array([-128, 3, 127]),
    ),
    named(composed.bias_add, [normal(2, 3), normal(3)], np.add),
    Sample(
        "bias_add-channels-first",
        lambda x, b: composed.bias_add(x, b, "NCHW"),
        [normal(2, 3, 2, 2), normal(3)],
        lambda x, b: x + b[:, None, None],
    ),
    ValueSample("invert_permutation", composed.invert_permutation, [fixed([2, 0, 1])], np.argsort),
    ValueSample(
        "is_non_decreasing",
        composed.is_non_decreasing,
        [normal(3)],
        lambda x: np.all(np.diff(x) >= 0),
    ),
    ValueSample(
        "is_strictly_increasing",
        composed.is_strictly_increasing,
        [normal(2)],
        lambda x: np.all(np.diff(x) > 0),
    ),
    ValueSample(
        "confusion_matrix",
        lambda labels, predictions: composed.confusion_matrix(labels, predictions, 3),
        [integers(0, 3, 5), integers(0, 3, 5)],
        _confusion,
    ),
    Sample(
        "reverse_sequence",
        lambda x, lengths: composed.reverse_sequence(x, lengths, seq_axis=1),
        [normal(3, 4, 2), fixed([0, 2, 4])],
        _reversed,
    ),
    Sample(
        "map_fn", lambda x: control_flow.map_fn(lambda row: row * row, x), [normal(3, 2)], np.square
    ),
    Sample(
        "scan",
        lambda x: control_flow.scan(lambda a, b: a * b, x),
        [normal(3, 2)],
        lambda x: np.cumprod(x, 0),
    ),
]
