"""Basic slicing with integers, slices, None and Ellipsis, and its transpose."""

from __future__ import annotations

from typing import Any

from tapegrad.core.families import linear


def _unslice(xp: Any, t: Any, *, index: tuple[Any, ...], shape: tuple[int, ...]) -> Any:
    full = xp.zeros(shape, dtype=t.dtype, device=t.device)
    full[index] = t
    return full


slice_p = linear(
    "slice",
    lambda xp, x, *, index: x[index],
    transpose=lambda t, x_shape, *, index: unslice_p(t, index=index, shape=x_shape),
    batch=lambda size, batched, x, *, index: slice_p(x, index=(slice(None), *index)),
)

unslice_p = linear(
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
