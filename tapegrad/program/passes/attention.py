"""Recognise attention that is spelled out: a softmax between two stacks of matrix products.

A kernel of attention never stores the matrix of weights. Spelled out, the scores and the weights
are each written and read several times, in the forward and in the backward pass.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tapegrad.core.backend.registry import find_backend
from tapegrad.core.primitive.primitive import PRIMITIVES
from tapegrad.ops.attention.primitives import attention_gradient_p, attention_p
from tapegrad.ops.nn.softmax import softmax_gradient_p, softmax_p
from tapegrad.ops.products.primitives import stack_p
from tapegrad.program.graph.dependence import in_order, unused_numbers
from tapegrad.program.graph.graph import Call, Graph, Shape, Value

DTYPES = ("float16", "bfloat16")
"""Attention in these dtypes is computed by tensor cores, and rounds less than separate products."""

HIDDEN = -1e4
"""Scores up to this are hidden: their weights are 0, unless all scores of a query are so small."""

MOST_SCORES = 2**26
"""The most elements of a constant mask that is inspected."""

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
        self._constants = graph.constants
        self.conditions = {
            number for number, array in graph.constants.items() if np.dtype(array.dtype) == bool
        }
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

    def number(self, operand: Any) -> float | None:
        """Return the value of a constant number, None for other operands."""
        if not isinstance(operand, Value):
            return None if isinstance(operand, np.ndarray) else float(operand)
        array = self._constants.get(operand.number)
        return None if array is None or operand.shape else float(_on_host(array))

    def matrix(self, operand: Any, shape: Shape) -> np.ndarray | None:
        """Return the value of a constant that is one matrix for stacks of this shape."""
        array = self._constants.get(operand.number) if isinstance(operand, Value) else None
        if array is None or shape[-2:] != array.shape[-2:] or array.size > MOST_SCORES:
            return None
        return _on_host(array).reshape(shape[-2:]) if array.size == math.prod(shape[-2:]) else None


def _on_host(array: Any) -> np.ndarray:
    backend = find_backend(type(array))
    return np.asarray(array if backend is None else backend.to_host(array))


@dataclass
class _Scores:
    """What is done to products of queries and keys before the softmax, or to its cotangents."""

    factor: float = 1.0
    mask: int | None = None
    """The number of the condition that selects scores, or of the array that is added."""
    places: list[int] = field(default_factory=list)

    def takes(self, place: int, value: Value, uses: _Uses) -> Value | None:
        """Note a call that makes a value from another one, which is returned; None for others."""
        call = uses.calls[place]
        factor = _scale_of(call, uses)
        hidden = _causally_masked(call, uses) if factor is None and self.mask is None else None
        if factor is not None:
            self.factor *= factor
            (source,) = [x for x in call.operands if uses.number(x) is None]
        elif hidden is not None:
            source, mask = hidden
            self.mask = mask.number
        else:
            return None
        self.places.append(place)
        return source if source.shape == value.shape else None

    @classmethod
    def before(cls, value: Value, uses: _Uses) -> tuple[_Scores, Value] | None:
        """Return the calls that made scores of one reader, and the value that they began with."""
        found, source = cls(), value
        while uses.only_reader(source) is not None:
            place = uses.maker(source)
            earlier = None if place is None else found.takes(place, source, uses)
            if earlier is None:
                return found, source
            source = earlier
        return None

    def after(self, value: Value, uses: _Uses) -> tuple[list[int], Value] | None:
        """Return the calls of the gradient of these calls, and the value that they end with."""
        places: list[int] = []
        factor, kept = 1.0, self.mask is None or self.mask not in uses.conditions
        while factor != self.factor or not kept:
            place = uses.only_reader(value)
            if place is None:
                return None
            call = uses.calls[place]
            scale = _scale_of(call, uses)
            if scale is not None:
                factor *= scale
            elif call.primitive.name == "keep" and call.reads[1].number == self.mask:
                kept = True
            else:
                return None
            places.append(place)
            value = call.results[0]
        return places, value


def _scale_of(call: Call, uses: _Uses) -> float | None:
    """Return the constant by which a call multiplies its only array, None for other calls."""
    name, operands = call.primitive.name, call.operands
    if name not in ("multiply", "divide") or len(operands) != 2:
        return None
    numbers = [uses.number(operand) for operand in operands]
    if (numbers[0] is None) == (numbers[1] is None) or (name == "divide" and numbers[1] is None):
        return None
    factor = next(number for number in numbers if number is not None)
    if not 0 < factor < math.inf:
        return None
    return factor if name == "multiply" else 1 / factor


def _causally_masked(call: Call, uses: _Uses) -> tuple[Value, Value] | None:
    """Return the scores whose later keys a call hides, and its constant mask; None for others."""
    name, operands, shape = call.primitive.name, call.operands, call.results[0].shape
    if name == "where" and len(operands) == 3:
        mask, scores, fill = operands
        shown, number = uses.matrix(mask, shape), uses.number(fill)
        is_hiding = number is not None and number <= HIDDEN and isinstance(scores, Value)
        return (scores, mask) if is_hiding and shown is not None and _is_lower(shown) else None
    if name not in ("add", "subtract") or len(operands) != 2:
        return None
    scores, mask = operands
    if name == "add" and uses.matrix(mask, shape) is None:
        mask, scores = operands
    added = uses.matrix(mask, shape)
    if added is None or not isinstance(scores, Value):
        return None
    added = -added if name == "subtract" else added
    is_hiding = bool(np.all((added == 0) | (added <= HIDDEN)))
    return (scores, mask) if is_hiding and _is_lower(added == 0) else None


def _is_lower(shown: np.ndarray) -> bool:
    rows, columns = shown.shape
    return rows <= columns and np.array_equal(shown, np.tri(rows, columns, columns - rows, bool))


def _is_product(call: Call, first: Value | None = None) -> bool:
    """Return whether a call multiplies stacks, the first of which is not transposed."""
    is_stack = call.primitive is stack_p and len(call.reads) == 2
    return is_stack and not call.params["transpose_a"] and first in (None, call.reads[0])


def _transposed(value: Value, result: Value, like: Call) -> Call:
    """Return the call that transposes the matrices of a value."""
    rank = len(value.shape)
    axes = (*range(rank - 2), rank - 1, rank - 2)
    return replace(
        like, primitive=PRIMITIVES["permute_dims"], operands=(value,), params={"axes": axes},
        results=(result,), aliases=True,
    )  # fmt: skip


@dataclass
class _Match:
    """The operands of attention, its scale, and the positions of the calls that it replaces."""

    q: Value
    k: Value
    v: Value
    stored: tuple[bool, bool]
    """Whether the keys and the values are stored as [features, keys]."""
    y: Value
    scores: _Scores
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
        found = _Scores.before(scores, uses)
        product = None if found is None else uses.maker(found[1])
        if found is None or product is None:
            return None
        first = uses.calls[product]
        if not _is_product(first) or uses.only_reader(first.results[0]) is None:
            return None
        readers = uses.readers(weights) or []
        outer = [at for at in readers if _is_product(uses.calls[at], weights)]
        if len(outer) != 1:
            return None
        second = uses.calls[outer[0]]
        (q, k), v = first.reads, second.reads[1]
        stored = (not first.params["transpose_b"], second.params["transpose_b"])
        made = found[0]
        taken = {place, product, outer[0], *made.places}
        match = cls(q, k, v, stored, second.results[0], made, outer[0], taken)
        if not match._is_supported(uses) or not match._takes_gradient(weights, uses):
            return None
        return match

    def _is_supported(self, uses: _Uses) -> bool:
        q, k, v = self.q, self.k, self.v
        shapes = {value.shape[:-2] for value in (q, k, v)}
        dtypes = {value.dtype for value in (q, k, v, self.y)}
        features = (q.shape[-1], self.y.shape[-1])
        whole = not any(width % 8 or not 0 < width <= MOST_FEATURES for width in features)
        used = [uses.calls[place] for place in self.places]
        alone = not any(call.region for call in used) and len({c.array_type for c in used}) == 1
        return len(shapes) == len(dtypes) == 1 and whole and alone and bool(self.y.size)

    def _takes_gradient(self, weights: Value, uses: _Uses) -> bool:
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
        if not _is_product(product) or product.reads[1] != self.v:
            return False
        if product.params["transpose_b"] == self.stored[1]:
            return False
        self.t = product.reads[0]
        after = self.scores.after(gradient.results[0], uses)
        if after is None:
            return False
        taken, for_scores = [inner, outer, *after[0]], after[1]
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
            known = {"v": (of, self.t, True, False), "transposed v": (self.t, of, True, False)}
        else:
            known = {
                "q": (of, self.k, False, self.stored[0]),
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
        causal = self.scores.mask is not None
        params: dict[str, Any] = {"scale": self.scores.factor, "causal": causal}
        # The log-sum-exp of each query's scores, from which the gradient computes the weights.
        kept = replace(
            self.q, number=next(numbers), shape=self.q.shape[:-1], dtype=np.dtype("float32")
        )
        before: list[Call] = []
        operands = [self.q]
        for value, is_stored in zip((self.k, self.v), self.stored):
            shape = (*value.shape[:-2], value.shape[-1], value.shape[-2])
            turned = replace(value, number=next(numbers), shape=shape) if is_stored else value
            operands.append(turned)
            if is_stored:
                before.append(_transposed(value, turned, like))
        made = replace(
            like, primitive=attention_p, operands=tuple(operands), params=params,
            results=(self.y, kept),
        )  # fmt: skip
        calls = {self.forward: [*before, made]}
        if self.backward is not None:
            results = tuple(
                self.cotangents.get(name) or replace(value, number=next(numbers))
                for name, value in zip("qkv", operands)
            )
            made = replace(
                uses.calls[self.backward], primitive=attention_gradient_p,
                operands=(self.t, *operands, self.y, kept), params=params, results=results,
            )  # fmt: skip
            after = [
                _transposed(results["qkv".index(name[-1])], result, made)
                for name, result in self.cotangents.items()
                if name.startswith("transposed")
            ]
            calls[self.backward] = [made, *after]
        return calls
