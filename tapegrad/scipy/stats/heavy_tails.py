"""Moments of heavy-tailed distributions, which exist for some shapes only."""

from __future__ import annotations

import math
from typing import Any

from tapegrad.scipy.stats.family import Formula
from tapegrad.scipy.vocabulary import where


def finite_above(bound: float, x: Any, formula: Formula) -> Any:
    """Return formula(x) where x is above the bound, and infinity elsewhere.

    >>> import tapegrad
    >>> finite_above(1.0, tapegrad.constant([0.5, 3.0]), lambda b: 1 / (b - 1)).tolist()
    [inf, 0.5]
    """
    is_finite = x > bound
    return where(is_finite, formula(where(is_finite, x, bound + 1)), math.inf)
