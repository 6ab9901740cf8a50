"""C source of loops with stages over many short rows: rows are processed together.

The innermost loops run over adjacent rows, so that they have many steps and all statements are
vectorised, also those per row. Element j of all rows is processed before element j + 1. Inputs and
outputs in single and double precision are transposed in registers (tiles.py). Of another input, the
first pass that reads it makes a transposed copy on the stack for the other passes.

If the last axis that is kept is short as well, rows are adjacent along several axes. All inputs are
then copied into such arrays first, one row after the other.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import prod

from tapegrad_numpy.loops.column_stages import SUMMED
from tapegrad_numpy.loops.combining import Combination
from tapegrad_numpy.loops.element_types import storage
from tapegrad_numpy.loops.formulas import for_all_arguments
from tapegrad_numpy.loops.layout import VECTOR_BYTES
from tapegrad_numpy.loops.row_passes import ACROSS, ALONG, ELEMENT, Pass, Plan, is_heavy, names_in
from tapegrad_numpy.loops.source import CUT, WORK, Body, Writer, bounds
from tapegrad_numpy.loops.tiles import TYPES

LENGTH = 32
"""The longest short row."""
_MOST_CHEAP = 32
"""The most numbers per row, in all arrays of elements, for a sum and cheap operations.

This and the next limits are measured on one core of a Cascade Lake Xeon, with 256 rows and two to
twenty arrays. To transpose takes about 0.15 ns per number.
"""
_MOST_NUMBERS, _MOST_WITH_STAGES, _MOST_WITH_EXTREMES = 64, 96, 160
"""The most numbers per row if a row consists of whole vectors.

One row after the other takes no longer then, except for several sums, and for extremes of a vector.
"""
_MOST_ARRAYS, _MOST_WITH_FUNCTIONS = 6, 12
"""The most arrays of elements if rows have a rest beside whole vectors.

