"""Samples of softmax and its logarithm."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.ops import softmax
from tapegrad.testing.sample import Sample, ValueSample, fixed, named, normal


def _softmax(x: Any, axis: int = -1) -> Any:
    weights = np.exp(x)
    return weights / weights.sum(axis, keepdims=True)


_MASKED = [[0.3, -np.inf, -0.2], [-np.inf, 1.1, -np.inf]]

SAMPLES = [
    named(softmax.softmax, [normal(2, 3)], _softmax),
    Sample("softmax-1d", softmax.softmax, [normal(4)], _softmax),
    Sample(
        "softmax-axis",
        lambda x: softmax.softmax(x, axis=1),
        [normal(2, 3, 4)],
        lambda x: _softmax(x, 1),
    ),
    Sample("softmax-empty", softmax.softmax, [normal(0, 3)], lambda x: x),
    # Adding 1e4 rounds the argument, and a difference of step 1e-4 magnifies that.
    Sample(
        "softmax-large", lambda x: softmax.softmax(x + 1e4), [normal(2, 3)], _softmax, rtol=1e-5
    ),
    Sample(
        "softmax-masked",
        lambda x: softmax.softmax(x + np.array(_MASKED)),
        [normal(2, 3)],
        lambda x: _softmax(x + np.array(_MASKED)),
    ),
    ValueSample(
        "softmax-all-masked", softmax.softmax, [fixed([[-np.inf] * 3])], lambda x: np.zeros((1, 3))
    ),
    named(softmax.log_softmax, [normal(2, 3)], lambda x: np.log(_softmax(x))),
    Sample(
        "log_softmax-axis",
        lambda x: softmax.log_softmax(x, axis=0),
        [normal(3, 2)],
        lambda x: np.log(_softmax(x, 0)),
    ),
]
