"""The hook by which vmap makes random draws produce one value per example."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Shape = tuple[int, ...]
Make = Callable[[Shape], Any]

_spread: list[Callable[[Make, Shape], Any]] = []


def register_spread(spread: Callable[[Make, Shape], Any]) -> None:
    """Register the function that calls `make` with the shape for all examples of active vmaps."""
    _spread[:] = [spread]


def each_example(make: Make, shape: Shape) -> Any:
    """Return `make(shape)`; inside vmap, one value per example from a single call."""
    return _spread[0](make, shape) if _spread else make(shape)
