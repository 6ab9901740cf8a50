"""Merge products of one matrix with several vectors, so that the matrix is read once.

Higher derivatives contain many of them: a product and its tangent, or the transposed product of a
cotangent and of its tangent.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from tapegrad.core.primitive.primitive import Primitive
from tapegrad.ops.products.primitives import matvec_p
from tapegrad.program.graph.dependence import Dependence, in_order, independent, wait_for_each_other
from tapegrad.program.graph.graph import Call, Graph

MOST = 4
"""The most vectors of one call: the sums of a few rows then fit into registers."""


def _matvecs(xp: Any, a: Any, *xs: Any, transpose: bool) -> tuple[Any, ...]:
    kernel = matvec_p.kernel(type(a))
    return tuple([kernel(a, x, transpose=transpose) for x in xs])


matvecs_p = Primitive("matvecs", _matvecs, differentiable=False, many=True)
"""The product of a matrix, or its transpose, with each of several vectors.

Only this pass makes it, after all derivatives were computed, so it has no rules.
"""


def with_joined_vectors(graph: Graph) -> Graph:
    """Merge independent products of one matrix with vectors."""
    joined = {group[0]: [graph.calls[place] for place in group] for group in _groups(graph)}
    if not joined:
        return graph
    gone = {id(call) for group in joined.values() for call in group}
    calls: list[Call] = []
    for place, call in enumerate(graph.calls):
        if place in joined:
            calls.append(_together(joined[place]))
        elif id(call) not in gone:
            calls.append(call)
    return replace(graph, calls=in_order(calls))


def _together(products: Sequence[Call]) -> Call:
    first = products[0]
    vectors = [product.operands[1] for product in products]
    results = tuple([product.results[0] for product in products])
    operands = (first.operands[0], *vectors)
    return Call(matvecs_p, operands, first.params, results, first.array_type)


def _groups(graph: Graph) -> Iterator[list[int]]:
    """Yield positions of independent products with the same matrix, in small groups."""
    families: dict[Any, list[int]] = {}
    for place, call in enumerate(graph.calls):
        # A recomputed product must not wait for others, which would keep its operands alive.
        if call.primitive is matvec_p and len(call.reads) == 2 and not call.region:
            matrix, vector = call.reads
            if matrix.dtype == vector.dtype:
                key = (matrix.number, call.params["transpose"], call.array_type)
                families.setdefault(key, []).append(place)
    several = [places for places in families.values() if len(places) > 1]
    asked = [place for places in several for place in places]
    dependence = Dependence(graph.calls, asked) if several else None
    for places in several:
        assert dependence is not None
        for level in independent(places, dependence):
            for start in range(0, len(level), MOST):
                group = level[start : start + MOST]
                if len(group) > 1 and not wait_for_each_other(group, dependence):
                    dependence.join(group)
                    yield group
