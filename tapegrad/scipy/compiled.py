"""Solvers of many problems as recorded functions, one per user's function and options."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tapegrad.autodiff.batching import vmap
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.program.function_decorator import function
from tapegrad.scipy.vocabulary import operand

_known: weakref.WeakKeyDictionary[Any, dict[Any, Any]] = weakref.WeakKeyDictionary()


def solve_together(
    user: Callable[..., Any],
    solve_one: Callable[..., Any],
    given: Sequence[Any],
    axes: Sequence[int | None],
    options: Any,
) -> Any:
    """Call `solve_one` for all problems in one recorded function, kept as long as `user` is.

    `options` are all other values that `solve_one` reads.

    >>> def shift(x):
    ...     return x + 1.0
    >>> solve_together(shift, lambda x: shift(x) * 2.0, [[1.0, 2.0]], [0], "double").tolist()
    [4.0, 6.0]
    """
    arrays = [operand(value) for value in given]
    counts = {
        int(array.shape[axis]) for array, axis in zip(arrays, axes, strict=True) if axis is not None
    }
    if len(counts) > 1:
        raise ShapeError(
            "All arguments need the same number of problems along their axes of problems. "
            f"Got {sorted(counts)}."
        )
    try:
        programs = _known.setdefault(user, {})
    except TypeError:  # a callable without weak references
        programs = {}
    key = (tuple(axes), _frozen(options))
    if key not in programs:
        programs[key] = function(vmap(solve_one, in_axes=tuple(axes)))
    return programs[key](*arrays)


def _frozen(value: Any) -> Any:
    """Return a key that differs for values that differ."""
    if isinstance(value, dict):
        return tuple(sorted((name, _frozen(one)) for name, one in value.items()))
    if isinstance(value, list | tuple):
        return tuple(_frozen(one) for one in value)
    if isinstance(value, np.ndarray):
        return value.shape, value.dtype.str, value.tobytes()
    return value if getattr(type(value), "__hash__", None) else id(value)


def axes_of(in_axes: Any, count: int, name: str) -> list[int | None]:
    """Return one axis per argument.

    >>> axes_of(None, 2, "minimize")
    [None, None]
    """
    if not isinstance(in_axes, list | tuple):
        return [in_axes] * count
    if len(in_axes) != count:
        raise ArgumentError(
            f"in_axes of {name} must have one entry per extra argument: {count}. "
            f"Got {len(in_axes)}."
        )
    return list(in_axes)


def check_problems(value: Any, name: str, what: str) -> Any:
    """Return a value as a tensor with an axis of problems; raise if it has no axis.

    >>> tuple(check_problems([1.0, 2.0], "root", "x0").shape)
    (2,)
    """
    array = operand(value)
    if not array.ndim or not array.shape[0]:
        raise ShapeError(
            f"{name} needs one {what} per problem along axis 0. Got shape {array.shape}."
        )
    return array
