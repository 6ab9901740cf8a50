"""Split expressions of one element into parts that are constant along a row, and the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from tapegrad.core.trace.expression import Expression


def inputs_of(expressions: Iterable[Expression]) -> set[int]:
    """Return the positions of the inputs that expressions read."""
    return {int(node.value) for node in in_order(expressions) if node.name == "input"}


def without_invariants(
    expressions: Sequence[Expression], is_invariant: Callable[[int], bool], first: int
) -> tuple[list[Expression], list[Expression]]:
    """Return the expressions with inputs in place of their invariant parts, and these parts.

    A part is invariant if `is_invariant` holds for all inputs that it reads. The parts are inputs
    at the positions from `first` on. Inputs and constants remain as they are.
    """
    parts: list[Expression] = []
    invariant: dict[int, bool] = {}
    rewritten: dict[int, Expression] = {}

    def seen_from_above(node: Expression) -> Expression:
        if not invariant[id(node)] or not node.operands:
            return rewritten[id(node)]
        known = rewritten.get(id(node))
        if known is None:
            position = first + len(parts)
            known = Expression("input", node.dtype, (), position, node.weak)
            parts.append(node)
            rewritten[id(node)] = known
        return known

    for node in in_order(expressions):
        if node.name == "input":
            invariant[id(node)] = is_invariant(int(node.value))
        else:
            invariant[id(node)] = all(invariant[id(operand)] for operand in node.operands)
        if not node.operands:
            rewritten[id(node)] = node
        elif not invariant[id(node)]:
            operands = tuple(seen_from_above(operand) for operand in node.operands)
            rewritten[id(node)] = Expression(node.name, node.dtype, operands, node.value, node.weak)
    return [seen_from_above(expression) for expression in expressions], parts


def in_order(expressions: Iterable[Expression]) -> Iterator[Expression]:
    """Yield each node once, after its operands; not recursive, because graphs can be deep."""
    done: set[int] = set()
    waiting = [*expressions]
    while waiting:
        node = waiting[-1]
        missing = [operand for operand in node.operands if id(operand) not in done]
        if missing and id(node) not in done:
            waiting.extend(missing)
            continue
        waiting.pop()
        if id(node) not in done:
            done.add(id(node))
            yield node
