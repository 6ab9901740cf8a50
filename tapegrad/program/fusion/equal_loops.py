"""Share the loops of a program that are equal, so that each is written and compiled once.

Equal layers, and the rounds of an unrolled loop, lead to loops that differ only in the arrays that
they read and write. Comparing expressions takes much less time than writing C or CUDA for them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapegrad.core.exact_key import exact_key
from tapegrad.core.trace.expression import Expression
from tapegrad.core.trace.loop import Loop, LoopOutput
from tapegrad.program.graph.formulas import nodes_of


class EqualLoops:
    """The different loops of a program."""

    def __init__(self) -> None:
        self._known: dict[Any, Loop] = {}

    def first_of(self, loop: Loop) -> Loop:
        """Return the first loop that was given and is equal to this one.

        >>> loops, first, second = EqualLoops(), Loop((3,), (), ()), Loop((3,), (), ())
        >>> loops.first_of(first) is first, loops.first_of(second) is first
        (True, True)
        """
        key = _key(loop)
        try:
            return self._known.setdefault(key, loop)
        except TypeError:  # a number of a kind that has no key
            return loop


def _key(loop: Loop) -> Any:
    """Return a key that is equal for loops of which every compiler makes the same kernel."""
    outputs = (*loop.stages, *loop.outputs)
    roots = [output.expression for output in outputs]
    roots += [output.finish for output in outputs if output.finish is not None]
    roots += loop.indices
    places, nodes = _numbered(roots)
    return (
        loop.shape,
        loop.inputs,
        len(loop.stages),
        nodes,
        tuple([_output_key(output, places) for output in outputs]),
        tuple([places[id(index)] for index in loop.indices]),
    )


def _numbered(roots: Sequence[Expression]) -> tuple[dict[int, int], tuple[Any, ...]]:
    """Return the place of each node by its id, and the nodes in order, with places as operands."""
    places: dict[int, int] = {}
    found: list[Any] = []
    for node in nodes_of(roots):
        operands = tuple([places[id(operand)] for operand in node.operands])
        places[id(node)] = len(found)
        value = None if node.value is None else exact_key(node.value)
        found.append((node.name, node.dtype, node.weak, value, operands))
    return places, tuple(found)


def _output_key(output: LoopOutput, places: dict[int, int]) -> Any:
    finish = None if output.finish is None else places[id(output.finish)]
    place = places[id(output.expression)]
    return place, output.shape, output.combine, output.axes, finish, output.rows
