"""Piecewise linear positions along an axis, and their composition.

A roll, a slice, a flip, a padding and a gather of a few runs all say where an axis is read by a
linear function in each of a few parts of it. So does a composition of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from tapegrad.core.trace.loop import INSIDE, PIECES, WRAPS, ZEROS, Along, Piece

MOST_PIECES = 12
"""The most pieces of an axis; loops select between them."""


def pieces_of(one: Along, length: int) -> list[Piece] | None:
    """Return the positions along an axis of a loop with `length` elements; None if indexed."""
    if one.axis is None:
        return [Piece(0, one.offset, 0)]
    if one.mode == INSIDE:
        return [Piece(0, one.offset + one.step * one.shift, one.step)]
    if one.mode == PIECES:
        return [
            piece if piece.first is None else _scaled(piece, one.offset, one.step)
            for piece in one.pieces
        ]
    if one.mode == WRAPS:
        wraps = one.size - one.shift
        found = [Piece(0, one.shift), *([Piece(wraps, 0)] if 0 < wraps < length else [])]
    elif one.mode == ZEROS:
        found = with_zeros(one.shift, one.size, length)
    else:
        return None
    return [p if p.first is None else _scaled(p, one.offset, one.step) for p in found]


def _scaled(piece: Piece, offset: int, step: int) -> Piece:
    assert piece.first is not None
    return Piece(piece.begin, offset + step * piece.first, step * piece.step)


def with_zeros(shift: int, size: int, length: int) -> list[Piece]:
    """Positions `i + shift` of an array of a size, zeros outside of it."""
    begin, end = max(0, -shift), min(length, size - shift)
    if begin >= end:
        return [Piece(0, None)]
    found = [Piece(0, None)] if begin else []
    found.append(Piece(begin, begin + shift))
    return [*found, Piece(end, None)] if end < length else found


def composed(outer: Sequence[Piece], inner: Sequence[Piece], length: int) -> list[Piece] | None:
    """Return where an axis is read if `outer` says which of the positions of `inner` are shown.

    `length` is that of the loop's axis. The pieces of `inner` are by positions of the view. None if
    there are too many pieces.
    """
    found: list[Piece] = []
    ends = [*[piece.begin for piece in outer[1:]], length]
    for piece, end in zip(outer, ends):
        if piece.first is None:
            found.append(piece)
        elif piece.step == 0:
            found.append(_constant(piece, inner))
        else:
            found += _shown(piece, end - piece.begin, inner)
        if len(found) > MOST_PIECES:
            return None
    return joined(found, length)


def _at(place: int, inner: Sequence[Piece]) -> tuple[int, Piece]:
    """Return the number of the piece that has a position, and the piece."""
    k = max(k for k, piece in enumerate(inner) if piece.begin <= place)
    return k, inner[k]


def _constant(piece: Piece, inner: Sequence[Piece]) -> Piece:
    assert piece.first is not None
    _, own = _at(piece.first, inner)
    if own.first is None:
        return Piece(piece.begin, None)
    return Piece(piece.begin, own.first + own.step * (piece.first - own.begin), 0)


def _shown(piece: Piece, count: int, inner: Sequence[Piece]) -> list[Piece]:
    """Divide a piece where the positions of `inner` have other pieces."""
    assert piece.first is not None
    found, done = [], 0
    while done < count:
        place = piece.first + piece.step * done
        k, own = _at(place, inner)
        if piece.step > 0:
            last = inner[k + 1].begin - 1 if k + 1 < len(inner) else None
        else:
            last = own.begin
        many = count - done if last is None else min(count - done, (last - place) // piece.step + 1)
        first = None if own.first is None else own.first + own.step * (place - own.begin)
        found.append(Piece(piece.begin + done, first, own.step * piece.step))
        done += many
    return found


def joined(pieces: Sequence[Piece], length: int) -> list[Piece]:
    """Join neighbouring pieces that continue each other."""
    found: list[Piece] = []
    ends = [*[piece.begin for piece in pieces[1:]], length]
    for piece, end in zip(pieces, ends):
        if found and _continues(found, piece, end):
            before = found[-1]
            if before.first is not None and piece.first is not None:
                step = (piece.first - before.first) // (piece.begin - before.begin)
                found[-1] = before._replace(step=step)
        else:
            found.append(piece)
    return found


def _continues(found: Sequence[Piece], piece: Piece, end: int) -> bool:
    """Whether a piece that ends at `end` continues the last one."""
    before = found[-1]
    if before.first is None or piece.first is None:
        return before.first is piece.first
    count = piece.begin - before.begin
    step = before.step if count > 1 else piece.first - before.first
    is_next = piece.first == before.first + step * count
    return is_next and (piece.step == step or end - piece.begin == 1)


def along(axis: int, pieces: Sequence[Piece], length: int, size: int) -> Along:
    """Return the simplest form of positions along an axis of `length` in an array of `size`."""
    if len(pieces) == 1 and pieces[0].first is not None:
        (piece,) = pieces
        assert piece.first is not None
        # An axis that is always read at one position is none.
        return Along(None, piece.first) if not piece.step else Along(axis, piece.first, piece.step)
    read = [piece for piece in pieces if piece.first is not None]
    if len(read) == 1 and read[0].step == 1:
        (piece,) = read
        assert piece.first is not None
        shift = piece.first - piece.begin
        if pieces == with_zeros(shift, size, length):
            return Along(axis, 0, 1, ZEROS, shift, size)
    if len(read) == len(pieces) == 2 and read[1] == Piece(read[1].begin, 0):
        first = read[0].first
        if read[0].step == 1 and first is not None and first + read[1].begin == size:
            return Along(axis, 0, 1, WRAPS, first, size)
    return Along(axis, 0, 1, PIECES, 0, size, pieces=tuple(pieces))
