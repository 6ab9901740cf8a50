"""Let a graph return flags that say whether its results have NaN or infinities.

NaN goes through arithmetic, so that few values need a flag: the results, the new values of
variables, and values that end in a decision, such as a comparison, and reach no result. A flag is
the largest value of an array. It is computed by calls of the graph, which fusion joins
with the loops around them on every backend. Values that a `where` or a slice leaves out of the
results do not count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

import numpy as np

from tapegrad.core.number_checks import is_floating
from tapegrad.core.primitive.primitive import PRIMITIVES
from tapegrad.program.graph.graph import Call, Graph, Value

PROPAGATES = frozenset({
    *("abs", "add", "broadcast_to", "cast", "divide", "exp", "identity", "log", "matmul"),
    *("multiply", "negative", "permute_dims", "reciprocal", "reshape", "rsqrt", "sqrt"),
    *("square", "subtract", "sum", "tanh"),
})  # fmt: skip
"""Primitives whose result has NaN if an operand has it anywhere."""

UPDATES = frozenset({
    *("adagrad_update", "adam_update", "adamax_update", "momentum_update", "nadam_update"),
    "rmsprop_update",
})  # fmt: skip
"""Primitives whose first result is computed from the others, and has NaN where one of them has."""

ASKS = frozenset({"isnan", "isfinite", "isinf", "full_like", "live_with", "zero_with"})
"""Primitives that read no values, or ask whether they are finite."""


@dataclass(frozen=True)
class Check:
    """A value that has a flag."""

    value: Value
    what: str
    """What the value is, in words: "result 0"."""
    variable: int | None = None
    """The number of the variable that it is assigned to."""
    allows_infinite: bool = False
    is_result: bool = False


@dataclass(frozen=True)
class FlaggedGraph:
    """A graph that assigns to no variable: it returns their new values and the flags, too.

    Its outputs are those of `source`, the new values of its variables, and one array of flags per
    entry of `checks`: one for each dtype and device. A cast of flags would be more work for loops.
    """

    source: Graph
    graph: Graph
    checks: tuple[tuple[Check, ...], ...]


def flagged(graph: Graph, results: int) -> FlaggedGraph:
    """Return a pruned graph with flags; its first `results` outputs are results for the user."""
    writer = _Flags(graph)
    checks = _checks(graph, results)
    groups: dict[tuple[type, str, Any], list[Check]] = {}
    for check in checks:
        kind = writer.makers[check.value.number].array_type
        groups.setdefault((kind, check.value.device, _real(check.value)), []).append(check)
    flags = [writer.stacked(group) for group in groups.values()]
    changed = replace(
        graph,
        calls=(*graph.calls, *writer.calls),
        outputs=(*graph.outputs, *graph.written.values(), *flags),
        written={},
    )
    return FlaggedGraph(graph, changed, tuple(map(tuple, groups.values())))


def _checks(graph: Graph, results: int) -> list[Check]:
    made = {value.number for call in graph.calls for value in call.results}
    found = {
        value.number: Check(value, f"result {place}", is_result=True)
        for place, value in enumerate(graph.outputs[:results])
        if _is_checked(value, made)
    }
    found.update(_checks_of_variables(graph, {*found}))
    kept = {value.number for value in graph.outputs[results:]}
    alive = _leading_to(kept | {value.number for value in graph.results}, graph.calls)
    for call in graph.calls:
        if call.primitive.name in ASKS or any(is_floating(v.dtype) for v in call.results):
            continue
        for value in call.reads:
            if value.number not in alive and _is_checked(value, made) and value.number not in found:
                what = f"what {call.function or call.primitive.name} at {call.site} reads"
                found[value.number] = Check(value, what, allows_infinite=True)
    return [*found.values()]


def _checks_of_variables(graph: Graph, checked: set[int]) -> dict[int, Check]:
    """Return the checks of new values of variables; `checked` are other values with a flag.

    A new value from which a checked one is computed needs no flag: the moments of an optimizer.
    """
    new = {value.number: number for number, value in graph.written.items()}
    found: dict[int, Check] = {}
    leading = set(checked)
    for call in reversed(graph.calls):
        for value in call.results:
            if call.primitive.name in UPDATES and call.results[0].number in leading:
                break
            if value.number in new and value.number not in leading and _can_be_infinite(value):
                check = Check(value, "", new[value.number], allows_infinite=True)
                found[value.number] = check
                leading.add(value.number)
        if call.primitive.name in PROPAGATES and any(v.number in leading for v in call.results):
            leading.update(value.number for value in call.reads if _can_be_infinite(value))
    return dict(reversed(found.items()))


def _is_checked(value: Value, made: set[int]) -> bool:
    return value.number in made and _can_be_infinite(value)


def _can_be_infinite(value: Value) -> bool:
    return value.size > 0 and is_floating(value.dtype)


def _leading_to(ends: set[int], calls: Sequence[Call]) -> set[int]:
    """Return the floating-point values whose NaN may reach the ends."""
    found = set(ends)
    for call in reversed(calls):
        if any(v.number in found and is_floating(v.dtype) for v in call.results):
            found.update(value.number for value in call.reads if is_floating(value.dtype))
    return found


def _real(value: Value) -> Any:
    """Return the dtype of absolute values."""
    return np.dtype(value.dtype.char.lower()) if value.dtype.kind == "c" else value.dtype


class _Flags:
    """Writes the calls that compute flags."""

    def __init__(self, graph: Graph) -> None:
        self.makers = {value.number: call for call in graph.calls for value in call.results}
        known = [*graph.inputs, *graph.variables.values(), *graph.results]
        numbers = [value.number for value in known] + [*self.makers, *graph.constants, 0]
        self._numbers = count(1 + max(numbers))
        self.calls: list[Call] = []

    def stacked(self, checks: Sequence[Check]) -> Value:
        """Return the flags of values of one dtype on one device, as one array."""
        flags = [self._flag(check.value, check.allows_infinite) for check in checks]
        shape = (len(flags),)
        return self._add("stack", tuple(flags), {"axis": 0}, shape, flags[0].dtype, checks[0].value)

    def _flag(self, value: Value, allows_infinite: bool) -> Value:
        kind, found = _real(value), value
        # A maximum is NaN if an element is, and misses only infinities below zero.
        if value.dtype != kind or (value.shape and not allows_infinite):
            found = self._add("abs", (value,), {}, value.shape, kind, value)
        if value.shape:
            params = {"axis": tuple(range(len(value.shape))), "keepdims": False}
            found = self._add("max", (found,), params, (), kind, value)
        return found

    def _add(
        self,
        name: str,
        operands: tuple[Any, ...],
        params: dict[str, Any],
        shape: tuple[int, ...],
        dtype: Any,
        of: Value,
    ) -> Value:
        made = Value(next(self._numbers), shape, dtype, of.device)
        kind = self.makers[of.number].array_type
        self.calls.append(Call(PRIMITIVES[name], operands, params, (made,), kind))
        return made
