"""The window of an operand that shows what a window of the result of an elementwise call shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from tapegrad.program.graph.graph import Call, Shape, Value

Index = tuple[slice | int, ...]
Ranges = tuple[slice, ...]


def moved_window(window: Call, operand: Value, shape: Shape, number: int) -> Call | None:
    """Return the same window of an operand that is broadcast to `shape`, with a new result.

    None if the window changes nothing of the operand: it has no axis along which the window moves.
    """
    params = _RULES[window.primitive.name](window.params, operand.shape, shape)
    if params is None:
        return None
    if window.primitive.name == "slice":
        new = shape_of_part(params["index"], operand.shape)
    else:
        first = len(shape) - len(operand.shape)
        own = zip(operand.shape, shape[first:], window.results[0].shape[first:])
        new = tuple(shown if n == whole else 1 for n, whole, shown in own)
    return replace(
        window,
        operands=(operand,),
        params=params,
        results=(replace(operand, number=number, shape=new),),
    )


def shape_of_part(index: Sequence[slice | int], shape: Shape) -> Shape:
    """Return the shape of a part of an array; the index has a part for each axis.

    >>> shape_of_part((slice(1, None, 2), 3, slice(None)), (6, 4, 5))
    (3, 5)
    """
    pairs = zip(index, shape, strict=True)
    return tuple(len(range(*part.indices(n))) for part, n in pairs if isinstance(part, slice))


def _along(axes: Sequence[int], operand: Shape, shape: Shape) -> list[tuple[int, int]]:
    """Return the positions in `axes` that an operand varies along, and its own axes there."""
    first = len(shape) - len(operand)
    own = [(k, axis % len(shape) - first) for k, axis in enumerate(axes)]
    return [(k, a) for k, a in own if a >= 0 and operand[a] == shape[first + a]]


def _slice(params: dict[str, Any], operand: Shape, shape: Shape) -> dict[str, Any] | None:
    index = _parts(params["index"], operand, shape)
    pairs = zip(index, operand)
    if all(isinstance(p, slice) and range(*p.indices(n)) == range(n) for p, n in pairs):
        return None
    return {**params, "index": index}


def _unslice(params: dict[str, Any], operand: Shape, shape: Shape) -> dict[str, Any] | None:
    first = len(shape) - len(operand)
    sizes = zip(operand, shape[first:], params["shape"][first:])
    whole = tuple(size if n == part else n for n, part, size in sizes)
    index = _parts(params["index"], operand, shape)
    places = [range(*part.indices(n)) for part, n in zip(index, whole) if isinstance(part, slice)]
    if whole == operand and places == [range(n) for n in operand]:
        return None
    return {**params, "index": index, "shape": whole}


def _parts(index: Sequence[slice | int], operand: Shape, shape: Shape) -> Index:
    """Return the index of an operand: the whole of axes along which it is broadcast."""
    first = len(shape) - len(operand)
    own = zip(_whole(index, shape)[first:], operand, shape[first:])
    return tuple(
        part if n == whole else slice(None) if isinstance(part, slice) else 0
        for part, n, whole in own
    )


def _roll(params: dict[str, Any], operand: Shape, shape: Shape) -> dict[str, Any] | None:
    own = _along(params["axis"], operand, shape)
    if not own:
        return None
    shift = tuple(params["shift"][k] for k, _ in own)
    return {**params, "shift": shift, "axis": tuple(axis for _, axis in own)}


def _flip(params: dict[str, Any], operand: Shape, shape: Shape) -> dict[str, Any] | None:
    own = _along(params["axis"], operand, shape)
    return {**params, "axis": tuple(axis for _, axis in own)} if own else None


def _take_runs(params: dict[str, Any], operand: Shape, shape: Shape) -> dict[str, Any] | None:
    own = _along([params["axis"]], operand, shape)
    return {**params, "axis": own[0][1]} if own else None


def has_unit_steps(window: Call) -> bool:
    """Whether a slice, or the place of a part among zeros, has a range for each of its axes."""
    return all(
        isinstance(part, slice) and part.step in (None, 1) for part in window.params["index"]
    )


def placed_part(window: Call, placed: Call) -> tuple[Ranges, Ranges] | None:
    """Return which part of what is placed among zeros a slice shows, and where in the slice it is.

    None if the slice shows zeros only. All steps are 1.
    """
    parts, places = [], []
    shape = placed.params["shape"]
    indices = (_whole(call.params["index"], shape) for call in (window, placed))
    for shown, filled, n in zip(*indices, shape):
        (begin, end, _), (first, last, _) = shown.indices(n), filled.indices(n)
        low, high = max(begin, first), min(end, last)
        if low >= high:
            return None
        parts.append(slice(low - first, high - first))
        places.append(slice(low - begin, high - begin))
    return tuple(parts), tuple(places)


def _whole(index: Sequence[Any], shape: Shape) -> list[Any]:
    return [*index, *[slice(None)] * (len(shape) - len(index))]


_RULES = {
    "flip": _flip,
    "roll": _roll,
    "slice": _slice,
    "take_runs": _take_runs,
    "unslice": _unslice,
}
