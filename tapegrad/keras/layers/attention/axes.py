"""Attention along several axes: the axes are joined into one, and parted again afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from tapegrad.errors import ArgumentError
from tapegrad.ops.shape.functions import permute_dims, reshape

Shape = tuple[int | None, ...]


def attended_axes(given: Any, rank: int, title: str) -> tuple[int, ...]:
    """Return the axes along which queries attend, from 0; None stands for all but the outer two.

    >>> attended_axes(None, 4, "It"), attended_axes(-2, 4, "It")
    ((1, 2), (2,))
    """
    if given is None:
        return tuple(range(1, rank - 1))
    axes = (given,) if isinstance(given, int) else tuple(given)
    found = tuple(sorted({axis % rank for axis in axes if -rank <= axis < rank}))
    if len(found) != len(axes) or not found or found[0] == 0 or found[-1] == rank - 1:
        raise ArgumentError(
            f"{title} takes attention_axes between the batch and the features. Got "
            f"attention_axes={given} for inputs of {rank} dimensions."
        )
    return found


def order(axes: Sequence[int], rank: int) -> list[int]:
    """Return all axes in the order: not attended, attended, features.

    >>> order((1,), 4)
    [0, 2, 1, 3]
    """
    return [n for n in range(rank - 1) if n not in axes] + [*axes, rank - 1]


def joined_shape(shape: Sequence[int | None], axes: Sequence[int]) -> Shape:
    """Return the shape of an input after `joined`.

    >>> joined_shape((None, 3, 4, 8), (1, 2))
    (None, 12, 8)
    """
    sizes = [shape[axis] for axis in axes]
    length = None if None in sizes else prod(n for n in sizes if n is not None)
    others = [n for axis, n in enumerate(shape[:-1]) if axis not in axes]
    return (*others, length, shape[-1])


def joined(x: Any, axes: Sequence[int]) -> Any:
    """Return an input with its attended axes joined into the second-to-last one."""
    shape = joined_shape(tuple(x.shape), axes)
    return reshape(permute_dims(x, order(axes, len(x.shape))), shape)


def parted(x: Any, axes: Sequence[int], sizes: Sequence[int]) -> Any:
    """Return a result with the attended axes, of these sizes, in their places again."""
    others = tuple(x.shape[:-2])
    rank = len(others) + len(axes) + 1
    moved = order(axes, rank)
    x = reshape(x, (*others, *sizes, x.shape[-1]))
    return permute_dims(x, [moved.index(axis) for axis in range(rank)])


def joined_mask(mask: Any, lengths: Sequence[int], axes: Sequence[int]) -> Any:
    """Return a mask `[..., queries, keys]` whose attended axes are joined into one per side."""
    if mask is None or len(axes) == 1 or len(mask.shape) < 2 * len(axes):
        return mask
    return reshape(mask, (*mask.shape[: -2 * len(axes)], *lengths))
