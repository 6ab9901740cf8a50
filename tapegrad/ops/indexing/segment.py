"""Segment reductions: sum, product, maximum and minimum of the rows with equal segment id.

The primitives take rows `x[n, ...]` and ids `[n]`. Rows with a negative id are ignored.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tapegrad.core.primitive.families import nondifferentiable
from tapegrad.core.primitive.primitive import Primitive
from tapegrad.ops.creation import ones_like
from tapegrad.ops.elementwise.selection import keep
from tapegrad.ops.indexing.gather import take_add_p, take_p
from tapegrad.ops.indexing.sorting import argsort_p
from tapegrad.ops.reduction.recurrence import first_along, recurrence_p, shift
from tapegrad.ops.shape.primitives import fold_rows, lift_unbatched, reshape_p, unfold_rows


def _members(xp: Any, ids: Any, num: int, rank: int) -> Any:
    """Return a mask [n, s, 1, ...]: whether row n belongs to segment s."""
    found = xp.reshape(ids, (-1, 1)) == xp.arange(num, dtype=ids.dtype, device=ids.device)
    return xp.reshape(found, (*found.shape, *[1] * (rank - 1)))


def _sum(xp: Any, x: Any, ids: Any, *, num: int) -> Any:
    zero = xp.zeros((), dtype=x.dtype, device=x.device)
    placed = xp.where(_members(xp, ids, num, x.ndim), x[:, None, ...], zero)
    return xp.sum(placed, axis=0, dtype=x.dtype)


def _take(xp: Any, x: Any, ids: Any) -> Any:
    rows = xp.take(x, xp.where(ids < 0, xp.zeros_like(ids), ids), axis=0)
    valid = xp.reshape(ids >= 0, (-1, *[1] * (x.ndim - 1)))
    return xp.where(valid, rows, xp.zeros((), dtype=x.dtype, device=x.device))


def _prod(xp: Any, x: Any, ids: Any, *, num: int) -> Any:
    one = xp.ones((), dtype=x.dtype, device=x.device)
    placed = xp.where(_members(xp, ids, num, x.ndim), x[:, None, ...], one)
    return xp.prod(placed, axis=0, dtype=x.dtype)


def _extreme(xp: Any, x: Any, ids: Any, *, num: int, largest: bool, empty: float) -> Any:
    members = _members(xp, ids, num, x.ndim)
    is_floating = xp.isdtype(x.dtype, "real floating")
    limits = xp.finfo(x.dtype) if is_floating else xp.iinfo(x.dtype)
    finite = limits.min if largest else limits.max
    infinite = -math.inf if largest else math.inf
    start = xp.full(
        (1, num, *x.shape[1:]), infinite if is_floating else finite, dtype=x.dtype, device=x.device
    )
    placed = xp.concat([start, xp.where(members, x[:, None, ...], start)], axis=0)
    best = xp.max(placed, axis=0) if largest else xp.min(placed, axis=0)
    blank = xp.full((), 0 if empty == 0 else finite, dtype=x.dtype, device=x.device)
    return xp.where(xp.any(members, axis=0), best, blank)


def _ties(xp: Any, x: Any, ids: Any, y: Any) -> Any:
    best = _take(xp, y, ids)
    valid = xp.reshape(ids >= 0, (-1, *[1] * (x.ndim - 1)))
    hits = xp.astype(((x == best) | ((x != x) & (best != best))) & valid, x.dtype)
    count = _take(xp, _sum(xp, hits, ids, num=y.shape[0]), ids)
    return hits / xp.where(count == 0, xp.ones_like(count), count)


def _offset(xp: Any, ids: Any, *, num: int) -> Any:
    start = xp.arange(ids.shape[-2], dtype=ids.dtype, device=ids.device) * num
    # An id out of range must not become a valid id of the next example.
    beyond = xp.full((), num * ids.shape[-2], dtype=ids.dtype, device=ids.device)
    shifted = xp.where(ids >= num, beyond, ids + start[:, None])
    return xp.where(ids < 0, ids, shifted)


# Offset the ids [example, n] so that the ids of different examples are distinct.
offset_ids_p: Primitive = nondifferentiable(
    "offset_segment_ids",
    _offset,
    batch=lambda size, batched, ids, *, num: offset_ids_p(ids, num=num),
)

segment_sum_p = Primitive("segment_sum", _sum)
segment_take_p = Primitive("segment_take", _take)
segment_sum_p.vjps(lambda t, x2, *, num: segment_take_p(t, x2), None)
segment_sum_p.jvps(lambda t, x2, *, num: segment_sum_p(t, x2, num=num), None)
segment_take_p.vjps(lambda t, x1_shape, x2: segment_sum_p(t, x2, num=x1_shape[0]), None)
segment_take_p.jvps(lambda t, x2: segment_take_p(t, x2), None)

# Rows that tie for the maximum or minimum of a segment share the gradient equally.
segment_ties_p = nondifferentiable("segment_ties", _ties)

segment_extreme_p = Primitive("segment_extreme", _extreme)
segment_extreme_p.vjps(lambda t, x1, x2, y: segment_take_p(t, x2) * segment_ties_p(x1, x2, y), None)
segment_extreme_p.jvps(
    lambda t, x1, x2, y, *, num: segment_sum_p(t * segment_ties_p(x1, x2, y), x2, num=num), None
)

segment_prod_p = Primitive("segment_prod", _prod)
segment_prod_p.conjugates = True
segment_prod_p.vjps(lambda t, x1, x2: segment_take_p(t, x2) * _product_of_others(x1, x2), None)
segment_prod_p.jvps(
    lambda t, x1, x2, *, num: segment_sum_p(t * _product_of_others(x1, x2), x2, num=num), None
)


def _product_of_others(x: Any, ids: Any) -> Any:
    """Return for each row the product of the other rows of its segment.

    With the rows sorted by segment, it is the product of the preceding rows times the product of
    the following rows. Each is a recurrence that restarts with every segment. There is no
    division, so zeros need no special case.
    """
    order = argsort_p(ids, axis=0, descending=False, stable=True)
    rows, ids = take_p(x, order, axis=0), take_p(ids, order, axis=0)
    other = first_along(ids, 0) - 1
    product = None
    for by in (1, -1):
        same = shift(ids, 0, by, other) == ids
        same = reshape_p(same, shape=(*same.shape, *[1] * (len(x.shape) - 1)))
        factor = keep(shift(rows, 0, by, first_along(rows, 0)), same)
        start = keep(ones_like(rows), ~same)
        part = recurrence_p(factor, start, axis=0, reverse=by < 0)
        product = part if product is None else product * part
    return take_add_p(product, order, axis=0, size=x.shape[0])


def _batch_reduction(primitive: Primitive) -> Callable[..., Any]:
    def rule(
        size: int, batched: tuple[bool, ...], x: Any, ids: Any, *, num: int, **params: Any
    ) -> Any:
        x, ids = lift_unbatched(size, batched, x, ids)
        ids = fold_rows(offset_ids_p(ids, num=num))
        return unfold_rows(primitive(fold_rows(x), ids, num=size * num, **params), size)

    return rule


for _primitive in (segment_sum_p, segment_extreme_p, segment_prod_p):
    _primitive.batch(_batch_reduction(_primitive))
    _primitive.result_shape = lambda x, ids, *, num, **_: (num, *x.shape[1:])


@segment_take_p.batch
def _batch_take(size: int, batched: tuple[bool, ...], x: Any, ids: Any) -> Any:
    x, ids = lift_unbatched(size, batched, x, ids)
    return unfold_rows(
        segment_take_p(fold_rows(x), fold_rows(offset_ids_p(ids, num=x.shape[1]))), size
    )


@segment_ties_p.batch
def _batch_ties(size: int, batched: tuple[bool, ...], x: Any, ids: Any, y: Any) -> Any:
    x, ids, y = lift_unbatched(size, batched, x, ids, y)
    ids = fold_rows(offset_ids_p(ids, num=y.shape[1]))
    return unfold_rows(segment_ties_p(fold_rows(x), ids, fold_rows(y)), size)
