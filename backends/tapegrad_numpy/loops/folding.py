"""Fold a short innermost axis into the axis before it, along which inputs move.

The channels of an image are such an axis. An axis along which an input wraps around or becomes zero
is not merged with others, so the innermost loop would have as few steps as there are channels.
"""

from __future__ import annotations

from dataclasses import replace

from tapegrad.core.trace.loop import (
    INSIDE,
    PIECES,
    Along,
    Loop,
    LoopInput,
    LoopOutput,
    Piece,
    Shape,
)

_SHORT = 64
"""The longest axis that is folded; a longer one gets a separate loop."""
_MOST_SINGLE = 4
"""Up to this many positions that are read in another order become separate pieces."""


def folded(loop: Loop) -> Loop:
    """Return a loop with one axis less that visits the same elements in the same order, if any."""
    last = len(loop.shape) - 1
    if last < 1 or loop.shape[last] > _SHORT or loop.indices or not _is_moved(loop, last - 1):
        return loop
    if (last in loop.axes) != (last - 1 in loop.axes):
        return loop
    inputs = [_folded_input(read, loop.shape) for read in loop.inputs]
    if any(output.rows is not None for output in loop.outputs) or None in inputs:
        return loop
    return Loop(
        (*loop.shape[:-2], loop.shape[-2] * loop.shape[-1]),
        tuple(read for read in inputs if read is not None),
        tuple(_folded_output(output, last) for output in loop.outputs),
        tuple(_folded_output(stage, last) for stage in loop.stages),
    )


def _is_moved(loop: Loop, axis: int) -> bool:
    windows = [one for read in loop.inputs for one in read.window or ()]
    return any(one.axis == axis and one.mode != INSIDE for one in windows)


def _folded_output(output: LoopOutput, last: int) -> LoopOutput:
    return replace(output, axes=tuple(axis for axis in output.axes if axis != last))


def _folded_input(read: LoopInput, shape: Shape) -> LoopInput | None:
    """Return an input of the folded loop, None if it is read in another order."""
    seen = (1,) * (len(shape) - len(read.seen)) + read.seen
    folded_seen = (*seen[:-2], seen[-2] * seen[-1])
    if seen[-2:] == (1, 1):
        return replace(read, seen=folded_seen)
    if seen[-2:] != shape[-2:]:
        return None
    if read.window is None:
        return replace(read, seen=folded_seen)
    window = _folded_window(read, shape)
    if window is None:
        return None
    places = {one.axis: k for k, one in enumerate(read.window)}
    k = places[len(shape) - 1]
    own = (*read.shape[: k - 1], read.shape[k - 1] * read.shape[k], *read.shape[k + 1 :])
    return LoopInput(own, folded_seen, read.dtype, window)


def _folded_window(read: LoopInput, shape: Shape) -> tuple[Along, ...] | None:
    assert read.window is not None
    last, length = len(shape) - 1, shape[-1]
    places = [k for k, one in enumerate(read.window) if one.axis == last]
    if len(places) != 1 or places[0] == 0:
        return None
    k = places[0]
    inner, outer = read.window[k], read.window[k - 1]
    is_whole = inner == Along(last) and read.shape[k] == length
    if not is_whole or outer.axis != last - 1 or outer.step != 1:
        return None
    if sum(one.axis == last - 1 for one in read.window) != 1:
        return None
    pieces = _folded_pieces(outer.pieces, shape[-2], length)
    if pieces is None:
        return None
    scaled = replace(
        outer,
        offset=outer.offset * length,
        shift=outer.shift * length,
        size=outer.size * length,
        pieces=pieces,
    )
    assert (outer.mode == PIECES) == bool(pieces)
    return (*read.window[: k - 1], scaled, *read.window[k + 1 :])


def _folded_pieces(
    pieces: tuple[Piece, ...], axis_length: int, length: int
) -> tuple[Piece, ...] | None:
    """Return the pieces of the folded axis; None if one of them is not read in order."""
    found = []
    ends = [*[piece.begin for piece in pieces[1:]], axis_length]
    for piece, end in zip(pieces, ends):
        if piece.first is None:
            found.append(Piece(piece.begin * length, None))
        elif piece.step == 1 or end - piece.begin == 1:
            found.append(Piece(piece.begin * length, piece.first * length))
        elif end - piece.begin <= _MOST_SINGLE:
            found += [
                Piece((piece.begin + k) * length, (piece.first + piece.step * k) * length)
                for k in range(end - piece.begin)
            ]
        else:
            return None
    return tuple(found)
