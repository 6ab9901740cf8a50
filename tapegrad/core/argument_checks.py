"""Check that an argument is one of a set of allowed values."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from tapegrad.errors import ArgumentError


def check_choice(name: str, value: Any, known: Collection[Any]) -> None:
    """Raise ArgumentError, with all allowed values, unless `value` is one of them.

    >>> check_choice("side", "left", ("left", "right"))
    """
    if value in known:
        return
    *others, last = [repr(word) for word in known]
    ways = f"{', '.join(others)} or {last}" if others else last
    if len(known) > 3:
        ways = f"one of {', '.join(map(str, known))}"
    raise ArgumentError(f"{name} must be {ways}. Got {value!r}.")
