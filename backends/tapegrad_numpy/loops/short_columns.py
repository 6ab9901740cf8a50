"""C source of elementwise loops over matrices with few columns, such as rows plus a short vector.

Vectors along such a row would be shorter than those of the processor. So the elements of several
rows are processed together, as one row: a part of the array is read as it lies in memory, the short
vector is repeated, and numbers per row are spread over the columns, both on the stack.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from math import prod

from tapegrad.core.trace.loop import Loop, LoopInput
from tapegrad_numpy.loops.layout import TASK_ELEMENTS, Space, merge_axes
from tapegrad_numpy.loops.row_passes import is_heavy
from tapegrad_numpy.loops.source import CUT, Body, Kernel, Writer, bounds

_MOST, _MOST_OF_CHEAP = 32, 16
"""The most columns, and the most of a loop that takes about as long as to read its inputs.

CPU time on one core of a Cascade Lake of 120,000 elements of float32, row by row against this, in
microseconds: the hyperbolic tangent of rows plus a vector of 3 elements 892 against 162, of 10 274
against 167, of 20 159 against 150; rows plus a vector of 3 188 against 48, of 10 69 against 50, of
20 39 against 49.
"""
_FEWEST = 16
"""The fewest rows."""
_BLOCK = 512
"""The most elements that are processed together."""


class _Read(Enum):
    """How an input is read."""

    ONCE = 0
    WHOLE = 1
    REPEATED = 2
    SPREAD = 3


def write_short_columns(loop: Loop) -> Kernel | None:
    """Return the kernel of a loop without reductions over few columns, None for other loops."""
    if 0 in loop.shape or any(read.window is not None for read in loop.inputs):
        return None
    space = merge_axes(loop)
    reads = _reads(space)
    is_mixed = reads is not None and {_Read.REPEATED, _Read.SPREAD} & {*reads}
    if reads is None or not is_mixed or any(output.axes for output in loop.outputs):
        return None
    made = _ShortColumns(loop, space, reads)
    is_costly = any(map(is_heavy, made.writer.formula.per_element))
    pays = space.sizes[1] <= _MOST_OF_CHEAP and _Read.SPREAD not in reads
    return made.kernel() if is_costly or pays else None


def _reads(space: Space) -> list[_Read] | None:
    """Return how the inputs are read, None if the loop has another form."""
    if len(space.sizes) != 2:
        return None
    rows, columns = space.sizes
    if columns > _MOST or rows < _FEWEST:
        return None
    known: dict[tuple[int, ...], _Read] = {
        (0, 0): _Read.ONCE,
        (columns, 1): _Read.WHOLE,
        (0, 1): _Read.REPEATED,
        (1, 0): _Read.SPREAD,
    }
    found = [known.get(steps) for steps in space.steps]
    return [read for read in found if read is not None] if None not in found else None


class _ShortColumns:
    """Writes the loop over all elements as if they were one row."""

    def __init__(self, loop: Loop, space: Space, reads: list[_Read]) -> None:
        size = prod(loop.shape)
        flat = [
            LoopInput(shape, shape, one.dtype)
            for one, read in zip(loop.inputs, reads)
            for shape in [(1,) if read is _Read.ONCE else (size,)]
        ]
        outputs = tuple([replace(output, shape=(size,)) for output in loop.outputs])
        self.writer = Writer(replace(loop, shape=(size,), inputs=tuple(flat), outputs=outputs))
        self.reads = reads
        self.columns = self.writer.number(space.sizes[1])

    def kernel(self) -> Kernel:
        """Return the kernel: tasks process whole rows."""
        writer = self.writer
        lines = [
            *writer.before(),
            "static void work_KEY(char **data, const int64_t *z, int64_t task, Slot *slots) {",
            f"const int64_t columns = {self.columns}, rows = {_BLOCK} / columns;",
            *bounds("begin", "end", f"task * {CUT['piece']} * columns", f"{CUT['piece']} * columns",
                    f"{CUT['inner']} * columns"),
            *writer.once(),
            *self._repeated(),
            "for (int64_t start = begin; start < end; start += rows * columns) {",
            "const int64_t count = end - start < rows * columns ? end - start : rows * columns;",
            *self._spread(),
            *self._addresses(),
            *writer.walk_over("0", "count", self._body()),
            "}\n}",
        ]  # fmt: skip
        self._divide()
        functions = frozenset(writer.functions)
        return Kernel("\n".join(lines), functions, tuple(writer.numbers), 0)

    def _at(self, read: _Read) -> list[int]:
        return [i for i, own in enumerate(self.reads) if own is read]

    def _repeated(self) -> list[str]:
        """Arrays with the rows that are the same for all."""
        lines = []
        for i in self._at(_Read.REPEATED):
            lines += [
                f"{self.writer.held_type(i)} repeated{i}[{_BLOCK}];",
                "for (int64_t i = 0; i < rows * columns; ++i) {",
                self.writer.load(i, f"(({self.writer.pointer(i)})data[{i}])[i % columns]"),
                f"repeated{i}[i] = x{i};",
                "}",
            ]
        return lines

    def _spread(self) -> list[str]:
        """Arrays with the numbers of some rows, once for each column."""
        lines = []
        by_row = "for (int64_t r = 0; r < count / columns; ++r) {"
        by_column = "for (int64_t c = 0; c < columns; ++c)"
        for i in self._at(_Read.SPREAD):
            pointer, load = self.writer.pointer(i), self.writer.load(i, f"s{i}[r]")
            store = f"spread{i}[r * columns + c] = x{i};"
            lines += [
                f"{self.writer.held_type(i)} spread{i}[{_BLOCK}];",
                f"{pointer}s{i} = ({pointer})data[{i}] + start / columns;",
                # A loop over two or three columns takes longer than to store with gaps.
                "if (columns < 4)", by_column, by_row, load, store, "}",
                "else", by_row, load, by_column, store, "}",
            ]  # fmt: skip
        return lines

    def _addresses(self) -> list[str]:
        pointer, first = self.writer.pointer, len(self.reads)
        lines = [
            f"{pointer(i)}p{i} = ({pointer(i)})data[{i}] + start;" for i in self._at(_Read.WHOLE)
        ]
        for k in self.writer.stored():
            kind = self.writer.output_type(k)
            lines.append(f"{kind} *q{k} = ({kind} *)data[{first + k}] + start;")
        return lines

    def _body(self) -> Body:
        writer = self.writer
        loads = {f"x{i}": writer.load(i, f"p{i}[i]") for i in self._at(_Read.WHOLE)}
        for read, name in ((_Read.REPEATED, "repeated"), (_Read.SPREAD, "spread")):
            loads |= {f"x{i}": writer.held(i, f"{name}{i}[i]") for i in self._at(read)}
        return Body(loads, writer.formula.per_element, writer.stores())

    def _divide(self) -> None:
        """Let each task process some rows; `inner` and `piece` count rows here."""
        writer = self.writer
        columns = writer.numbers[int(self.columns.removeprefix("z[").removesuffix("]"))]
        whole = writer.cut(TASK_ELEMENTS)
        rows, piece = whole.inner // columns, max(1, whole.piece // columns)
        own = whole._replace(inner=rows, piece=piece, tasks=-(-rows // piece))
        writer.numbers[: len(own)] = own
