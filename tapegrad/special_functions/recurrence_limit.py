"""A limit on recurrences over the order: each step is an operation on tensors."""

from __future__ import annotations

from tapegrad.core.argument_checks import described
from tapegrad.errors import OutOfRangeError

MOST_STEPS = 10_000_000


def check_steps(n: int, name: str) -> int:
    """Return an order or degree, or raise if its recurrence would run for hours.

    >>> check_steps(3, "jn")
    3
    """
    if abs(n) > MOST_STEPS:
        raise OutOfRangeError(
            f"{name} runs one step for each order and takes at most {MOST_STEPS} of them. "
            f"Got {described(n)}."
        )
    return n
