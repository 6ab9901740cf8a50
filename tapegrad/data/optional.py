"""A value that may be missing, as the next element of an iterator is at its end."""

from __future__ import annotations

from typing import Any

from tapegrad.errors import ArgumentError

_MISSING: Any = object()


class Optional:
    """A value, or none: the result of an iterator's `get_next_as_optional`.

    >>> Optional.from_value(3).get_value(), bool(Optional.empty().has_value())
    (3, False)
    """

    __slots__ = ("_value",)

    def __init__(self, value: Any = _MISSING) -> None:
        self._value = value

    @classmethod
    def from_value(cls, value: Any) -> Optional:
        """Return an optional that has a value."""
        return cls(value)

    @classmethod
    def empty(cls, element_spec: Any = None) -> Optional:
        """Return an optional without a value."""
        return cls()

    def has_value(self, name: str | None = None) -> bool:
        """Return whether there is a value."""
        return self._value is not _MISSING

    def get_value(self, name: str | None = None) -> Any:
        """Return the value, or raise an error if there is none."""
        if self._value is _MISSING:
            raise ArgumentError("The optional has no value. Ask has_value() before get_value().")
        return self._value
