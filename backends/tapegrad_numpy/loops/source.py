"""Generate the C source of a loop, and the integers with its sizes.

Loops that differ only in sizes have the same source, so that one compiled function serves all of
them. Reductions are in combining.py.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tapegrad.core.trace.c_source import statements
from tapegrad.core.trace.expression import Expression, UntraceableError
from tapegrad.core.trace.loop import Loop
from tapegrad_numpy.loops.dtypes import LOOP_DTYPES
from tapegrad_numpy.loops.element_types import (
    CASTS,
    in_c,
    loaded,
    name_of,
    register,
    storage,
    stored,
)
from tapegrad_numpy.loops.layout import TASK_ELEMENTS, Cut, Space, cut, merge_axes
from tapegrad_numpy.loops.staging import BLOCK, Staged, staged
from tapegrad_numpy.loops.vector_maths import FAR, FUNCTIONS
from tapegrad_numpy.loops.windows import ZERO_ROW, Windows

_CALL = re.compile(r"\b(?!cfloat\(|cdouble\()([a-z]\w*)\(")
_NAME = re.compile(r"\b[vx]\d+\b")
_LINE = re.compile(r"const .+ (v\d+) = (.+);")
_CHOICE = re.compile(r"(const (float|double) v\d+ = )([vx]\d+) \? (.+) : (.+);")
_FAR_CALL = re.compile(r"\btg_(" + "|".join(FAR) + r")\(")

_WORTH_STAGES = 64
"""The shortest innermost axis for which stages are used."""
_MOST_PACKED, _LEAST_ROWS = 2048, 8
"""The longest rows that are packed, and the number of rows from which on it pays."""
CAREFUL_PIECE = 4096
"""The number of elements that are checked together before a function in FAR is computed."""
_LINES, _HEAVIEST = 8, 16
"""The statements that take as long as a call of a function, and the largest weight."""
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


class Formula(NamedTuple):
    """Statements by the loop level at which they run, and the names of the results."""

    once: list[str]
    """Statements that depend on inputs of one element only."""
    per_row: list[str]
    """Statements that are invariant along the innermost axis."""
    per_element: list[str]
    results: list[str]
    functions: frozenset[str]


class Body(NamedTuple):
    """The innermost loop."""

    loads: Mapping[str, str]
    """The statements that read arrays, by the names that they define."""
    lines: Sequence[str]
    ends: Sequence[str]
    """Statements that store or use results, after all reads of an element."""


def formula(
    expressions: Sequence[Expression], names: Sequence[str], levels: Sequence[int]
) -> Formula:
    """Generate statements; the level of an input (0, 1 or 2) is the loop that changes it."""
    _refuse_dtypes(expressions)
    lines, results = statements(expressions, names, _OF_FLOATS, _OF_COMPLEX, CASTS)
    lines, results = [in_c(line) for line in lines], [in_c(result) for result in results]
    level_of = dict(zip(names, levels))
    functions: set[str] = set()
    by_level: tuple[list[str], list[str], list[str]] = ([], [], [])
    for line in lines:
        match = _LINE.fullmatch(line)
        assert match is not None
        functions.update(_CALL.findall(match[2]))
        text = line.replace(match[2], _CALL.sub(r"tg_\1(", match[2]))
        level = max((level_of[name] for name in _NAME.findall(match[2])), default=0)
        level_of[match[1]] = level
        if level == 2:
            by_level[2].append(_with_masks(text, level_of))
        else:
            by_level[level].append(for_all_arguments(text))
    unknown = functions - FUNCTIONS
    if unknown:
        raise UntraceableError(f"C has no {', '.join(sorted(unknown))}.")
    once, per_row, per_element = by_level
    return Formula(once, per_row, per_element, results, frozenset(functions))


def _with_masks(line: str, level_of: Mapping[str, int]) -> str:
    """Choose by masks where the condition is the same for all elements of a row.

    GCC does not vectorise a loop with such a condition.
    """
    match = _CHOICE.fullmatch(line)
    if match is None or level_of[match[3]] == 2:
        return line
    return f"{match[1]}choose_{match[2]}({match[3]}, {match[4]}, {match[5]});"


def for_all_arguments(line: str) -> str:
    """Return a statement with the functions of the C library instead of those in FAR."""
    return _FAR_CALL.sub(r"far_\1(", line)


def _extreme(node: Expression) -> str:
    """Return the formula of a maximum or minimum; a NaN operand gives NaN.

    The larger of 0.0 and -0.0 is 0.0 and the smaller is -0.0, as in IEEE 754. If one operand is a
    number, a comparison says as much.
    """
    is_largest = node.name == "maximum"
    sign = ">" if is_largest else "<"
    for place, operand in enumerate(node.operands):
        if operand.name == "constant":
            wins_ties = not operand.value and (math.copysign(1.0, operand.value) > 0) == is_largest
            if not operand.value and wins_ties == (place == 0):
                sign += "="
            return f"{{0}} {sign} {{1}} || {{0}} != {{0}} ? {{0}} : {{1}}"
    return "larger({0}, {1})" if is_largest else "smaller({0}, {1})"


_MOST_HALVES = 7
"""The largest exponent, in halves, for which a root and products replace a power."""


def _power(node: Expression) -> str | None:
    """Return the formula of a power with an exponent such as -1.5, None for others.

    Powers are computed in double precision, which takes ten times as long.
    """
    base, exponent = node.operands
    halves = 2 * exponent.value if exponent.name == "constant" else 0
    is_known = halves % 2 == 1 and abs(halves) <= _MOST_HALVES
    return f"power_of_root({{0}}, {int(halves)})" if is_known and base.dtype == node.dtype else None


_OF_FLOATS = {"maximum": _extreme, "minimum": _extreme, "pow": _power}

_OF_COMPLEX = {
    "add": "{0} + {1}",
    "subtract": "{0} - {1}",
    "multiply": "MUL_{T}({0}, {1})",
    "negative": "-{0}",
    "square": "MUL_{T}({0}, {0})",
    "conj": "~{0}",
    "real": "__real__ {0}",
    "imag": "__imag__ {0}",
    "equal": "{0} == {1}",
    "not_equal": "{0} != {1}",
    "where": "{0} ? {1} : {2}",
}
"""Formulas in GNU C. Its own product has special cases for infinite factors, NumPy's has not."""

