"""C source of loops with stages: several passes over each row, in one function.

Each pass reduces the row to the values of stages that do not depend on each other, or stores the
elements. Statements that are constant along the row run once, between the passes that they depend
on. Expensive values that several passes need are computed once and kept in an array on the stack.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import prod

from tapegrad.core.trace.expression import UntraceableError
from tapegrad.core.trace.loop import Loop
from tapegrad_numpy.loops.combining import PIECE, Combination, inner_sums
from tapegrad_numpy.loops.source import CUT, Body, Kernel, Writer, bounds, storage

KEPT_ELEMENTS = 4096
"""The longest rows of which values are kept from one pass to the next."""
_MOST_KEPT = 8

_NAME = re.compile(r"\b[vx]\d+\b")
_LINE = re.compile(r"const (.+) (v\d+) = (.+);")
_CHEAP_CALLS = "ceil|copysign|fabs|floor|larger|rint|signbit|smaller|trunc"
_HEAVY = re.compile(rf"\btg_(?!(?:{_CHEAP_CALLS})\()\w+\(| / ")

ROW, STEP, ELEMENT = 0, 1, 2
"""Where a value changes: from row to row, along an outer axis of a row, with each element."""


@dataclass
class _Value:
    """What is known of a name in C."""

    level: int
    time: int
    """The number of passes that must have ended before it can be computed."""
    reads: Sequence[str] = ()
    line: str = ""
    type: str = ""

    @property
    def is_heavy(self) -> bool:
        return _HEAVY.search(self.line) is not None


@dataclass
class _Pass:
    """One pass over a row."""

    stages: list[int] = field(default_factory=list)
    stores: bool = False
    """Whether the outputs are stored."""
    names: set[str] = field(default_factory=set)
    """The values that this pass computes or reads, except those of rows."""
    kept: set[str] = field(default_factory=set)
    """Values that this pass stores for later ones."""
    given: set[str] = field(default_factory=set)
    """Values that earlier passes stored for this one."""


def write_stages(loop: Loop) -> Kernel:
    """Return the kernel of a loop with stages."""
    if 0 in loop.shape and any(stage.combine in ("maximum", "minimum") for stage in loop.stages):
        raise UntraceableError("The maximum or minimum of no elements is undefined.")
    rows = _Rows(loop)
    text = "\n".join(rows.text())
    rows.writer.cut(PIECE)
    return Kernel(text, frozenset(rows.writer.functions), tuple(rows.writer.numbers), 0)


class _Rows:
    """Writes the function of a loop with stages."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.writer = Writer(loop)
        self.parts = [Combination(k, stage) for k, stage in enumerate(loop.stages)]
        self.results = self.writer.formula.results
        self.outer = self.writer.space.combined_outer
        """The reduced axes except the innermost."""
        self.values: dict[str, _Value] = {}
        self._describe_inputs()
        passes = self._describe_statements()
        self.passes = self._planned(passes)

    # Planning

    def _describe_inputs(self) -> None:
        for i, steps in enumerate(self.writer.space.steps):
            level = STEP if any(steps[axis] for axis in self.outer) else ROW
            self.values[f"x{i}"] = _Value(ELEMENT if steps[-1] else level, 0)

    def _describe_statements(self) -> int:
        """Find out when each value can be computed; return the number of passes over stages."""
        formula = self.writer.formula
        lines = {}
        for line in (*formula.once, *formula.per_row, *formula.per_element):
            match = _LINE.fullmatch(line)
            assert match is not None
            kind = "unsigned char" if match[1] == "bool" else match[1]
            lines[match[2]] = _Value(ROW, 0, _NAME.findall(match[3]), line, kind)
        first = len(self.loop.inputs)
        # The statements of the three lists are in order within each list only.
        self._lines = sorted(lines, key=lambda name: int(name[1:]))
        done = 0
        for k in range(len(self.parts)):
            time = self._describe(_NAME.findall(self.results[k]), lines)
            self.values[f"x{first + k}"] = _Value(ROW, time + 1)
            done = max(done, time + 1)
        for result in self.results[len(self.parts) :]:
            self._describe(_NAME.findall(result), lines)
        return done

    def _describe(self, roots: Iterable[str], lines: dict[str, _Value]) -> int:
        """Describe the statements that roots need; return the time at which all are known."""
        needed = set(roots)
        for name in reversed(self._lines):
            if name in needed:
                needed.update(lines[name].reads)
        for name in self._lines:
            if name in needed and name not in self.values:
                value = lines[name]
                operands = [self.values[read] for read in value.reads]
                value.level = max((one.level for one in operands), default=ROW)
                value.time = max((one.time for one in operands), default=0)
                self.values[name] = value
        return max((self.values[name].time for name in needed), default=0)

    def _planned(self, count: int) -> list[_Pass]:
        """Divide the stages into passes; the last pass stores the outputs."""
        passes = [_Pass() for _ in range(count)]
        first = len(self.loop.inputs)
        for k in range(len(self.parts)):
            passes[self.values[f"x{first + k}"].time - 1].stages.append(k)
        stored = [self.results[len(self.parts) + k] for k in self.writer.stored()]
        if stored:
            names = [name for result in stored for name in _NAME.findall(result)]
            if max((self.values[name].time for name in names), default=0) == count:
                passes.append(_Pass())
            passes[-1].stores = True
        for number, one in enumerate(passes):
            wanted = [self.results[k] for k in one.stages] + (stored if one.stores else [])
            self._find_names(one, passes[:number], wanted)
        return passes

    def _find_names(self, one: _Pass, earlier: Sequence[_Pass], wanted: Sequence[str]) -> None:
        """Find the values that a pass needs, down to those that earlier passes keep for it."""
        waiting = [name for text in wanted for name in _NAME.findall(text)]
        while waiting:
            name = waiting.pop()
            value = self.values[name]
            if name in one.names or value.level == ROW:
                continue
            one.names.add(name)
            if self._keep(name, earlier):
                one.given.add(name)
            else:
                waiting += value.reads

    def _keep(self, name: str, earlier: Sequence[_Pass]) -> bool:
        """Let the first pass that computes a value keep it, if that is worth it."""
        value, sizes = self.values[name], self.writer.space.sizes
        if value.level != ELEMENT or not value.is_heavy:
            return False
        source = next((one for one in earlier if name in one.names), None)
        if source is None or sizes[-1] * prod(sizes[a] for a in self.outer) > KEPT_ELEMENTS:
            return False
        kept = set[str]().union(*(one.kept for one in earlier))
        if name not in kept and len(kept) == _MOST_KEPT:
            return False
        source.kept.add(name)
        return True

    # Source

    def text(self) -> list[str]:
        """The functions of a row's stages, and `work`."""
        writer = self.writer
        closings = [part.closing() for part in self.parts]
        writer.functions.update(*(calls for _, calls in closings))
        kept = sorted(set[str]().union(*(one.kept for one in self.passes)))
        start = f"task * {CUT['rows_at_once']}"
        lines = [
            *writer.before(),
            *(text for text, _ in closings),
            "static void work_KEY(char **data, const int64_t *z, int64_t task, Slot *slots) {",
            *bounds("row", "last", start, CUT["rows_at_once"], CUT["rows"]),
            *(f"{self.values[name].type} kept_{name}[{KEPT_ELEMENTS}];" for name in kept),
            *writer.once(),
            "for (; row < last; ++row) {",
            *writer.indices(writer.space.kept_outer, "row"),
            *writer.addresses(self._inputs(self.values, is_step=False)),
            *([] if self.outer else writer.targets()),
        ]
        for number, one in enumerate(self.passes):
            lines += [*self._row_statements(number), *self._pass(one)]
        lines += self._row_statements(len(self.passes))
        return [*lines, *self._row_results(), "}\n}"]

    def _inputs(self, names: Iterable[str], is_step: bool) -> list[int]:
        """The inputs among names whose addresses are found per step, or else once per row."""
        found, windows = [], self.writer.windows
        for i, level in enumerate(self.writer.levels):
            # Where rows are cut into parts, the addresses of all windows are moved.
            if level and (f"x{i}" in names or (windows.are_cut and i in windows.inputs)):
                of_step = bool(self.outer) and self.values[f"x{i}"].level != ROW
                found += [i] if of_step == is_step else []
        return found

    def _row_statements(self, time: int) -> list[str]:
        """The statements of a row that are first possible at a time."""
        once = set(self.writer.formula.once)
        values = [self.values[name] for name in self._lines if name in self.values]
        return [
            value.line
            for value in values
            if value.level == ROW and value.time == time and value.line not in once
        ]

    def _row_results(self) -> list[str]:
        """Stores of the outputs that have one value per row."""
        lines = []
        for k, output in enumerate(self.loop.outputs):
            if output.axes:
                target, place = storage(output.dtype), len(self.loop.inputs) + k
                value = self.results[len(self.parts) + k]
                lines.append(f"(({target} *)data[{place}])[row] = {value};")
        return lines

    def _pass(self, one: _Pass) -> list[str]:
        """One pass over the row, and the values of its stages."""
        parts = [self.parts[k] for k in one.stages]
        lines = [line for part in parts for line in (*part.accumulators(""), part.cleared(""))]
        if self.outer:
            lines.append(f"for (int64_t deep = 0; deep < {CUT['deep']}; ++deep) {{")
            lines += self.writer.indices(self.outer, "deep")
            lines += self.writer.addresses(self._inputs(one.names, is_step=True))
            lines += self.writer.targets() if one.stores else []
            lines += self._chosen(one, STEP)
        lines.append(f"for (int64_t begin = 0; begin < {CUT['inner']}; begin += {PIECE}) {{")
        end, inner = f"begin + {PIECE}", CUT["inner"]
        lines.append(f"const int64_t end = {end} < {inner} ? {end} : {inner};")
        lines += self._inner(one, parts)
        lines += ["}"] * (2 if self.outer else 1)
        first = len(self.loop.inputs)
        for part in parts:
            kind = "bool" if part.output.dtype.kind == "b" else part.target
            lines.append(f"const {kind} x{first + part.k} = {part.finished('')};")
        return lines

    def _inner(self, one: _Pass, parts: list[Combination]) -> list[str]:
        place = f"deep * {CUT['inner']} + i" if self.outer else "i"
        loads = {name: load for name, load in self.writer.loads().items() if name in one.names}
        for name in sorted(one.given):
            loads[name] = f"const {self.values[name].type} {name} = kept_{name}[{place}];"
        stores = [f"kept_{name}[{place}] = {name};" for name in sorted(one.kept)]
        stores += self.writer.stores() if one.stores else []
        statements = self._chosen(one, ELEMENT)

        def walk(begin: str, end: str, uses: Sequence[str], reductions: str) -> list[str]:
            body = Body(loads, statements, [*stores, *uses])
            return self.writer.walk_over(begin, end, body, reductions)

        return inner_sums(parts, self.results, walk)

    def _chosen(self, one: _Pass, level: int) -> list[str]:
        """The statements of a pass at a level."""
        return [
            self.values[name].line
            for name in self._lines
            if name in one.names - one.given and self.values[name].level == level
        ]
