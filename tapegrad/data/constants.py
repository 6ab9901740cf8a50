"""Sentinels: AUTOTUNE and cardinalities."""

from __future__ import annotations

from typing import Any

from tapegrad.errors import ArgumentError, ArgumentTypeError

AUTOTUNE = -1
"""As `num_parallel_calls` or a buffer size: choose a number for this machine."""

INFINITE_CARDINALITY = -1
"""The cardinality of an infinite dataset."""

UNKNOWN_CARDINALITY = -2
"""The cardinality of a dataset whose length is only known after reading it."""


def checked_count(value: Any, step: str, name: str, least: int) -> int:
    """Return a count as an int, or raise an error that names the step and the argument."""
    try:
        count = value.__index__()
    except (AttributeError, TypeError):
        raise ArgumentTypeError(
            f"{step} takes an integer as {name}. Got {type(value).__name__}: {value!r}."
        ) from None
    if count < least:
        raise ArgumentError(f"{step} needs a {name} of at least {least}. Got {count}.")
    return int(count)
