"""Whether the result of a recorded call shares memory with an operand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tapegrad.core.memory_trace import owner_of
from tapegrad.core.values.convert import NUMBERS


def share_memory(results: Sequence[Any], operands: Sequence[Any]) -> bool:
    """Whether a result shares memory with an operand; numbers are no arrays.

    >>> x = np.ones([2, 3])
    >>> share_memory([x.T], [x]), share_memory([x + 1], [x])
    (True, False)
    """
    owners: set[int] | None = None
    for result in results:
        if type(result) is np.ndarray and result.base is None:  # most results
            for operand in operands:
                if operand is result or getattr(operand, "base", None) is result:
                    return True
            continue
        if owners is None:
            owners = {id(owner_of(operand)) for operand in operands if type(operand) not in NUMBERS}
        if id(owner_of(result)) in owners:
            return True
    return False
