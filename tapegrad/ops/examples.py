"""One value per example: how random draws learn of the vmaps around them, which lie above ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Shape = tuple[int, ...]
Make = Callable[[Shape], Any]

_spread: list[Callable[[Make, Shape], Any]] = []


def register_spread(spread: Callable[[Make, Shape], Any]) -> None:
    """Set the function that calls `make` with a shape for all examples of the running vmaps."""
    _spread[:] = [spread]


def each_example(make: Make, shape: Shape) -> Any:
    """Make a value of `shape`; inside vmap, one per example by a single call."""
    return _spread[0](make, shape) if _spread else make(shape)
