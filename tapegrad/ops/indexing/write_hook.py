"""The hook by which one number is written into a tensor without a new array."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

NumberWriter = Callable[[Any, Any, Any], bool]

_writer: list[NumberWriter] = []


def set_number_writer(writer: NumberWriter) -> None:
    """Register the function that does `x[index] = value` in place, or returns False."""
    _writer[:] = [writer]


def write_number(x: Any, index: Any, value: Any) -> bool:
    """Try to do `x[index] = value` in place; return whether it was done."""
    return bool(_writer) and _writer[0](x, index, value)
