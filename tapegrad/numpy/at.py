"""`x.at[index].set(v)`: changed copies, in place of writing into an array."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tapegrad.numpy.values import as_array, dtype_of, with_dtype
from tapegrad.ops.arithmetic import divide, multiply
from tapegrad.ops.indexing import getitem, index_add, index_update
from tapegrad.ops.powers import power
from tapegrad.ops.selection import maximum, minimum


class Places:
    """What `x.at` is: `x.at[index]` names a place in the array.

    >>> as_array([1.0, 2.0]).at[0].set(5.0).tolist()
    [5.0, 2.0]
    """

    __slots__ = ("_array",)

    def __init__(self, array: Any) -> None:
        self._array = array

    def __getitem__(self, index: Any) -> Place:
        return Place(self._array, index)


class Place:
    """A place in an array; each method returns a copy of the array that differs there.

    Where an index comes twice, `add` and `subtract` do both, the others the last one.

    >>> as_array([1.0, 2.0]).at[[0, 0]].add(1.0).tolist()
    [3.0, 2.0]
    """

    __slots__ = ("_array", "_index")

    def __init__(self, array: Any, index: Any) -> None:
        self._array, self._index = array, index

    def _value(self, value: Any) -> Any:
        return with_dtype(as_array(value), dtype_of(self._array))

    def _changed(self, function: Callable[[Any, Any], Any], value: Any) -> Any:
        new = function(self.get(), self._value(value))
        return index_update(self._array, self._index, new)

    def get(self) -> Any:
        """Return what is at the place."""
        return getitem(self._array, self._index)

    def set(self, value: Any) -> Any:
        """Return the array with a value at the place."""
        return index_update(self._array, self._index, self._value(value))

    def add(self, value: Any) -> Any:
        """Return the array with a value added at the place; repeated indices add up."""
        return index_add(self._array, self._index, self._value(value))

    def subtract(self, value: Any) -> Any:
        """Return the array with a value subtracted at the place."""
        return index_add(self._array, self._index, -self._value(value))

    def multiply(self, value: Any) -> Any:
        """Return the array multiplied by a value at the place."""
        return self._changed(multiply, value)

    def divide(self, value: Any) -> Any:
        """Return the array divided by a value at the place."""
        return self._changed(divide, value)

    def power(self, value: Any) -> Any:
        """Return the array raised to a power at the place."""
        return self._changed(power, value)

    def min(self, value: Any) -> Any:
        """Return the array with the smaller of what is there and a value."""
        return self._changed(minimum, value)

    def max(self, value: Any) -> Any:
        """Return the array with the larger of what is there and a value."""
        return self._changed(maximum, value)

    def apply(self, function: Callable[[Any], Any]) -> Any:
        """Return the array with a function applied at the place."""
        return index_update(self._array, self._index, self._value(function(self.get())))

    mul, div, pow, sub = multiply, divide, power, subtract
