"""Sorting along an axis, top_k and searchsorted."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from tapegrad.core.argument_checks import check_whole
from tapegrad.core.primitive.families import nondifferentiable
from tapegrad.core.primitive.operand import as_operand, normalize_axis
from tapegrad.core.primitive.primitive import Primitive
from tapegrad.core.values.dtypes import as_dtype, int32
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.indexing.along_axis import scatter_along_axis_p, take_along_axis_p
from tapegrad.ops.shape.primitives import lift_unbatched, reshape_p


def _batch_along(primitive: Primitive) -> Any:
    def rule(size: int, batched: Any, x: Any, *, axis: int, **params: Any) -> Any:
        return primitive(x, axis=axis + 1, **params)

    return rule


argsort_p = nondifferentiable(
    "argsort",
    lambda xp, x, *, axis, descending, stable: xp.argsort(
        x, axis=axis, descending=descending, stable=stable
    ),
)
argsort_p.batch(_batch_along(argsort_p))

# The forward pass sorts the values only, which is faster; only the derivatives need the order.
sort_p = Primitive(
    "sort", lambda xp, x, *, axis, descending: xp.sort(x, axis=axis, descending=descending)
)
sort_p.batch(_batch_along(sort_p))


def _order(x: Any, axis: int, descending: bool) -> Any:
    return argsort_p(x, axis=axis, descending=descending, stable=True)


sort_p.vjps(
    lambda t, x, *, axis, descending: scatter_along_axis_p(
        t, _order(x, axis, descending), axis=axis, length=x.shape[axis], unique=True
    )
)
sort_p.jvps(
    lambda t, x, *, axis, descending: take_along_axis_p(
        t, _order(x, axis, descending), axis=axis, unique=True
    )
)


def _top_k(xp: Any, x: Any, *, k: int) -> tuple[Any, Any]:
    order = xp.argsort(x, axis=-1, descending=True, stable=True)[..., :k]
    return xp.take_along_axis(x, order, axis=-1), order


top_k_p = Primitive("top_k", _top_k, many=True)


@top_k_p.vjp
def _top_k_vjp(t: Any, x_shape: tuple[int, ...], y2: Any, *, k: int) -> tuple[Any]:
    last = len(x_shape) - 1
    return (scatter_along_axis_p(t[0], y2, axis=last, length=x_shape[last], unique=True),)


@top_k_p.jvp
def _top_k_jvp(t: Any, y2: Any, *, k: int) -> tuple[Any, None]:
    return take_along_axis_p(t[0], y2, axis=len(y2.shape) - 1, unique=True), None


top_k_p.batch(lambda size, batched, x, *, k: top_k_p(x, k=k))


class TopK(NamedTuple):
    """The largest elements and their indices."""

    values: Any
    indices: Any


def sort(values: Any, axis: int = -1, direction: str = "ASCENDING", name: str | None = None) -> Any:
    """Sort along `axis`; direction is 'ASCENDING' or 'DESCENDING'.

    >>> sort([3.0, 1.0, 2.0], direction="DESCENDING").tolist()
    [3.0, 2.0, 1.0]
    """
    values = as_operand(values)
    axis = normalize_axis(axis, len(values.shape), "sort")
    return sort_p(values, axis=axis, descending=_is_descending("sort", direction))


def argsort(
    values: Any,
    axis: int = -1,
    direction: str = "ASCENDING",
    stable: bool = False,
    name: str | None = None,
) -> Any:
    """Return the int32 indices that sort `values` along `axis`.

    With `stable`, equal elements keep their order.

    >>> argsort([3.0, 1.0, 2.0]).tolist()
    [1, 2, 0]
    """
    values = as_operand(values)
    axis = normalize_axis(axis, len(values.shape), "argsort")
    descending = _is_descending("argsort", direction)
    return cast(argsort_p(values, axis=axis, descending=descending, stable=bool(stable)), int32)


def _is_descending(name: str, direction: str) -> bool:
    if direction not in ("ASCENDING", "DESCENDING"):
        raise ArgumentError(
            f"{name} needs direction 'ASCENDING' or 'DESCENDING'. Got {direction!r}."
        )
    return direction == "DESCENDING"


def top_k(
    input: Any,  # TensorFlow's name
    k: int = 1,
    sorted: bool = True,  # TensorFlow's name
    index_type: Any = int32,
    name: str | None = None,
) -> TopK:
    """Return the `k` largest elements along the last axis, largest first, and their indices.

    Of equal elements the first comes first. The result is sorted for either value of `sorted`.

    >>> values, indices = top_k([1.0, 4.0, 2.0], k=2)
    >>> values.tolist(), indices.tolist()
    ([4.0, 2.0], [1, 2])
    """
    x, k = as_operand(input), check_whole("k", k, "top_k")
    if not x.shape or not 0 <= k <= x.shape[-1]:
        raise ArgumentError(
            f"top_k needs a last axis of at least k = {k} elements. Got shape {x.shape}."
        )
    values, indices = top_k_p(x, k=k)
    return TopK(values, cast(indices, index_type))


def _in_top_k(xp: Any, targets: Any, predictions: Any, *, k: int) -> Any:
    wanted = xp.take_along_axis(predictions, xp.astype(targets, xp.int64)[:, None], axis=1)
    larger = xp.sum(xp.astype(predictions > wanted, xp.int64), axis=1)
    return (larger < k) & xp.all(xp.isfinite(predictions), axis=1)


in_top_k_p = nondifferentiable("in_top_k", _in_top_k)


@in_top_k_p.batch
def _batch_in_top_k(
    size: int, batched: tuple[bool, ...], targets: Any, predictions: Any, *, k: int
) -> Any:
    targets, predictions = lift_unbatched(size, batched, targets, predictions)
    rows = size * targets.shape[1]
    flat = reshape_p(predictions, shape=(rows, predictions.shape[2]))
    result = in_top_k_p(reshape_p(targets, shape=(rows,)), flat, k=k)
    return reshape_p(result, shape=(size, targets.shape[1]))


def in_top_k(targets: Any, predictions: Any, k: int, name: str | None = None) -> Any:
    """Return for each row whether the prediction of the target is among the `k` largest.

    Predictions tied with the k-th largest are included. The result is false for a row that
    contains NaN or infinity.

    >>> predictions = [[0.1, 0.9, 0.2], [0.5, 0.1, 0.2]]
    >>> in_top_k([1, 1], predictions, k=1).tolist()
    [True, False]
    """
    targets, predictions = as_operand(targets), as_operand(predictions)
    if len(predictions.shape) != 2 or targets.shape != (predictions.shape[0],):
        raise ShapeError(
            "in_top_k needs predictions of shape (batch, classes) and targets of shape (batch,). "
            f"Got {predictions.shape} and {targets.shape}."
        )
    return in_top_k_p(targets, predictions, k=check_whole("k", k, "in_top_k"))


def _searchsorted(xp: Any, sequence: Any, values: Any, *, right: bool) -> Any:
    # Count the elements before each value: this works on every backend.
    each, sought = sequence[..., None, :], values[..., :, None]
    before = each <= sought if right else each < sought
    return xp.sum(xp.astype(before, xp.int64), axis=-1)


searchsorted_p = nondifferentiable("searchsorted", _searchsorted)


@searchsorted_p.batch
def _batch_searchsorted(
    size: int, batched: tuple[bool, ...], sequence: Any, values: Any, *, right: bool
) -> Any:
    return searchsorted_p(*lift_unbatched(size, batched, sequence, values), right=right)


def searchsorted(
    sorted_sequence: Any,
    values: Any,
    side: str = "left",
    out_type: Any = int32,
    name: str | None = None,
) -> Any:
    """Return the positions at which values would be inserted to keep the last axis sorted.

    The leading axes must agree; with a one-dimensional sequence, `values` may have any shape.

    >>> searchsorted([1.0, 3.0, 5.0], [3.0, 4.0]).tolist()
    [1, 2]
    """
    sequence, values = as_operand(sorted_sequence), as_operand(values)
    if side not in ("left", "right"):
        raise ArgumentError(f"searchsorted needs side 'left' or 'right'. Got {side!r}.")
    shape = tuple(values.shape)
    if len(sequence.shape) == 1:
        values = reshape_p(values, shape=(math.prod(shape),))
    elif tuple(sequence.shape[:-1]) != shape[:-1] or not sequence.shape:
        raise ShapeError(
            "searchsorted needs equal leading axes in sorted_sequence and values. "
            f"Got shapes {sequence.shape} and {shape}."
        )
    found = reshape_p(searchsorted_p(sequence, values, right=side == "right"), shape=shape)
    return found if as_dtype(out_type) == found.dtype else cast(found, out_type)