_OF_BITS = frozenset({"nextafter", "spacing"})
"""Functions whose results depend on the precision of their operands."""


def _refuse_dtypes(expressions: Iterable[Expression]) -> None:
    waiting, seen = list(expressions), set()
    while waiting:
        node = waiting.pop()
        if id(node) in seen:
            continue
        seen.add(id(node))
        waiting += node.operands
        if node.dtype is None:
            continue
        name = name_of(node.dtype)
        if name not in LOOP_DTYPES or (name == "bfloat16" and node.name in _OF_BITS):
            raise UntraceableError(f"Loops in C do not compute {node.name} of {name}.")


class Writer:
    """The source that all forms share: inputs, addresses and the innermost loop."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.space: Space = merge_axes(loop)
        self.numbers: list[int] = [0] * len(Cut._fields)
        self.levels = [self._level(steps) for steps in self.space.steps]
        self.windows = Windows(loop, self.space, self._table)
        expressions = [output.expression for output in (*loop.stages, *loop.outputs)]
        levels = [*self.levels, *(1 for _ in loop.stages)]
        self.formula = formula(expressions, [f"x{i}" for i in range(len(levels))], levels)
        self.functions = set(self.formula.functions)
        self.packed = self._packed()
        """Inputs with gaps between their elements that each task first copies without gaps."""
        self.careful = any(_FAR_CALL.search(line) for line in self.formula.per_element)

    @staticmethod
    def _level(steps: Sequence[int]) -> int:
        return 2 if steps[-1] else int(any(steps))

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
        loads = [
            self.load(i, f"(({self.pointer(i)})data[{i}])[{self._first(i)}]")
            for i in self._at_level(0)
        ]
        return [*loads, *self.formula.once, *self._packing(), *self._distances()]

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
        """The index along each axis, computed from a flat index."""
        lines = [f"int64_t rest_{flat} = {flat};"] if len(axes) > 1 else []
        for position, axis in reversed(list(enumerate(axes))):
            if len(axes) == 1:
                lines.append(f"const int64_t i{axis} = {flat};")
            elif position == 0:
                lines.append(f"const int64_t i{axis} = rest_{flat};")
            else:
                size = self.number(self.space.sizes[axis])
                lines.append(f"const int64_t i{axis} = rest_{flat} % {size};")
                lines.append(f"rest_{flat} /= {size};")
        return lines

    def row(self) -> list[str]:
        """The addresses of this row in every array, and its invariant statements."""
        inputs = self._at_level(1) + self._at_level(2)
        return [*self.addresses(inputs), *self.targets(), *self.formula.per_row]

    def addresses(self, inputs: Sequence[int]) -> list[str]:
        """The addresses of this row in inputs, and loads of those that are invariant along it."""
        lines = []
        for i in inputs:
            if i in self.windows.inputs:
                lines += self.windows.row(i, self.pointer(i), self.space.steps[i])
                if self.levels[i] == 1:
                    lines.append(self.windows.single(i, self.pointer(i)))
                elif not self.windows.are_cut:
                    lines.append(f"{self.pointer(i)}p{i} = base{i};")
                continue
            place = self._place(self.space.steps[i])
            lines.append(f"{self.pointer(i)}p{i} = ({self.pointer(i)})data[{i}] + {place};")
        return lines + [self.load(i, f"p{i}[0]") for i in inputs if self.levels[i] == 1]

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
        """The innermost loop over some statements."""
        if not self.windows.are_cut:
            return self._walk(begin, end, body, reductions)
        start = self.windows.cut(begin, end, self.levels, self.pointer)
        lines = self._walk("lo", "hi", body, reductions)
        uneven = [k for k in self.windows.uneven() if self.windows.is_ever_even(k)]
        if uneven:
            loads = {name: _with_steps(load, uneven) for name, load in body.loads.items()}
            spaced = self._walk("lo", "hi", body._replace(loads=loads), reductions)
            lines = ["if (is_even) {", *lines, "} else {", *spaced, "}"]
        return [start, *lines, "}"]

    def loads(self) -> dict[str, str]:
        """The statements that read an element, by the names of inputs."""
        return {
            f"x{i}": self.held(i, f"packed{i}[i]")
            if i in self.packed
            else self.load(i, self._element(i))
            for i in self._at_level(2)
        }

    def _walk(self, begin: str, end: str, body: Body, reductions: str) -> list[str]:
        head = [f"for (int64_t i = {begin}; i < {end}; ++i) {{", *body.loads.values()]
        lines, ends = body.lines, body.ends
        simd = f"#pragma omp simd{reductions}"
        careful = any(_FAR_CALL.search(line) for line in lines)
        if not careful and self.space.sizes[-1] >= _WORTH_STAGES:
            parts = staged(lines, ends, body.loads)
            if parts is not None:
                return _walk_in_stages(begin, end, parts, body, simd)
        plain = [simd, *head, *lines, *ends, "}"]
        if not careful:
            return plain
        exact = [for_all_arguments(line) for line in lines]
        return [
            "int far = 0;",
            "#pragma omp simd reduction(|:far)",
            *head, *lines, *_far_tests(lines), "}",
            "if (far) {", *head, *exact, *ends, "}",
            "} else {", *plain, "}",
        ]  # fmt: skip

    def _element(self, index: int) -> str:
        step = self.space.steps[index][-1]
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
        dtype = self.loop.inputs[index].dtype
        kind = "bool" if name_of(dtype) == "bool" else register(dtype)
        return f"const {kind} x{index} = {loaded(dtype, place)};"

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


def _walk_in_stages(begin: str, end: str, parts: Staged, body: Body, simd: str) -> list[str]:
    """The innermost loop in stages; the last one stores the results, after all reads."""
    lines = [
        f"for (int64_t block = {begin}; block < {end}; block += {BLOCK}) {{",
        f"const int64_t edge = block + {BLOCK} < {end} ? block + {BLOCK} : {end};",
    ]
    for number, stage in enumerate(parts.stages):
        is_last = number == len(parts.stages) - 1
        lines += [f"{parts.types[name]} s_{name}[{BLOCK}];" for name in stage.hands_on]
        lines += [simd if is_last else "#pragma omp simd"]
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
        match = re.search(_FAR_CALL.pattern + r"(.+)\);$", line)
        if match is not None:
            tests.append(f"far |= magnitude({match[2]}) > far_limit({match[2]});")
    return tests


def write_plain(loop: Loop) -> Kernel:
    """Return the kernel of a loop without reductions, which processes rows in order."""
    writer = Writer(loop)
    kept = writer.space.kept_outer
    lines = [
        *writer.before(),
        "static void work_KEY(char **data, const int64_t *z, int64_t task, Slot *slots) {",
        f"const int64_t group = task / {CUT['pieces']}, piece = task % {CUT['pieces']};",
        *bounds("begin", "end", f"piece * {CUT['piece']}", CUT["piece"], CUT["inner"]),
        *bounds("row", "last", f"group * {CUT['rows_at_once']}", CUT["rows_at_once"], CUT["rows"]),
        *writer.once(),
        "for (; row < last; ++row) {",
        *writer.indices(kept, "row"),
        *writer.row(),
        *writer.walk("begin", "end", ()),
        "}\n}",
    ]
    writer.cut(TASK_ELEMENTS)
    return Kernel("\n".join(lines), frozenset(writer.functions), tuple(writer.numbers), 0)


def bounds(begin: str, end: str, start: str, length: str, most: str) -> list[str]:
    """C variables for the bounds of a part of a range; the last part may be shorter."""
    return [
        f"int64_t {begin} = {start}, {end} = {begin} + {length};",
        f"{end} = {end} < {most} ? {end} : {most};",
    ]
