"""Merge small matrix products, each of which would leave a device mostly idle.

Recurrent networks have one product per time step, which can be one product for all steps. The
terms are the same, but sums are added in a different order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tapegrad.core.primitive.primitive import PRIMITIVES
from tapegrad.ops.products.primitives import plane_p
from tapegrad.ops.shape.primitives import sum_p
from tapegrad.program.graph.addition_trees import Sum, sums_of
from tapegrad.program.graph.dependence import (
    Dependence,
    in_order,
    independent,
    makers_of,
    use_counts,
    wait_for_each_other,
)
from tapegrad.program.graph.graph import Call, Graph, Value
from tapegrad.program.graph.stacking import Stacking

FEWEST = 3
"""The fewest products that are worth merging."""

SMALL = 2**27
"""Products with at least this many multiplications occupy a device and are not merged."""

_ADD = PRIMITIVES["add"]


def with_joined_products(graph: Graph) -> Graph:
    """Merge small products that share a factor, and sums of small products."""
    graph = _with_shared_factor(graph, shared=1)
    graph = _with_joined_sums(graph)
    return _with_shared_factor(graph, shared=0)


def _is_small_product(call: Call) -> bool:
    # A recomputed product must not wait for others, which would keep its operands alive.
    if call.primitive is not plane_p or len(call.reads) != 2 or call.region:
        return False
    left, (rows, columns) = call.reads[0].shape, call.results[0].shape
    size = rows * columns * left[0 if call.params["transpose_a"] else 1]
    same = len({value.dtype for value in (*call.reads, *call.results)}) == 1
    return same and 0 < size < SMALL


def _stacking_axis(product: Call, position: int, inner: bool) -> int:
    """The contracted axis of an operand if `inner`, else the other one."""
    turned: bool = product.params["transpose_b" if position else "transpose_a"]
    return int(inner != (bool(position) != turned))


def _sorted_by_span(
    products: Sequence[Call], positions: Sequence[int], stacking: Stacking
) -> list[Call] | None:
    """Sort products by the position of an operand's rows in a common array, if they have one."""
    for position in positions:
        spans = [stacking.span_of(product.operands[position]) for product in products]
        known = [span for span in spans if span is not None]
        if len(known) == len(spans) and len({span.source.number for span in known}) == 1:
            order = sorted(range(len(known)), key=lambda place: known[place].start)
            return [products[place] for place in order]
    return None


def _rebuilt(graph: Graph, new: Mapping[int, Sequence[Call]], gone: set[int]) -> Graph:
    """Return the graph with calls inserted before some positions and others removed."""
    calls: list[Call] = []
    for place, call in enumerate(graph.calls):
        calls.extend(new.get(place, ()))
        if place not in gone:
            calls.append(call)
    return replace(graph, calls=in_order(calls))


# Products that share a factor


def _with_shared_factor(graph: Graph, shared: int) -> Graph:
    """Merge products with the same operand at position `shared`: right (1) or left (0)."""
    stacking = Stacking(graph)
    new: dict[int, Sequence[Call]] = {}
    gone: set[int] = set()
    for group in _groups(graph, shared):
        _join_group([graph.calls[place] for place in group], shared, stacking)
        new[group[0]] = stacking.taken()
        gone.update(group)
    return _rebuilt(graph, new, gone) if new else graph


def _groups(graph: Graph, shared: int) -> Iterator[list[int]]:
    """Yield positions of products that can be merged, in groups as large as possible."""
    results = {value.number for value in graph.results}
    families: dict[Any, list[int]] = {}
    for place, call in enumerate(graph.calls):
        # Slices of a transposed product would not be contiguous.
        if _is_small_product(call) and not call.params["transpose_a"]:
            key = (call.operands[shared].number, call.params["transpose_b"], call.array_type)
            if call.results[0].number not in results:
                families.setdefault(key, []).append(place)
    large = [places for places in families.values() if len(places) >= FEWEST]
    several = [place for places in large for place in places]
    dependence = Dependence(graph.calls, several) if large else None
    for places in large:
        assert dependence is not None
        for group in independent(places, dependence):
            if len(group) >= FEWEST and not wait_for_each_other(group, dependence):
                dependence.join(group)
                yield group


def _join_group(products: Sequence[Call], shared: int, stacking: Stacking) -> None:
    """Add one product of the concatenated operands, and slice the results out of it."""
    other = 1 - shared
    axis = _stacking_axis(products[0], other, inner=False)
    if axis == 0:
        products = _sorted_by_span(products, (other,), stacking) or products
    first, array_type = products[0], products[0].array_type
    operands = list(first.operands)
    operands[other] = stacking.stacked([p.operands[other] for p in products], axis, array_type)
    # Rows of left factors are rows of the product, columns of right factors its columns.
    results = [product.results[0] for product in products]
    shape = list(results[0].shape)
    shape[other] = sum(result.shape[other] for result in results)
    whole = stacking.value(tuple(shape), results[0])
    stacking.add_call(plane_p, tuple(operands), whole, array_type, **first.params)
    start = 0
    for result in results:
        stacking.part(whole, other, start, result, array_type)
        start += result.shape[other]


# Sums of products


