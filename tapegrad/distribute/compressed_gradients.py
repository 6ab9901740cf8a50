"""Gradients that travel in half precision, without losing what is small beside them.

A sum over N processes has two stages. Each process gets one part of the gradients of all others,
adds these parts in their own precision, and sends the sum to all others. Both stages send half of
the bytes. What rounding takes from a number is kept where it was rounded, and added to
the same number at the next step: over many steps nothing is lost but the last rest. (Error
feedback with one stage would lose the rounding of sums.)
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

from tapegrad.core.commit import restoring
from tapegrad.core.primitive.operand import as_operand
from tapegrad.core.values.dtypes import as_dtype, numpy_dtype
from tapegrad.core.values.variable import Variable
from tapegrad.core.world import current_world
from tapegrad.distribute.process_group import init
from tapegrad.errors import ArgumentError
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.collective.conditional import rounded_sum_when_p
from tapegrad.ops.collective.parts import shard_length
from tapegrad.ops.collective.primitives import all_gather_p, all_to_all_p
from tapegrad.ops.collective.replicas import buckets, own_replica, replica_group
from tapegrad.ops.collective.sharded_weights import is_sharded
from tapegrad.ops.creation import zeros_like
from tapegrad.ops.reduction.functions import reduce_sum
from tapegrad.ops.shape.joining import concat, split
from tapegrad.ops.shape.padding import pad
from tapegrad.ops.shape.primitives import reshape_p
from tapegrad.optimizers.pairs import summed_pairs

Pairs = list[tuple[Any, Variable]]

DTYPES = ("bfloat16", "float16")


def compress_gradients(optimizer: Any, dtype: str = "bfloat16") -> Any:
    """Let an optimizer add the gradients of all processes in half precision, and return it.

    Call it once, before the first step. `apply_gradients` then takes the gradients of this process.
    Accumulated gradients travel in the call that makes the step.
    What rounding takes from gradients is added at the next step. These rests are no variables of
    the optimizer: after a restart they are zero. Gradients of sharded weights, and those that are
    not in single or double precision, travel as they are.

    >>> import tapegrad
    >>> w = tapegrad.Variable([1.0, 2.0])
    >>> optimizer = compress_gradients(tapegrad.keras.optimizers.SGD(0.5))
    >>> step = optimizer.apply_gradients([(tapegrad.constant([1.0, 1.0]), w)])
    >>> w.numpy().tolist()
    [0.5, 1.5]
    """
    init()
    if dtype not in DTYPES:
        raise ArgumentError(f"dtype must be 'bfloat16' or 'float16'. Got {dtype!r}.")
    if hasattr(optimizer, "_parts"):
        raise ArgumentError("compress_gradients cannot be combined with shard_states.")
    if hasattr(optimizer, "_rests"):
        raise ArgumentError("This optimizer already adds gradients in half precision.")
    optimizer._rests = {}
    kind: Any = type(optimizer)
    optimizer.__class__ = _with_compressed_gradients(kind, dtype)
    return optimizer


@cache
def _with_compressed_gradients(kind: Any, dtype: str) -> type:
    """Return the class of an optimizer that adds gradients in half precision."""

    def _combined(self: Any, pairs: Pairs, when: Any = None) -> Pairs:
        if own_replica()[1] == 1:
            return pairs
        if replica_group() is not None:
            raise ArgumentError("compress_gradients cannot be combined with a DeviceMesh.")
        return _summed(self, pairs, dtype, when)

    def _apply_together(self: Any, pairs: Pairs) -> None:
        known = dict(self._rests)
        try:
            with restoring([rest for rests in known.values() for rest in rests]):
                kind._apply_together(self, pairs)
        except BaseException:
            self._rests = known
            raise

    methods = {"_is_joint": True, "_combined": _combined, "_apply_together": _apply_together}
    return type(kind.__name__, (kind,), methods)


def _summed(optimizer: Any, pairs: Pairs, dtype: str, when: Any) -> Pairs:
    """Return the pairs with sums over all processes if `when` is true or None; keep the rests."""
    found = [(as_operand(gradient), variable) for gradient, variable in pairs]
    chosen = [k for k, (gradient, variable) in enumerate(found) if _is_rounded(gradient, variable)]
    others = [k for k in range(len(found)) if k not in set(chosen)]
    for k, pair in zip(others, summed_pairs([found[k] for k in others], when)):
        found[k] = pair
    for places in buckets([found[k][0] for k in chosen]):
        together = [found[chosen[place]] for place in places]
        flat = concat([reshape_p(g, shape=(math.prod(g.shape),)) for g, _ in together], 0)
        kept = _rests_of(optimizer, [variable for _, variable in together], flat)
        own_rest, sum_rest = [rest.read_value() for rest in kept]
        total, *new = _sum_of_rounded(flat, own_rest, sum_rest, dtype, when)
        for rest, value in zip(kept, new):
            rest.assign(value, read_value=False)
        parts = split(total, [math.prod(g.shape) for g, _ in together], 0)
        for place, part, (_, variable) in zip(places, parts, together):
            found[chosen[place]] = reshape_p(part, shape=tuple(variable.shape)), variable
    return found


def _is_rounded(gradient: Any, variable: Variable) -> bool:
    return gradient.dtype.name in ("float32", "float64") and not is_sharded(variable)


def _sum_of_rounded(
    x: Any, own_rest: Any, sum_rest: Any, dtype: str, when: Any
) -> tuple[Any, Any, Any]:
    """Return the sum of vectors over all processes, and what rounding took in both stages."""
    if when is not None:
        found = rounded_sum_when_p(
            when, x, own_rest, sum_rest, group=None, dtype=numpy_dtype(as_dtype(dtype))
        )
        total, own_rest, sum_rest = found
        return total, own_rest, sum_rest
    size, (count,) = current_world().size, x.shape
    wide = x.dtype
    wanted = x + own_rest
    sent = cast(wanted, dtype)
    own_rest = wanted - cast(sent, wide)
    length = shard_length(count, size)
    rows = reshape_p(pad(sent, [[0, length * size - count]]), shape=(size, length))
    wanted = reduce_sum(cast(all_to_all_p(rows), wide), 0) + sum_rest
    sent = cast(wanted, dtype)
    sum_rest = wanted - cast(sent, wide)
    total = reshape_p(all_gather_p(sent), shape=(size * length,))
    return cast(total[:count], wide), own_rest, sum_rest


def _rests_of(optimizer: Any, variables: list[Variable], flat: Any) -> list[Variable]:
    """Return what rounding took from the gradients of variables, and from the part that is summed.

    If other variables travel together, their rests begin with zero.
    """
    key = tuple([variable.number for variable in variables])
    rests: list[Variable] | None = optimizer._rests.get(key)
    if rests is None:
        part = flat[: shard_length(flat.shape[0], current_world().size)]
        rests = [Variable(zeros_like(one), trainable=False) for one in (flat, part)]
        optimizer._rests[key] = rests
    return rests
