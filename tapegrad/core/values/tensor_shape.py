"""Shapes as TensorFlow has them: tuples with a rank, in which None stands for any length."""

from __future__ import annotations

import math
from operator import index
from typing import Any, Self, SupportsIndex, overload

from tapegrad.core.argument_checks import described
from tapegrad.errors import ArgumentTypeError, ShapeError

_item = tuple.__getitem__


class TensorShape(tuple[int, ...]):
    """A shape: a tuple with TensorFlow's methods; sums of shapes and lists are shapes.

    Lengths that are not known are None. `TensorShape(None)` is a shape of unknown rank.

    >>> TensorShape((2, 3)).rank, TensorShape((2, 3)).num_elements()
    (2, 6)
    >>> (TensorShape((2, 3)) + [None]).as_list()
    [2, 3, None]
    """

    __slots__ = ()

    def __new__(cls, dims: Any = ()) -> Self:
        if dims is None or isinstance(dims, UnknownShape):
            return tuple.__new__(UnknownShape)  # type: ignore[return-value]
        if isinstance(dims, int):
            dims = (dims,)
        try:
            lengths = [n if n is None or isinstance(n, int) else index(n) for n in dims]
        except TypeError:
            raise ArgumentTypeError(
                f"A shape needs integers and None. Got {described(dims)}."
            ) from None
        return tuple.__new__(cls, lengths)

    @overload
    def __getitem__(self, key: SupportsIndex) -> int: ...

    @overload
    def __getitem__(self, key: slice) -> TensorShape: ...

    def __getitem__(self, key: Any) -> Any:
        """Return a length, or the shape of several axes."""
        found = _item(self, key)
        return tuple.__new__(TensorShape, found) if type(found) is tuple else found

    @property
    def rank(self) -> int:
        return len(self)

    ndims = rank

    @property
    def dims(self) -> Any:
        """The lengths as a list, None for an unknown rank."""
        return list(self)

    def as_list(self) -> list[Any]:
        return list(self)

    def num_elements(self) -> Any:
        """Return the product of the lengths, None if one is not known."""
        return None if None in self else math.prod(self)

    def is_fully_defined(self) -> bool:
        return None not in self

    def is_compatible_with(self, other: Any) -> bool:
        """Return whether some shape fits both.

        >>> TensorShape((None, 3)).is_compatible_with((2, 3))
        True
        """
        theirs = TensorShape(other)
        if isinstance(theirs, UnknownShape):
            return True
        return len(self) == len(theirs) and all(
            None in (a, b) or a == b for a, b in zip(self, theirs)
        )

    def assert_is_compatible_with(self, other: Any) -> None:
        """Raise a ShapeError if no shape fits both."""
        if not self.is_compatible_with(other):
            raise ShapeError(f"Shapes {self} and {TensorShape(other)} are not compatible.")

    def assert_has_rank(self, rank: int) -> None:
        """Raise a ShapeError if the rank is another one."""
        self.with_rank(rank)

    def assert_is_fully_defined(self) -> None:
        """Raise a ShapeError if a length is not known."""
        if not self.is_fully_defined():
            raise ShapeError(f"Shape {self} has lengths that are not known.")

    def merge_with(self, other: Any) -> TensorShape:
        """Return the lengths that one of two compatible shapes knows.

        >>> TensorShape((None, 3)).merge_with((2, None)).as_list()
        [2, 3]
        """
        self.assert_is_compatible_with(other)
        theirs = TensorShape(other)
        if isinstance(theirs, UnknownShape):
            return self
        ours: list[Any] = list(self)
        return TensorShape([b if a is None else a for a, b in zip(ours, theirs)])

    def concatenate(self, other: Any) -> TensorShape:
        """Return the shape of the lengths of both.

        >>> TensorShape((2,)).concatenate([3]).as_list()
        [2, 3]
        """
        joined: TensorShape = self + TensorShape(other)
        return joined

    def with_rank(self, rank: int) -> TensorShape:
        """Return this shape, or raise a ShapeError if it has another rank."""
        if len(self) != rank:
            raise ShapeError(f"Shape {self} must have rank {rank}.")
        return self

    def with_rank_at_least(self, rank: int) -> TensorShape:
        """Return this shape, or raise a ShapeError if it has fewer axes."""
        if len(self) < rank:
            raise ShapeError(f"Shape {self} must have at least rank {rank}.")
        return self

    def with_rank_at_most(self, rank: int) -> TensorShape:
        """Return this shape, or raise a ShapeError if it has more axes."""
        if len(self) > rank:
            raise ShapeError(f"Shape {self} must have at most rank {rank}.")
        return self

    def __add__(self, other: Any) -> Any:
        if isinstance(other, UnknownShape):
            return other
        if not isinstance(other, tuple | list):
            return NotImplemented
        return tuple.__new__(TensorShape, (*self, *other))

    def __radd__(self, other: Any) -> Any:
        if not isinstance(other, tuple | list):
            return NotImplemented
        return tuple.__new__(TensorShape, (*other, *self))

    def __reduce__(self) -> Any:
        return TensorShape, (tuple(self),)


class UnknownShape(TensorShape):
    """The shape of unknown rank, `TensorShape(None)`, which every shape fits.

    >>> TensorShape(None).rank is None, TensorShape(None).is_compatible_with((2, 3))
    (True, True)
    """

    __slots__ = ()

    rank: Any = None
    ndims: Any = None
    dims: Any = None

    def as_list(self) -> list[Any]:
        raise ShapeError("as_list() needs a shape of known rank.")

    def num_elements(self) -> None:
        return None

    def is_fully_defined(self) -> bool:
        return False

    def is_compatible_with(self, other: Any) -> bool:
        return True

    def merge_with(self, other: Any) -> TensorShape:
        return TensorShape(other)

    def with_rank(self, rank: int) -> TensorShape:
        return TensorShape([None] * rank)

    def with_rank_at_least(self, rank: int) -> TensorShape:
        return self

    def with_rank_at_most(self, rank: int) -> TensorShape:
        return self

    def __add__(self, other: Any) -> Any:
        return self

    def __radd__(self, other: Any) -> Any:
        return self

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return self
        return None

    def __reduce__(self) -> Any:
        return TensorShape, (None,)

    def __repr__(self) -> str:
        return "TensorShape(None)"
