"""Find values that several passes over a row compute, so that threads keep them in registers.

The compiler finds some of them by itself, but not across the branches of rows that do not fill all
vectors, nor behind conversions of half precision.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import Any, NamedTuple

from tapegrad.core.trace.expression import Expression
from tapegrad.core.trace.loop import Loop
from tapegrad_cupy.kernels.loops.invariants import in_order, inputs_of

_CHEAP = {
    *("input", "constant", "astype", "where", "add", "subtract", "multiply", "negative", "square"),
    *("maximum", "minimum", "abs", "sign", "isnan", "isinf", "isfinite", "signbit", "round"),
    *("less", "less_equal", "greater", "greater_equal", "equal", "not_equal"),
    *("logical_and", "logical_or", "logical_xor", "logical_not", "floor", "ceil", "trunc"),
}
"""Operations of a few instructions, which are computed again."""


class Shared(NamedTuple):
    """The expressions of all passes, and the values that they share.

    Value n is an input at the position `first + n` of the passes after `made_in[n]`, which
    computes it.
    """

    passes: list[list[Expression]]
    values: list[Expression]
    made_in: list[int]


def rounds(loop: Loop) -> list[list[int]]:
    """Return the stages by the pass that computes them: those of a pass do not read each other."""
    count, levels = len(loop.inputs), list[int]()
    for stage in loop.stages:
        read = [i - count for i in inputs_of([stage.expression]) if i >= count]
        levels.append(1 + max((levels[k] for k in read), default=-1))
    return [
        [k for k, own in enumerate(levels) if own == level]
        for level in range(max(levels, default=-1) + 1)
    ]


def share(loop: Loop, constant: Container[int], most: int) -> Shared:
    """Let passes share at most so many values that are costly and vary along the row.

    The inputs in `constant` are constant along it.
    """
    inputs, stages = len(loop.inputs), len(loop.stages)
    passes = [[loop.stages[k].expression for k in some] for some in rounds(loop)]
    passes.append([output.expression for output in loop.outputs if not output.axes])
    return _shared(passes, lambda i: i in constant or i >= inputs, inputs + stages, most)


def _shared(
    passes: Sequence[Sequence[Expression]],
    is_invariant: Callable[[int], bool],
    first: int,
    most: int,
) -> Shared:
    finder = _Finder(passes, is_invariant)
    found = Shared([], [], [])
    places: dict[int, int] = {}

    def rewritten(number: int, roots: Sequence[Expression]) -> list[Expression]:
        new: dict[int, Expression] = {}
        for node in in_order(roots):
            key = finder.keys[id(node)]
            place = places.get(key)
            if place is not None and found.made_in[place] < number:
                new[id(node)] = Expression("input", node.dtype, (), first + place, node.weak)
                continue
            operands = tuple(new[id(operand)] for operand in node.operands)
            new[id(node)] = (
                Expression(node.name, node.dtype, operands, node.value, node.weak)
                if operands
                else node
            )
            if key in finder.wanted and key not in places and len(places) < most:
                places[key] = len(found.values)
                found.values.append(new[id(node)])
                found.made_in.append(number)
        return [new[id(root)] for root in roots]

    for number, roots in enumerate(passes):
        found.passes.append(rewritten(number, roots))
    return found


class _Finder:
    """Numbers expressions by their structure, and finds those that two passes compute."""

    def __init__(
        self, passes: Sequence[Sequence[Expression]], is_invariant: Callable[[int], bool]
    ) -> None:
        self.keys: dict[int, int] = {}
        self._numbers: dict[Any, int] = {}
        self._varies: set[int] = set()
        self._is_invariant = is_invariant
        self.wanted: set[int] = set()
        seen: set[int] = set()
        for roots in passes:
            costly = self._costly(roots)
            self.wanted |= self._met(roots, seen)
            seen |= costly

    def _costly(self, roots: Sequence[Expression]) -> set[int]:
        """Return the numbers of costly operations on values that vary along the row."""
        found = set()
        for node in in_order(roots):
            key = self._key(node)
            if node.name not in _CHEAP and key in self._varies:
                found.add(key)
        return found

    def _key(self, node: Expression) -> int:
        operands = tuple(self.keys[id(operand)] for operand in node.operands)
        parts = (node.name, str(node.dtype), node.weak, repr(node.value), operands)
        key = self._numbers.setdefault(parts, len(self._numbers))
        self.keys[id(node)] = key
        own = node.name == "input" and not self._is_invariant(int(node.value))
        if own or any(operand in self._varies for operand in operands):
            self._varies.add(key)
        return key

    def _met(self, roots: Sequence[Expression], seen: set[int]) -> set[int]:
        """Return which of the seen values expressions read, but not what these read."""
        reached: set[int] = set()
        waiting = [*roots]
        while waiting:
            node = waiting.pop()
            key = self.keys[id(node)]
            if key not in reached:
                reached.add(key)
                waiting.extend(() if key in seen else node.operands)
        return reached & seen
