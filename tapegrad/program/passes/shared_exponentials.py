"""Let logsumexp, its gradient and softmax of the same rows share their exponentials.

The gradient of logsumexp is the softmax, computed from the result: exp(x - y), divided by its sum.
The result itself is made of exp(x - max(x)), which divided by its sum is the same. An exponential
takes longer than all other operations of such a program together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import inf
from typing import Any, NamedTuple

import numpy as np

from tapegrad.core.backend.optional_parts import LoopCompiler
from tapegrad.program.graph.dependence import unused_numbers
from tapegrad.program.graph.graph import Call, Graph, Value, without_dead_calls
from tapegrad.program.passes.definitions import DTYPES, has_rows
from tapegrad.program.passes.new_calls import NewCalls

_MOST_STORED = 1 << 20
"""The most bytes of exponentials that another loop reads; more are computed again."""

_VIEWS = ("broadcast_to", "reshape")


def with_shared_exponentials(graph: Graph, loops: LoopCompiler) -> Graph:
    """Replace logsumexp and the weights of its gradient by calls that share exponentials."""
    if "logsumexp" not in loops.definitions:
        return graph
    uses = _Uses(graph)
    calls = {k: [call] for k, call in enumerate(graph.calls)}
    numbers = unused_numbers(graph)
    is_changed = False
    for k, call in enumerate(graph.calls):
        if call.primitive.name != "logsumexp" or not _is_taken(call, loops):
            continue
        weights = uses.weights_of(call)
        if not weights and not uses.has_softmax(call):
            continue
        calls[k], terms, total = _defined(call, numbers)
        for place in weights:
            divided = graph.calls[place]
            calls[place] = [replace(divided, operands=(terms, total))]
        is_changed = True
    if not is_changed:
        return graph
    return without_dead_calls(
        replace(graph, calls=tuple([c for own in calls.values() for c in own]))
    )


def _is_taken(call: Call, loops: LoopCompiler) -> bool:
    (x,) = call.reads
    return not call.region and x.dtype.name in DTYPES and 0 not in x.shape and has_rows(call, loops)


class _Rows(NamedTuple):
    """The calls that divide exponentials by their sum."""

    place: int
    terms: Value
    total: Value


class _Uses:
    """What reads each value of a graph."""

    def __init__(self, graph: Graph) -> None:
        self._calls = graph.calls
        self._results = {value.number for value in graph.results}
        self._readers: dict[int, list[int]] = {}
        self._makers: dict[int, int] = {}
        for place, call in enumerate(graph.calls):
            for value in call.reads:
                self._readers.setdefault(value.number, []).append(place)
            self._makers.update({value.number: place for value in call.results})

    def _read_by(self, value: Value) -> list[tuple[int, Call]]:
        return [(place, self._calls[place]) for place in self._readers.get(value.number, ())]

    def has_softmax(self, call: Call) -> bool:
        """Whether there is a softmax of the same rows."""
        for _, other in self._read_by(call.reads[0]):
            name, axis = other.primitive.name, other.params.get("axis")
            if name == "softmax" and (axis,) == call.params["axis"] and not other.region:
                return True
        return False

    def weights_of(self, call: Call) -> list[int]:
        """The places of the divisions that make the weights of a gradient, if all are taken."""
        (x,), (y,) = call.reads, call.results
        kept = [1 if k in call.params["axis"] else n for k, n in enumerate(x.shape)]
        names = [y, *(v for _, other in self._read_by(y) for v in _views(other))]
        names = [name for name in names if list(name.shape) == kept]
        found = []
        for name in names:
            for _, other in self._read_by(name):
                if other.primitive.name == "exp_difference" and other.operands == (x, name):
                    rows = self._weights(other, call.params["axis"])
                    if rows is None or not self._pays(call, rows):
                        return []
                    found.append(rows.place)
        return found

    def _weights(self, terms: Call, axes: tuple[int, ...]) -> _Rows | None:
        """The division of exponentials by their sum, None if anything else reads them."""
        (value,) = terms.results
        readers = dict(self._read_by(value))
        sums = [one for one in readers.values() if one.primitive.name == "sum"]
        if terms.region or len(readers) != 2 or len(sums) != 1 or value.number in self._results:
            return None
        (total,) = sums[0].results
        if sums[0].params["axis"] != axes or not sums[0].params["keepdims"]:
            return None
        place = next(place for place, one in readers.items() if one is not sums[0])
        divided = self._calls[place]
        is_own = divided.primitive.name == "divide_no_nan" and divided.operands == (value, total)
        is_alone = [place] == self._readers[total.number] and total.number not in self._results
        return _Rows(place, value, total) if is_own and is_alone and not divided.region else None

    def _pays(self, call: Call, rows: _Rows) -> bool:
        """Whether the exponentials are few, or one loop computes the result and the gradient."""
        if call.reads[0].nbytes <= _MOST_STORED:
            return True
        (weights,) = self._calls[rows.place].results
        return all(self._is_by_row(other, call, weights) for _, other in self._read_by(weights))

    def _is_by_row(self, call: Call, start: Call, weights: Value) -> bool:
        """Whether what a call reads beside weights follows row by row from a logsumexp."""
        if not call.primitive.by_element:
            return False
        first = self._makers[start.results[0].number]
        waiting = [value for value in call.reads if value.number != weights.number]
        seen = set[int]()
        while waiting:
            value = waiting.pop()
            place = self._makers.get(value.number, -1)
            if place < first or value.number in seen or self._calls[place] is start:
                continue
            seen.add(value.number)
            made = self._calls[place]
            if not made.primitive.by_element and made.primitive.name not in _VIEWS:
                return False
            waiting += made.reads
        return True


def _views(call: Call) -> tuple[Value, ...]:
    return call.results if call.primitive.name == "reshape" else ()


def _defined(call: Call, numbers: Iterator[int]) -> tuple[list[Call], Value, Value]:
    """The calls of a logsumexp, its exponentials and their sum.

    The exponentials are right for the gradient as well: those of the largest elements are 1 even
    where these are infinite, as are the weights if their sum divides them. What is not infinite has
    the same bits as in the definition.
    """
    (x,), (y,), axes = call.reads, call.results, call.params["axis"]
    kept = tuple(1 if k in axes else n for k, n in enumerate(x.shape))
    new = _TypedCalls(call, numbers)
    by_row = {"axis": axes, "keepdims": True}
    top = new.add("max", (x,), by_row, kept)
    zeros = new.add("full_like", (x,), {"shape": kept, "value": 0, "dtype": x.dtype}, kept)
    shift = new.add("where", (new.condition((top, -inf), kept), zeros, top), {}, kept)
    plain = new.add("exp", (new.add("subtract", (x, shift), {}, x.shape),), {}, x.shape)
    terms = new.add("where", (new.condition((x, shift), x.shape), 1, plain), {}, x.shape)
    total = new.add("sum", (terms,), by_row, kept)
    result = new.add("add", (new.add("log", (total,), {}, kept), top), {}, kept)
    if kept != y.shape:
        new.add("reshape", (result,), {"shape": y.shape}, y.shape)
    return new.ending_in(y), terms, total


class _TypedCalls(NewCalls):
    """Calls with new values, of which some are conditions."""

    def condition(self, operands: tuple[Any, Any], shape: tuple[int, ...]) -> Value:
        """Add a comparison for equality."""
        value = self.add("equal", operands, {}, shape)
        own = replace(value, dtype=np.dtype(bool))
        self.calls[-1] = replace(self.calls[-1], results=(own,))
        return own
