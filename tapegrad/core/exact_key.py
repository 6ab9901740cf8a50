"""Cache keys that distinguish Python values as exactly as a computation does.

Python's `==` is too coarse for a cache of programs or kernels: 0.0 equals -0.0, 1 equals True and
1.0. It is also too fine: NaN differs from itself.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np


def exact_key(value: Any) -> Any:
    """Return a hashable key of a number, text, or tuple; other values are returned as they are.

    >>> exact_key(0.0) == exact_key(-0.0), exact_key((1, "a")) == exact_key((True, "a"))
    (False, False)
    >>> exact_key((1.0, float("nan"))) == exact_key((1.0, float("nan")))
    True
    """
    kind = type(value)
    if kind is float:
        is_plain = value == value and value != 0.0
        return (kind, value if is_plain else struct.pack("<d", value))
    if kind is complex:
        return (kind, struct.pack("<dd", value.real, value.imag))
    if kind is tuple:
        return (kind, *map(exact_key, value))
    if kind is slice:
        return (kind, exact_key(value.start), exact_key(value.stop), exact_key(value.step))
    if kind is frozenset:
        return (kind, frozenset(map(exact_key, value)))
    if isinstance(value, np.generic) and value.dtype.kind != "O":
        return (kind, value.dtype, value.tobytes())
    return (kind, value)
