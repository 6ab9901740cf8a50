"""Read a value where a roll, a slice or a padding shows it, instead of making that view's array.

A loop reads an operand at its own index. If the operand is a roll of another value, the loop reads
that value at another index, and the roll is never stored. The same holds for slices, flips,
`unslice`, which pads with zeros and is the gradient of a slice, and `take_runs`, which pads with
values of the array. Rows that an index array selects are read through that array.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from tapegrad.core.trace.loop import INDEXED, INSIDE, PIECES, WRAPS, ZEROS, Along, Piece
from tapegrad.program.graph.graph import Call, Shape, Value
from tapegrad.program.graph.iteration_spaces import is_view, seen_through
from tapegrad.program.graph.pieces import along as simplest, composed, pieces_of, with_zeros

MOVES = frozenset({"roll", "unslice", "flip", "take_runs"})
PARTS = frozenset({"slice", "split", "unstack"})
"""Windows that show a part of their operand, in its order; most backends have views for these."""
GATHERS = frozenset({"gather_rows", "segment_take", "take"})
"""Rows that an index array selects; an index out of range selects zeros."""
WINDOWS = MOVES | PARTS | GATHERS
_BORDERED = (ZEROS, INDEXED, PIECES)
"""Modes in which elements may be zeros that the array does not have."""
STEADY = frozenset({"roll", "flip", "take_runs"})
"""Windows that are usually the same in all rounds of a loop; slices depend on the round."""


@dataclass(frozen=True)
class Windowed:
    """How a value is read in a space: the lengths that change the position, and where.

    `indices` are the index arrays, by the numbers that the window has for them, and their shapes
    in the space.
    """

    seen: Shape
    window: tuple[Along, ...]
    indices: tuple[tuple[Value, Shape], ...] = ()


def window_of(
    value: Value,
    shape: Shape,
    makers: Mapping[int, Call],
    allowed: Collection[str],
    gathered: Collection[int] = (),
) -> tuple[Value, Windowed] | None:
    """Return the value behind windows, and where a loop over `shape` reads it.

    None if there is no window, or none that the primitives in `allowed` are. Parts behind one of
    these count, too, unless only those in `STEADY` are allowed. `makers` are the calls by the
    numbers of their results. Of gathers, only those with results in `gathered` are windows.
    """
    first = len(shape) - len(value.shape)
    seen = [Along(first + k if n != 1 else None) for k, n in enumerate(value.shape)]
    behind = _behind(value, seen, shape, makers, allowed, gathered)
    value, along = behind.value, behind.along
    if not behind.names & set(allowed) or 0 in value.shape:
        return None
    is_single = not behind.indices and all(one.axis is None for one in along)
    # Where slices are views, one element of an array is a view, too. The numbers of rounds are
    # views everywhere, so that loops of different rounds are equal.
    call = makers.get(value.number)
    is_number = call is not None and call.primitive.name == "positions_like"
    if is_single and ("slice" not in allowed or value.size == 1 or is_number):
        return None
    return value, _in_space(along, shape, behind.indices)


def placed(
    value: Value,
    along: Sequence[Along],
    shape: Shape,
    makers: Mapping[int, Call],
    allowed: Collection[str],
    gathered: Collection[int] = (),
) -> tuple[Value, Windowed]:
    """Return the value behind windows, and where a loop over `shape` reads it.

    The loop reads `value` at the positions `along`, which count all axes of `shape`.
    """
    behind = _behind(value, along, shape, makers, allowed, gathered)
    return behind.value, _in_space(behind.along, shape, behind.indices)


class _Behind(NamedTuple):
    """The value behind views and windows, and where it is read."""

    value: Value
    along: Sequence[Along]
    indices: list[tuple[Value, Shape]]
    names: set[str]
    """The primitives of the views and windows."""


def _behind(
    value: Value,
    along: Sequence[Along],
    shape: Shape,
    makers: Mapping[int, Call],
    allowed: Collection[str],
    gathered: Collection[int],
) -> _Behind:
    """Follow a value through views and windows.

    A view may remove an axis of length 1 outside of which are zeros. The border is kept until a
    slice that has removed an axis takes it. If there is none, the value before the view is read.
    """
    call, names = makers.get(value.number), set[str]()
    indices: list[tuple[Value, Shape]] = []
    border: Along | None = None
    before = _Behind(value, along, indices, names)
    while call is not None and 0 not in value.shape:
        if call.primitive.name in GATHERS:
            inside = value.number in gathered and border is None
            found = _gather(call, along, shape, indices) if inside else None
        elif border is None and (lost := _lost_border(call, along)) is not None:
            before = _Behind(value, along, indices, {*names})
            border, found = along[lost], _of_view(call, _without_border(along, lost))
        else:
            found = _through(call, value, along, shape, allowed)
        if found is None:
            break
        if border is not None and call.primitive.name == "slice":
            taken = _with_border(call, found, border)
            border, found = (None, taken) if taken is not None else (border, found)
        names.add(call.primitive.name)
        along, value = found, call.reads[0]
        call = makers.get(value.number)
    return before if border is not None else _Behind(value, along, indices, names)


def _lost_border(call: Call, along: Sequence[Along]) -> int | None:
    """Return the only axis of length 1 that a reshape has added, if zeros are outside of it."""
    if call.primitive.name != "reshape" or not is_view(call):
        return None
    found = [
        k
        for k, (one, n) in enumerate(zip(along, call.results[0].shape))
        if n == 1 and one.mode in _BORDERED
    ]
    if len(found) != 1:
        return None
    one = along[found[0]]
    is_plain = one.mode == ZEROS and (one.offset, one.step, one.size) == (0, 1, 1)
    return found[0] if is_plain else None


def _without_border(along: Sequence[Along], lost: int) -> list[Along]:
    return [Along(None) if k == lost else one for k, one in enumerate(along)]


def _with_border(call: Call, along: list[Along], border: Along) -> list[Along] | None:
    """Return the positions in the operand of a slice, one of which has the border."""
    parts = [p for p in _every_axis(call.params["index"], call.reads[0].shape) if p is not None]
    numbers = [k for k, part in enumerate(parts) if isinstance(part, int)]
    if not numbers:
        return None
    taken = numbers[0]
    return [
        replace(border, offset=one.offset) if k == taken else one for k, one in enumerate(along)
    ]


def _in_space(
    along: Sequence[Along], shape: Shape, indices: Sequence[tuple[Value, Shape]]
) -> Windowed:
    """Count the axes of the space, which lacks those of length 1."""
    places = {axis: k for k, axis in enumerate(a for a, n in enumerate(shape) if n != 1)}
    window = tuple([_at(one, places) for one in along])
    sizes = [n for n in shape if n != 1]
    lengths = [
        (index, tuple(one for one, n in zip(seen, shape) if n != 1)) for index, seen in indices
    ]
    return _windowed(sizes, window, lengths)


def _at(along: Along, places: Any) -> Along:
    """Return the positions along an axis whose new number is in `places`."""
    axis = along.axis
    return along if axis is None or axis == places[axis] else replace(along, axis=places[axis])


def _windowed(
    sizes: Sequence[int], window: tuple[Along, ...], indices: Sequence[tuple[Value, Shape]]
) -> Windowed:
    used = {one.axis for one in window}
    used |= {k for _, seen in indices for k, n in enumerate(seen) if n != 1}
    seen = tuple(n if k in used else 1 for k, n in enumerate(sizes))
    return Windowed(seen, window, tuple(indices))


def windowed_through(inner: Windowed, outer: Shape) -> Windowed:
    """Compose a window in a space with how that space is seen in another one."""
    places = [k for k, size in enumerate(outer) if size != 1]
    window = tuple([_at(one, places) for one in inner.window])
    indices = [(index, seen_through(seen, outer)) for index, seen in inner.indices]
    return _windowed(outer, window, indices)


def _through(
    call: Call, value: Value, along: Sequence[Along], shape: Shape, allowed: Collection[str]
) -> list[Along] | None:
    """Return the positions along the axes of a view's operand; None if they are unknown."""
    name = call.primitive.name
    if is_view(call):
        return _of_view(call, along)
    if name in _PARTS and not STEADY.issuperset(allowed):
        place = next(k for k, one in enumerate(call.results) if one.number == value.number)
        return _PARTS[name](call, place, list(along))
    moves = name in allowed and not any(one.mode == INDEXED for one in along)
    rule = _RULES.get(name) if moves else None
    return None if rule is None else rule(call, list(along), shape)


