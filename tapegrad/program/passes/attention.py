"""Recognise attention that is spelled out: a softmax between two stacks of matrix products.

A kernel of attention never stores the matrix of weights. Spelled out, the scores and the weights
are each written and read several times, in the forward and in the backward pass.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np

from tapegrad.core.primitive.primitive import PRIMITIVES
from tapegrad.ops.attention.primitives import attention_gradient_p, attention_p
from tapegrad.ops.nn.softmax import softmax_gradient_p, softmax_p
from tapegrad.ops.products.primitives import stack_p
from tapegrad.program.graph.dependence import in_order, unused_numbers
from tapegrad.program.graph.graph import Call, Graph, Value

DTYPES = ("float16", "bfloat16")
"""Attention in these dtypes is computed by tensor cores, and rounds less than separate products."""

MOST_FEATURES = 128
"""The most features per head for which kernels of attention are faster than separate products."""


def with_attention(graph: Graph) -> Graph:
    """Replace products around a softmax, and those of its gradient, by calls of attention.

    Nothing else may read the scores, the weights or their cotangents, which are no longer computed.
    """
    if not any(call.primitive is softmax_p for call in graph.calls):
        return graph
    uses, numbers = _Uses(graph), unused_numbers(graph)
    new: dict[int, list[Call]] = {}
    gone: set[int] = set()
    for place, call in enumerate(graph.calls):
        found = _Match.around(place, uses) if call.primitive is softmax_p else None
        if found is not None:
            new.update(found.calls(uses, numbers))
            gone.update(found.places)
    if not new:
        return graph
    calls: list[Call] = []
    for place, call in enumerate(graph.calls):
        calls.extend(new.get(place, () if place in gone else (call,)))
    return replace(graph, calls=in_order(calls))


class _Uses:
    """The makers and readers of the values of a graph."""

    def __init__(self, graph: Graph) -> None:
        self.calls = graph.calls
        self._results = {value.number for value in graph.results}
        self._makers: dict[int, int] = {}
        self._readers: dict[int, list[int]] = defaultdict(list)
        for place, call in enumerate(graph.calls):
            for number in {value.number for value in call.reads}:
                self._readers[number].append(place)
            self._makers.update((value.number, place) for value in call.results)

    def maker(self, value: Value) -> int | None:
        return self._makers.get(value.number)

    def readers(self, value: Value) -> list[int] | None:
        """Return the positions of all readers, None if the value is also a result."""
        return None if value.number in self._results else self._readers[value.number]

    def only_reader(self, value: Value) -> int | None:
        readers = self.readers(value)
        return readers[0] if readers is not None and len(readers) == 1 else None


class _Scaled(NamedTuple):
    """A factor, and the position of the call that multiplies by it (None if there is none)."""

    factor: float
    place: int | None


def _scale_of(call: Call) -> float | None:
    """Return the constant by which a call multiplies its only array, None for other calls."""
    name, reads = call.primitive.name, call.reads
    if name not in ("multiply", "divide") or len(reads) != 1 or len(call.operands) != 2:
        return None
    first, second = call.operands
    number = second if isinstance(first, Value) else first
    if isinstance(number, np.ndarray) or (name == "divide" and number is first):
        return None
    factor = float(number)
    if not 0 < factor < math.inf or reads[0].shape != call.results[0].shape:
        return None
    return factor if name == "multiply" else 1 / factor


def _is_product(call: Call, transpose_a: bool, transpose_b: bool) -> bool:
    flags = {"transpose_a": transpose_a, "transpose_b": transpose_b}
    return call.primitive is stack_p and len(call.reads) == 2 and call.params == flags


@dataclass
class _Match:
    """The operands of attention, its scale, and the positions of the calls that it replaces."""

    q: Value
    k: Value
    v: Value
    y: Value
    scale: float
    forward: int
    """The position of the product of weights and values."""
    places: set[int]
    backward: int | None = None
    """The position of the last call of the gradient, if there is one."""
    t: Value | None = None
    cotangents: dict[str, Value] = field(default_factory=dict)

    @classmethod
    def around(cls, place: int, uses: _Uses) -> _Match | None:
        """Return attention with the softmax at a position, None if there is none."""
        softmax = uses.calls[place]
        scores, weights = softmax.reads[0], softmax.results[0]
        if softmax.params["axis"] != len(scores.shape) - 1 or scores.dtype.name not in DTYPES:
            return None
        scaled = _scaled_before(scores, uses)
        product = None if scaled is None else uses.maker(_unscaled(scores, scaled, uses))
        if scaled is None or product is None:
            return None
        first = uses.calls[product]
        if not _is_product(first, False, True) or uses.only_reader(first.results[0]) is None:
            return None
        readers = uses.readers(weights) or []
        outer = [at for at in readers if _is_product(uses.calls[at], False, False)]
        if len(outer) != 1 or uses.calls[outer[0]].reads[0] != weights:
            return None
        second = uses.calls[outer[0]]
        (q, k), v = first.reads, second.reads[1]
        taken = {place, product, outer[0]}
        if scaled.place is not None:
            taken.add(scaled.place)
        match = cls(q, k, v, second.results[0], scaled.factor, outer[0], taken)
        if not match._is_supported(uses) or not match._takes_gradient(weights, scaled, uses):
            return None
        return match

    def _is_supported(self, uses: _Uses) -> bool:
        q, k, v = self.q, self.k, self.v
        shapes = {value.shape[:-2] for value in (q, k, v)}
        dtypes = {value.dtype for value in (q, k, v, self.y)}
        features = (q.shape[-1], v.shape[-1])
        whole = not any(width % 8 or not 0 < width <= MOST_FEATURES for width in features)
        used = [uses.calls[place] for place in self.places]
        alone = not any(call.region for call in used) and len({c.array_type for c in used}) == 1
        return len(shapes) == len(dtypes) == 1 and whole and alone and bool(self.y.size)

    def _takes_gradient(self, weights: Value, scaled: _Scaled, uses: _Uses) -> bool:
        """Add the calls of the gradient; return whether all readers of the weights are known."""
        others = [at for at in uses.readers(weights) or [] if at != self.forward]
        if not others:
            return True
        by_name = {uses.calls[at].primitive: at for at in others}
        inner = by_name.pop(softmax_gradient_p, None)
        if inner is None or len(others) != len(by_name) + 1:
            return False
        gradient = uses.calls[inner]
        for_weights = gradient.reads[0]
        outer = uses.maker(for_weights)
        if outer is None or uses.only_reader(for_weights) != inner:
            return False
        product = uses.calls[outer]
        if not _is_product(product, False, True) or product.reads[1] != self.v:
            return False
        self.t = product.reads[0]
        taken = [inner, outer]
        for_scores = gradient.results[0]
        if scaled.place is not None:
            after = uses.only_reader(for_scores)
            if after is None or _scale_of(uses.calls[after]) != scaled.factor:
                return False
            taken.append(after)
            for_scores = uses.calls[after].results[0]
        products = [(at, weights) for at in by_name.values()]
        products += [(at, for_scores) for at in uses.readers(for_scores) or [-1]]
        if not all(at >= 0 and self._takes_product(at, of, weights, uses) for at, of in products):
            return False
        taken += [at for at, _ in products]
        self.places.update(taken)
        self.backward = max(taken)
        return self._is_supported(uses)

    def _takes_product(self, place: int, of: Value, weights: Value, uses: _Uses) -> bool:
        """Note the cotangent that a product of the gradient computes; return whether it is one."""
        call = uses.calls[place]
        if call.primitive is not stack_p or len(call.reads) != 2:
            return False
        flags = (call.params["transpose_a"], call.params["transpose_b"])
        if of.number == weights.number:
            known = {"v": (of, self.t, True, False)}
        else:
            known = {
                "q": (of, self.k, False, False),
                "k": (of, self.q, True, False),
                "transposed k": (self.q, of, True, False),
            }
        name = next((name for name, form in known.items() if form == (*call.reads, *flags)), "")
        if not name or any(other[-1] == name[-1] for other in self.cotangents):
            return False
        self.cotangents[name] = call.results[0]
        return True

    def calls(self, uses: _Uses, numbers: Iterator[int]) -> dict[int, list[Call]]:
        """Return the calls of attention and of its gradient by their positions."""
        like = uses.calls[self.forward]
        params: dict[str, Any] = {"scale": self.scale, "causal": False}
        # The log-sum-exp of each query's scores, from which the gradient computes the weights.
        kept = Value(next(numbers), self.q.shape[:-1], np.dtype("float32"))
        made = replace(
            like, primitive=attention_p, operands=(self.q, self.k, self.v), params=params,
            results=(self.y, kept),
        )  # fmt: skip
        calls = {self.forward: [made]}
        if self.backward is not None:
            operands = (self.t, self.q, self.k, self.v, self.y, kept)
            results = tuple(
                self.cotangents.get(name) or replace(value, number=next(numbers))
                for name, value in (("q", self.q), ("k", self.k), ("v", self.v))
            )
            made = replace(
                uses.calls[self.backward], primitive=attention_gradient_p, operands=operands,
                params=params, results=results,
            )  # fmt: skip
            calls[self.backward] = [made, *self._transposed(made)]
        return calls

    def _transposed(self, gradient: Call) -> Iterator[Call]:
        """Yield the transposition of the keys' cotangent, if transposed keys were multiplied."""
        result = self.cotangents.get("transposed k")
        if result is not None:
            rank = len(result.shape)
            axes = (*range(rank - 2), rank - 1, rank - 2)
            yield replace(
                gradient, primitive=PRIMITIVES["permute_dims"], operands=(gradient.results[1],),
                params={"axes": axes}, results=(result,), aliases=True,
            )  # fmt: skip


def _scaled_before(scores: Value, uses: _Uses) -> _Scaled | None:
    """Return the factor of scores that only a softmax reads, None if others read them too."""
    place = uses.maker(scores)
    if place is None or uses.only_reader(scores) is None:
        return None
    factor = _scale_of(uses.calls[place])
    return _Scaled(1.0, None) if factor is None else _Scaled(factor, place)


def _unscaled(scores: Value, scaled: _Scaled, uses: _Uses) -> Value:
    return scores if scaled.place is None else uses.calls[scaled.place].reads[0]