Elementary functions of the rest take as long as those of some vectors.
"""
_WITH_GAPS = 3
"""How many arrays an array counts that is not transposed, but read or written with gaps."""
TOGETHER = 128
"""The most rows that are processed together."""
_MOST_TOGETHER, _FEWEST_TOGETHER = 1 << 15, 32
"""The most bytes of transposed rows that are processed together, and the fewest rows."""
_SHORTEST_BLOCK = 4
"""Shorter rows are transposed without blocks of vectors, which takes less time."""
_FEWEST_DOUBLES = 6
"""The shortest rows of double that are transposed before they are stored."""
_FEWEST = 8
"""The fewest rows that are worth it."""
_GATHERED_LENGTH, _FEWEST_GATHERED, _MOST_GATHERED = 7, 64, 8
"""The longest rows that are adjacent along several axes, the fewest of them, the most inputs."""
_MOST_TRANSPOSED = 4
"""The most inputs that are copied to the stack."""

_OF_ALL = "for (int64_t i = 0; i < width; ++i) {"


def has_short_rows(writer: Writer) -> bool:
    """Return whether rows are short, and many of them are adjacent."""
    sizes, combined = writer.space.sizes, writer.space.combined
    is_along_last = len(sizes) > 1 and combined == (*[False] * (len(sizes) - 1), True)
    if not is_along_last or not writer.windows.are_fixed or not _can_gather(writer):
        return False
    if sizes[-2] < _FEWEST:
        return _are_gathered(writer)
    if sizes[-1] > LENGTH:
        return False
    lines, stages = writer.formula.per_element, writer.loop.stages
    has_extremes = any(stage.combine in ("maximum", "minimum") for stage in stages)
    arrays = _arrays_of_elements(writer)
    numbers = arrays * sizes[-1]
    if len(stages) < 2 and not has_extremes and not any(map(is_heavy, lines)):
        return numbers <= _MOST_CHEAP or sizes[-1] < _SHORTEST_BLOCK
    most = _MOST_WITH_STAGES if len(stages) > 1 else _MOST_NUMBERS
    if numbers <= (_MOST_WITH_EXTREMES if has_extremes else most):
        return True
    longest = max(stage.dtype.itemsize for stage in stages)
    has_functions = any("tg_" in line for line in lines)
    most = _MOST_WITH_FUNCTIONS if has_functions else _MOST_ARRAYS
    return bool(sizes[-1] % (VECTOR_BYTES // longest)) and arrays <= most


def _arrays_of_elements(writer: Writer) -> int:
    """Return the number of arrays of elements that a loop reads and writes."""
    loop = writer.loop
    dtypes = [read.dtype for read in loop.inputs if read.seen == loop.shape]
    dtypes += [loop.outputs[k].dtype for k in writer.stored()]
    return sum(1 if storage(dtype) in TYPES else _WITH_GAPS for dtype in dtypes)


def _can_gather(writer: Writer) -> bool:
    """Whether each row has separate indices, which are not read by index themselves."""
    gathers = writer.gathers
    have_own = all(any(gathers.moves[i][:-1]) for i in gathers.inputs)
    return have_own and not gathers.for_indices & {*gathers.inputs}


def _are_gathered(writer: Writer) -> bool:
    """Whether rows that are adjacent along several axes are processed together."""
    sizes, inputs = writer.space.sizes, writer.loop.inputs
    are_many = len(sizes) > 2 and prod(sizes[:-1]) >= _FEWEST_GATHERED
    return are_many and sizes[-1] <= _GATHERED_LENGTH and len(inputs) <= _MOST_GATHERED


def write_short_rows(writer: Writer) -> list[str]:
    """Return the function `work` and those that it calls."""
    return _ShortRows(writer).text()


class _ShortRows:
    """Writes passes over many rows at once."""

    def __init__(self, writer: Writer) -> None:
        writer.packed = []  # rows are processed together, so elements have gaps anyway
        self.writer = writer
        self.is_gathered = writer.space.sizes[-2] < _FEWEST
        """Whether inputs are copied first, because rows are adjacent along several axes."""
        levels = []
        for i, (*outer, across, along) in enumerate(writer.gathers.moves):
            are_any = self.is_gathered or i in writer.gathers.inputs
            moves = any((*outer, across)) if are_any else across
            level = (ACROSS if moves else 0) | (ALONG if along else 0)
            # What changes along outer axes alone is read once more for each row.
            levels.append(level or (ACROSS if any(outer) else 0))
        self.plan = Plan(writer, levels, ACROSS)
        self.values = self.plan.values
        self.arrays = self._values_between_loops()
        """The values per row that are stored for other loops than the one that computes them."""
        self.gathered = {i: level for i, level in enumerate(levels) if level in (ACROSS, ELEMENT)}
        """The inputs that are copied first, with their levels."""
        if not self.is_gathered:
            by_index = writer.gathers.inputs
            self.gathered = {i: level for i, level in self.gathered.items() if i in by_index}
        own = [i for i, level in enumerate(levels) if level == ELEMENT and i not in self.gathered]
        self.tiled = [i for i in own if self._lies_along(i)]
        """The inputs that are transposed first."""
        self.tiled_outputs = [] if self.is_gathered else self._tiled_outputs()
        """The outputs that are transposed last."""
        self.together = self._rows_together()
        shared = [i for i in own if i not in self.tiled and len(self._readers(i)) > 1]
        self.transposed = shared[:_MOST_TRANSPOSED]
        """The inputs that the first pass that reads them copies for the others."""

    def _lies_along(self, i: int) -> bool:
        """Whether the elements of a row of an input follow each other, and may be transposed."""
        across, along = self.writer.space.steps[i][-2:]
        return along == 1 and across > 0 and self.writer.input_type(i) in TYPES

    def _tiled_outputs(self) -> list[int]:
        """The outputs of float, and of double if there are several and rows are not very short."""
        stored = self.writer.stored()
        kinds = {k: storage(self.writer.loop.outputs[k].dtype) for k in stored}
        is_much = len(stored) > 1 and self.writer.space.sizes[-1] >= _FEWEST_DOUBLES
        return [k for k in stored if kinds[k] == "float" or (kinds[k] == "double" and is_much)]

    def _rows_together(self) -> int:
        """The number of rows that are processed together, so that their elements fit a cache."""
        loop = self.writer.loop
        dtypes = [loop.inputs[i].dtype for i in self.tiled]
        dtypes += [loop.outputs[k].dtype for k in self.tiled_outputs]
        row = sum(dtype.itemsize for dtype in dtypes) * self.writer.space.sizes[-1]
        together = TOGETHER
        while row * together > _MOST_TOGETHER and together > _FEWEST_TOGETHER:
            together //= 2
        return together

    def _readers(self, i: int) -> list[Pass]:
        return [one for one in self.plan.passes if f"x{i}" in one.names]

    # Values per row

    def _read_by_pass(self, one: Pass) -> list[str]:
        """The values per row that the statements of a pass read."""
        computed = one.names - one.given
        reads = [read for name in computed for read in self.values[name].reads]
        return self._across([*reads, *names_in(one.wanted)])

    def _read_per_row(self, time: int) -> list[str]:
        """The values per row that the statements per row read that run before a pass."""
        own = self.plan.of_rows(time)
        reads = [read for name in own for read in self.values[name].reads]
        is_last = time == len(self.plan.passes)
        results = names_in(self._row_outputs().values()) if is_last else []
        finished = self._finished(time)
        return [name for name in self._across([*reads, *results]) if name not in {*own, *finished}]

    def _across(self, names: Iterable[str]) -> list[str]:
        return sorted({name for name in names if self.values[name].level == ACROSS})

    def _finished(self, time: int) -> dict[str, Combination]:
        """The stages that the pass before this time reduces."""
        stages = {self.plan.stage_name(part.k): part for part in self.plan.parts}
        return {name: part for name, part in stages.items() if self.values[name].time == time}

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
        loads = {}
        for name in names:
            if name in self.arrays:
                loads[name] = f"const {self.values[name].type} {name} = row_{name}[i];"
            else:
                i = int(name[1:])
                if i in self.gathered:
                    loads[name] = self.writer.held(i, f"r{i}[i]")
                    continue
                loads[name] = self.writer.load(i, f"p{i}[{self._place(i, is_element=False)}]")
        return loads

    # Source

    def text(self) -> list[str]:
        """The functions that finish stages, and `work`."""
        writer, plan = self.writer, self.plan
        closings = [part.closing() for part in plan.parts]
        writer.functions.update(*(calls for _, calls in closings))
        start = f"task * {CUT['rows_at_once']}"
        kept = writer.space.kept_outer
        lines = [
            *(text for text, _ in closings),
            WORK,
            *bounds("row", "last", start, CUT["rows_at_once"], CUT["rows"]),
            # A variable, because the compiler reads memory again after each store.
            f"const int64_t length = {CUT['inner']};",
            *self._buffers(),
            *writer.once(),
            "for (int64_t width; row < last; row += width) {",
            *writer.indices(kept, "row"),
            *self._width(kept[-1]),
            f"width = width < {self.together} ? width : {self.together};",
            *(self._address(i) for i, level in enumerate(writer.levels) if level),
            *writer.targets(),
            *self._row_targets(),
            *self._gathers(),
            *self._tiles(),
        ]
        for number, one in enumerate(plan.passes):
            lines += [*self._row_statements(number), *self._pass(one)]
        lines += self._row_statements(len(plan.passes))
        return [*lines, *self._stored_tiles(), "}\n}"]

    def _row_targets(self) -> list[str]:
        """The addresses of the outputs that have one value per row."""
        lines = []
        for k in self._row_outputs():
            kind, place = storage(self.writer.loop.outputs[k].dtype), len(self.writer.loop.inputs)
            lines.append(f"{kind} *w{k} = ({kind} *)data[{place + k}] + row;")
        return lines

    def _width(self, axis: int) -> list[str]:
        """The number of rows that are processed together: without gathers along the last axis."""
        if self.is_gathered:
            return ["width = last - row;"]
        return [
            f"const int64_t left = {self._number(self.writer.space.sizes[-2])} - i{axis};",
            "width = last - row < left ? last - row : left;",
        ]

    def _tiles(self) -> list[str]:
        """Copies of the inputs whose rows lie along memory."""
        lines = []
        for i in self.tiled:
            across = self._number(self.writer.space.steps[i][-2])
            call = f"transposed_{self.writer.input_type(i)}"
            lines.append(f"{call}(t{i}, {self.together}, p{i}, {across}, width, length);")
        return lines

    def _stored_tiles(self) -> list[str]:
        """Copies to the outputs."""
        lines = []
        for k in self.tiled_outputs:
            call = f"transposed_{storage(self.writer.loop.outputs[k].dtype)}"
            lines.append(f"{call}(q{k}, length, o{k}, {self.together}, length, width);")
        return lines

    def _gathers(self) -> list[str]:
        """Copies of the inputs of all rows that are processed together."""
        if not self.gathered:
            return []
        sizes, kept = self.writer.space.sizes, self.writer.space.kept_outer
        # Variables, because the compiler reads memory again after each store.
        lines = [f"int64_t k{axis} = i{axis};" for axis in kept]
        lines += [f"const int64_t n{axis} = {self._number(sizes[axis])};" for axis in kept]
        inner = []
        for i, level in self.gathered.items():
            steps = {axis: step for axis, step in enumerate(self.writer.space.steps[i]) if step}
            lines += [f"const int64_t s{i}_{a} = {self._number(n)};" for a, n in steps.items()]
            inner += self._gather(i, level)
        for axis in reversed(kept[1:]):
            inner.append(f"if (++k{axis} == n{axis}) {{ k{axis} = 0;")
        lines += [_OF_ALL, *inner, f"++k{kept[0]};"]
        return [*lines, "}" * (len(kept) - 1), "}"]

    def _gather(self, i: int, level: int) -> list[str]:
        """The copy of an input of one row."""
        gathers, along = self.writer.gathers, len(self.writer.space.sizes) - 1
        by_row = [*self._by_index(i)] if i in gathers.inputs and i not in gathers.varied else []
        by_element = [*self._by_index(i)] if i in gathers.varied else []
        start = " + ".join([self._of_row(i), *[f"at{i}"] * bool(by_row)])
        lines = [*by_row, f"{self.writer.pointer(i)}g{i} = p{i} + {start};"]
        place = [f"j * s{i}_{along}"] if self.writer.space.steps[i][along] else []
        place += [f"at{i}"] * bool(by_element)
        if level == ACROSS:
            return [*lines, "{", self.writer.load(i, f"g{i}[0]"), f"r{i}[i] = x{i};", "}"]
        return [
            *lines,
            "for (int64_t j = 0; j < length; ++j) {",
            *by_element,
            self.writer.load(i, f"g{i}[{' + '.join(place)}]"),
            f"t{i}[j * {self.together} + i] = x{i};",
            "}",
        ]

    def _of_row(self, i: int) -> str:
        """Where the row is in an input that is copied, or of which indices are read."""
        if i not in self.gathered:
            return self._place(i, is_element=False)
        steps, kept = self.writer.space.steps[i], self.writer.space.kept_outer
        return " + ".join(f"k{axis} * s{i}_{axis}" for axis in kept if steps[axis]) or "0"

    def _by_index(self, i: int) -> list[str]:
        """The place of a row, or of an element, that is read by index."""

        def load(k: int) -> str:
            along = self.writer.space.steps[k][-1]
            element = f" + j * {self._number(along)}" if along else ""
            place = self._of_row(k) if self.writer.levels[k] else "0"
            return self.writer.load(k, f"p{k}[{place}{element}]")

        return self.writer.place_by_index(i, load)

    def _buffers(self) -> list[str]:
        kept = [(f"kept_{name}", self.values[name].type) for name in self.plan.kept()]
        kept += [(f"t{i}", self.writer.held_type(i)) for i in (*self.transposed, *self.tiled)]
        outputs = self.writer.loop.outputs
        kept += [(f"o{k}", storage(outputs[k].dtype)) for k in self.tiled_outputs]
        is_long = self.writer.space.sizes[-1] > SUMMED
        sums = [(f"high{p.k}", "double" if p.sums and is_long else p.type) for p in self.plan.parts]
        rows = [(f"row_{name}", self.values[name].type) for name in self.arrays]
        for i, level in self.gathered.items():
            own = (f"{'t' if level == ELEMENT else 'r'}{i}", self.writer.held_type(i))
            (kept if level == ELEMENT else rows).append(own)
        return [
            *(f"{kind} {name}[{LENGTH * self.together}];" for name, kind in kept),
            *(f"{kind} {name}[{self.together}];" for name, kind in (*sums, *rows)),
        ]

    def _place(self, i: int, *, is_element: bool) -> str:
        """Where row i of those that are processed together has a value of an input."""
        across, along = self.writer.space.steps[i][-2:]
        if is_element and (across, along) == (self.writer.space.sizes[-1], 1):
            return "i * length + j"
        terms = {"i": across, "j": along if is_element else 0}
        found = [
            name if n == 1 else f"{name} * {self._number(n)}" for name, n in terms.items() if n
        ]
        return " + ".join(found) or "0"

    def _number(self, value: int) -> str:
        return self.writer.number(value)

    def _address(self, i: int) -> str:
        kind, steps = self.writer.pointer(i), self.writer.space.steps[i]
        places = [f"i{a} * {self._number(s)}" for a, s in enumerate(steps[:-1]) if s]
        places = [] if i in self.gathered else places
        if i in self.writer.windows.inputs:
            places.append(self._number(self.writer.windows.first(i)))
        return f"{kind}p{i} = ({kind})data[{i}] + {' + '.join(places) or '0'};"

    def _row_statements(self, time: int) -> list[str]:
        """A loop over rows that finishes stages and computes the values per row of a time."""
        own = self.plan.of_rows(time)
        lines = [
            f"const {self.values[name].type} {name} = finish{part.k}_KEY(high{part.k}[i]);"
            for name, part in self._finished(time).items()
        ]
        lines += [self.values[name].line for name in own]
        defined = {*own, *self._finished(time)}
        ends = [f"row_{name}[i] = {name};" for name in self.arrays if name in defined]
        if time == len(self.plan.passes):
            for k, value in self._row_outputs().items():
                ends.append(f"w{k}[i] = {self.writer.stored_value(k, value)};")
        if not ends:
            return []
        loads = self._row_loads(self._read_per_row(time))
        return ["{", *self.writer.walk_whole("0", "width", Body(loads, lines, ends)), "}"]

    def _pass(self, one: Pass) -> list[str]:
        parts = [self.plan.parts[k] for k in one.stages]
        along = {name for name in one.names if self.values[name].level == ALONG}
        inputs = [i for i in range(len(self.writer.loop.inputs)) if f"x{i}" in along]
        cleared = [f"high{part.k}[i] = {part.identity()};" for part in parts]
        return [
            *(["#pragma omp simd", _OF_ALL, *cleared, "}"] if cleared else []),
            "for (int64_t j = 0; j < length; ++j) {",
            *(self.writer.load(i, f"p{i}[{self._place(i, is_element=True)}]") for i in inputs),
            *map(for_all_arguments, self.plan.chosen(one, ALONG)),
            *self.writer.walk_over("0", "width", self._body(one, parts)),
            "}",
        ]  # fmt: skip

    def _body(self, one: Pass, parts: list[Combination]) -> Body:
        place, in_row = f"j * {self.together} + i", "i * length + j"
        loads = self._row_loads(self._read_by_pass(one))
        ends = []
        for i in range(len(self.writer.loop.inputs)):
            if f"x{i}" not in one.names or self.values[f"x{i}"].level != ELEMENT:
                continue
            is_copy = i in self.transposed and self._readers(i)[0] is not one
            is_copy = is_copy or i in self.gathered or i in self.tiled
            if is_copy:
                loads[f"x{i}"] = self.writer.held(i, f"t{i}[{place}]")
            else:
                own = f"p{i}[{self._place(i, is_element=True)}]"
                loads[f"x{i}"] = self.writer.load(i, own)
            if i in self.transposed and not is_copy:
                ends.append(f"t{i}[{place}] = x{i};")
        for name in sorted(one.given):
            loads[name] = f"const {self.values[name].type} {name} = kept_{name}[{place}];"
        ends += [f"kept_{name}[{place}] = {name};" for name in sorted(one.kept)]
        ends += [part.joined(f"high{part.k}[i]", self.plan.stage_values[part.k]) for part in parts]
        if one.stores:
            for k in self.writer.stored():
                value = self.writer.stored_value(k, self.plan.output_values[k])
                is_tiled = k in self.tiled_outputs
                ends.append(
                    f"o{k}[{place}] = {value};" if is_tiled else f"q{k}[{in_row}] = {value};"
                )
        return Body(loads, self.plan.chosen(one, ELEMENT), ends)
