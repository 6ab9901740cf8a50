"""set_random_seed: seed all random number generators."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from tapegrad.errors import ArgumentError
from tapegrad.ops.random.generator import set_seed


def set_random_seed(seed: Any) -> None:
    """Seed the generators of Python, NumPy and tapegrad.

    >>> import tapegrad
    >>> set_random_seed(3)
    >>> first = float(tapegrad.random.normal([]))
    >>> set_random_seed(3)
    >>> float(tapegrad.random.normal([])) == first
    True
    """
    if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < 2**32:
        raise ArgumentError(f"A seed must be an integer from 0 to 2**32 - 1. Got {seed!r}.")
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002  # seeds the global generator on purpose
    set_seed(seed)
