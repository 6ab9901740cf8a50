"""Generate the C source of a loop, and the integers with its sizes.

Loops that differ only in sizes have the same source, so that one compiled function serves all of
them, except for the lengths of short rows. Reductions are in combining.py.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from tapegrad.core.trace.expression import Expression, UntraceableError
from tapegrad.core.trace.loop import Loop
from tapegrad_numpy.loops.dtypes import LOOP_DTYPES
from tapegrad_numpy.loops.element_types import loaded, name_of, register, storage, stored
from tapegrad_numpy.loops.formulas import FAR_CALL, Formula, for_all_arguments, formula
from tapegrad_numpy.loops.gathers import Gathers
from tapegrad_numpy.loops.layout import TASK_ELEMENTS, Cut, Space, cut, merge_axes
from tapegrad_numpy.loops.staging import BLOCK, Staged, staged
from tapegrad_numpy.loops.vector_maths import is_long
from tapegrad_numpy.loops.windows import ZERO_ROW, Windows

_WORTH_STAGES = 64
"""The shortest innermost axis for which stages are used."""
_MOST_PACKED, _LEAST_ROWS = 2048, 8
"""The longest rows that are packed, and the number of rows from which on it pays."""
CAREFUL_PIECE = 4096
"""The number of elements that are checked together before a function in FAR is computed."""
_MOST_WRITTEN, _WRITTEN = 16, (24, 32, 48, 64)
"""The lengths of rows that are constants of the source: up to the first number, and others."""
_LEAST_INDEX = " reduction(min:least)"
"""For loops with an index per element, which may be out of range."""
_LINES, _HEAVIEST = 8, 16
"""The statements that take as long as a call of a function, and the largest weight."""
WORK = """static void work_KEY(char **restrict data, const int64_t *restrict z, int64_t task,
                     Slot *slots) {"""
"""The head of the function of a task, which changes neither addresses nor sizes."""
CUT = {name: f"z[{index}]" for index, name in enumerate(Cut._fields)}


class Kernel(NamedTuple):
    """The C source of a loop and its integers."""

    text: str
    """The C source of the functions `work` and, for reductions, `close`."""
    functions: frozenset[str]
    """The functions of vector_maths.py that it calls."""
    numbers: tuple[int, ...]
    """The integers that `work` reads, beginning with a `Cut`."""
    slots: int
    """The number of partial results that it stores."""
    flushes: bool = False
    """Whether small results become zero; see small_results.py."""
    reports: bool = False
    """Whether it takes one more array and writes 1 there if an index is out of range."""


class Body(NamedTuple):
    """The innermost loop."""

    loads: Mapping[str, str]
    """The statements that read arrays, by the names that they define."""
    lines: Sequence[str]
    ends: Sequence[str]
    """Statements that store or use results, after all reads of an element."""


class Writer:
    """The source that all forms share: inputs, addresses and the innermost loop."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.space: Space = merge_axes(loop)
        self.numbers: list[int] = [0] * len(Cut._fields)
        self.windows = Windows(loop, self.space, self._table)
        self.gathers = Gathers(loop, self.space, self.number)
        self.levels = [self._level(moves) for moves in self.gathers.moves]
        self.packed = self._packed()
        """Inputs with gaps between their elements that each task first copies without gaps."""

    # Forms that do not fit a loop are left before these are needed.

    @cached_property
    def formula(self) -> Formula:
        """The statements of the expressions."""
        outputs = (*self.loop.stages, *self.loop.outputs)
        levels = [*self.levels, *(1 for _ in self.loop.stages)]
        names = [f"x{i}" for i in range(len(levels))]
        return formula([output.expression for output in outputs], names, levels)

    @cached_property
    def functions(self) -> set[str]:
        """The names of the functions that are called."""
        return set(self.formula.functions)

    @cached_property
    def careful(self) -> bool:
        """Whether a function far from the usual arguments is called for elements."""
        return any(FAR_CALL.search(line) for line in self.formula.per_element)

    @staticmethod
    def _level(moves: Sequence[bool]) -> int:
        return 2 if moves[-1] else int(any(moves))

    def _packed(self) -> list[int]:
        """Columns of small matrices, for example: the same row of numbers for all rows."""
        sizes, steps = self.space.sizes, self.space.steps
        if self.windows.are_cut or sizes[-1] > _MOST_PACKED:
            return []
        if math.prod(sizes[:-1]) < _LEAST_ROWS:
            return []
        return [
            i
            for i in self._at_level(2)
            if steps[i][-1] != 1
            and not any(steps[i][:-1])
            and i not in self.gathers.inputs
            and not (i in self.windows.inputs and self.windows.is_uneven(i))
        ]

    def before(self) -> list[str]:
        """What the functions need beside them."""
        return [ZERO_ROW] if self.windows.are_cut else []

    def cut(self, piece: int) -> Cut:
        """Set the sizes; called last, when all integers are known."""
        combines = any(output.combine for output in (*self.loop.stages, *self.loop.outputs))
        piece = min(piece, CAREFUL_PIECE) if self.careful else piece
        may_slice, weight = not self.loop.stages, self._weight()
        if not combines:
            piece = max(CAREFUL_PIECE, piece // weight)
        result = cut(self.space, combines, piece, may_slice, weight)
        self.numbers[: len(result)] = result
        return result

    def _weight(self) -> int:
        """Return how long an element takes, about: 1 for a few additions, 2 for an exponential."""
        lines = self.formula.per_element
        calls = sum(line.count("tg_") for line in lines)
        return min(_HEAVIEST, 1 + calls + len(lines) // _LINES)

    def kernel(self, lines: Sequence[str], slots: int = 0, *, is_for_length: bool = True) -> Kernel:
        """Return the kernel of a text, for this length of a row if it is short; called last."""
        functions, numbers = frozenset(self.functions), tuple(self.numbers)
        text = "\n".join(lines)
        if is_long(self.formula.per_element):
            text = text.replace(WORK, f"WIDE {WORK}")
        text = self._with_length(text) if is_for_length else text
        return Kernel(text, functions, numbers, slots, reports=self.reports)

    def _with_length(self, text: str) -> str:
        """Write the length of short rows into the text, which saves half of the time.

        Unusual lengths are left out, because each needs a compilation.
        """
        length, piece, pieces = self.numbers[:3]
        if (
            pieces != 1
            or len(self.space.sizes) < 2
            or (length > _MOST_WRITTEN and length not in _WRITTEN)
        ):
            return text
        for name, value in (("inner", length), ("piece", piece), ("pieces", pieces)):
            text = text.replace(CUT[name], str(value))
        return text

    @property
    def reports(self) -> bool:
        """Whether the loop takes an array in which it reports wrong indices."""
        return bool(self.gathers.inputs)

    def number(self, value: int) -> str:
        """Return the C expression that reads a size or a stride."""
        return f"z[{self._table([value])}]"

    def _table(self, values: Sequence[int]) -> int:
        """Store integers; return the position of the first."""
        self.numbers += values
        return len(self.numbers) - len(values)

    def input_type(self, index: int) -> str:
        dtype = self.loop.inputs[index].dtype
        if name_of(dtype) not in LOOP_DTYPES:
            raise UntraceableError(f"Loops in C do not read {dtype.name}.")
        return storage(dtype)

    def once(self) -> list[str]:
        """Loads of one-element inputs, and the statements that depend only on them."""
        inputs = self.gathers.in_order(self._at_level(0))
        loads = [line for i in inputs for line in self._load_once(i)]
        return [*loads, *self.formula.once, *self._packing(), *self._distances()]

    def _load_once(self, i: int) -> list[str]:
        """The load of an input of one element."""
        place = f"(({self.pointer(i)})data[{i}])[{self._first(i)}"
        if i not in self.gathers.inputs:
            return [self.load(i, f"{place}]")]
        return [*self.place_of_row(i), self.load(i, f"{place} + at{i}]")]

    def place_of_row(self, i: int) -> list[str]:
        """Where a row is that is read by index."""
        return self.place_by_index(i, self._load_of_index)

    def place_by_index(self, i: int, load: Callable[[int], str]) -> list[str]:
        """The place of a row, given the loads of what indices are made of; reports wrong ones."""
        lines = [*self.position(i, load), "{", "int64_t least = 0;"]
        return [*lines, *self.gathers.note(i), self.gathers.report(), "}"]

    def position(self, i: int, load: Callable[[int], str]) -> list[str]:
        """The statements that compute the place of what is read by index."""
        return self.gathers.lines(i, self._index, load)

    def _index(self, index: Expression) -> tuple[list[str], str]:
        """The statements and the value of an index."""
        count = len(self.loop.inputs)
        found = formula((index,), [f"x{i}" for i in range(count)], [2] * count)
        self.functions |= found.functions
        lines = [*found.once, *found.per_row, *found.per_element]
        return [for_all_arguments(line) for line in lines], found.results[0]

    def _load_of_index(self, i: int) -> str:
        """The load of an input from which an index is computed, wherever that is."""
        if self.levels[i] == 2:
            return self._load_element(i)
        if self.levels[i] == 1:
            return self.load(i, f"p{i}[0]")
        return self._as_one(i, self._load_once(i))

    def _as_one(self, i: int, lines: Sequence[str]) -> str:
        """Statements that end with the load of an input, as one statement with own names."""
        if len(lines) == 1:
            return lines[0]
        return f"const {self._kind(i)} x{i} = ({{ {' '.join(lines)} x{i}; }});"

    def _load_element(self, i: int) -> str:
        """The statement that reads an element of a row."""
        if i in self.packed:
            return self.held(i, f"packed{i}[i]")
        if i not in self.gathers.varied:
            return self.load(i, self._element(i))
        lines = [*self.position(i, self._load_of_index), *self.gathers.note(i)]
        return self._as_one(i, [*lines, self.load(i, self._element(i))])

    def _distances(self) -> list[str]:
        """Variables for distances of elements: memory would be read again after each store."""
        steps = {i: self.space.steps[i][-1] for i in self._at_level(2) if i not in self.packed}
        return [
            f"const int64_t d{i} = {self.number(step)};" for i, step in steps.items() if step != 1
        ]

    def _packing(self) -> list[str]:
        """Copies of inputs without the gaps between their elements, which vectors cannot load."""
        lines = []
        for i in self.packed:
            step = self.number(self.space.steps[i][-1])
            place = f"(({self.pointer(i)})data[{i}])[{self._first(i)} + i * {step}]"
            lines += [
                f"{self.held_type(i)} packed{i}[{_MOST_PACKED}];",
                f"for (int64_t i = 0; i < {CUT['inner']}; ++i) {{",
                self.load(i, place),
                f"packed{i}[i] = x{i};",
                "}",
            ]
        return lines

    def _first(self, i: int) -> str:
        """The position of the one element that is read of an input."""
        is_window = i in self.windows.inputs
        return self.number(self.windows.first(i)) if is_window else "0"

    def indices(self, axes: Sequence[int], flat: str) -> list[str]:
        """The index along each axis, computed from a flat index that is mostly 0."""
        if len(axes) < 2:
            return [f"int64_t i{axis} = {flat};" for axis in axes]
        lines = [f"int64_t {', '.join(f'i{axis} = 0' for axis in axes)};", f"if ({flat}) {{"]
        lines.append(f"int64_t rest = {flat};")
        for axis in reversed(axes[1:]):
            size = self.number(self.space.sizes[axis])
            lines += [f"i{axis} = rest % {size};", f"rest /= {size};"]
        return [*lines, f"i{axes[0]} = rest;", "}"]

    def advance(self, axes: Sequence[int]) -> list[str]:
        """Statements that go to the next index. A division would cost more than a short row."""
        lines = []
        for axis in reversed(axes[1:]):
            size = self.number(self.space.sizes[axis])
            lines += [f"if (++i{axis} == {size}) {{", f"i{axis} = 0;"]
        lines += [f"++i{axis};" for axis in axes[:1]]
        return [*lines, "}" * max(0, len(axes) - 1)]

    def row(self) -> list[str]:
        """The addresses of this row in every array, and its invariant statements."""
        inputs = self._at_level(1) + self._at_level(2)
        lines = map(for_all_arguments, self.formula.per_row)
        return [*self.addresses(inputs), *self.targets(), *lines]

    def addresses(self, inputs: Sequence[int]) -> list[str]:
        """The addresses of this row in inputs, and loads of those that are invariant along it."""
        lines = []
        for i in self.gathers.in_order(inputs):
            lines += self._address(i)
            if self.levels[i] == 1:  # the index of a row that comes later may read it
                lines.append(self.load(i, f"p{i}[0]"))
        return lines

    def _address(self, i: int) -> list[str]:
        kind = self.pointer(i)
        if i not in self.windows.inputs:
            return [f"{kind}p{i} = ({kind})data[{i}] + {self._place(self.space.steps[i])};"]
        lines = self.windows.row(i, kind, self.space.steps[i])
        if i in self.gathers.inputs and i not in self.gathers.varied:
            lines = [*self.place_of_row(i), *lines, f"base{i} += at{i};"]
        if self.levels[i] == 1:
            lines.append(self.windows.single(i, kind))
        elif not self.windows.are_cut:
            lines.append(f"{kind}p{i} = base{i};")
        return lines

    def targets(self) -> list[str]:
        """The addresses of this row in the outputs that store every element."""
        lines, first = [], len(self.loop.inputs)
        for k in self.stored():
            target, place = self.output_type(k), self._place(self.space.whole)
            lines.append(f"{target} *q{k} = ({target} *)data[{first + k}] + {place};")
        return lines

    def output_type(self, k: int) -> str:
        """The C type of the elements of an output in memory."""
        return storage(self.loop.outputs[k].dtype)

    def stored(self) -> list[int]:
        """The outputs that store every element."""
        outputs = enumerate(self.loop.outputs)
        return [k for k, output in outputs if output.combine is None and not output.axes]

    def stores(self) -> list[str]:
        results = self.formula.results[len(self.loop.stages) :]
        return [f"q{k}[i] = {self.stored_value(k, results[k])};" for k in self.stored()]

    def stored_value(self, k: int, value: str) -> str:
        """What is written to memory for a value of an output."""
        return stored(self.loop.outputs[k].dtype, value)

    def _place(self, steps: Sequence[int]) -> str:
        outer = [axis for axis in range(len(self.space.sizes) - 1) if steps[axis]]
        return " + ".join(f"i{axis} * {self.number(steps[axis])}" for axis in outer) or "0"

    def walk(self, begin: str, end: str, uses: Sequence[str], reductions: str = "") -> list[str]:
        """The innermost loop over all statements; `uses` are statements that use the results."""
        body = Body(self.loads(), self.formula.per_element, [*self.stores(), *uses])
        return self.walk_over(begin, end, body, reductions)

    def walk_over(self, begin: str, end: str, body: Body, reductions: str = "") -> list[str]:
        """The innermost loop over some statements; it reports wrong indices of its elements."""
        if not any("least = " in load for load in body.loads.values()):
            return self._walk_over(begin, end, body, reductions)
        lines = self._walk_over(begin, end, body, f"{_LEAST_INDEX}{reductions}")
        return ["{", "int64_t least = 0;", *lines, self.gathers.report(), "}"]

    def _walk_over(self, begin: str, end: str, body: Body, reductions: str) -> list[str]:
        if not self.windows.are_cut:
            return self.walk_whole(begin, end, body, reductions)
        start = self.windows.cut(begin, end, self.levels, self.pointer)
        lines = self.walk_whole("lo", "hi", body, reductions)
        uneven = [k for k in self.windows.uneven() if self.windows.is_ever_even(k)]
        if uneven:
            loads = {name: _with_steps(load, uneven) for name, load in body.loads.items()}
            spaced = self.walk_whole("lo", "hi", body._replace(loads=loads), reductions)
            lines = ["if (is_even) {", *lines, "} else {", *spaced, "}"]
        return [start, *lines, "}"]

    def loads(self) -> dict[str, str]:
        """The statements that read an element, by the names of inputs."""
        return {f"x{i}": self._load_element(i) for i in self._at_level(2)}

    def walk_whole(self, begin: str, end: str, body: Body, reductions: str = "") -> list[str]:
        """The innermost loop over some statements where no input wraps or becomes zero."""
        head = [f"for (int64_t i = {begin}; i < {end}; ++i) {{", *body.loads.values()]
        lines, ends = body.lines, body.ends
        simd = f"#pragma omp simd{reductions}"
        checks = _LEAST_INDEX if reductions.startswith(_LEAST_INDEX) else ""
        careful = any(FAR_CALL.search(line) for line in lines)
        if not careful and self.space.sizes[-1] >= _WORTH_STAGES:
            parts = staged(lines, ends, body.loads)
            if parts is not None:
                return _walk_in_stages(begin, end, parts, body, simd, checks)
        plain = [simd, *head, *lines, *ends, "}"]
        if not careful:
            return plain
        exact = [for_all_arguments(line) for line in lines]
        return [
            "int far = 0;",
            f"#pragma omp simd reduction(|:far){checks}",
            *head, *lines, *_far_tests(lines), "}",
            "if (far) {", *head, *exact, *ends, "}",
            "} else {", *plain, "}",
        ]  # fmt: skip

    def _element(self, index: int) -> str:
        step = self.space.steps[index][-1]
        if index in self.gathers.varied:
            return (
                f"p{index}[at{index} + i * {self.number(step)}]" if step else f"p{index}[at{index}]"
            )
        if index in self.windows.inputs and self.windows.is_uneven(index):
            return f"p{index}[i]" if self.windows.is_ever_even(index) else f"p{index}[i * s{index}]"
        return f"p{index}[i]" if step == 1 else f"p{index}[i * d{index}]"

    def _at_level(self, level: int) -> list[int]:
        return [i for i, own in enumerate(self.levels) if own == level]

    def pointer(self, index: int) -> str:
        """The C type of the address of an input."""
        return f"const {self.input_type(index)} *"

    def load(self, index: int, place: str) -> str:
        """The statement that reads an input at a place."""
        value = loaded(self.loop.inputs[index].dtype, place)
        kind = self._kind(index)
        if index in self.gathers.inputs:
            is_real = kind in ("float", "double")
            there = f"there{index}"
            value = f"choose_{kind}({there}, {value}, 0)" if is_real else f"{there} ? {value} : 0"
        return f"const {kind} x{index} = {value};"

    def _kind(self, index: int) -> str:
        """The C type of an element of an input in an expression."""
        dtype = self.loop.inputs[index].dtype
        if name_of(dtype) != "bool":
            return register(dtype)
        return "bool" if self.levels[index] == 2 else "int"  # see `formula`

    def held_type(self, index: int) -> str:
        """The C type in which a function keeps elements of an input."""
        return register(self.loop.inputs[index].dtype)

    def held(self, index: int, place: str) -> str:
        """The statement that reads an element of an input that the function has kept."""
        return f"const {self.held_type(index)} x{index} = {place};"


def _with_steps(load: str, inputs: Sequence[int]) -> str:
    """Return the statement that reads an element with the distance `s` of a part of a row."""
    for k in inputs:
        load = re.sub(rf"\bp{k}\[i\]", f"p{k}[i * s{k}]", load)
    return load


def _walk_in_stages(
    begin: str, end: str, parts: Staged, body: Body, simd: str, checks: str
) -> list[str]:
    """The innermost loop in stages; the last one stores the results, after all reads."""
    lines = [
        f"for (int64_t block = {begin}; block < {end}; block += {BLOCK}) {{",
        f"const int64_t edge = block + {BLOCK} < {end} ? block + {BLOCK} : {end};",
    ]
    for number, stage in enumerate(parts.stages):
        is_last = number == len(parts.stages) - 1
        lines += [f"{parts.types[name]} s_{name}[{BLOCK}];" for name in stage.hands_on]
        lines += [simd if is_last else f"#pragma omp simd{checks}"]
        lines.append("for (int64_t i = block; i < edge; ++i) {")
        for name in stage.reads:
            if name in body.loads:
                lines.append(body.loads[name])
            else:
                lines.append(f"const {parts.types[name]} {name} = s_{name}[i - block];")
        lines += stage.lines
        lines += [f"s_{name}[i - block] = {name};" for name in stage.hands_on]
        lines += [*(body.ends if is_last else ()), "}"]
    return [*lines, "}"]


def _far_tests(lines: Iterable[str]) -> list[str]:
    tests = []
    for line in lines:
        match = re.search(FAR_CALL.pattern + r"(.+)\);$", line)
        if match is not None:
            tests.append(f"far |= magnitude({match[2]}) > far_limit({match[2]});")
    return tests


def write_plain(loop: Loop) -> Kernel:
    """Return the kernel of a loop without reductions, which processes rows in order."""
    writer = Writer(loop)
    kept = writer.space.kept_outer
    lines = [
        *writer.before(),
        WORK,
        f"const int64_t group = task / {CUT['pieces']}, piece = task % {CUT['pieces']};",
        *bounds("begin", "end", f"piece * {CUT['piece']}", CUT["piece"], CUT["inner"]),
        *bounds("row", "last", f"group * {CUT['rows_at_once']}", CUT["rows_at_once"], CUT["rows"]),
        *writer.once(),
        *writer.indices(kept, "row"),
        "for (; row < last; ++row) {",
        *writer.row(),
        *writer.walk("begin", "end", ()),
        *writer.advance(kept),
        "}\n}",
    ]
    writer.cut(TASK_ELEMENTS)
    return writer.kernel(lines)


def bounds(begin: str, end: str, start: str, length: str, most: str) -> list[str]:
    """C variables for the bounds of a part of a range; the last part may be shorter."""
    return [
        f"int64_t {begin} = {start}, {end} = {begin} + {length};",
        f"{end} = {end} < {most} ? {end} : {most};",
    ]