def _of_view(call: Call, along: Sequence[Along]) -> list[Along] | None:
    source, value = call.reads[0], call.results[0]
    pairs = zip(along, value.shape)
    if call.primitive.name == "reshape":
        if any(one.mode in _BORDERED for one, n in zip(along, value.shape) if n == 1):
            return None
        rest = iter([one for one, n in pairs if n != 1])
        return [next(rest) if n != 1 else Along(None) for n in source.shape]
    first = len(value.shape) - len(source.shape)
    kept = [k for k, n in enumerate(source.shape) if n != 1]
    lost = {*range(len(value.shape))} - {first + k for k in kept}
    if any(along[k].mode in _BORDERED for k in lost):
        return None
    return [along[first + k] if n != 1 else Along(None) for k, n in enumerate(source.shape)]


def _gather(
    call: Call, along: Sequence[Along], shape: Shape, indices: list[tuple[Value, Shape]]
) -> list[Along] | None:
    """Return the positions in a table of which rows are gathered, and note the index array."""
    table, axis = call.operands[0], call.params.get("axis", 0)
    index = call.operands[1]
    if not (isinstance(table, Value) and isinstance(index, Value)) or 0 in table.shape:
        return None
    inner = axis + len(index.shape)
    if any(one.mode not in (INSIDE, INDEXED) for one in along):
        return None
    lengths = [1] * len(shape)
    for one, n in zip(along[axis:inner], index.shape):
        if (one.offset, one.step, one.mode) != (0, 1, INSIDE):
            return None
        if one.axis is not None:
            lengths[one.axis] = n
    row = Along(None, 0, 1, INDEXED, 0, table.shape[axis], len(indices))
    indices.append((index, tuple(lengths)))
    return [*along[:axis], row, *along[inner:]]


