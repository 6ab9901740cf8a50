"""Iteration spaces of loops, and the shapes in which values broadcast to them.

A space is a shape without axes of length 1, so that values that differ only in those have the same
space. Views are resolved to the values that they show.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

from tapegrad.program.graph.graph import Call, Shape, Value

VIEWS = frozenset({"reshape", "broadcast_to"})


def space_of(shape: Shape) -> Shape:
    """Return a shape without its axes of length 1."""
    return tuple(size for size in shape if size != 1)


def rows_of(shape: Shape, axes: tuple[int, ...]) -> tuple[int, int, int] | None:
    """Return how many rows an array has along axes, their length and the stride of elements.

    None if the axes are not next to each other.

    >>> rows_of((8, 5, 3), (1,)), rows_of((8, 5, 3), (1, 2)), rows_of((8, 5, 3), (0, 2))
    ((24, 5, 3), (8, 15, 1), None)
    """
    if not axes or axes != tuple(range(axes[0], axes[-1] + 1)):
        return None
    before, after = prod(shape[: axes[0]]), prod(shape[axes[-1] + 1 :])
    return before * after, prod(shape[axis] for axis in axes), after


def is_view(call: Call) -> bool:
    """Whether a call only inserts or removes axes of length 1, or broadcasts."""
    name = call.primitive.name
    if name == "broadcast_to":
        return True
    return name == "reshape" and space_of(call.reads[0].shape) == space_of(call.results[0].shape)


def seen_from(value: Value, shape: Shape, makers: Mapping[int, Call]) -> tuple[Value, Shape]:
    """Return the value behind views, and its lengths along the axes of the space of `shape`.

    `makers` are the calls by the numbers of their results.
    """
    offset = len(shape) - len(value.shape)
    axes: list[int | None] = [
        offset + axis if size != 1 else None for axis, size in enumerate(value.shape)
    ]
    call = makers.get(value.number)
    while call is not None and is_view(call):
        source = call.reads[0]
        axes = _axes_before(call, source, value, axes)
        value = source
        call = makers.get(value.number)
    lengths = [1] * len(shape)
    for axis, size in zip(axes, value.shape):
        if axis is not None:
            lengths[axis] = size
    return value, tuple(length for length, size in zip(lengths, shape) if size != 1)


def _axes_before(
    call: Call, source: Value, value: Value, axes: Sequence[int | None]
) -> list[int | None]:
    """Map the axes of a view's source to axes of the space, given those of the view."""
    if call.primitive.name == "reshape":
        places = iter([axis for axis, size in zip(axes, value.shape) if size != 1])
        return [next(places) if size != 1 else None for size in source.shape]
    offset = len(value.shape) - len(source.shape)
    return [axes[offset + axis] if size != 1 else None for axis, size in enumerate(source.shape)]


def seen_through(inner: Shape, outer: Shape) -> Shape:
    """Compose two shapes: `inner` in a space that is seen as `outer` in another space."""
    lengths = iter(inner)
    return tuple(next(lengths) if size != 1 else 1 for size in outer)
