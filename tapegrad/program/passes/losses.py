"""Fuse cross entropies with their gradients, so that the logits are read once.

A gradient needs the cotangent of its loss. That of a mean or a sum is known in advance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

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
    pairs = _pairs(graph)
    if not pairs:
        return graph
    joined = {place: _joined(graph, place, gradient) for place, gradient in pairs}
    gone = {gradient for _, gradient in pairs}
    calls = [joined.get(k, call) for k, call in enumerate(graph.calls) if k not in gone]
    return replace(graph, calls=in_order(calls))


def _pairs(graph: Graph) -> list[tuple[int, int]]:
    """Return the positions of losses, and of their gradients, that can be fused."""
    uses, makers = use_counts(graph), makers_of(graph.calls)
    gradients = _gradients(graph.calls)
    candidates: dict[int, tuple[int, int | None]] = {}
    """The gradients of losses and the calls that make their cotangents, by the losses."""
    for place, loss in enumerate(graph.calls):
        if loss.primitive in _FORMS and uses[loss.results[1].number] == 1:
            gradient = gradients.get(_gradient_key(loss))
            if gradient is not None:
                maker = makers.get(graph.calls[gradient].reads[0].number)
                candidates[place] = gradient, maker
    asked = {place for found in candidates.items() for place in (found[0], *found[1])}
    dependence = Dependence(graph.calls, [place for place in asked if place is not None])
    pairs = []
    for place, (gradient, maker) in candidates.items():
        if maker is None or not dependence.between(maker, dependence.set_of([place])):
            dependence.join((place, gradient))
            pairs.append((place, gradient))
    return pairs


def _gradients(calls: Sequence[Call]) -> dict[Any, int]:
    """Return the positions of the gradients of losses, by what they read beside the cotangent."""
    wanted = {form.gradient for form in _FORMS.values()}
    found: dict[Any, int] = {}
    for place, call in enumerate(calls):
        if call.primitive in wanted and isinstance(call.operands[0], Value):
            key = (call.primitive, *[_number(operand) for operand in call.operands[1:]])
            found.setdefault(key, place)
    return found


def _gradient_key(loss: Call) -> Any:
    """Return the key of the gradient of a loss in `_gradients`."""
    form = _FORMS[loss.primitive]
    named = {"x": loss.operands[0], "labels": loss.operands[1], "kept": loss.results[1]}
    return (form.gradient, *[_number(named[name]) for name in form.reads])


def _number(operand: object) -> int | None:
    return operand.number if isinstance(operand, Value) else None


def _joined(graph: Graph, place: int, gradient: int) -> Call:
    """Return the call that computes a loss and its gradient."""
    loss, other = graph.calls[place], graph.calls[gradient]
    return Call(
        _FORMS[loss.primitive].both,
        (*loss.operands, other.operands[0]),
        {},
        (loss.results[0], other.results[0]),
        loss.array_type,
    )
