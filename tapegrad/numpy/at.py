"""`x.at[index].set(v)`: updated copies of an array, without writing into it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.numpy.values import as_array, dtype_of, with_dtype
from tapegrad.ops.elementwise.arithmetic import divide, multiply
from tapegrad.ops.elementwise.powers import power
from tapegrad.ops.elementwise.selection import maximum, minimum
from tapegrad.ops.indexing.functions import getitem, index_add, index_update
from tapegrad.ops.indexing.gather import place_next_to
from tapegrad.ops.indexing.segment_functions import (
    unsorted_segment_max,
    unsorted_segment_min,
    unsorted_segment_prod,
)
from tapegrad.ops.shape.functions import broadcast_to, reshape


class Places:
    """The value of `x.at`: `x.at[index]` selects elements of the array.

    >>> as_array([1.0, 2.0]).at[0].set(5.0).tolist()
    [5.0, 2.0]
    """

    __slots__ = ("_array",)

    def __init__(self, array: Any) -> None:
        self._array = array

    def __getitem__(self, index: Any) -> Place:
        return Place(self._array, index)


class Place:
    """Selected elements of an array; each method returns a copy of the array that differs there.

    If an index occurs twice, both values take effect, except for `set`, `power` and `apply`, where
    only the last one does.

    >>> as_array([1.0, 2.0]).at[[0, 0]].add(1.0).tolist()
    [3.0, 2.0]
    >>> as_array([1.0, 2.0]).at[[0, 0]].multiply([3.0, 5.0]).tolist()
    [15.0, 2.0]
    """

    __slots__ = ("_array", "_index")

    def __init__(self, array: Any, index: Any) -> None:
        self._array, self._index = array, index

    def _value(self, value: Any) -> Any:
        return with_dtype(as_array(value), dtype_of(self._array))

    def _changed(self, function: Callable[[Any, Any], Any], value: Any) -> Any:
        new = function(self.get(), self._value(value))
        return index_update(self._array, self._index, new)

    def _all_at_once(
        self, function: Callable[[Any, Any], Any], reduce: Callable[..., Any], value: Any
    ) -> Any:
        """Apply the function once per element, to all values for that element reduced to one."""
        if not _may_repeat(self._index):
            return self._changed(function, value)
        shape = tuple(self._array.shape)
        size = math.prod(shape)
        numbers = place_next_to(self._array, np.arange(size).reshape(shape))
        places = getitem(numbers, self._index)
        values = broadcast_to(self._value(value), tuple(places.shape))
        reduced = reduce(reshape(values, (-1,)), reshape(places, (-1,)), size)
        return function(self._array, reshape(reduced, shape))

    def get(self) -> Any:
        """Return the selected elements."""
        return getitem(self._array, self._index)

    def set(self, value: Any) -> Any:
        """Return the array with the selected elements set to a value."""
        return index_update(self._array, self._index, self._value(value))

    def add(self, value: Any) -> Any:
        """Return the array with a value added to the selected elements; repeated indices add up."""
        return index_add(self._array, self._index, self._value(value))

    def subtract(self, value: Any) -> Any:
        """Return the array with a value subtracted from the selected elements."""
        return index_add(self._array, self._index, -self._value(value))

    def multiply(self, value: Any) -> Any:
        """Return the array with the selected elements multiplied by a value."""
        return self._all_at_once(multiply, unsorted_segment_prod, value)

    def divide(self, value: Any) -> Any:
        """Return the array with the selected elements divided by a value."""
        return self._all_at_once(divide, unsorted_segment_prod, value)

    def power(self, value: Any) -> Any:
        """Return the array with the selected elements raised to a power."""
        return self._changed(power, value)

    def min(self, value: Any) -> Any:
        """Return the array with the selected elements replaced by their minimum with a value."""
        return self._all_at_once(minimum, unsorted_segment_min, value)

    def max(self, value: Any) -> Any:
        """Return the array with the selected elements replaced by their maximum with a value."""
        return self._all_at_once(maximum, unsorted_segment_max, value)

    def apply(self, function: Callable[[Any], Any]) -> Any:
        """Return the array with a function applied to the selected elements."""
        return index_update(self._array, self._index, self._value(function(self.get())))

    mul, div, pow, sub = multiply, divide, power, subtract


def _may_repeat(index: Any) -> bool:
    """Return whether an index contains an array of integers, which may repeat."""
    parts = index if isinstance(index, tuple) else (index,)
    return any(
        isinstance(part, list) or (np.ndim(part) > 0 and "bool" not in str(part.dtype))
        for part in parts
        if isinstance(part, list) or hasattr(part, "dtype")
    )
