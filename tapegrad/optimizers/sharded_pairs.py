"""Steps for sharded weights: what depends on whole gradients is computed by all processes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapegrad.core.primitive.operand import as_operand
from tapegrad.core.values.variable import Variable
from tapegrad.errors import ArgumentError
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.collective.parts import sum_over_replicas_p
from tapegrad.ops.collective.sharded_weights import sharded_weight
from tapegrad.ops.elementwise.powers import sqrt
from tapegrad.ops.elementwise.selection import minimum
from tapegrad.ops.reduction.functions import reduce_sum
from tapegrad.ops.shape.joining import stack

Pairs = list[tuple[Any, Variable]]


def clipped_together(optimizer: Any, pairs: Pairs) -> Pairs:
    """Return the pairs of a step with gradients clipped by their norms over all processes.

    The optimizer clips the result again, which changes nothing: the norm of a part is not larger.
    """
    weights = [sharded_weight(variable) for _, variable in pairs]
    if not any(weights):
        return pairs
    check_by_element(optimizer)
    limit = optimizer.clipnorm or optimizer.global_clipnorm
    if limit is None:
        return pairs
    gradients = [as_operand(gradient) for gradient, _ in pairs]
    squares = _whole_squares(gradients, weights)
    if optimizer.global_clipnorm is not None:
        squares = [sum(squares[1:], squares[0])] * len(squares)
    found = []
    for (_, variable), gradient, square in zip(pairs, gradients, squares):
        factor = minimum(1.0, limit / (sqrt(square) + 1e-30))
        found.append((gradient * cast(factor, gradient.dtype), variable))
    return found


def check_by_element(optimizer: Any) -> None:
    """Refuse optimizers whose step needs the whole gradient of a variable."""
    if not optimizer.by_element:
        raise ArgumentError(
            f"{type(optimizer).__name__} computes with whole gradients, but each process has a "
            "part of the weights. Use Adam, AdamW, SGD, Lion or another optimizer whose step "
            "treats each element alone, or do not shard the weights."
        )


def _whole_squares(gradients: Sequence[Any], weights: Sequence[Any]) -> list[Any]:
    """Return the squared norm of each whole gradient, in single precision."""
    squares = [reduce_sum(cast(g, "float32") * cast(g, "float32")) for g in gradients]
    for group in dict.fromkeys(weight.group for weight in weights if weight is not None):
        places = [k for k, w in enumerate(weights) if w is not None and w.group == group]
        total = sum_over_replicas_p(stack([squares[k] for k in places]), group=group)
        for place, k in enumerate(places):
            squares[k] = total[place]
    return squares
