"""Plan the passes of a loop with stages over its rows: what each pass computes and keeps.

A pass computes stages that do not depend on each other, or stores the elements. Statements that
are constant along the row belong to no pass: they run between the passes, once per row. Expensive
values that several passes need are computed by the first one and kept for the others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tapegrad_numpy.loops.combining import Combination
from tapegrad_numpy.loops.source import Writer

_MOST_KEPT = 8

_NAME = re.compile(r"\b[vx]\d+\b")
_LINE = re.compile(r"const (.+) (v\d+) = (.+);")
_CHEAP_CALLS = "ceil|copysign|fabs|floor|larger|rint|signbit|smaller|trunc"
_HEAVY = re.compile(rf"\btg_(?!(?:{_CHEAP_CALLS})\()\w+\(| / ")

CONSTANT, ALONG, ACROSS, ELEMENT = 0, 1, 2, 3
"""How a value changes in the loops that a form of rows has.

Where each row is processed by itself, a value is constant along the row, changes along the outer
axes of the row only, which is ALONG, or with every element. Where rows are processed together, a
value is constant, changes ALONG the row, ACROSS rows, or both.
"""


@dataclass
class Value:
    """What is known of a name in C."""

    level: int
    """CONSTANT, ALONG, ACROSS or ELEMENT."""
    time: int
    """The number of passes that must have ended before it can be computed."""
    reads: Sequence[str] = ()
    line: str = ""
    type: str = ""

    @property
    def is_of_row(self) -> bool:
        """Whether it is constant along the row."""
        return not self.level & ALONG


@dataclass
class Pass:
    """One pass over a row."""

    stages: list[int] = field(default_factory=list)
    stores: bool = False
    """Whether the outputs are stored."""
    wanted: list[str] = field(default_factory=list)
    """The values of its stages and of the outputs that it stores."""
    names: set[str] = field(default_factory=set)
    """The values that this pass computes or reads, except those of rows."""
    kept: set[str] = field(default_factory=set)
    """Values that this pass stores for later ones."""
    given: set[str] = field(default_factory=set)
    """Values that earlier passes stored for this one."""


def is_heavy(line: str) -> bool:
    """Return whether a statement costs more than to store its value and to read it again."""
    return _HEAVY.search(line) is not None


def names_in(texts: Iterable[str]) -> list[str]:
    """Return the names of values that C expressions read."""
    return [name for text in texts for name in _NAME.findall(text)]


class Plan:
    """The values of a loop with stages, and the passes that compute them."""

    def __init__(self, writer: Writer, levels: Sequence[int], stage_level: int) -> None:
        self.writer = writer
        self.parts = [Combination(k, stage) for k, stage in enumerate(writer.loop.stages)]
        self.stage_values = writer.formula.results[: len(self.parts)]
        self.output_values = writer.formula.results[len(self.parts) :]
        self.values = {f"x{i}": Value(level, 0) for i, level in enumerate(levels)}
        self.order: list[str] = []
        """The names of all statements, operands first."""
        self._stage_level = stage_level
        count = self._describe_statements()
        self.passes = self._planned(count)

    def stage_name(self, k: int) -> str:
        return f"x{len(self.writer.loop.inputs) + k}"

    def kept(self) -> list[str]:
        """All values that are kept from one pass to another."""
        return sorted(set[str]().union(*(one.kept for one in self.passes)))

    def chosen(self, one: Pass, level: int) -> list[str]:
        """The statements of a pass at a level."""
        computed = one.names - one.given
        return [
            self.values[name].line
            for name in self.order
            if name in computed and self.values[name].level == level
        ]

    def of_rows(self, time: int) -> list[str]:
        """The names of statements per row that are first possible at a time."""
        once = set(self.writer.formula.once)
        return [
            name
            for name in self.order
            if (value := self.values[name]).is_of_row
            and value.time == time
            and value.line not in once
        ]

    def _describe_statements(self) -> int:
        """Find out when each value can be computed; return the number of passes over stages."""
        formula = self.writer.formula
        lines = {}
        for line in (*formula.once, *formula.per_row, *formula.per_element):
            match = _LINE.fullmatch(line)
            assert match is not None
            kind = "unsigned char" if match[1] == "bool" else match[1]
            lines[match[2]] = Value(CONSTANT, 0, _NAME.findall(match[3]), line, kind)
        # Names are numbered in the order in which they can be computed.
        self.order = sorted(lines, key=lambda name: int(name[1:]))
        count = 0
        for k, part in enumerate(self.parts):
            time = 1 + self._describe(self.stage_values[k], lines)
            kind = "bool" if part.output.dtype.kind == "b" else part.target
            self.values[self.stage_name(k)] = Value(self._stage_level, time, type=kind)
            count = max(count, time)
        for text in self.output_values:
            self._describe(text, lines)
        return count

    def _describe(self, text: str, lines: dict[str, Value]) -> int:
        """Describe the statements that a result needs; return the time at which it is known."""
        roots = _NAME.findall(text)
        needed = set(roots)
        for name in reversed(self.order):
            if name in needed:
                needed.update(lines[name].reads)
        for name in self.order:
            if name in needed and name not in self.values:
                value = lines[name]
                for read in value.reads:
                    value.level |= self.values[read].level
                    value.time = max(value.time, self.values[read].time)
                self.values[name] = value
        return max((self.values[name].time for name in roots), default=0)

    def _planned(self, count: int) -> list[Pass]:
        """Divide the stages into passes; the last pass stores the outputs."""
        passes = [Pass() for _ in range(count)]
        for k, text in enumerate(self.stage_values):
            one = passes[self.values[self.stage_name(k)].time - 1]
            one.stages.append(k)
            one.wanted.append(text)
        stored = [self.output_values[k] for k in self.writer.stored()]
        if stored:
            times = [self.values[name].time for name in names_in(stored)]
            if max(times, default=0) == count:
                passes.append(Pass())
            passes[-1].stores = True
            passes[-1].wanted += stored
        for number, one in enumerate(passes):
            self._find_names(one, passes[:number])
        return passes

    def _find_names(self, one: Pass, earlier: Sequence[Pass]) -> None:
        """Find the values that a pass needs, down to those that earlier passes keep for it."""
        waiting = names_in(one.wanted)
        while waiting:
            name = waiting.pop()
            value = self.values[name]
            if name in one.names or value.is_of_row:
                continue
            one.names.add(name)
            if self._keep(name, earlier):
                one.given.add(name)
            else:
                waiting += value.reads

    def _keep(self, name: str, earlier: Sequence[Pass]) -> bool:
        """Let the first pass that computes a value keep it, if that is worth it."""
        value = self.values[name]
        if value.level != ELEMENT or not is_heavy(value.line):
            return False
        source = next((one for one in earlier if name in one.names), None)
        if source is None:
            return False
        kept = set[str]().union(*(one.kept for one in earlier))
        if name not in kept and len(kept) == _MOST_KEPT:
            return False
        source.kept.add(name)
        return True
