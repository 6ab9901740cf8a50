"""Rows at given positions in C: gathers, and sums of rows that go to the same place.

The general kernels sum rows with NumPy's `ufunc.at`. Measured on one core of a Neoverse-N1, in
nanoseconds per element of float32, general kernel against C: 13,264 rows of 32 elements 4.2 against
0.85, 2,048 rows of 128 elements 4.3 against 2.5, 600 rows of 3 elements 17 against 2.5. Terms are
added in the same order, so results have the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from tapegrad_numpy.loops.binding import caller
from tapegrad_numpy.loops.compiled_parts import attach_parts
from tapegrad_numpy.loops.element_types import storage
from tapegrad_numpy.loops.layout import Cut
from tapegrad_numpy.loops.pool import team
from tapegrad_numpy.loops.source import CUT, Kernel, bounds
from tapegrad_numpy.loops.vector_products import Described

_ADDING = frozenset({"segment_sum", "take_add"})
NAMES = _ADDING | {"segment_take", "take"}

_FEWEST = 512
"""The smallest number of elements for which a call gets a separate kernel."""
_PIECE = 16
"""The fewest columns per task; tasks share no element, so threads do not change results."""
_MOST_TASKS = 8
_UNROLLED = 8
"""The longest rows whose length is a constant of the source."""
_FIRST = len(Cut._fields)
_SUMS = {"float32", "float64"}
_POSITIONS = {"int32", "int64"}


class Rows(NamedTuple):
    """`outer` tables of `size` rows; `places` positions select rows of `width` elements."""

    outer: int
    places: int
    size: int
    width: int
    result: tuple[int, ...]


def rows_of(name: str, operands: Sequence[Described], params: Mapping[str, Any]) -> Rows:
    """Return the sizes of a call."""
    (shape, _), (places, _) = operands
    if name == "take":
        axis = params["axis"]
        before, size, after = shape[:axis], shape[axis], shape[axis + 1 :]
        result = (*before, *places, *after)
    elif name == "take_add":
        axis, size = params["axis"], params["size"]
        before, after = shape[:axis], shape[axis + len(places) :]
        result = (*before, size, *after)
    else:
        before, after = (), shape[1:]
        size = params["num"] if name == "segment_sum" else shape[0]
        result = (size if name == "segment_sum" else places[0], *after)
    return Rows(prod(before), prod(places), size, prod(after), result)


def write_rows(
    name: str, operands: Sequence[Described], params: Mapping[str, Any]
) -> Kernel | None:
    """Return the kernel of a call; None to use NumPy."""
    (_, dtype), (_, positions) = operands
    adds = name in _ADDING
    known = _SUMS if adds else _SUMS | _POSITIONS
    if dtype.name not in known or positions.name not in _POSITIONS:
        return None
    rows = rows_of(name, operands, params)
    elements = rows.outer * rows.places * rows.width
    if elements < _FEWEST or not rows.size:
        return None
    piece = max(_PIECE, -(-rows.width // _MOST_TASKS))
    pieces = -(-rows.width // piece)
    numbers = Cut(
        rows.width, piece, pieces, rows.outer,
        rows_at_once=1, deep=rows.places, slices=1, share=1,
        tasks=rows.outer * pieces, results=rows.size, elements=elements,
    )  # fmt: skip
    skips = name.startswith("segment")
    width = rows.width if rows.width <= _UNROLLED else None
    lines = _text(adds, skips, storage(dtype), storage(positions), width)
    return Kernel("\n".join(lines), frozenset(), (*numbers, rows.places, rows.size), 0)


def _text(adds: bool, skips: bool, kind: str, index: str, width: int | None) -> list[str]:
    """The function `work`; with a `width` the elements of a row are statements."""
    table, picked = ("y", "x") if adds else ("x", "y")

    def each(statement: str) -> str:
        if width is None:
            return f"for (int64_t c = first; c < last; ++c) {statement};"
        return " ".join(f"{statement.replace('[c]', f'[{c}]')};" for c in range(width))

    # A negative position of a segment reads zeros, and what it adds is dropped.
    negative = (
        "if (r < 0) continue;" if adds else f"if (r < 0) {{ {each('row[c] = 0')} continue; }}"
    )
    wrong = "*is_wrong = 1; continue;"
    columns = "width" if width is None else str(width)
    start = f"{'' if adds else 'const '}{kind} *at = table + r * {columns};"
    return [
        "static void work_KEY(char **data, const int64_t *z, int64_t task, Slot *slots) {",
        f"const {kind} *x = (const {kind} *)data[0];",
        f"const {index} *places = (const {index} *)data[1];",
        f"{kind} *restrict y = ({kind} *)data[2];",
        "int64_t *is_wrong = (int64_t *)data[3];",
        f"const int64_t width = {CUT['inner']}, count = z[{_FIRST}], size = z[{_FIRST + 1}];",
        f"const int64_t outer = task / {CUT['pieces']};",
        *bounds("first", "last", f"task % {CUT['pieces']} * {CUT['piece']}", CUT["piece"], "width"),
        f"{'' if adds else 'const '}{kind} *table = {table} + outer * size * {columns};",
        f"{'const ' if adds else ''}{kind} *row = {picked} + outer * count * {columns};",
        *([f"for (int64_t r = 0; r < size; ++r) {{ {start} {each('at[c] = 0')} }}"] * adds),
        f"for (int64_t i = 0; i < count; ++i, row += {columns}) {{",
        "const int64_t r = places[i];",
        f"if ((uint64_t)r >= (uint64_t)size) {{ {negative * skips} {wrong} }}",
        start,
        each("at[c] += row[c]" if adds else "row[c] = at[c]"),
        "}\n}",
    ]  # fmt: skip


def bind_rows(
    name: str,
    operands: Sequence[Described],
    params: Mapping[str, Any],
    kernel: Kernel,
    address: Any,
    plain: Callable[..., Any],
) -> Callable[..., Any]:
    """Return the function of arrays; the plain kernel raises for positions out of range."""
    (shape, dtype), (places, positions) = operands
    result = rows_of(name, operands, params).result
    flag = np.dtype(np.int64)
    arrays = [(dtype, shape), (positions, places), (dtype, result), (flag, (1,))]
    function = caller(arrays, 2, kernel, address)
    empty, zeros, in_order = np.empty, np.zeros, np.ascontiguousarray
    adds = name in _ADDING

    def run(x: Any, indices: Any, **params: Any) -> Any:
        y, is_wrong = empty(result, dtype), zeros(1, flag)
        code = function(x, indices, y, is_wrong)
        if code and adds:  # a copy of what is not contiguous costs less than the general kernel
            code = function(in_order(x), in_order(indices), y, is_wrong)
        return plain(x, indices, **params) if code or is_wrong[0] else y

    attach_parts(run, kernel, address, 3, team(), reports=True)
    return run