def _with_joined_sums(graph: Graph) -> Graph:
    makers, uses = makers_of(graph.calls), use_counts(graph)
    trees = list(sums_of(graph.calls, makers, uses))
    found = [(tree, _product_groups(tree, graph.calls, makers, uses)) for tree in trees]
    stacking = Stacking(graph)
    ordered = iter(_in_common_order([group for _, groups in found for group in groups], stacking))
    new: dict[int, Sequence[Call]] = {}
    gone: set[int] = set()

    def join(tree: Sum, groups: Sequence[list[Call]]) -> None:
        _join_sum(tree, groups, graph.calls[tree.root], stacking)
        new[tree.root] = stacking.taken()
        gone.update(tree.calls)
        gone.update(makers[call.results[0].number] for group in groups for call in group)

    for tree, groups in found:
        if groups:
            join(tree, [next(ordered) for _ in groups])
    # Gradients of biases sum the matrices that those of weights have concatenated.
    for tree, groups in found:
        rows = _row_sums(tree, graph.calls, makers, uses)
        if not groups and stacking.stack_of([call.reads[0] for call in rows]) is not None:
            join(tree, [rows])
    return _rebuilt(graph, new, gone) if new else graph


def _product_groups(
    tree: Sum, calls: Sequence[Call], makers: Mapping[int, int], uses: Counter[int]
) -> list[list[Call]]:
    """The products among the leaves that can be merged."""
    groups: dict[Any, list[Call]] = {}
    for leaf in tree.leaves:
        place = makers.get(leaf.number)
        if place is not None and uses[leaf.number] == 1 and _is_small_product(calls[place]):
            product = calls[place]
            flags = product.params["transpose_a"], product.params["transpose_b"]
            groups.setdefault((*flags, product.array_type), []).append(product)
    return [group for group in groups.values() if len(group) >= FEWEST]


def _row_sums(
    tree: Sum, calls: Sequence[Call], makers: Mapping[int, int], uses: Counter[int]
) -> list[Call]:
    """The sums over rows of matrices among the leaves."""
    made = [makers[leaf.number] for leaf in tree.leaves if leaf.number in makers]
    return [
        calls[place]
        for place in made
        if calls[place].primitive is sum_p
        and calls[place].params == {"axis": (0,), "keepdims": False}
        and len(calls[place].reads[0].shape) == 2
        and uses[calls[place].results[0].number] == 1
    ]


def _in_common_order(groups: Sequence[list[Call]], stacking: Stacking) -> list[list[Call]]:
    """Order the products of each sum so that operands need no copy, or share one with a sum."""
    ordered = list(groups)
    known: dict[frozenset[int], dict[int, int]] = {}
    late: list[int] = []
    for number, group in enumerate(groups):
        in_rows = [p for p in (0, 1) if _stacking_axis(group[0], p, inner=True) == 0]
        found = _sorted_by_span(group, in_rows, stacking)
        if found is None:
            late.append(number)
        else:
            ordered[number] = found
            _note_order(found, known)
    for number in late:
        for position in (1, 0):
            ranks = known.get(_numbers(groups[number], position))
            if ranks is not None:
                ordered[number] = _ranked(groups[number], position, ranks)
                break
        _note_order(ordered[number], known)
    return ordered


def _ranked(products: Sequence[Call], position: int, ranks: Mapping[int, int]) -> list[Call]:
    return sorted(products, key=lambda product: ranks[product.operands[position].number])


def _numbers(products: Sequence[Call], position: int) -> frozenset[int]:
    return frozenset(product.operands[position].number for product in products)


def _note_order(products: Sequence[Call], known: dict[frozenset[int], dict[int, int]]) -> None:
    for position in (0, 1):
        ranks = {product.operands[position].number: i for i, product in enumerate(products)}
        known.setdefault(_numbers(products, position), ranks)


def _join_sum(tree: Sum, groups: Sequence[list[Call]], root: Call, stacking: Stacking) -> None:
    """Add one call per group, and calls that add their results and the other leaves."""
    joined = {call.results[0].number for group in groups for call in group}
    rest = [leaf for leaf in tree.leaves if leaf.number not in joined]
    target, steps = root.results[0], len(groups) + len(rest) - 1
    terms: list[Value] = []
    for group in groups:
        result = stacking.value(target.shape, target) if steps else target
        operands = _stacked_operands(group, stacking)
        first = group[0]
        terms.append(
            stacking.add_call(first.primitive, operands, result, root.array_type, **first.params)
        )
    total, *others = [*terms, *rest]
    for step, term in enumerate(others, 1):
        result = target if step == steps else stacking.value(target.shape, target)
        total = stacking.add_call(_ADD, (total, term), result, root.array_type)


def _stacked_operands(group: Sequence[Call], stacking: Stacking) -> tuple[Value, ...]:
    """The concatenated operands of a group of products or of sums over rows."""
    first = group[0]
    if first.primitive is sum_p:
        stack = stacking.stack_of([call.reads[0] for call in group])
        assert stack is not None
        return (stack,)
    return tuple(
        stacking.stacked(
            [product.operands[position] for product in group],
            _stacking_axis(first, position, inner=True),
            first.array_type,
        )
        for position in (0, 1)
    )
