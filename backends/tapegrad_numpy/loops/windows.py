"""C source of inputs that a loop reads elsewhere: rolled, sliced, flipped, or padded.

Along outer axes the address of a row is computed from the other index. The innermost axis is cut
where an input begins again at its other end, turns round or becomes zero, so that every part of a
row is read at evenly spaced addresses. Where an input is zero, a row of zeros is read. Parts in
which all inputs are read at consecutive addresses have a separate loop, which is vectorized.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from tapegrad.core.trace.loop import INSIDE, PIECES, WRAPS, ZEROS, Along, Loop, LoopInput, Piece
from tapegrad_numpy.loops.layout import TASK_ELEMENTS, Space

Table = Callable[[Sequence[int]], int]
"""Stores integers that the C code reads as z[...], and returns the position of the first."""

ZERO_ROW = f"static char zero_row_KEY[{TASK_ELEMENTS * 16}];"
"""As long as the part of a row that one task processes."""

_NOWHERE = -(1 << 62)
"""The offset of a part in which an input is zero."""


class Windows:
    """The windows of a loop, and the C code that finds their rows."""

    def __init__(self, loop: Loop, space: Space, table: Table) -> None:
        self._space, self._table = space, table
        places = {axis: k for k, members in enumerate(space.members) for axis in members}
        self.inputs = {k: read for k, read in enumerate(loop.inputs) if read.window is not None}
        self._moving = {k: _moving_axes(read, places) for k, read in self.inputs.items()}
        inner = len(space.sizes) - 1
        self._along_rows = {k: axes.get(inner) for k, axes in self._moving.items()}

    @property
    def are_fixed(self) -> bool:
        """Whether inputs neither wrap nor become zero."""
        return not any(self._moving.values())

    def first(self, k: int) -> int:
        """The position of the first element that is read of an input, if it is fixed."""
        return _first(self.inputs[k])

    def offsets(self, k: int) -> list[int | None] | None:
        """The distance of each element of a row from the first, None for zeros.

        None if another axis than the innermost wraps or becomes zero.
        """
        inner, step = len(self._space.sizes) - 1, self._space.steps[k][-1]
        if self._moving[k].keys() - {inner}:
            return None
        found: list[int | None] = []
        for index in range(self._space.sizes[-1]):
            start, own = _offset(self._along_rows[k], index)
            found.append(None if start == _NOWHERE else (start + own * index) * step)
        return found

    @property
    def are_cut(self) -> bool:
        """Whether rows have several parts, or may be zero."""
        cut = any(one is not None for one in self._along_rows.values())
        return cut or any(map(_may_be_zero, self._all_moving()))

    def _all_moving(self) -> list[Along]:
        return [one for axes in self._moving.values() for one in axes.values()]

    def uneven(self) -> list[int]:
        """The inputs whose elements have another distance in some parts of a row than in others."""
        return [k for k in self.inputs if self.is_uneven(k)]

    def is_uneven(self, k: int) -> bool:
        """Whether the distance of an input's elements depends on the part of the row."""
        step, moving = self._space.steps[k][-1], self._moving.get(k, {})
        along = self._along_rows.get(k)
        if not step:
            return False
        if along is not None and along.mode == PIECES:
            return any(piece.step != 1 for piece in along.pieces if piece.first is not None)
        # A row of zeros has no gaps.
        return step != 1 and any(map(_may_be_zero, moving.values()))

    def is_ever_even(self, k: int) -> bool:
        """Whether an uneven input has parts in which its elements are neighbours."""
        return abs(self._space.steps[k][-1]) == 1

    def row(self, k: int, kind: str, steps: Sequence[int]) -> list[str]:
        """The address of this row of an input, `base`, and whether it is zero, `n`."""
        read, number = self.inputs[k], self._number
        lines = [f"int n{k} = 0;"]
        terms = [number(_first(read))]
        for axis, step in enumerate(steps[:-1]):
            if not step:
                continue
            one, index = self._moving[k].get(axis), f"i{axis}"
            if one is not None:
                index, more = self._moved(f"m{k}_{axis}", f"i{axis}", one, f"n{k}")
                lines += more
            terms.append(f"{index} * {number(step)}")
        return [*lines, f"{kind}base{k} = ({kind})data[{k}] + {' + '.join(terms)};"]

    def _moved(self, name: str, index: str, one: Along, zero: str) -> tuple[str, list[str]]:
        if one.mode == PIECES:
            return name, self._in_pieces(name, index, one.pieces, zero)
        size = self._number(one.size)
        lines = [f"int64_t {name} = {index} + {self._number(one.shift)};"]
        if one.mode == WRAPS:
            return name, [*lines, f"{name} -= {name} >= {size} ? {size} : 0;"]
        return name, [
            *lines,
            f"{zero} |= {name} < 0 || {name} >= {size};",
            f"if ({zero}) {name} = 0;",
        ]

    def _in_pieces(self, name: str, index: str, pieces: Sequence[Piece], zero: str) -> list[str]:
        """Find the piece that has an index, and the position there."""
        begins = self._table([piece.begin for piece in pieces])
        starts = self._table([_start(piece) for piece in pieces])
        steps = self._table([piece.step if piece.first is not None else 0 for piece in pieces])
        count = self._number(len(pieces))
        piece = f"{name}_piece"
        return [
            f"int64_t {piece} = 0;",
            f"while ({piece} + 1 < {count} && {index} >= z[{begins} + {piece} + 1]) ++{piece};",
            f"int64_t {name} = z[{starts} + {piece}] + {index} * z[{steps} + {piece}];",
            f"{zero} |= z[{starts} + {piece}] == {_NOWHERE};",
            f"if ({zero}) {name} = 0;",
        ]

    def single(self, k: int, kind: str) -> str:
        """The address of an input that does not change along a row."""
        if not self.are_cut:
            return f"{kind}p{k} = base{k};"
        return f"{kind}p{k} = n{k} ? ({kind})zero_row_KEY : base{k};"

    def cut(self, begin: str, end: str, levels: Sequence[int], kind: Callable[[int], str]) -> str:
        """The beginning of a loop over parts of a row, from `lo` to `hi`; `}` ends it."""
        edges = self._edges()
        at = self._table(edges)
        lines = [
            f"for (int64_t part = 0; part < {self._number(len(edges) - 1)}; ++part) {{",
            f"int64_t lo = z[{at} + part], hi = z[{at} + part + 1];",
            f"lo = lo > {begin} ? lo : {begin}; hi = hi < {end} ? hi : {end};",
            "if (lo >= hi) continue;",
        ]
        lines += [self._part(k, kind(k), edges) for k in self.inputs if levels[k] == 2]
        uneven = self.uneven()
        lines += [self._step(k, edges) for k in uneven]
        if uneven:
            tests = [f"s{k} == 1" for k in uneven if self.is_ever_even(k)]
            lines.append(f"const int is_even = {' && '.join(tests) or '0'};")
        return "\n".join(lines)

    def _number(self, value: int) -> str:
        return f"z[{self._table([value])}]"

    def _part(self, k: int, kind: str, edges: Sequence[int]) -> str:
        """The address from which a part of a row is read."""
        offsets = [_offset(self._along_rows[k], edge)[0] for edge in edges[:-1]]
        step = self._space.steps[k][-1]
        at = self._table([o if o == _NOWHERE else o * step for o in offsets])
        # An integer, because an address before the row of zeros is outside of the array.
        zero = f"({kind})((uintptr_t)zero_row_KEY - (uintptr_t)lo * sizeof(*base{k}))"
        is_zero = f"n{k} || z[{at} + part] == {_NOWHERE}"
        return f"{kind}p{k} = {is_zero} ? {zero} : base{k} + z[{at} + part];"

    def _step(self, k: int, edges: Sequence[int]) -> str:
        """The distance of an input's elements in a part of a row; in a row of zeros it is 1."""
        found = [_offset(self._along_rows[k], edge) for edge in edges[:-1]]
        step = self._space.steps[k][-1]
        at = self._table([1 if start == _NOWHERE else own * step for start, own in found])
        return f"const int64_t s{k} = n{k} ? 1 : z[{at} + part];"

    def _edges(self) -> list[int]:
        length = self._space.sizes[-1]
        found = {0, length}
        for one in self._along_rows.values():
            if one is not None:
                found |= {end for end in _ends(one) if 0 < end < length}
        return sorted(found)


