"""C source of elementwise loops over few columns in which each column is a part of the formula.

A vector along such a row would be shorter than those of the processor. So the innermost loop runs
over rows, and its body has the statements of all columns. The values of an input beyond its ends
along the columns, as in a stack, are known when the source is written.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from itertools import chain

from tapegrad.core.trace.loop import Loop
from tapegrad_numpy.loops.formulas import formula
from tapegrad_numpy.loops.layout import TASK_ELEMENTS
from tapegrad_numpy.loops.row_passes import is_heavy, names_in
from tapegrad_numpy.loops.source import CUT, WORK, Body, Kernel, Writer, bounds

_MOST_COLUMNS, _MOST_OF_CHEAP = 8, 4
"""The most columns, and the most if there are only cheap operations on whole rows."""
_FEWEST_ROWS = 16
"""The fewest adjacent rows."""
_MOST_STATEMENTS = 96
"""The most statements of all columns, because registers are few."""

_NAME = re.compile(r"\b([vx]\d+)\b")


def write_unrolled_columns(loop: Loop) -> Kernel | None:
    """Return the kernel of a loop without reductions over few columns, None for other loops."""
    if 0 in loop.shape or any(output.axes for output in loop.outputs):
        return None
    writer = Writer(loop)
    sizes = writer.space.sizes
    if len(sizes) < 2 or sizes[-1] > _MOST_COLUMNS or sizes[-2] < _FEWEST_ROWS:
        return None
    if writer.gathers.inputs:
        return None
    offsets = [_offsets(writer, i) for i in range(len(loop.inputs))]
    found = [one for one in offsets if one is not None]
    lines = writer.formula.per_element
    is_worth_it = writer.windows.are_cut or any(map(is_heavy, lines))
    if len(found) < len(offsets) or not (is_worth_it or sizes[-1] <= _MOST_OF_CHEAP):
        return None
    if len(lines) * sizes[-1] > _MOST_STATEMENTS:
        return None
    return _UnrolledColumns(writer, found).kernel()


def _offsets(writer: Writer, i: int) -> list[int | None] | None:
    """Where each column of a row is read, None for zeros; None if the input has another form."""
    step, columns = writer.space.steps[i][-1], writer.space.sizes[-1]
    if i not in writer.windows.inputs:
        return [step * column for column in range(columns)]
    return writer.windows.offsets(i)


class _UnrolledColumns:
    """Writes the loop over rows."""

    def __init__(self, writer: Writer, offsets: Sequence[Sequence[int | None]]) -> None:
        self.writer, self.offsets = writer, offsets
        self.columns = writer.space.sizes[-1]
        count = len(offsets)
        self.by_column = {i for i, own in enumerate(offsets) if len({*own}) > 1 or None in own}
        """The inputs that change along the columns."""
        across = {i for i in range(count) if writer.space.steps[i][-2]}
        self.by_row = sorted(across - self.by_column)
        """The inputs that change with the row only."""
        self.fixed = sorted({*range(count)} - across - self.by_column)
        expressions = [output.expression for output in writer.loop.outputs]
        levels = [0 if i in self.fixed else 2 for i in range(count)]
        self.formula = formula(expressions, [f"x{i}" for i in range(count)], levels)
        self.renamed = self._names_by_column()
        """The names of values that differ between columns."""

    def _names_by_column(self) -> set[str]:
        names = {f"x{i}" for i in self.by_column}
        for line in self.formula.per_element:
            defined, *reads = names_in([line])
            if names & {*reads}:
                names.add(defined)
        return names

    def kernel(self) -> Kernel:
        """Return the kernel: tasks process some rows."""
        writer = self.writer
        kept = writer.space.kept_outer
        size = writer.number(writer.space.sizes[-2])
        lines = [
            WORK,
            *bounds("row", "last", f"task * {CUT['rows_at_once']}", CUT["rows_at_once"],
                    CUT["rows"]),
            "for (int64_t width; row < last; row += width) {",
            *writer.indices(kept, "row"),
            f"const int64_t left = {size} - i{kept[-1]};",
            "width = last - row < left ? last - row : left;",
            *map(self._address, range(len(self.offsets))),
            *[writer.load(i, f"p{i}[0]") for i in self.fixed],
            *self.formula.once,
            *writer.targets(),
            *writer.walk_whole("0", "width", self._body()),
            "}\n}",
        ]  # fmt: skip
        writer.cut(TASK_ELEMENTS)
        functions, numbers = self.formula.functions, tuple(writer.numbers)
        return Kernel("\n".join(lines), functions, numbers, 0)

    def _address(self, i: int) -> str:
        writer, steps = self.writer, self.writer.space.steps[i]
        places = [f"i{a} * {writer.number(s)}" for a, s in enumerate(steps[:-1]) if s]
        if i in writer.windows.inputs:
            places.append(writer.number(writer.windows.first(i)))
        kind = writer.pointer(i)
        return f"{kind}p{i} = ({kind})data[{i}] + {' + '.join(places) or '0'};"

    def _body(self) -> Body:
        """The statements of one row: all loads are before the stores."""
        columns = range(self.columns)
        statements = self.formula.per_element
        shared = [line for line in statements if not self._is_of_column(line)]
        own = [line for line in statements if self._is_of_column(line)]
        loads = {f"x{i}": self.writer.load(i, f"p{i}[{self._row(i)}]") for i in self.by_row}
        for i in sorted(self.by_column):
            loads |= {f"x{i}_{j}": self._load(i, j) for j in columns}
        by_column = chain.from_iterable([self._of_column(line, j) for line in own] for j in columns)
        stores = [*chain.from_iterable(self._stores(j) for j in columns)]
        return Body(loads, [*shared, *by_column], stores)

    def _is_of_column(self, line: str) -> bool:
        return not self.renamed.isdisjoint(names_in([line]))

    def _of_column(self, text: str, column: int) -> str:
        return _renamed(text, self.renamed, column)

    def _row(self, i: int) -> str:
        step = self.writer.space.steps[i][-2]
        # GCC reads whole rows by vectors if it knows their length.
        is_whole = step == self.columns
        return f"i * {step if is_whole or step == 1 else self.writer.number(step)}" if step else "0"

    def _load(self, i: int, column: int) -> str:
        offset = self.offsets[i][column]
        if offset is None:
            return self._of_column(f"const {self.writer.held_type(i)} x{i} = 0;", column)
        return self._of_column(self.writer.load(i, f"p{i}[{self._row(i)} + {offset}]"), column)

    def _stores(self, column: int) -> list[str]:
        stores = []
        for k in self.writer.stored():
            value = self.writer.stored_value(k, self.formula.results[k])
            value = self._of_column(value, column)
            stores.append(f"q{k}[i * {self.columns} + {column}] = {value};")
        return stores


def _renamed(text: str, names: Collection[str], column: int) -> str:
    """Return a text with the names of values of a column."""
    return _NAME.sub(lambda m: f"{m[1]}_{column}" if m[1] in names else m[1], text)
