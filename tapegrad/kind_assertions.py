"""Assertions of `tapegrad.debugging` about dtypes, ranks and shapes, which are known at once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from tapegrad.core.values.convert import to_tensor
from tapegrad.core.values.dtypes import as_dtype
from tapegrad.errors import ArgumentError, ArgumentTypeError, ShapeError


def _failed(kind: type[Exception], message: str | None, why: str) -> None:
    raise kind(f"{message}. {why}" if message else why)


def assert_integer(x: Any, message: str | None = None, name: str | None = None) -> None:
    """Raise unless the dtype of a tensor is an integer dtype.

    >>> assert_integer([1, 2])
    """
    found = to_tensor(x).dtype
    if not np.issubdtype(found.dtype, np.integer):
        _failed(ArgumentTypeError, message, f"Expected a tensor of integers. Got {found.name}.")


def assert_type(
    tensor: Any, tf_type: Any, message: str | None = None, name: str | None = None
) -> None:
    """Raise unless a tensor has this dtype.

    >>> assert_type([1.0], "float32")
    """
    found, wanted = to_tensor(tensor).dtype.name, as_dtype(tf_type).name
    if found != wanted:
        _failed(ArgumentTypeError, message, f"Expected a tensor of {wanted}. Got {found}.")


def assert_same_float_dtype(tensors: Sequence[Any] | None = None, dtype: Any = None) -> Any:
    """Return the dtype that all tensors have, or raise unless it is one, of floats.

    >>> assert_same_float_dtype([[1.0], [2.0]]).name
    'float32'
    """
    given = [] if dtype is None else [as_dtype(dtype).name]
    names = {*given, *(to_tensor(x).dtype.name for x in tensors or ())} or {"float32"}
    first = sorted(names)[0]
    if len(names) > 1 or "float" not in first:
        raise ArgumentError(f"Expected tensors of one dtype of floats. Got {sorted(names)}.")
    return as_dtype(first)


def assert_scalar(tensor: Any, message: str | None = None, name: str | None = None) -> Any:
    """Return a tensor, or raise unless it has no axes.

    >>> assert_scalar(3.0).shape
    ()
    """
    found = to_tensor(tensor)
    if found.shape:
        _failed(ShapeError, message, f"Expected a scalar. Got a tensor of shape {found.shape}.")
    return found


def assert_rank_at_least(
    x: Any, rank: int, message: str | None = None, name: str | None = None
) -> None:
    """Raise unless a tensor has at least so many axes.

    >>> assert_rank_at_least([[1.0]], 1)
    """
    shape = to_tensor(x).shape
    if len(shape) < int(rank):
        why = f"Expected at least {int(rank)} axes. Got a tensor of shape {tuple(shape)}."
        _failed(ShapeError, message, why)


def assert_rank_in(
    x: Any, ranks: Iterable[int], message: str | None = None, name: str | None = None
) -> None:
    """Raise unless the number of axes of a tensor is one of these.

    >>> assert_rank_in([1.0], (1, 2))
    """
    shape, allowed = to_tensor(x).shape, [int(rank) for rank in ranks]
    if len(shape) not in allowed:
        why = f"Expected a rank in {allowed}. Got a tensor of shape {tuple(shape)}."
        _failed(ShapeError, message, why)


def assert_proper_iterable(values: Any) -> None:
    """Raise unless the value is an iterable other than a tensor, an array or a text.

    >>> assert_proper_iterable([1, 2])
    """
    if isinstance(values, str | bytes) or hasattr(values, "dtype"):
        raise ArgumentTypeError(f"Expected a list or a tuple. Got {type(values).__name__}.")
    if not isinstance(values, Iterable):
        raise ArgumentTypeError(f"Expected an iterable. Got {type(values).__name__}.")


def is_numeric_tensor(tensor: Any) -> bool:
    """Return whether a value is a tensor of numbers.

    >>> is_numeric_tensor(to_tensor(1.0)), is_numeric_tensor("text")
    (True, False)
    """
    dtype = getattr(tensor, "dtype", None)
    return dtype is not None and np.issubdtype(as_dtype(dtype).dtype, np.number)


def assert_shapes(
    shapes: Any, data: Any = None, summarize: Any = None, message: str | None = None,
    name: str | None = None,
) -> None:  # fmt: skip
    """Raise unless tensors have these shapes: equal symbols are equal sizes; None is any size.

    A shape is a tuple of numbers and symbols; `...` stands for any number of axes. A text of one
    letter per axis is also a shape.

    >>> assert_shapes([([[1.0, 2.0]], ("N", 2)), ([3.0], ("N",))])
    """
    pairs = shapes.items() if hasattr(shapes, "items") else shapes
    known: dict[Any, int] = {}
    for x, wanted in pairs:
        found = tuple(int(n) for n in to_tensor(x).shape)
        symbols = list(wanted) if isinstance(wanted, Iterable) else [wanted]
        for symbol, size in _matched(symbols, found, message):
            if symbol in (None, "*", "."):
                continue
            expected = symbol if isinstance(symbol, int) else known.setdefault(symbol, size)
            if expected != size:
                why = f"Expected a shape of {tuple(symbols)} with {symbol!r} = {expected}."
                _failed(ShapeError, message, f"{why} Got {found}.")


def _matched(
    symbols: list[Any], found: tuple[int, ...], message: str | None
) -> list[tuple[Any, int]]:
    if ... in symbols:
        before = symbols.index(...)
        after = len(symbols) - before - 1
        if len(found) >= before + after:
            last = list(zip(symbols[before + 1 :], found[len(found) - after :]))
            return [*zip(symbols[:before], found), *last]
    elif len(symbols) == len(found):
        return list(zip(symbols, found))
    _failed(ShapeError, message, f"Expected a shape of {tuple(symbols)}. Got {found}.")
    return []