def _moving_axes(read: LoopInput, places: dict[int, int]) -> dict[int, Along]:
    """The axes of the merged space along which an input wraps or becomes zero."""
    assert read.window is not None
    return {
        places[one.axis]: one for one in read.window if one.axis is not None and one.mode != INSIDE
    }


def _may_be_zero(one: Along) -> bool:
    return one.mode == ZEROS or any(piece.first is None for piece in one.pieces)


def _ends(one: Along) -> tuple[int, ...]:
    """The indices at which an input is continued elsewhere."""
    if one.mode == PIECES:
        return tuple(piece.begin for piece in one.pieces)
    return (one.size - one.shift,) if one.mode == WRAPS else (-one.shift, one.size - one.shift)


def _start(piece: Piece) -> int:
    """The position at index 0, if a piece began there."""
    return _NOWHERE if piece.first is None else piece.first - piece.step * piece.begin


def _offset(one: Along | None, edge: int) -> tuple[int, int]:
    """Where the part of a row that begins at an edge would be read at index 0, and its step."""
    if one is None:
        return 0, 1
    if one.mode == PIECES:
        piece = [piece for piece in one.pieces if piece.begin <= edge][-1]
        return _start(piece), piece.step
    place = edge + one.shift
    if one.mode == WRAPS:
        return one.shift - (one.size if place >= one.size else 0), 1
    return (one.shift if 0 <= place < one.size else _NOWHERE), 1


def _first(read: LoopInput) -> int:
    """The position, among all elements, at which the loop's indices are 0 and nothing moves."""
    assert read.window is not None
    steps = [prod(read.shape[k + 1 :]) for k in range(len(read.shape))]
    return sum(step * one.offset for step, one in zip(steps, read.window))
