"""One seed for all generators of random numbers."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from tapegrad.errors import ArgumentError
from tapegrad.ops.random_generator import set_seed


def set_random_seed(seed: Any) -> None:
    """Start the generators of Python, NumPy and tapegrad anew from this seed.

    >>> import tapegrad
    >>> set_random_seed(3)
    >>> first = float(tapegrad.random.normal([]))
    >>> set_random_seed(3)
    >>> float(tapegrad.random.normal([])) == first
    True
    """
    if not isinstance(seed, int) or isinstance(seed, bool) or not 0 <= seed < 2**32:
        raise ArgumentError(f"A seed is a whole number from 0 to 2**32 - 1. Got {seed!r}.")
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002  # whoever draws from NumPy's global generator is meant
    set_seed(seed)
