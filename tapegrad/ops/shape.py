"""Changing shape without changing values: reshape, transpose, broadcast and what follows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapegrad.core.operand import as_operand
from tapegrad.errors import ShapeError
from tapegrad.ops.basic import broadcast_p, permute_p, reshape_p

Axes = int | Sequence[int] | None


def reshape(x: Any, shape: Sequence[int] | int) -> Any:
    """Return the values of `x` in another shape; one entry may be -1.

    >>> import tapegrad
    >>> reshape(tapegrad.constant([1.0, 2.0, 3.0, 4.0]), (2, -1)).shape
    (2, 2)
    """
    x = as_operand(x)
    return reshape_p(x, shape=_fill_in(tuple(x.shape), shape))


def _fill_in(old: tuple[int, ...], shape: Sequence[int] | int) -> tuple[int, ...]:
    """Replace -1 by the length that keeps the number of elements."""
    wanted = (int(shape),) if _is_number(shape) else tuple(int(n) for n in shape)  # type: ignore
    size = _count(old)
    if wanted.count(-1) == 1:
        known = _count(tuple(n for n in wanted if n != -1))
        if known and size % known == 0:
            return tuple(size // known if n == -1 else n for n in wanted)
    if wanted.count(-1) or _count(wanted) != size:
        raise ShapeError(f"reshape cannot turn shape {old} ({size} elements) into {wanted}.")
    return wanted


def _is_number(value: Any) -> bool:
    return getattr(value, "ndim", None) == 0 or isinstance(value, int)


def _count(shape: tuple[int, ...]) -> int:
    count = 1
    for n in shape:
        count *= n
    return count


def broadcast_to(x: Any, shape: Sequence[int]) -> Any:
    """Return `x` repeated along new or unit axes to fill `shape`.

    >>> import tapegrad
    >>> broadcast_to(tapegrad.constant([1.0, 2.0]), (3, 2)).shape
    (3, 2)
    """
    x = as_operand(x)
    wanted = tuple(int(n) for n in shape)
    tail = wanted[len(wanted) - x.ndim :]
    if len(wanted) < x.ndim or any(
        have not in (1, want) for have, want in zip(x.shape, tail, strict=True)
    ):
        raise ShapeError(f"broadcast_to cannot stretch shape {tuple(x.shape)} to {wanted}.")
    return broadcast_p(x, shape=wanted)


def permute_dims(x: Any, axes: Sequence[int] | None = None) -> Any:
    """Return `x` with its axes in the given order (reversed by default).

    >>> import tapegrad
    >>> permute_dims(tapegrad.constant([[1.0, 2.0, 3.0]])).shape
    (3, 1)
    """
    x = as_operand(x)
    order = tuple(range(x.ndim))[::-1] if axes is None else tuple(int(a) for a in axes)
    normal = tuple(a + x.ndim if a < 0 else a for a in order)
    if sorted(normal) != list(range(x.ndim)):
        raise ShapeError(f"axes must be a permutation of {list(range(x.ndim))}. Got {order}.")
    return permute_p(x, axes=normal)
