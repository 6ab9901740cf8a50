"""Basic slicing with integers, slices, None and Ellipsis: read, transpose, and write."""

from __future__ import annotations

from typing import Any

from tapegrad.core.primitive.families import linear
from tapegrad.core.primitive.primitive import Primitive
from tapegrad.ops.creation import zeros_for
from tapegrad.ops.shape.primitives import broadcast_p, reshape_p, sum_to_shape

_ALL = slice(None)


def _unslice(xp: Any, t: Any, *, index: tuple[Any, ...], shape: tuple[int, ...]) -> Any:
    full = xp.zeros(shape, dtype=t.dtype, device=t.device)
    write(xp, full, t, index)
    return full


def write(xp: Any, array: Any, value: Any, index: tuple[Any, ...]) -> None:
    """Do `array[index] = value`; the Array API does not allow None in the index of a write."""
    if None in index:
        axes = [part is None for part in index if not isinstance(part, int)]
        behind = axes[len(axes) - value.ndim :]
        kept = (n for n, is_new in zip(value.shape, behind, strict=True) if not is_new)
        value = xp.reshape(value, tuple(kept))
        index = tuple(part for part in index if part is not None)
    array[index] = value


slice_p: Primitive = linear(
    "slice",
    lambda xp, x, *, index: x[index],
    transpose=lambda t, x_shape, *, index: unslice_p(t, index=index, shape=x_shape),
    batch=lambda size, batched, x, *, index: slice_p(x, index=(_ALL, *index)),
    selects=True,
)


@slice_p.adds_in_place
def _add_slice(total: Any, t: Any, *, index: tuple[Any, ...]) -> None:
    whole = tuple(part for part in index if part is not None) if None in index else index
    total[whole] += t if whole is index else reshape_p(t, shape=tuple(total[whole].shape))


unslice_p: Primitive = linear(
    "unslice",
    _unslice,
    transpose=lambda t, *, index, shape: slice_p(t, index=index),
    batch=lambda size, batched, t, *, index, shape: unslice_p(
        t, index=(_ALL, *index), shape=(size, *shape)
    ),
)


def _slice_set(xp: Any, x: Any, v: Any, *, index: tuple[Any, ...]) -> Any:
    result = xp.asarray(x, copy=True)
    write(xp, result, v, index)
    return result


def _cleared(t: Any, index: tuple[Any, ...]) -> Any:
    return slice_set_p(t, zeros_for(t, (), t.dtype), index=index)


def _slice_set_over(xp: Any, x: Any, v: Any, *, index: tuple[Any, ...]) -> Any:
    write(xp, x, v, index)
    return x


slice_set_p = Primitive("slice_set", _slice_set)
slice_set_p.overwriting = _slice_set_over
slice_set_p.vjps(
    lambda t, *, index: _cleared(t, index),
    lambda t, x2_shape, *, index: sum_to_shape(slice_p(t, index=index), x2_shape),
)
slice_set_p.jvps(
    lambda t, *, index: _cleared(t, index),
    lambda t, x1_shape, *, index: slice_set_p(zeros_for(t, x1_shape, t.dtype), t, index=index),
)


@slice_set_p.batch
def _batch_slice_set(
    size: int, batched: tuple[bool, bool], x: Any, v: Any, *, index: tuple[Any, ...]
) -> Any:
    if not batched[0]:
        x = broadcast_p(x, shape=(size, *x.shape))
    if batched[1]:
        # The batch axis goes in front of the axes of the selection.
        kept = sum(not isinstance(part, int) for part in index)
        missing = kept - (len(v.shape) - 1)
        v = reshape_p(v, shape=(size, *[1] * missing, *v.shape[1:]))
    return slice_set_p(x, v, index=(_ALL, *index))


def expand_ellipsis(index: tuple[Any, ...], ndim: int) -> tuple[Any, ...]:
    """Replace `...` by full slices, and append full slices for the remaining axes."""
    taken = sum(part is not None and part is not Ellipsis for part in index)
    rest = (_ALL,) * (ndim - taken)
    for position, part in enumerate(index):
        if part is Ellipsis:
            return (*index[:position], *rest, *index[position + 1 :])
    return (*index, *rest)
