"""Shapes without their axes of length 1, and how a value is seen in the space of another.

A space is a shape with the axes of length 1 left out, so that values which differ only in those
have the same one. Values that are views of others are traced back to what they show.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tapegrad.program.graph import Call, Shape, Value

VIEWS = frozenset({"reshape", "broadcast_to"})


def space_of(shape: Shape) -> Shape:
    """A shape without its axes of length 1."""
    return tuple(size for size in shape if size != 1)


def is_view(call: Call) -> bool:
    """Whether a call only puts in or leaves out axes of length 1, or repeats along some."""
    name = call.primitive.name
    if name == "broadcast_to":
        return True
    return name == "reshape" and space_of(call.reads[0].shape) == space_of(call.results[0].shape)


def seen_from(value: Value, shape: Shape, makers: Mapping[int, Call]) -> tuple[Value, Shape]:
    """What a value shows that broadcasts to `shape`, and its lengths along the axes of the space.

    `makers` are the calls by the numbers of their results; views among them are followed.
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
    """For the axes of a view's source, where they lie in the space, given those of the view."""
    if call.primitive.name == "reshape":
        places = iter([axis for axis, size in zip(axes, value.shape) if size != 1])
        return [next(places) if size != 1 else None for size in source.shape]
    offset = len(value.shape) - len(source.shape)
    return [axes[offset + axis] if size != 1 else None for axis, size in enumerate(source.shape)]


def seen_through(inner: Shape, outer: Shape) -> Shape:
    """What has lengths `inner` in a space that itself is seen as `outer` in another space."""
    lengths = iter(inner)
    return tuple(next(lengths) if size != 1 else 1 for size in outer)
