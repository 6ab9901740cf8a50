"""Whether the result of a recorded call shares memory with an operand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

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
            owners = {id(_owner(operand)) for operand in operands if type(operand) not in NUMBERS}
        if id(_owner(result)) in owners:
            return True
    return False


def _owner(array: Any) -> Any:
    """Return the owner of an array's memory: a device allocation, or the base array."""
    if (type(array) is np.ndarray and array.base is None) or isinstance(array, np.generic):
        return array  # most arrays; a NumPy scalar shares no memory
    if not isinstance(array, np.ndarray):
        return getattr(getattr(array, "data", None), "mem", array)
    while getattr(array, "base", None) is not None:
        array = array.base
    return array