def _slice(call: Call, place: int, along: list[Along]) -> list[Along] | None:
    source = call.reads[0].shape
    found, rest = [], iter(along)
    sizes = iter(source)
    for part in _every_axis(call.params["index"], source):
        if part is None:
            if next(rest).mode in _BORDERED:
                return None
            continue
        size = next(sizes)
        if isinstance(part, slice):
            start, _, step = part.indices(size)
            one = next(rest)
            found.append(replace(one, offset=start + step * one.offset, step=step * one.step))
        else:
            found.append(Along(None, part % size))
    return found


def _every_axis(index: Sequence[Any], shape: Shape) -> list[Any]:
    """Return a basic index with a part for each axis."""
    parts = list(index)
    missing = len(shape) - sum(part is not None and part is not Ellipsis for part in parts)
    rest = [slice(None)] * missing
    place = next((k for k, part in enumerate(parts) if part is Ellipsis), None)
    if place is None:
        return parts + rest
    return parts[:place] + rest + parts[place + 1 :]


def _split(call: Call, place: int, along: list[Along]) -> list[Along] | None:
    axis, sizes = call.params["axis"], call.params["sizes"]
    one, start = along[axis], sum(sizes[:place])
    along[axis] = replace(one, offset=start + one.offset)
    return along


def _unstack(call: Call, place: int, along: list[Along]) -> list[Along] | None:
    axis = call.params["axis"]
    return [*along[:axis], Along(None, place), *along[axis:]]


