"""CUDA code that reads a vector of an input elsewhere: rolled, sliced, flipped or padded."""

from __future__ import annotations

from collections.abc import Sequence

from tapegrad.core.trace.loop import PIECES, WRAPS, Along, Piece
from tapegrad_cupy.kernels.loops.geometry import Geometry


def window_lines(geometry: Geometry, i: int, computed: str) -> list[str]:
    """Return the statements that read input `i` into `w0`, `w1`, ..., one element after the other.

    `c0`, `c1`, ... are the indices of the thread; the last one counts vectors.
    """
    window, steps, width = geometry.windows[i], geometry.reads[i], geometry.width
    last = len(geometry.sizes) - 1
    lines = [
        f"{computed} w{i}[{width}];",
        f"{{ i64 at = {window.first};",
        "bool there = true;",
    ]
    # The step of an array that repeats its entries is 0, but outside of the window are zeros.
    for d, step in enumerate(steps[:-1]):
        if step or d in window.moved:
            lines += _moved(f"(i64)c{d}", window.moved.get(d), f"at += m * {step}ll;", "there")
    lines += ["#pragma unroll", f"for (int j = 0; j < {width}; ++j) {{", "bool inside = there;"]
    lines.append("i64 place = at;")
    if steps[-1] or last in window.moved:
        index = f"(i64)c{last} * {width} + j"
        use = f"place += m * {steps[-1]}ll;"
        lines += _moved(index, window.moved.get(last), use, "inside")
    lines += [f"w{i}[j] = inside ? widen(p{i}[place]) : ({computed})0;", "} }"]
    return lines


def _moved(index: str, one: Along | None, use: str, inside: str) -> list[str]:
    """Return statements that use the position `m` along one axis, or find that it is outside."""
    if one is None:
        return [f"{{ const i64 m = {index}; {use} }}"]
    if one.mode == PIECES:
        return [*_in_pieces(index, one.pieces, inside), f"{use} }}"]
    start = f"{{ i64 m = {index} + {one.shift}ll;"
    if one.mode == WRAPS:
        return [f"{start} if (m >= {one.size}ll) m -= {one.size}ll; {use} }}"]
    return [f"{start} {inside} = {inside} && m >= 0 && m < {one.size}ll; {use} }}"]


def _in_pieces(index: str, pieces: Sequence[Piece], inside: str) -> list[str]:
    """Return statements that find the position `m` in the piece that has an index."""
    lines = [f"{{ const i64 n = {index}; i64 m = 0; bool is_read = false;"]
    for piece in pieces:
        found = "is_read = false;"
        if piece.first is not None:
            start = piece.first - piece.step * piece.begin
            found = f"m = {start}ll + n * {piece.step}ll; is_read = true;"
        lines.append(f"if (n >= {piece.begin}ll) {{ {found} }}")
    return [*lines, f"{inside} = {inside} && is_read;"]
