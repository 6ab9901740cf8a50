"""take_along_axis and its transpose, scatter_along_axis."""

from __future__ import annotations

from typing import Any

from tapegrad.core.primitive.index_check import check_range, is_checking
from tapegrad.core.primitive.operand import as_operand, normalize_axis
from tapegrad.core.primitive.primitive import Primitive
from tapegrad.errors import IndexKindError, ShapeError
from tapegrad.ops.shape.primitives import broadcast_p, lift_unbatched


def _scatter(xp: Any, t: Any, indices: Any, *, axis: int, length: int, unique: bool) -> Any:
    # The Array API has no scatter-add, so compare every position with every index.
    positions = xp.arange(length, device=t.device)
    shape = [1] * (t.ndim + 1)
    shape[axis + 1] = length
    indices = xp.where(indices < 0, indices + length, indices)
    hits = xp.expand_dims(indices, axis=axis + 1) == xp.reshape(positions, tuple(shape))
    zero = xp.zeros((), dtype=t.dtype, device=t.device)
    return xp.sum(xp.where(hits, xp.expand_dims(t, axis=axis + 1), zero), axis=axis, dtype=t.dtype)


# `unique` promises that no index repeats along the axis, so the transpose may write instead of add.
take_along_axis_p = Primitive(
    "take_along_axis",
    lambda xp, x, indices, *, axis, unique: xp.take_along_axis(x, indices, axis=axis),
)
take_along_axis_p.vjps(
    lambda t, x2, x1_shape, *, axis, unique: scatter_along_axis_p(
        t, x2, axis=axis, length=x1_shape[axis], unique=unique
    ),
    None,
)
take_along_axis_p.jvps(
    lambda t, x2, *, axis, unique: take_along_axis_p(t, x2, axis=axis, unique=unique), None
)

scatter_along_axis_p: Primitive = Primitive("scatter_along_axis", _scatter)
scatter_along_axis_p.vjps(
    lambda t, x2, *, axis, unique: take_along_axis_p(t, x2, axis=axis, unique=unique), None
)
scatter_along_axis_p.jvps(
    lambda t, x2, *, axis, length, unique: scatter_along_axis_p(
        t, x2, axis=axis, length=length, unique=unique
    ),
    None,
)
scatter_along_axis_p.result_shape = lambda t, indices, *, axis, length, unique: (
    *t.shape[:axis],
    length,
    *t.shape[axis + 1 :],
)


@take_along_axis_p.batch
def _batch_take(
    size: int, batched: tuple[bool, bool], x: Any, indices: Any, *, axis: int, unique: bool
) -> Any:
    x, indices = lift_unbatched(size, batched, x, indices)
    return take_along_axis_p(x, indices, axis=axis + 1, unique=unique)


@scatter_along_axis_p.batch
def _batch_scatter(
    size: int, batched: tuple[bool, bool], t: Any, indices: Any, *, axis: int, **params: Any
) -> Any:
    t, indices = lift_unbatched(size, batched, t, indices)
    return scatter_along_axis_p(t, indices, axis=axis + 1, **params)


def take_along_axis(x: Any, indices: Any, axis: int | None = -1) -> Any:
    """Return the elements of `x` at `indices` along one axis; the other axes broadcast.

    Indices may repeat; negative indices count from the end.

    >>> x = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
    >>> take_along_axis(x, [[2, 0], [1, 1]], axis=1).tolist()
    [[3.0, 1.0], [5.0, 5.0]]
    """
    x, indices, axis = _prepare("take_along_axis", x, indices, axis)
    shape = _common_shape("take_along_axis", x, indices, axis)
    if is_checking():
        check_range("take_along_axis", indices, x.shape[axis], axis)
    x = _broadcast(x, (*shape[:axis], x.shape[axis], *shape[axis + 1 :]))
    indices = _broadcast(indices, (*shape[:axis], indices.shape[axis], *shape[axis + 1 :]))
    return take_along_axis_p(x, indices, axis=axis, unique=False)


def scatter_along_axis(updates: Any, indices: Any, axis: int, size: int) -> Any:
    """Add `updates` into zeros at `indices` along one axis of length `size`.

    It is the transpose of `take_along_axis`.

    >>> updates = [1.0, 2.0, 4.0]
    >>> scatter_along_axis(updates, [0, 2, 2], axis=0, size=4).tolist()
    [1.0, 0.0, 6.0, 0.0]
    """
    updates, indices, axis = _prepare("scatter_along_axis", updates, indices, axis)
    if updates.shape != indices.shape:
        raise ShapeError(
            "scatter_along_axis needs updates and indices of equal shape. "
            f"Got {updates.shape} and {indices.shape}."
        )
    if is_checking():
        check_range("scatter_along_axis", indices, int(size), axis)
    return scatter_along_axis_p(updates, indices, axis=axis, length=int(size), unique=False)


def _prepare(name: str, x: Any, indices: Any, axis: int | None) -> tuple[Any, Any, int]:
    x, indices = as_operand(x), as_operand(indices)
    if indices.dtype.kind not in "iu":
        raise IndexKindError(f"{name} needs integer indices. Got {indices.dtype}.")
    if len(x.shape) != len(indices.shape):
        raise ShapeError(
            f"{name} needs indices with {len(x.shape)} axes, as many as the tensor. "
            f"Got {len(indices.shape)}."
        )
    return x, indices, normalize_axis(-1 if axis is None else axis, len(x.shape), name)


def _common_shape(name: str, x: Any, indices: Any, axis: int) -> tuple[int, ...]:
    """Broadcast the two shapes outside `axis`."""
    pairs = list(zip(x.shape, indices.shape))
    if any(a != b and 1 not in (a, b) for i, (a, b) in enumerate(pairs) if i != axis):
        raise ShapeError(
            f"{name} cannot broadcast indices of shape {indices.shape} against x of shape "
            f"{x.shape} outside axis {axis}."
        )
    return tuple(b if a == 1 else a for a, b in pairs)


def _broadcast(x: Any, shape: tuple[int, ...]) -> Any:
    return x if x.shape == shape else broadcast_p(x, shape=shape)
