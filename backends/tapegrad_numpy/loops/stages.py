"""C source of loops with stages: several passes over each row, in one function.

The passes are planned in row_passes.py. Many short rows are in short_rows.py, and rows that do not
lie along the last axis in column_stages.py.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import prod

import numpy as np

from tapegrad.core.trace.expression import UntraceableError, array_input
from tapegrad.core.trace.loop import Loop, LoopOutput
from tapegrad_numpy.loops.column_stages import lies_across, write_column_stages
from tapegrad_numpy.loops.combining import PIECE, Combination, inner_sums
from tapegrad_numpy.loops.dtypes import LOOP_DTYPES
from tapegrad_numpy.loops.element_types import storage, stored
from tapegrad_numpy.loops.formulas import for_all_arguments
from tapegrad_numpy.loops.row_passes import ALONG, CONSTANT, ELEMENT, Pass, Plan, is_heavy, names_in
from tapegrad_numpy.loops.short_rows import LENGTH, has_short_rows, write_short_rows
from tapegrad_numpy.loops.source import CUT, WORK, Body, Kernel, Writer, bounds

KEPT_ELEMENTS = 4096
"""The longest rows of which values are kept on the stack from one pass to the next.

Values of longer rows are kept where other loops have their partial results, per task.
"""
_SIZES = {storage(np.dtype(name)): np.dtype(name).itemsize for name in LOOP_DTYPES - {"bfloat16"}}
_TOGETHER = 64
"""The rows whose last statements are computed together."""
_SLOT = 16
"""The size of a partial result in bytes."""


def write_stages(loop: Loop) -> Kernel:
    """Return the kernel of a loop with stages."""
    if 0 in loop.shape and any(stage.combine in ("maximum", "minimum") for stage in loop.stages):
        raise UntraceableError("The maximum or minimum of no elements is undefined.")
    writer = Writer(loop)
    if lies_across(writer):
        text, together = write_column_stages(writer)
        writer.cut(together)
        return writer.kernel(text)
    slots, are_short = 0, has_short_rows(writer)
    if are_short:
        text = write_short_rows(writer)
    else:
        rows = _LongRows(writer)
        text, slots = rows.text(), rows.slots
    slots *= writer.cut(PIECE).tasks
    # GCC reads elements with gaps by vectors only if it does not know the distance.
    return writer.kernel(text, slots, is_for_length=not are_short)


def with_short_rows(loop: Loop) -> Kernel | None:
    """Return the kernel of a loop that reduces many short rows, None for others.

    Vectors along such a row would be shorter than those of the processor, so the reductions become
    stages, and rows are processed together.
    """
    last = len(loop.shape) - 1
    if loop.stages or loop.axes != (last,) or loop.shape[last] > LENGTH or 0 in loop.shape:
        return None
    stages = [output for output in loop.outputs if output.combine is not None]
    results = iter([array_input(len(loop.inputs) + k, one.dtype) for k, one in enumerate(stages)])
    outputs = [
        output if output.combine is None else LoopOutput(next(results), output.shape, axes=(last,))
        for output in loop.outputs
    ]
    staged = replace(loop, stages=tuple(stages), outputs=tuple(outputs))
    return write_stages(staged) if has_short_rows(Writer(staged)) else None


class _LongRows:
    """Writes passes along each row."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self.outer = writer.space.combined_outer
        """The reduced axes except the innermost."""
        levels = []
        for moves in writer.gathers.moves:
            along = ALONG if any(moves[axis] for axis in self.outer) else CONSTANT
            levels.append(ELEMENT if moves[-1] else along)
        self.plan = Plan(writer, levels, CONSTANT)
        self.slots = 0
        """The number of partial results per task that hold kept values."""
        self.is_late = any(map(is_heavy, self._row_statements(len(self.plan.passes))))
        """Whether the last statements per row are vectorised, which takes a loop over some rows."""

    def text(self) -> list[str]:
        """The functions that finish stages, and `work`."""
        writer, plan = self.writer, self.plan
        closings = [part.closing() for part in plan.parts]
        writer.functions.update(*(calls for _, calls in closings))
        start = f"task * {CUT['rows_at_once']}"
        kept = self._kept()
        lines = [
            *writer.before(),
            *(text for text, _ in closings),
            WORK,
            *bounds("row", "last", start, CUT["rows_at_once"], CUT["rows"]),
            *kept,
            *writer.once(),
            *writer.indices(writer.space.kept_outer, "row"),
            *self._over_rows(),
            *writer.addresses(self._inputs(plan.values, is_step=False)),
            *([] if self.outer else writer.targets()),
        ]
        for number, one in enumerate(plan.passes):
            lines += [*self._row_statements(number), *self._pass(one)]
        if self.is_late:
            lines += self._late_rows()
        else:
            lines += [*self._row_statements(len(plan.passes)), *self._row_results("row")]
            lines += writer.advance(writer.space.kept_outer)
        lines.append("}\n}")
        if self.slots:  # they are not partial results, so there is nothing to do with them
            lines.append("static void close_KEY(char **data, const int64_t *z, const Slot *s) {}")
        return lines

    def _kept(self) -> list[str]:
        """The arrays of values that are kept between passes."""
        types = {name: self.plan.values[name].type for name in self.plan.kept()}
        sizes = self.writer.space.sizes
        length = sizes[-1] * prod(sizes[axis] for axis in self.outer)
        if length <= KEPT_ELEMENTS:
            return [f"{kind} kept_{name}[{KEPT_ELEMENTS}];" for name, kind in types.items()]
        starts = {}
        for name, kind in types.items():
            starts[name] = self.slots
            self.slots += -(-length * _SIZES[kind] // _SLOT)
        count = self.writer.number(self.slots)
        return [
            f"{kind} *kept_{name} = "
            f"({kind} *)(slots + task * {count} + {self.writer.number(starts[name])});"
            for name, kind in types.items()
        ]

    def _row_lines(self, time: int) -> list[str]:
        return [self.plan.values[name].line for name in self.plan.of_rows(time)]

    def _row_statements(self, time: int) -> list[str]:
        return [*map(for_all_arguments, self._row_lines(time))]

    def _inputs(self, names: Iterable[str], is_step: bool) -> list[int]:
        """The inputs among names whose addresses are found per step, or else once per row."""
        found, windows = [], self.writer.windows
        for i, level in enumerate(self.writer.levels):
            # Where rows are cut into parts, the addresses of all windows are moved.
            is_moved = windows.are_cut and i in windows.inputs
            is_moved = is_moved or i in self.writer.gathers.for_indices
            if level and (f"x{i}" in names or is_moved):
                of_step = bool(self.outer) and not self.plan.values[f"x{i}"].is_of_row
                found += [i] if of_step == is_step else []
        return found

    def _over_rows(self) -> list[str]:
        """The beginning of the loop over rows, which runs over some at a time if one is late."""
        if not self.is_late:
            return ["for (; row < last; ++row) {"]
        return [
            *[f"{kind} late_{name}[{_TOGETHER}];" for name, kind in self._late_names().items()],
            f"for (int64_t start = row; start < last; start += {_TOGETHER}) {{",
            f"const int64_t until = start + {_TOGETHER} < last ? start + {_TOGETHER} : last;",
            "for (row = start; row < until; ++row) {",
        ]

    def _late_names(self) -> dict[str, str]:
        """The values of a row that its last statements and results read, and their types."""
        plan, writer = self.plan, self.writer
        own = plan.of_rows(len(plan.passes))
        texts = [v for v, output in zip(plan.output_values, writer.loop.outputs) if output.axes]
        reads = [read for name in own for read in plan.values[name].reads] + names_in(texts)
        types = {}
        for name in sorted({*reads} - {*own}):
            number, is_input = int(name[1:]), name[0] == "x"
            if is_input and number < len(writer.levels):
                if writer.levels[number]:
                    types[name] = writer.held_type(number)
            elif plan.values[name].line not in writer.formula.once:
                types[name] = plan.values[name].type
        return types

    def _late_rows(self) -> list[str]:
        """Compute the last statements of some rows, and store their results."""
        names = self._late_names()
        loads = {
            name: f"const {kind} {name} = late_{name}[i - start];" for name, kind in names.items()
        }
        body = Body(loads, self._row_lines(len(self.plan.passes)), self._row_results("i"))
        return [
            *[f"late_{name}[row - start] = {name};" for name in names],
            *self.writer.advance(self.writer.space.kept_outer),
            "}",
            *self.writer.walk_whole("start", "until", body),
        ]

    def _row_results(self, row: str) -> list[str]:
        """Stores of the outputs that have one value per row."""
        lines = []
        for k, output in enumerate(self.writer.loop.outputs):
            if output.axes:
                target, place = storage(output.dtype), len(self.writer.loop.inputs) + k
                value = stored(output.dtype, self.plan.output_values[k])
                lines.append(f"(({target} *)data[{place}])[{row}] = {value};")
        return lines

    def _pass(self, one: Pass) -> list[str]:
        """One pass over the row, and the values of its stages."""
        parts = [self.plan.parts[k] for k in one.stages]
        lines = [line for part in parts for line in (*part.accumulators(""), part.cleared(""))]
        if self.outer:
            lines += ["{", f"int64_t {', '.join(f'i{axis} = 0' for axis in self.outer)};"]
            lines.append(f"for (int64_t deep = 0; deep < {CUT['deep']}; ++deep) {{")
            lines += self.writer.addresses(self._inputs(one.names, is_step=True))
            lines += self.writer.targets() if one.stores else []
            lines += self.plan.chosen(one, ALONG)
        end, inner = f"begin + {PIECE}", CUT["inner"]
        lines.append(f"for (int64_t begin = 0; begin < {inner}; begin += {PIECE}) {{")
        lines.append(f"const int64_t end = {end} < {inner} ? {end} : {inner};")
        lines += self._inner(one, parts)
        lines.append("}")
        lines += [*self.writer.advance(self.outer), "}", "}"] if self.outer else []
        for part in parts:
            name = self.plan.stage_name(part.k)
            lines.append(f"const {self.plan.values[name].type} {name} = {part.finished('')};")
        return lines

    def _inner(self, one: Pass, parts: list[Combination]) -> list[str]:
        place = f"deep * {CUT['inner']} + i" if self.outer else "i"
        loads = {name: load for name, load in self.writer.loads().items() if name in one.names}
        for name in sorted(one.given):
            loads[name] = f"const {self.plan.values[name].type} {name} = kept_{name}[{place}];"
        stores = [f"kept_{name}[{place}] = {name};" for name in sorted(one.kept)]
        stores += self.writer.stores() if one.stores else []
        statements = self.plan.chosen(one, ELEMENT)

        def walk(begin: str, end: str, uses: Sequence[str], reductions: str) -> list[str]:
            body = Body(loads, statements, [*stores, *uses])
            return self.writer.walk_over(begin, end, body, reductions)

        is_whole = not self.outer and self.writer.space.sizes[-1] <= PIECE
        return inner_sums(parts, self.plan.stage_values, walk, is_whole=is_whole)
