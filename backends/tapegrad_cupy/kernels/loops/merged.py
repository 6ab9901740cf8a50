"""Several loops over one space as one loop, in which results of one are read by the next."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import NamedTuple

from tapegrad.core.trace.expression import Expression, array_input
from tapegrad.core.trace.loop import Loop, LoopInput, LoopOutput


class Part(NamedTuple):
    """A loop without reductions, and the numbers of the values that it reads and makes."""

    loop: Loop
    reads: tuple[int, ...]
    results: tuple[int, ...]


def merged(parts: Sequence[Part]) -> Part | None:
    """Return one loop that computes the results of all; None if their spaces differ."""
    shape = parts[0].loop.shape
    if any(part.loop.shape != shape for part in parts):
        return None
    merging = _Merging()
    outputs: list[LoopOutput] = []
    for part in parts:
        places: list[Expression] = []
        for number, read in zip(part.reads, part.loop.inputs, strict=True):
            found = merging.input(number, read, prod(shape))
            if found is None:
                return None
            places.append(found)
        made = _with_inputs([output.expression for output in part.loop.outputs], places)
        merging.made.update(zip(part.results, made, strict=True))
        outputs += [LoopOutput(x, o.shape) for x, o in zip(made, part.loop.outputs)]
    results = tuple([number for part in parts for number in part.results])
    loop = Loop(shape, tuple(merging.inputs.values()), tuple(outputs))
    return Part(loop, tuple([number for number, _ in merging.inputs]), results)


class _Merging:
    """The inputs of a loop that is being made, and the results that it has so far."""

    def __init__(self) -> None:
        self.inputs: dict[tuple[int, tuple[int, ...]], LoopInput] = {}
        self.made: dict[int, Expression] = {}

    def input(self, number: int, read: LoopInput, count: int) -> Expression | None:
        """Return what a loop reads as an expression; None if it reads a result otherwise."""
        if number in self.made:
            return self.made[number] if prod(read.seen) == count else None
        key = number, read.seen
        self.inputs.setdefault(key, read)
        return array_input([*self.inputs].index(key), read.dtype)


def _with_inputs(roots: Iterable[Expression], places: Sequence[Expression]) -> list[Expression]:
    """Return expressions with other inputs."""
    found: dict[int, Expression] = {}

    def moved(node: Expression) -> Expression:
        if id(node) not in found:
            if node.name == "input":
                found[id(node)] = places[node.value]
            elif not node.operands:
                found[id(node)] = node
            else:
                operands = tuple([moved(operand) for operand in node.operands])
                new = Expression(node.name, node.dtype, operands, node.value, node.weak)
                found[id(node)] = new
        return found[id(node)]

    return [moved(root) for root in roots]
