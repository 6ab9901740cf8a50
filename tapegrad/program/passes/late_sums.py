"""Add up arrays before they are summed: totals over the rounds of a loop need one sum.

A gradient of what all rounds share is the total of some sums per round, and so is a loss that adds
up the means of all rounds. `sum(a) - w * sum(b) + ...` becomes `sum(a - w * b + ...)`, which leaves
rounds of elementwise calls only.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tapegrad.core.exact_key import exact_key
from tapegrad.program.graph.dependence import makers_of, unused_numbers
from tapegrad.program.graph.graph import Call, Graph, Value
from tapegrad.program.passes.new_calls import NewCalls

LEAST_TERMS = 16
"""The fewest sums that are replaced by one."""

MOST_FACTORS = 3
"""The most factors of a sum."""

LINEAR = ("sum", "mean")
"""Reductions of a total that are the total of the reductions."""


@dataclass(frozen=True)
class _Term:
    """A sum and what multiplies it, by the places of their calls; `key` is that of equal sums."""

    key: Any
    places: tuple[int, ...]


@dataclass
class _Chain:
    """A total: what it starts from, its terms, and the places where they are added."""

    start: Value | None
    terms: list[_Term]
    additions: list[int] = field(default_factory=list)


def with_late_sums(graph: Graph) -> Graph:
    """Replace totals of many sums by sums of totals."""
    chains = [chain for chain in _Chains(graph).all() if len(chain.terms) >= LEAST_TERMS]
    if not chains:
        return graph
    numbers = unused_numbers(graph)
    new: dict[int, list[Call]] = {}
    for chain in chains:
        new.update(_summed_late(graph.calls, chain, numbers))
    calls = [one for place, call in enumerate(graph.calls) for one in new.get(place, [call])]
    return replace(graph, calls=tuple(calls))


def _summed_late(
    calls: Sequence[Call], chain: _Chain, numbers: Iterator[int]
) -> dict[int, list[Call]]:
    """Return what replaces the calls of a total, by their places."""
    new: dict[int, list[Call]] = {}
    parts = []
    for term in chain.terms:
        first, *rest = term.places
        part = calls[first].reads[0]
        now = {calls[first].results[0].number: part}
        new[first] = []
        for place in rest:
            part = replace(part, number=next(numbers))
            operands = [
                now.get(x.number, x) if isinstance(x, Value) else x for x in calls[place].operands
            ]
            new[place] = [calls[place].with_values(tuple(operands), (part,))]
            now[calls[place].results[0].number] = part
        parts.append(part)
    total = parts[0]
    added = parts[1:] if chain.start is None else parts
    for k, (place, part) in enumerate(zip(chain.additions, added, strict=True)):
        name = calls[place].primitive.name
        adding = NewCalls(calls[place], numbers)
        if k or chain.start is None:
            total = adding.add(name, (total, part), {}, part.shape)
        elif name == "subtract":
            total = adding.add("negative", (part,), {}, part.shape)
        new[place] = adding.calls
    reduction, last = calls[chain.terms[0].places[0]], calls[chain.additions[-1]]
    summing, result = NewCalls(last, numbers), last.results[0]
    total = summing.add(reduction.primitive.name, (total,), reduction.params, result.shape)
    if chain.start is not None:
        summing.add("add", (chain.start, total), {}, result.shape)
    new[chain.additions[-1]] += summing.ending_in(result)
    return new


class _Chains:
    """Finds totals in which every part is read once."""

    def __init__(self, graph: Graph) -> None:
        self._calls, self._makers = graph.calls, makers_of(graph.calls)
        self._readers = Counter(value.number for call in graph.calls for value in call.reads)
        self._readers.update(value.number for value in graph.results)

    def all(self) -> list[_Chain]:
        """Return the totals, each with all of its terms."""
        found: dict[int, _Chain] = {}
        for place, call in enumerate(self._calls):
            if call.primitive.name not in ("add", "subtract") or call.region:
                continue
            for one, other in _orders(call):
                term = self._term(other)
                if term is None or other.shape != call.results[0].shape:
                    continue
                chain = found.get(one.number)
                if chain is None or chain.terms[0].key != term.key or not self._is_own(one):
                    first = self._term(one)
                    is_like = first is not None and first.key == term.key
                    chain = _Chain(None, [first]) if first and is_like else _Chain(one, [])
                else:
                    del found[one.number]
                chain.terms.append(term)
                chain.additions.append(place)
                found[call.results[0].number] = chain
                break
        return list(found.values())

    def _is_own(self, value: Value) -> bool:
        """Whether a value is read once."""
        return self._readers[value.number] == 1

    def _term(self, value: Value, factors: int = MOST_FACTORS, readers: int = 1) -> _Term | None:
        """Return the term that a value is: a sum, or one that is negated or multiplied."""
        place = self._makers.get(value.number)
        if place is None or self._readers[value.number] != readers:
            return None
        call = self._calls[place]
        key = _key(call)
        if key is not None:
            return _Term(key, (place,))
        if call.region or not factors:
            return None
        if call.primitive.name == "zero_with":
            return self._guarded(call, place, factors)
        if call.primitive.name in ("negative", "multiply"):
            for x in call.reads:
                inner = self._term(x, factors - 1)
                if inner is not None and self._multiplies(call, x, inner):
                    return _Term(inner.key, (*inner.places, place))
        return None

    def _guarded(self, call: Call, place: int, factors: int) -> _Term | None:
        """Return the term of a product with a sum that is 0 where the sum is.

        Each element is 0 where its part of the sum is. Results differ only where a factor is
        infinite or NaN and the parts of a sum cancel each other exactly.
        """
        product, cotangent = call.reads if len(call.reads) == 2 else (None, None)
        at = None if product is None else self._makers.get(product.number)
        if product is None or cotangent is None or at is None or not self._is_own(product):
            return None
        multiply = self._calls[at]
        is_read = cotangent.number in [value.number for value in multiply.reads]
        if multiply.primitive.name != "multiply" or not is_read or multiply.region:
            return None
        inner = self._term(cotangent, factors - 1, readers=2)
        if inner is None or not self._multiplies(multiply, cotangent, inner):
            return None
        return _Term(inner.key, (*inner.places, at, place))

    def _multiplies(self, call: Call, x: Value, term: _Term) -> bool:
        """Whether what a call multiplies a sum by can multiply each element before."""
        result, params = call.results[0], self._calls[term.places[0]].params
        if (x.shape, x.dtype) != (result.shape, result.dtype):
            return False
        axes = params["axis"]
        is_aligned = params["keepdims"] or tuple(axes) == tuple(range(len(axes)))
        others = [value for value in call.reads if value.number != x.number]
        return all(not other.shape or is_aligned for other in others)


def _orders(call: Call) -> list[tuple[Value, Value]]:
    """Return the operands of an addition or a subtraction as totals and what is added to them."""
    if len(call.reads) != 2:
        return []
    one, other = call.reads
    return [(one, other)] if call.primitive.name == "subtract" else [(one, other), (other, one)]


def _key(call: Call) -> Any:
    """Return what sums of one total have in common; None if the call is no such sum."""
    if call.primitive.name not in LINEAR or call.region or len(call.reads) != 1:
        return None
    x, result = call.reads[0], call.results[0]
    if x.dtype.kind not in "fc" or x.dtype.itemsize < 4 or x.dtype != result.dtype:
        return None  # totals in half precision would be rounded at every addition
    params = tuple([(name, exact_key(value)) for name, value in call.params.items()])
    return call.primitive.name, params, x.shape, x.dtype, x.device
