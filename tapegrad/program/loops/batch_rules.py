"""The batching rule of counted loops: a loop whose rounds apply the calls of the body to examples.

The rows of a Jacobian are such examples: one loop pulls all of them back.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapegrad.autodiff.batching import Batched, is_batched, lift, new_level
from tapegrad.core.values.tensor import wrap
from tapegrad.ops.control.loops import loop as loop_over_tensors
from tapegrad.program.graph.graph import Graph, Value
from tapegrad.program.loops.body import Body
from tapegrad.program.loops.primitives import counted_loop_p


def applied(graph: Graph, operands: Sequence[Any]) -> list[Any]:
    """Make the calls of a graph with tensors, or with examples of them; return its outputs."""
    known: dict[int, Any] = {number: wrap(array) for number, array in graph.constants.items()}
    known.update(zip([value.number for value in graph.inputs], operands, strict=True))
    for call in graph.calls:
        given = [known[x.number] if isinstance(x, Value) else x for x in call.operands]
        found = call.primitive(*given, **call.params)
        results = found if isinstance(found, tuple | list) else (found,)
        known.update(zip([value.number for value in call.results], results, strict=True))
    return [known[value.number] for value in graph.outputs]


@counted_loop_p.batch
def _over_examples(
    size: int,
    batched: Sequence[bool],
    *operands: Any,
    body: Body,
    length: int,
    backwards: bool,
) -> tuple[Any, ...]:
    level, layout = new_level(), body.layout
    given = [Batched(x, level) if flag else x for x, flag in zip(operands, batched)]
    first, last = layout.carried, layout.carried + layout.entries

    def step(before: list[Any], entries: list[Any]) -> tuple[list[Any], list[Any]]:
        results = applied(body.recorded, [*before, *entries, *given[last:]])
        return results[:first], results[first:]

    carried, made = loop_over_tensors(step, given[:first], given[first:last], length, backwards)

    def with_axis(value: Any) -> Any:
        is_own = is_batched(value) and value.level == level
        return value.tensor if is_own else lift(value, size)

    return tuple([with_axis(value) for value in (*carried, *made)])
