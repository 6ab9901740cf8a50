"""`x.flat`: the elements of an array in C order, to iterate over, to read and to write."""

from __future__ import annotations

import math
import operator
from typing import Any, Self

import numpy as np

from tapegrad.core.values.convert import read_on_host, register_tensor_conversion_function
from tapegrad.errors import IndexOutOfRangeError, ShapeError
from tapegrad.numpy.creation import copy
from tapegrad.numpy.indexing import put
from tapegrad.numpy.manipulation import ravel
from tapegrad.numpy.values import as_array
from tapegrad.ops.indexing.functions import getitem


class FlatIterator:
    """The value of `x.flat`, like NumPy's `flatiter`.

    An index gives a copy, and an assignment writes to the array, whatever its shape and order.

    >>> x = as_array([[1.0, 2.0], [3.0, 4.0]])
    >>> x.T.flat[1] = 7.0
    >>> x.tolist(), [float(element) for element in x.flat]
    ([[1.0, 2.0], [7.0, 4.0]], [1.0, 2.0, 7.0, 4.0])
    """

    __slots__ = ("base", "index")
    __hash__ = None  # type: ignore[assignment]
    __array_ufunc__ = None

    def __init__(self, base: Any) -> None:
        self.base = base
        """The array."""
        self.index = 0
        """The number of the element that `next` returns."""

    @property
    def coords(self) -> tuple[int, ...]:
        """The index of the element that `next` returns, in the array."""
        places = np.unravel_index(self.index % max(len(self), 1), tuple(self.base.shape))
        return tuple([int(place) for place in places])

    def __len__(self) -> int:
        return math.prod(self.base.shape)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        if self.index >= len(self):
            raise StopIteration
        self.index += 1
        return self[self.index - 1]

    def __getitem__(self, index: Any) -> Any:
        part = getitem(ravel(self.base), self._one_index(index))
        return copy(part) if part.shape else part

    def __setitem__(self, index: Any, value: Any) -> None:
        if isinstance(index, tuple) and not index:
            raise IndexOutOfRangeError(
                "x.flat has no element without an index. Use x.flat[:] = value for all of them."
            )
        index = self._one_index(index)
        if index is not Ellipsis and not isinstance(index, slice):
            index = read_on_host(index, "x.flat[index] = value")
            if not index.shape and np.ndim(value):
                raise ShapeError(
                    "x.flat[i] = value needs one number. Got a value of "
                    f"{np.ndim(value)} dimensions; use x.flat[i : i + 1] for it."
                )
        try:
            places = np.arange(len(self))[index]
        except IndexError as error:
            raise IndexOutOfRangeError(
                f"x.flat has {len(self)} elements, and the index fits no part of them: {error}."
            ) from error
        if places.size:
            put(self.base, places, value)

    def _one_index(self, index: Any) -> Any:
        if not isinstance(index, tuple):
            return index
        if len(index) > 1:
            raise IndexOutOfRangeError(
                f"x.flat has one axis. Got {len(index)} indices; index x itself with them."
            )
        return index[0] if index else Ellipsis

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(ravel(self.base), dtype)

    def copy(self) -> Any:
        """Return the elements as a new array with one axis."""
        return copy(ravel(self.base))


def _comparison(name: str) -> Any:
    compare = getattr(operator, name)

    def method(self: FlatIterator, other: Any) -> Any:
        return compare(ravel(self.base), as_array(other))

    method.__name__ = name
    return method


for _name in ("__eq__", "__ne__", "__lt__", "__le__", "__gt__", "__ge__"):
    setattr(FlatIterator, _name, _comparison(_name))

register_tensor_conversion_function(FlatIterator, lambda flat: flat.copy())


def set_flat(x: Any, values: Any) -> None:
    """Write values to all elements in C order, repeated as needed: `x.flat = values`."""
    FlatIterator(x)[:] = values