def _roll(call: Call, along: list[Along], shape: Shape) -> list[Along] | None:
    sizes = call.reads[0].shape
    for shift, axis in zip(call.params["shift"], call.params["axis"]):
        one, size = along[axis], sizes[axis]
        if one.axis is None:
            along[axis] = Along(None, (one.offset - shift) % size)
        elif one.mode == INSIDE and one.step == 1:
            along[axis] = Along(one.axis, 0, 1, WRAPS, (one.offset - shift) % size, size)
        elif one.mode == WRAPS and (one.offset, one.step, one.size) == (0, 1, size):
            along[axis] = replace(one, shift=(one.shift - shift) % size)
        else:
            turned = pieces_of(Along(0, 0, 1, WRAPS, -shift % size, size), size)
            found = _composed(one, turned, shape, size)
            if found is None:
                return None
            along[axis] = found
    return along


def _composed(one: Along, inner: Sequence[Piece] | None, shape: Shape, size: int) -> Along | None:
    """Return the position behind a view with the pieces `inner`, in an axis of `size`."""
    length = 1 if one.axis is None else shape[one.axis]
    outer = pieces_of(one, length)
    if outer is None or inner is None:
        return None
    found = composed(outer, inner, length)
    if found is None:
        return None
    if one.axis is None:
        first = found[0].first
        return None if first is None else Along(None, first)
    return simplest(one.axis, found, length, size)


def _take_runs(call: Call, along: list[Along], shape: Shape) -> list[Along] | None:
    axis, begin = call.params["axis"], 0
    inner: list[Piece] = []
    for first, step, count in call.params["runs"]:
        inner.append(Piece(begin, first, step))
        begin += count
    found = _composed(along[axis], inner, shape, call.reads[0].shape[axis])
    if found is None:
        return None
    along[axis] = found
    return along


def _flip(call: Call, along: list[Along], shape: Shape) -> list[Along] | None:
    sizes = call.reads[0].shape
    for axis in call.params["axis"]:
        one = along[axis]
        along[axis] = replace(one, offset=sizes[axis] - 1 - one.offset, step=-one.step)
    return along


def _unslice(call: Call, along: list[Along], shape: Shape) -> list[Along] | None:
    whole = call.params["shape"]
    found, rest, sizes = [], iter(along), iter(whole)
    for part in _every_axis(call.params["index"], whole):
        if part is None:
            found.append(Along(None))
            continue
        one, size = next(rest), next(sizes)
        if not isinstance(part, slice):
            if one.axis is not None or one.offset != part % size:
                return None
            continue
        start, stop, step = part.indices(size)
        inner = _between(one, start, stop - start, shape, size) if step == 1 else None
        if inner is None:
            return None
        found.append(inner)
    return found if len(found) == len(call.reads[0].shape) else None


def _between(one: Along, start: int, length: int, shape: Shape, whole: int) -> Along | None:
    """Return the position in a part from `start` on, outside of which are zeros.

    The part is one of an axis of length `whole`.
    """
    if one.axis is None:
        place = one.offset - start
        return Along(None, place) if 0 <= place < length else None
    if one.mode != INSIDE or one.step != 1:
        return _composed(one, with_zeros(-start, length, whole), shape, length)
    shift = one.offset - start
    if shift >= 0 and shift + shape[one.axis] <= length:
        return Along(one.axis, shift)
    return Along(one.axis, 0, 1, ZEROS, shift, length)


_RULES: dict[str, Callable[[Call, list[Along], Shape], list[Along] | None]] = {
    "flip": _flip,
    "roll": _roll,
    "take_runs": _take_runs,
    "unslice": _unslice,
}
_PARTS: dict[str, Callable[[Call, int, list[Along]], list[Along] | None]] = {
    "slice": _slice,
    "split": _split,
    "unstack": _unstack,
}
