"""The hook by which one number is written into a tensor without a new array."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

NumberWriter = Callable[[Any, Any, Any], bool]
NumberCopier = Callable[[Any, Any, Any], Any]

_writer: list[NumberWriter] = []
_copier: list[NumberCopier] = []


def set_number_writer(writer: NumberWriter, copier: NumberCopier) -> None:
    """Register the function that does `x[index] = value` in place, or returns False.

    `copier` takes the array of `x` and returns a copy with the value, or None.
    """
    _writer[:] = [writer]
    _copier[:] = [copier]


def write_number(x: Any, index: Any, value: Any) -> bool:
    """Try to do `x[index] = value` in place; return whether it was done."""
    return bool(_writer) and _writer[0](x, index, value)


def with_number(array: Any, index: Any, value: Any) -> Any:
    """Return a copy of an array with one other number, or None for the general way."""
    return _copier[0](array, index, value) if _copier else None
