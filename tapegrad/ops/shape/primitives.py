"""Linear primitives on shapes: reshape, permute_dims, broadcast_to, sum, to_device.

The engine and the rules of other primitives use them, for example to undo a broadcast.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tapegrad.core.primitive.families import linear
from tapegrad.core.primitive.primitive import Primitive
from tapegrad.core.values import host


def _batch_shape(size: int, batched: Any, x: Any, *, shape: tuple[int, ...]) -> Any:
    return reshape_p(x, shape=(size, *shape))


reshape_p: Primitive = linear(
    "reshape",
    lambda xp, x, *, shape: xp.reshape(x, shape),
    transpose=lambda t, x_shape: reshape_p(t, shape=x_shape),
    batch=_batch_shape,
)

permute_p: Primitive = linear(
    "permute_dims",
    lambda xp, x, *, axes: xp.permute_dims(x, axes),
    transpose=lambda t, *, axes: permute_p(t, axes=inverse_order(axes)),
    batch=lambda size, batched, x, *, axes: permute_p(x, axes=(0, *(a + 1 for a in axes))),
)


def inverse_order(axes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the order of axes that undoes a permutation."""
    inverse = [0] * len(axes)
    for position, axis in enumerate(axes):
        inverse[axis] = position
    return tuple(inverse)


def _batch_broadcast(size: int, batched: Any, x: Any, *, shape: tuple[int, ...]) -> Any:
    missing = len(shape) - (x.ndim - 1)
    aligned = reshape_p(x, shape=(size, *[1] * missing, *x.shape[1:]))
    return broadcast_p(aligned, shape=(size, *shape))


broadcast_p: Primitive = linear(
    "broadcast_to",
    lambda xp, x, *, shape: xp.broadcast_to(x, shape),
    transpose=lambda t, x_shape: sum_to_shape(t, x_shape),
    batch=_batch_broadcast,
)


def lift_unbatched(size: int, batched: tuple[bool, ...], *args: Any) -> list[Any]:
    """Broadcast the operands that are not batched along a new leading axis."""
    return [
        arg if flag else broadcast_p(arg, shape=(size, *arg.shape))
        for arg, flag in zip(args, batched, strict=True)
    ]


def fold_rows(x: Any) -> Any:
    """Reshape [size, n, ...] to [size * n, ...]."""
    return reshape_p(x, shape=(x.shape[0] * x.shape[1], *x.shape[2:]))


def unfold_rows(x: Any, size: int) -> Any:
    """Undo `fold_rows`."""
    return reshape_p(x, shape=(size, x.shape[0] // size, *x.shape[1:]))


def _sum_transpose(
    t: Any, x_shape: tuple[int, ...], *, axis: tuple[int, ...], keepdims: bool
) -> Any:
    if not keepdims:
        kept = tuple(1 if i in axis else n for i, n in enumerate(x_shape))
        t = reshape_p(t, shape=kept)
    return broadcast_p(t, shape=x_shape)


def _sum(xp: Any, x: Any, *, axis: tuple[int, ...], keepdims: bool) -> Any:
    if xp.isdtype(x.dtype, "bool"):
        x = xp.astype(x, xp.int64)
    return xp.sum(x, axis=axis, keepdims=keepdims, dtype=x.dtype)


sum_p: Primitive = linear(
    "sum",
    _sum,
    transpose=_sum_transpose,
    batch=lambda size, batched, x, *, axis, keepdims: sum_p(
        x, axis=tuple(a + 1 for a in axis), keepdims=keepdims
    ),
)


def sum_to_shape(x: Any, shape: tuple[int, ...]) -> Any:
    """Return the transpose of a broadcast: `x` summed over the axes that broadcasting added."""
    have = x.shape
    if have and have[1:] == shape:  # the common case of a bias added to rows
        return sum_p(x, axis=(0,), keepdims=False)
    axes = stretched_axes(have, shape)
    if not axes:
        return x
    extra = len(have) - len(shape)
    if len(axes) == extra:
        return sum_p(x, axis=axes, keepdims=False)
    x = sum_p(x, axis=axes, keepdims=True)
    return reshape_p(x, shape=tuple(shape)) if extra else x


def stretched_axes(full: Sequence[int], shape: Sequence[int]) -> tuple[int, ...]:
    """Return the axes of `full` along which an array of `shape` is broadcast."""
    extra = len(full) - len(shape)
    stretched = [i for i, n in enumerate(shape, extra) if n == 1 and full[i] != 1]
    return (*range(extra), *stretched)


to_device_p: Primitive = linear(
    "to_device",
    lambda xp, x, *, device, source: host.move(x, device),
    transpose=lambda t, *, device, source: to_device_p(t, device=source, source=device),
    batch=lambda size, batched, x, *, device, source: to_device_p(x, device=device, source=source),
)
