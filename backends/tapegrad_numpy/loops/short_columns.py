"""C source of elementwise loops over matrices with few columns, such as rows plus a short vector.

Vectors along such a row would be shorter than those of the processor. So the elements of several
rows are processed together, as one row: a part of the array is read as it lies in memory, the short
vector is repeated, and numbers per row are spread over the columns, both on the stack. Rows that
are read by index are copied there.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum
from math import prod

from tapegrad.core.trace.loop import Loop, LoopInput
from tapegrad_numpy.loops.gathers import Gathers
from tapegrad_numpy.loops.layout import TASK_ELEMENTS
from tapegrad_numpy.loops.row_passes import is_heavy, names_in
from tapegrad_numpy.loops.source import CUT, WORK, Body, Kernel, Writer, bounds

_MOST, _MOST_OF_CHEAP = 32, 16
"""The most columns, and the most of a loop that takes about as long as to read its inputs.

CPU time on one core of a Cascade Lake of 120,000 elements of float32, row by row against this, in
microseconds: the hyperbolic tangent of rows plus a vector of 3 elements 892 against 162, of 10 274
against 167, of 20 159 against 150; rows plus a vector of 3 188 against 48, of 10 69 against 50, of
20 39 against 49.
"""
_MOST_BY_INDEX = 8
"""The most columns of a cheap loop that reads rows by index."""
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
    BY_INDEX = 4
    INDEX = 5
    """Only indices are made of it."""


def write_short_columns(loop: Loop) -> Kernel | None:
    """Return the kernel of a loop without reductions over few columns, None for other loops."""
    if 0 in loop.shape or any(output.axes for output in loop.outputs):
        return None
    writer = Writer(loop)
    reads = _reads(writer)
    if reads is None or not {_Read.REPEATED, _Read.SPREAD, _Read.BY_INDEX} & {*reads}:
        return None
    made = _ShortColumns(loop, writer, reads)
    is_costly = any(map(is_heavy, made.writer.formula.per_element))
    columns = writer.space.sizes[1]
    pays = columns <= _MOST_OF_CHEAP and _Read.SPREAD not in reads
    if _Read.BY_INDEX in reads:
        pays = columns < _MOST_BY_INDEX
    return made.kernel() if is_costly or pays else None


def _reads(writer: Writer) -> list[_Read] | None:
    """Return how the inputs are read, None if the loop has another form."""
    space, by_index = writer.space, writer.gathers.inputs
    windows = {i for i, read in enumerate(writer.loop.inputs) if read.window is not None}
    if len(space.sizes) != 2 or windows != {*by_index}:
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
    used = names_in([*writer.formula.once, *writer.formula.per_row, *writer.formula.per_element])
    for i in writer.gathers.for_indices:
        if found[i] is not _Read.SPREAD or i in by_index:
            return None
        if f"x{i}" not in used:
            found[i] = _Read.INDEX
    for i in by_index:
        found[i] = _Read.BY_INDEX if space.steps[i][0] == 0 else None
    return [read for read in found if read is not None] if None not in found else None


class _ShortColumns:
    """Writes the loop over all elements as if they were one row."""

    def __init__(self, loop: Loop, whole: Writer, reads: list[_Read]) -> None:
        size, space = prod(loop.shape), whole.space
        flat = [
            LoopInput(shape, shape, one.dtype)
            for one, read in zip(loop.inputs, reads)
            for shape in [(1,) if read is _Read.ONCE else (size,)]
        ]
        outputs = tuple([replace(output, shape=(size,)) for output in loop.outputs])
        self.writer = Writer(replace(loop, shape=(size,), inputs=tuple(flat), outputs=outputs))
        self.writer.gathers = Gathers(loop, space, self.writer.number)
        self.distances = {i: space.steps[i][1] for i in self.writer.gathers.inputs}
        self.firsts = {i: whole.windows.first(i) for i in self.distances}
        self.reads = reads
        self.columns = self.writer.number(space.sizes[1])

    def kernel(self) -> Kernel:
        """Return the kernel: tasks process whole rows."""
        writer = self.writer
        lines = [
            *writer.before(),
            WORK,
            f"const int64_t columns = {self.columns}, rows = {_BLOCK} / columns;",
            *bounds("begin", "end", f"task * {CUT['piece']} * columns", f"{CUT['piece']} * columns",
                    f"{CUT['inner']} * columns"),
            *writer.once(),
            *self._repeated(),
            "for (int64_t start = begin; start < end; start += rows * columns) {",
            "const int64_t count = end - start < rows * columns ? end - start : rows * columns;",
            *self._spread(),
            *self._by_index(),
            *self._addresses(),
            *writer.walk_over("0", "count", self._body()),
            "}\n}",
        ]  # fmt: skip
        self._divide()
        functions, numbers = frozenset(writer.functions), tuple(writer.numbers)
        return Kernel("\n".join(lines), functions, numbers, 0, reports=writer.reports)

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

    def _by_index(self) -> list[str]:
        """Arrays with the rows that are read by index."""
        writer, lines = self.writer, list[str]()

        def load(k: int) -> str:
            kind = writer.pointer(k)
            return writer.load(k, f"(({kind})data[{k}] + start / columns)[r]")

        by_row = "for (int64_t r = 0; r < count / columns; ++r) {"
        for i in self._at(_Read.BY_INDEX):
            kind, step = writer.pointer(i), writer.number(self.distances[i])
            first = writer.number(self.firsts[i])
            lines += [
                f"{writer.held_type(i)} spread{i}[{_BLOCK}];",
                by_row,
                *writer.place_by_index(i, load),
                f"{kind}t{i} = ({kind})data[{i}] + {first} + at{i};",
                "for (int64_t c = 0; c < columns; ++c) {",
                writer.load(i, f"t{i}[c * {step}]"),
                f"spread{i}[r * columns + c] = x{i};",
                "}\n}",
            ]
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
        names = {_Read.REPEATED: "repeated", _Read.SPREAD: "spread", _Read.BY_INDEX: "spread"}
        for read, name in names.items():
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
