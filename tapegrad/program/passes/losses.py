"""Fuse cross entropies with their gradients, so that the logits are read once.

A gradient needs the cotangent of its loss. That of a mean or a sum is known in advance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from tapegrad.core.primitive.primitive import Primitive
from tapegrad.ops.nn.cross_entropy import (
    cross_entropy_and_gradient_p,
    cross_entropy_gradient_p,
    cross_entropy_p,
    sparse_cross_entropy_and_gradient_p,
    sparse_cross_entropy_gradient_p,
    sparse_cross_entropy_p,
)
from tapegrad.program.graph.dependence import Dependence, in_order, makers_of, use_counts
from tapegrad.program.graph.graph import Call, Graph, Value, with_early_constants


class _Form(NamedTuple):
    """The gradient primitive, the fused primitive, and the gradient's operands.

    The operands follow the cotangent: "x" and "labels" are those of the loss, "kept" is the second
    result of the loss.
    """

    gradient: Primitive
    both: Primitive
    reads: tuple[str, ...]


_FORMS: dict[Primitive, _Form] = {
    sparse_cross_entropy_p: _Form(
        sparse_cross_entropy_gradient_p, sparse_cross_entropy_and_gradient_p, ("kept", "labels")
    ),
    cross_entropy_p: _Form(
        cross_entropy_gradient_p, cross_entropy_and_gradient_p, ("x", "labels", "kept")
    ),
}


def with_losses_and_gradients(graph: Graph) -> Graph:
    """Fuse losses with their gradients where no other call must run between them."""
    if not any(call.primitive in _FORMS for call in graph.calls):
        return graph
    graph = with_early_constants(graph)
    done: set[int] = set()
    while True:
        pair = _next_pair(graph, done)
        if pair is None:
            return graph
        graph = _joined(graph, *pair)


def _next_pair(graph: Graph, done: set[int]) -> tuple[int, int] | None:
    """The positions of a loss and its gradient that can be fused, or None.

    `done` are the losses, by the number of their result, that were examined before.
    """
    uses, makers = use_counts(graph), makers_of(graph.calls)
    dependence: Dependence | None = None
    for place, loss in enumerate(graph.calls):
        if loss.primitive not in _FORMS or loss.results[0].number in done:
            continue
        done.add(loss.results[0].number)
        gradient = _gradient_of(loss, graph.calls)
        if gradient is None or uses[loss.results[1].number] != 1:
            continue
        maker = makers.get(graph.calls[gradient].reads[0].number)
        if maker is not None:
            dependence = dependence or Dependence(graph.calls)
            if dependence.between(maker, 1 << place):
                continue
        return place, gradient
    return None


def _gradient_of(loss: Call, calls: Sequence[Call]) -> int | None:
    """The position of the gradient call of a loss, or None."""
    form = _FORMS[loss.primitive]
    named = {"x": loss.operands[0], "labels": loss.operands[1], "kept": loss.results[1]}
    wanted = [_number(named[name]) for name in form.reads]
    for place, call in enumerate(calls):
        if call.primitive is not form.gradient or not isinstance(call.operands[0], Value):
            continue
        if [_number(operand) for operand in call.operands[1:]] == wanted:
            return place
    return None


def _number(operand: object) -> int | None:
    return operand.number if isinstance(operand, Value) else None


def _joined(graph: Graph, place: int, gradient: int) -> Graph:
    loss, other = graph.calls[place], graph.calls[gradient]
    both = Call(
        _FORMS[loss.primitive].both,
        (*loss.operands, other.operands[0]),
        {},
        (loss.results[0], other.results[0]),
        loss.array_type,
    )
    calls = [both if call is loss else call for call in graph.calls if call is not other]
    return replace(graph, calls=in_order(calls))
