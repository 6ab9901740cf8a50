"""The numbers with a meaning of their own: sizes that are not known, and choices left to us."""

from __future__ import annotations

from typing import Any

from tapegrad.errors import ArgumentError, ArgumentTypeError

AUTOTUNE = -1
"""As `num_parallel_calls` or a buffer size: choose a number that suits this machine."""

INFINITE_CARDINALITY = -1
"""The cardinality of a dataset without an end."""

UNKNOWN_CARDINALITY = -2
"""The cardinality of a dataset that has to be read to be counted."""


def checked_count(value: Any, step: str, name: str, least: int) -> int:
    """Return a count as an int, or raise a sentence that names the step and the argument."""
    try:
        count = value.__index__()
    except (AttributeError, TypeError):
        raise ArgumentTypeError(
            f"{step} takes a whole number as {name}. Got {type(value).__name__}: {value!r}."
        ) from None
    if count < least:
        raise ArgumentError(f"{step} needs a {name} of at least {least}. Got {count}.")
    return int(count)
