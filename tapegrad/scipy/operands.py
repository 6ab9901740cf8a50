"""Small helpers for the arguments of SciPy's functions."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.core.values.convert import NUMBERS
from tapegrad.ops.creation import numpy_dtype_of
from tapegrad.ops.indexing.gather import take_p


def take(x: Any, index: Any) -> Any:
    """Return entries along axis 0 without checking the indices."""
    return take_p(x, index, axis=0)


def eps_of(x: Any) -> float:
    """Return the machine epsilon of a tensor's dtype.

    >>> from tapegrad.ops.casting.promotion import operand
    >>> eps_of(operand(1.0)) == 2.0**-52
    True
    """
    return float(np.finfo(numpy_dtype_of(x)).eps)


def is_number(value: Any, number: float) -> bool:
    """Whether the value is this Python number; a tensor never is.

    >>> is_number(1, 1), is_number(2.0, 1)
    (True, False)
    """
    return type(value) in NUMBERS and value == number


def arguments(args: Any) -> tuple[Any, ...]:
    """Return the extra arguments of a user's function as a tuple; a single value is wrapped.

    >>> arguments([1, 2]), arguments(3)
    ((1, 2), (3,))
    """
    return tuple(args) if isinstance(args, tuple | list) else (args,)
