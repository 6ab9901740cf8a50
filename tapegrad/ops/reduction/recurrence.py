"""The linear recurrence y[i] = a[i] y[i-1] + b[i] along an axis.

Its derivatives are linear recurrences again. They are also the derivatives of the cumulative
product and the cumulative logsumexp, which makes those exact at zeros and at every order.
"""

from __future__ import annotations

from typing import Any

from tapegrad.core.primitive.primitive import Primitive
from tapegrad.ops.creation import zeros_like
from tapegrad.ops.half import in_single
from tapegrad.ops.indexing.primitives import slice_p
from tapegrad.ops.shape.joining import concat_p
from tapegrad.ops.shape.primitives import lift_unbatched


@in_single
def _run(xp: Any, a: Any, b: Any, *, axis: int, reverse: bool) -> Any:
    a, b = xp.moveaxis(a, axis, 0), xp.moveaxis(b, axis, 0)
    if reverse:
        a, b = xp.flip(a, axis=0), xp.flip(b, axis=0)
    y = _cyclic_reduction(xp, a, b)
    return xp.moveaxis(xp.flip(y, axis=0) if reverse else y, 0, axis)


def _cyclic_reduction(xp: Any, a: Any, b: Any) -> Any:
    """Solve the odd positions by a recurrence of half the length, then fill in the even ones."""
    n = a.shape[0]
    if n < 2:
        return b
    pairs = n - n % 2
    first, second = slice(0, pairs, 2), slice(1, pairs, 2)
    a_odd = a[second, ...]
    odd = _cyclic_reduction(xp, a_odd * a[first, ...], a_odd * b[first, ...] + b[second, ...])
    later = slice(2, n, 2)
    even = a[later, ...] * odd[: (n - 1) // 2, ...] + b[later, ...]
    y = xp.empty_like(b)
    y[0, ...] = b[0, ...]
    y[second, ...] = odd
    y[later, ...] = even
    return y


# The first coefficient, in reverse the last one, has no effect.
recurrence_p = Primitive("linear_recurrence", _run)
recurrence_p.conjugates = True


def shift(x: Any, axis: int, by: int, fill: Any) -> Any:
    """Shift elements by one position along `axis`, up (by=1) or down (by=-1).

    `fill`, of length 1 along `axis`, goes into the vacated position.
    """
    whole = (slice(None),) * axis
    length = x.shape[axis]
    if length == 0:
        return x
    part = slice(0, length - 1) if by > 0 else slice(1, length)
    rest = (slice(None),) * (len(x.shape) - axis - 1)
    moved = slice_p(x, index=(*whole, part, *rest))
    sizes = (1, length - 1) if by > 0 else (length - 1, 1)
    return concat_p(*((fill, moved) if by > 0 else (moved, fill)), axis=axis, sizes=sizes)


def first_along(x: Any, axis: int) -> Any:
    """Return the first element along `axis`, which is kept with length 1."""
    index = tuple(slice(0, 1) if i == axis else slice(None) for i in range(len(x.shape)))
    return slice_p(x, index=index)


def recurrence_transpose(t: Any, a: Any, axis: int, reverse: bool) -> Any:
    """Return the cotangent of `b`: the same recurrence in the opposite direction."""
    by = 1 if reverse else -1
    later = shift(a, axis, by, first_along(a, axis))
    return recurrence_p(later, t, axis=axis, reverse=not reverse)


def _coefficients_vjp(t: Any, x1: Any, y: Any, *, axis: int, reverse: bool) -> Any:
    before = shift(y, axis, -1 if reverse else 1, zeros_like(first_along(y, axis)))
    return recurrence_transpose(t, x1, axis, reverse) * before


recurrence_p.vjps(
    _coefficients_vjp, lambda t, x1, *, axis, reverse: recurrence_transpose(t, x1, axis, reverse)
)


@recurrence_p.batch
def _batch(
    size: int, batched: tuple[bool, bool], a: Any, b: Any, *, axis: int, reverse: bool
) -> Any:
    a, b = lift_unbatched(size, batched, a, b)
    return recurrence_p(a, b, axis=axis + 1, reverse=reverse)


def _coefficients_jvp(t: Any, x1: Any, y: Any, *, axis: int, reverse: bool) -> Any:
    before = shift(y, axis, -1 if reverse else 1, zeros_like(first_along(y, axis)))
    return recurrence_p(x1, t * before, axis=axis, reverse=reverse)


recurrence_p.jvps(
    _coefficients_jvp,
    lambda t, x1, *, axis, reverse: recurrence_p(x1, t, axis=axis, reverse=reverse),
)
