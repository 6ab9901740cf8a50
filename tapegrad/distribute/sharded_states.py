"""Sharded optimizer states (ZeRO-1): each process keeps and updates a part of each variable.

Gradients are added and cut in one call per bucket, the optimizer updates the own part, and the new
values of all parts are gathered. Models and their variables stay whole.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from tapegrad.core.primitive.operand import as_operand
from tapegrad.core.recorder import EMPTY, using_stack
from tapegrad.core.values.variable import Variable
from tapegrad.core.world import current_world
from tapegrad.distribute.process_group import init
from tapegrad.errors import ArgumentError
from tapegrad.ops.collective.conditional import gather_when_p, scatter_when_p
from tapegrad.ops.collective.parts import gather_shards_p, own_shard_p, shard_length
from tapegrad.ops.collective.primitives import all_gather_p, reduce_scatter_p
from tapegrad.ops.collective.replicas import buckets
from tapegrad.ops.collective.sharded_weights import ShardedWeight, is_sharded, set_sharded
from tapegrad.ops.elementwise.comparison import equal
from tapegrad.ops.shape.joining import concat, split
from tapegrad.ops.shape.padding import pad
from tapegrad.ops.shape.primitives import reshape_p
from tapegrad.optimizers.pairs import checked_pairs
from tapegrad.optimizers.sharded_pairs import check_by_element

Pairs = list[tuple[Any, Variable]]


def shard_states(optimizer: Any) -> Any:
    """Let each process keep 1/N of the state of an optimizer, and return the optimizer.

    Call it before the first step. `apply_gradients` then takes the gradients of this process, adds
    those of all processes, and updates the whole variables. With
    `skip_gradients_aggregation` it takes gradients that are the same in all processes. Gradients
    that are accumulated over several calls stay whole in each process until the step.

    >>> import tapegrad
    >>> w = tapegrad.Variable([1.0, 2.0])
    >>> optimizer = shard_states(tapegrad.keras.optimizers.SGD(0.5))
    >>> step = optimizer.apply_gradients([(tapegrad.constant([1.0, 1.0]), w)])
    >>> w.numpy().tolist()
    [0.5, 1.5]
    """
    init()
    check_by_element(optimizer)
    if optimizer.ema_momentum is not None:
        raise ArgumentError("shard_states does not support moving averages: use_ema must be False.")
    if hasattr(optimizer, "_rests"):
        raise ArgumentError("shard_states cannot be combined with compress_gradients.")
    if optimizer._known:
        raise ArgumentError(
            f"{type(optimizer).__name__} already has state for {len(optimizer._known)} variables. "
            "Call shard_states right after the optimizer is made."
        )
    optimizer._parts = {}
    kind: Any = type(optimizer)
    optimizer.__class__ = _with_sharded_states(kind)
    return optimizer


@cache
def _with_sharded_states(kind: Any) -> type:
    """Return the class of an optimizer that keeps the state of parts of variables."""

    def build(self: Any, var_list: Iterable[Variable]) -> None:
        variables = list(var_list)
        parts = [_part_of(self, variable) for variable in variables]
        kind.build(self, parts)
        if getattr(self, "gradient_accumulation_steps", None):
            for variable, part in zip(variables, parts):
                if part is not variable:  # gradients are accumulated as a whole
                    self._sums.pop(part.number, None)
                self._sum_of(variable)

    def apply_gradients(
        self: Any, grads_and_vars: Any, name: Any = None, skip_gradients_aggregation: bool = False
    ) -> Any:
        with using_stack(EMPTY):
            pairs, _ = checked_pairs(grads_and_vars)
            if getattr(self, "gradient_accumulation_steps", None) and pairs:
                _accumulate(self, pairs, skip_gradients_aggregation)
                return self.iterations
            whole = [(g, v) for g, v in pairs if not is_sharded(v)]
            groups = _buckets_from_last([variable for _, variable in whole])
            steps = [pair for pair in pairs if is_sharded(pair[1])]
            steps += _cut_all(self, whole, groups, skip_gradients_aggregation)
            kind.apply_gradients(self, steps, name, skip_gradients_aggregation=True)
            for places in groups:
                _take_over(self, [whole[k][1] for k in places])
        return self.iterations

    return type(kind.__name__, (kind,), {"build": build, "apply_gradients": apply_gradients})


def _buckets_from_last(variables: Sequence[Variable]) -> list[list[int]]:
    """Return the positions of variables that travel together; those of the last layers come first.

    Their gradients are ready first.
    """
    last = len(variables) - 1
    return [[last - place for place in places] for places in buckets(variables[::-1])]


def _accumulate(optimizer: Any, pairs: Pairs, are_sums: bool) -> None:
    """Accumulate whole gradients, and make a step with the parts of their sums if it is due."""
    steps = optimizer.gradient_accumulation_steps
    whole = [variable for _, variable in pairs if not is_sharded(variable)]
    groups = _buckets_from_last(whole)

    def cut(totals: Pairs, when: Any) -> Pairs:
        found = [pair for pair in totals if is_sharded(pair[1])]
        own = [pair for pair in totals if not is_sharded(pair[1])]
        return found + _cut_all(optimizer, own, groups, are_sums, when)

    optimizer._accumulate(optimizer._unscaled(pairs), steps, cut)
    is_due = equal(optimizer._calls.read_value() % steps, 0)
    for places in groups:
        _take_over(optimizer, [whole[k] for k in places], is_due)


def _part_of(optimizer: Any, variable: Variable) -> Variable:
    """Return the variable that holds the part of this process."""
    if is_sharded(variable):
        return variable
    part: Variable | None = optimizer._parts.get(variable.number)
    if part is None:
        if variable.constraint is not None:
            raise ArgumentError(
                f"shard_states cannot update parts of {variable.name!r}, which has a constraint."
            )
        part = Variable(own_shard_p(variable.read_value()), name=variable.name.removesuffix(":0"))
        shape = tuple(variable.shape)
        set_sharded(part, ShardedWeight(shape, gather_shards_p, {"shape": shape, "group": None}))
        optimizer._parts[variable.number] = part
        if variable.number in optimizer._without_decay:
            optimizer._without_decay[part.number] = None
    return part


def _cut_all(
    optimizer: Any,
    pairs: Pairs,
    groups: Sequence[Sequence[int]],
    are_sums: bool,
    when: Any = None,
) -> Pairs:
    """Return the own parts of the sums of all gradients, with parts of variables, in their order.

    Those whose positions are in a group travel together.
    """
    found: dict[int, tuple[Any, Variable]] = {}
    for places in groups:
        found.update(zip(places, _cut_pairs(optimizer, [pairs[k] for k in places], are_sums, when)))
    return [found[k] for k in range(len(pairs))]


def _cut_pairs(
    optimizer: Any, pairs: Sequence[tuple[Any, Variable]], are_sums: bool, when: Any = None
) -> Pairs:
    """Return the own parts of the sums of gradients, with the parts of the variables.

    If `when` is false, nothing travels.
    """
    size = current_world().size
    gradients = [as_operand(gradient) for gradient, _ in pairs]
    if are_sums:
        own: Any = [own_shard_p(gradient) for gradient in gradients]
    elif when is not None:
        own = scatter_when_p(when, *gradients, group=None)
    else:
        lengths = [shard_length(math.prod(v.shape), size) for _, v in pairs]
        rows = [_as_rows(g, length, size) for g, length in zip(gradients, lengths)]
        own = split(reduce_scatter_p(concat(rows, 1)), lengths, 0)
    found = []
    for part_gradient, (_, variable) in zip(own, pairs):
        part = _part_of(optimizer, variable)
        value = own_shard_p(variable.read_value())  # the program may have changed it
        part.assign(value, read_value=False)
        found.append((part_gradient, part))
    return found


def _as_rows(gradient: Any, length: int, size: int) -> Any:
    """Return a gradient as one row per process, padded with zeros."""
    count = math.prod(gradient.shape)
    flat = reshape_p(gradient, shape=(count,))
    if length * size != count:
        flat = pad(flat, [[0, length * size - count]])
    return reshape_p(flat, shape=(size, length))


def _take_over(optimizer: Any, variables: Sequence[Variable], when: Any = None) -> None:
    """Assign the new values of all parts to whole variables, if `when` is true or None."""
    parts = [optimizer._parts[variable.number] for variable in variables]
    if when is not None:
        given = [variable.read_value() for variable in (*parts, *variables)]
        for variable, value in zip(variables, gather_when_p(when, *given, group=None)):
            variable.assign(value, read_value=False)
        return
    rows = all_gather_p(concat([part.read_value() for part in parts], 0))
    columns = split(rows, [int(part.shape[0]) for part in parts], 1)
    for variable, column in zip(variables, columns):
        count, shape = math.prod(variable.shape), tuple(variable.shape)
        flat = reshape_p(column, shape=(math.prod(column.shape),))
        variable.assign(reshape_p(flat[:count], shape=shape), read_value=False)
