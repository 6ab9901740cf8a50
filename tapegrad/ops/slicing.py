"""Basic slicing with integers, slices, None and Ellipsis, and its transpose."""

from __future__ import annotations

from typing import Any

from tapegrad.core.families import linear
from tapegrad.core.primitive import Primitive
from tapegrad.ops.basic import reshape_p


def _unslice(xp: Any, t: Any, *, index: tuple[Any, ...], shape: tuple[int, ...]) -> Any:
    full = xp.zeros(shape, dtype=t.dtype, device=t.device)
    write(xp, full, t, index)
    return full


def write(xp: Any, array: Any, value: Any, index: tuple[Any, ...]) -> None:
    """Do `array[index] = value`; strict namespaces refuse None in an index that is written to."""
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
    batch=lambda size, batched, x, *, index: slice_p(x, index=(slice(None), *index)),
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
        t, index=(slice(None), *index), shape=(size, *shape)
    ),
)


def expand_ellipsis(index: tuple[Any, ...], ndim: int) -> tuple[Any, ...]:
    """Replace `...` by full slices, and add those that are left out at the end."""
    taken = sum(part is not None and part is not Ellipsis for part in index)
    rest = (slice(None),) * (ndim - taken)
    for position, part in enumerate(index):
        if part is Ellipsis:
            return (*index[:position], *rest, *index[position + 1 :])
    return (*index, *rest)
