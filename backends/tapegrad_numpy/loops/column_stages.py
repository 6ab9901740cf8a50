"""C source of loops with stages whose rows lie along other axes than the last one.

The innermost loops run over neighbouring rows, whose elements are neighbours in memory, so they are
vectorised without gaps. Step `deep` of all these rows is processed before the next one. A softmax
over the second of three axes is such a loop.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from tapegrad.core.trace.expression import UntraceableError
from tapegrad_numpy.loops.element_types import storage
from tapegrad_numpy.loops.formulas import for_all_arguments
from tapegrad_numpy.loops.row_passes import ACROSS, ALONG, CONSTANT, ELEMENT, Pass, Plan, names_in
from tapegrad_numpy.loops.source import CUT, WORK, Body, Writer, bounds

TOGETHER = 128
"""The most rows that are processed together."""
SUMMED = 16
"""The number of steps that are summed in their own precision before accumulation in double."""
KEPT_ELEMENTS = 8192
"""The most elements of these rows of which values are kept on the stack between passes."""


def lies_across(writer: Writer) -> bool:
    """Return whether the last axis of the space is not reduced."""
    return not writer.space.combined[-1]


def write_column_stages(writer: Writer) -> tuple[list[str], int]:
    """Return the functions that finish stages and `work`, and how many rows run together."""
    columns = _Columns(writer)
    return columns.text(), columns.together


class _Columns:
    """Writes passes over neighbouring rows."""

    def __init__(self, writer: Writer) -> None:
        writer.packed = []  # elements that an input repeats for all tasks are neighbours already
        self.writer = writer
        self.reduced = writer.space.combined_outer
        levels = []
        for moves in writer.gathers.moves:
            along = any(moves[axis] for axis in self.reduced)
            levels.append((ACROSS if moves[-1] else 0) | (ALONG if along else 0))
        self.plan = Plan(writer, levels, ACROSS)
        self.values = self.plan.values
        self.together = self._rows_at_once()
        self.arrays = self._values_between_loops()
        """The values per row that are stored for other loops than the one that computes them."""

    def _rows_at_once(self) -> int:
        if not self.plan.kept():
            return TOGETHER
        length = prod(self.writer.space.sizes[axis] for axis in self.reduced)
        if length > KEPT_ELEMENTS:
            raise UntraceableError("Values of rows of this length are not kept.")
        return min(TOGETHER, KEPT_ELEMENTS // length)

    # Values per row

    def _read_by_pass(self, one: Pass) -> list[str]:
        """The values per row that the statements of a pass read."""
        computed = one.names - one.given
        reads = [read for name in computed for read in self.values[name].reads]
        return self._across([*reads, *names_in(one.wanted)])

    def _read_per_row(self, time: int) -> list[str]:
        """The values per row that the statements per row read that run before a pass."""
        own = self._own(time)
        reads = [read for name in own for read in self.values[name].reads]
        is_last = time == len(self.plan.passes)
        results = names_in(self._row_outputs().values()) if is_last else []
        defined = {*own, *self._finished(time)}
        return [name for name in self._across([*reads, *results]) if name not in defined]

    def _own(self, time: int) -> list[str]:
        """The statements per row that run before a pass."""
        return [name for name in self.plan.of_rows(time) if self.values[name].level == ACROSS]

    def _across(self, names: Iterable[str]) -> list[str]:
        return sorted({name for name in names if self.values[name].level == ACROSS})

    def _finished(self, time: int) -> dict[str, int]:
        """The stages that the pass before this time reduces."""
        stages = {self.plan.stage_name(part.k): part.k for part in self.plan.parts}
        return {name: k for name, k in stages.items() if self.values[name].time == time}

    def _row_outputs(self) -> dict[int, str]:
        """The outputs that have one value per row, with their values."""
        outputs = enumerate(self.writer.loop.outputs)
        return {k: self.plan.output_values[k] for k, output in outputs if output.axes}

    def _values_between_loops(self) -> list[str]:
        reads = [name for one in self.plan.passes for name in self._read_by_pass(one)]
        for time in range(len(self.plan.passes) + 1):
            reads += self._read_per_row(time)
        inputs = {f"x{i}" for i in range(len(self.writer.loop.inputs))}
        return sorted({*reads} - inputs)

    def _row_loads(self, names: Iterable[str]) -> dict[str, str]:
        """Loads of values per row, from inputs and from arrays."""
        loads, own = {}, self.writer.loads()
        for name in names:
            stored = f"const {self.values[name].type} {name} = row_{name}[i - begin];"
            loads[name] = stored if name in self.arrays else own[name]
        return loads

    # Source

    def text(self) -> list[str]:
        """The functions that finish stages, and `work`."""
        writer, plan = self.writer, self.plan
        closings = [part.closing() for part in plan.parts]
        writer.functions.update(*(calls for _, calls in closings))
        kept = writer.space.kept_outer
        group = f"task / {CUT['pieces']} * {CUT['rows_at_once']}"
        part = f"task % {CUT['pieces']} * {CUT['piece']}"
        lines = [
            *writer.before(),
            *(text for text, _ in closings),
            WORK,
            *bounds("begin", "end", part, CUT["piece"], CUT["inner"]),
            *bounds("row", "last", group, CUT["rows_at_once"], CUT["rows"]),
            "const int64_t width = end - begin;",
            *self._buffers(),
            *writer.once(),
            *writer.indices(kept, "row"),
            "for (; row < last; ++row) {",
            *writer.addresses(self._inputs(plan.values, is_step=False)),
            *self._row_targets(),
            *self._constants(),
        ]
        for number, one in enumerate(plan.passes):
            lines += [*self._row_statements(number), *self._pass(one)]
        lines += self._row_statements(len(plan.passes))
        return [*lines, *writer.advance(kept), "}\n}"]

    def _buffers(self) -> list[str]:
        kept = [(f"kept_{name}", self.values[name].type) for name in self.plan.kept()]
        sums = [(f"high{p.k}", "double" if p.sums else p.type) for p in self.plan.parts]
        sums += [(f"sum{p.k}", p.type) for p in self.plan.parts if p.sums]
        rows = [(f"row_{name}", self.values[name].type) for name in self.arrays]
        return [
            *(f"{kind} {name}[{KEPT_ELEMENTS}];" for name, kind in kept),
            *(f"{kind} {name}[{TOGETHER}];" for name, kind in (*sums, *rows)),
        ]

    def _constants(self) -> list[str]:
        """The statements that are the same for all rows that are processed together."""
        own = [name for name in self.plan.of_rows(0) if self.values[name].level == CONSTANT]
        return [for_all_arguments(self.values[name].line) for name in own]

    def _row_targets(self) -> list[str]:
        """The addresses of the outputs that have one value per row."""
        lines = []
        for k in self._row_outputs():
            kind, place = storage(self.writer.loop.outputs[k].dtype), len(self.writer.loop.inputs)
            lines.append(f"{kind} *w{k} = ({kind} *)data[{place + k}] + row * {CUT['inner']};")
        return lines

    def _inputs(self, names: Iterable[str], *, is_step: bool) -> list[int]:
        """The inputs among names whose addresses are found per step, or else once per row."""
        found, windows = [], self.writer.windows
        for i, level in enumerate(self.writer.levels):
            # Where rows are cut into parts, the addresses of all windows are moved.
            is_moved = windows.are_cut and i in windows.inputs
            is_moved = is_moved or i in self.writer.gathers.for_indices
            if level and (f"x{i}" in names or is_moved):
                found += [i] if (not self.values[f"x{i}"].is_of_row) == is_step else []
        return found

    def _row_statements(self, time: int) -> list[str]:
        """A loop over rows that finishes stages and computes the values per row of a time."""
        own, finished = self._own(time), self._finished(time)
        loads = self._row_loads(self._read_per_row(time))
        for name, k in finished.items():
            kind = self.values[name].type
            loads[name] = f"const {kind} {name} = finish{k}_KEY(high{k}[i - begin]);"
        lines = [self.values[name].line for name in own]
        defined = {*own, *finished}
        ends = [f"row_{name}[i - begin] = {name};" for name in self.arrays if name in defined]
        if time == len(self.plan.passes):
            for k, value in self._row_outputs().items():
                ends.append(f"w{k}[i] = {self.writer.stored_value(k, value)};")
        if not ends:
            return []
        body = Body(loads, lines, ends)
        walk = self.writer.walk_over("begin", "end", body)
        if not self.writer.windows.are_cut:
            return ["{", *walk, "}"]
        # The parts of a row are those of all inputs, so all inputs have addresses.
        return ["{", *self._indices(), *self._step_addresses(()), *walk, "}"]

    def _indices(self) -> list[str]:
        return [f"int64_t {', '.join(f'i{axis} = 0' for axis in self.reduced)};"]

    def _step_addresses(self, names: Iterable[str]) -> list[str]:
        return self.writer.addresses(self._inputs({*names}, is_step=True))

    def _pass(self, one: Pass) -> list[str]:
        parts = [self.plan.parts[k] for k in one.stages]
        sums = [part for part in parts if part.sums]
        some = f"some + {SUMMED} < {CUT['deep']} ? some + {SUMMED} : {CUT['deep']}"
        steps = [
            "for (int64_t deep = some; deep < until; ++deep) {",
            *self._step_addresses(one.names),
            *(self.writer.targets() if one.stores else []),
            *map(for_all_arguments, self.plan.chosen(one, ALONG)),
            *self.writer.walk_over("begin", "end", self._body(one)),
            *self.writer.advance(self.reduced),
            "}",
        ]
        return [
            *_of_all(f"high{part.k}[i] = {part.identity()};" for part in parts),
            "{",
            *self._indices(),
            f"for (int64_t some = 0, until; some < {CUT['deep']}; some = until) {{",
            f"until = {some};" if sums else f"until = {CUT['deep']};",
            *_of_all(f"sum{part.k}[i] = 0;" for part in sums),
            *steps,
            *_of_all(f"high{part.k}[i] += sum{part.k}[i];" for part in sums),
            "}",
            "}",
        ]

    def _body(self, one: Pass) -> Body:
        loads = self._row_loads(self._read_by_pass(one))
        for name, load in self.writer.loads().items():
            if name in one.names:
                loads[name] = load
        place = "deep * width + i - begin"
        for name in sorted(one.given):
            loads[name] = f"const {self.values[name].type} {name} = kept_{name}[{place}];"
        ends = [f"kept_{name}[{place}] = {name};" for name in sorted(one.kept)]
        ends += self._sums(one.stages)
        ends += self.writer.stores() if one.stores else []
        return Body(loads, self.plan.chosen(one, ELEMENT), ends)

    def _sums(self, stages: Sequence[int]) -> list[str]:
        parts, values = self.plan.parts, self.plan.stage_values
        return [
            parts[k].joined(f"{'sum' if parts[k].sums else 'high'}{k}[i - begin]", values[k])
            for k in stages
        ]


def _of_all(statements: Iterable[str]) -> list[str]:
    """A loop over the rows that are processed together, if there is anything to do."""
    found = [*statements]
    head = ["#pragma omp simd", "for (int64_t i = 0; i < width; ++i) {"]
    return [*head, *found, "}"] if found else []
