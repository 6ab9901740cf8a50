"""Cumulative sum, product, logsumexp, maximum and minimum along an axis, and `diff`."""

from __future__ import annotations

import math
from typing import Any

from tapegrad.core.primitive.families import linear, nondifferentiable
from tapegrad.core.primitive.operand import as_operand, normalize_axis
from tapegrad.core.primitive.primitive import Primitive
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.ops.casting.cast import cast, cast_like
from tapegrad.ops.control.stop_gradient import stop_gradient
from tapegrad.ops.creation import full_like, ones_like, zeros_like
from tapegrad.ops.elementwise.comparison import isfinite
from tapegrad.ops.elementwise.exponential import exp_difference
from tapegrad.ops.elementwise.selection import where
from tapegrad.ops.half import in_single
from tapegrad.ops.indexing.along_axis import take_along_axis_p
from tapegrad.ops.indexing.primitives import slice_p
from tapegrad.ops.reduction.recurrence import first_along, recurrence_p, recurrence_transpose, shift
from tapegrad.ops.shape.joining import concat


def _along(axis: int, part: slice) -> tuple[Any, ...]:
    return (*(slice(None),) * axis, part, ...)


@in_single
def _cumsum(xp: Any, x: Any, *, axis: int, exclusive: bool, reverse: bool) -> Any:
    return _accumulate(xp, xp.cumulative_sum, x, axis, exclusive, reverse)


@in_single
def _cumprod(xp: Any, x: Any, *, axis: int, exclusive: bool, reverse: bool) -> Any:
    return _accumulate(xp, xp.cumulative_prod, x, axis, exclusive, reverse)


def _accumulate(xp: Any, function: Any, x: Any, axis: int, exclusive: bool, reverse: bool) -> Any:
    if xp.isdtype(x.dtype, "bool"):
        x = xp.astype(x, xp.int64)
    x = xp.flip(x, axis=axis) if reverse else x
    y = function(x, axis=axis, dtype=x.dtype, include_initial=exclusive)
    if exclusive:
        y = y[_along(axis, slice(0, x.shape[axis]))]
    return xp.flip(y, axis=axis) if reverse else y


def _batch(primitive: Primitive) -> Any:
    def rule(size: int, batched: Any, x: Any, *, axis: int, **params: Any) -> Any:
        return primitive(x, axis=axis + 1, **params)

    return rule


cumsum_p: Primitive = linear(
    "cumulative_sum",
    _cumsum,
    transpose=lambda t, *, axis, exclusive, reverse: cumsum_p(
        t, axis=axis, exclusive=exclusive, reverse=not reverse
    ),
)
cumsum_p.batch(_batch(cumsum_p))

# With the exclusive product e, dy[i] = x[i] dy[i-1] + e[i] dx[i]. This recurrence has no division,
# so zeros are exact. The exclusive product follows the same recurrence, shifted by one.
cumprod_p = Primitive("cumulative_prod", _cumprod)
cumprod_p.conjugates = True
cumprod_p.batch(_batch(cumprod_p))


def _exclusive_product(x: Any, axis: int, reverse: bool) -> Any:
    return cumprod_p(x, axis=axis, exclusive=True, reverse=reverse)


def _cumprod_vjp(t: Any, x: Any, *, axis: int, exclusive: bool, reverse: bool) -> Any:
    if exclusive:
        t = shift(t, axis, 1 if reverse else -1, zeros_like(first_along(t, axis)))
    return recurrence_transpose(t, x, axis, reverse) * _exclusive_product(x, axis, reverse)


def _cumprod_jvp(t: Any, x: Any, *, axis: int, exclusive: bool, reverse: bool) -> Any:
    tangent = recurrence_p(x, t * _exclusive_product(x, axis, reverse), axis=axis, reverse=reverse)
    if exclusive:
        tangent = shift(tangent, axis, -1 if reverse else 1, zeros_like(first_along(tangent, axis)))
    return tangent


cumprod_p.vjps(_cumprod_vjp)
cumprod_p.jvps(_cumprod_jvp)


@in_single
def _cumulative_logsumexp(xp: Any, x: Any, *, axis: int, reverse: bool) -> Any:
    y = xp.flip(x, axis=axis) if reverse else x
    step = 1
    while step < y.shape[axis]:
        head = y[_along(axis, slice(0, step))]
        early, late = y[_along(axis, slice(0, -step))], y[_along(axis, slice(step, None))]
        y = xp.concat([head, xp.logaddexp(early, late)], axis=axis)
        step *= 2
    return xp.flip(y, axis=axis) if reverse else y


# dy[i] = exp(y[i-1] - y[i]) dy[i-1] + exp(x[i] - y[i]) dx[i]; both factors lie in [0, 1].
cumulative_logsumexp_p = Primitive("cumulative_logsumexp", _cumulative_logsumexp)
cumulative_logsumexp_p.real_only = True
cumulative_logsumexp_p.batch(_batch(cumulative_logsumexp_p))


def _shifted(x: Any, y: Any, axis: int, reverse: bool) -> tuple[Any, Any]:
    """Return x minus the sum over the whole axis, and its running sums.

    y is rounded to the precision of its own size, by 3e-5 for 1000 in single precision; running
    sums of shifted numbers are small. The factors must be differences of them, because the errors
    of a product of such factors cancel. In half precision the shift itself would lose digits.
    """
    end = slice(0, 1) if reverse else slice(y.shape[axis] - 1, y.shape[axis])
    index = tuple(end if i == axis else slice(None) for i in range(len(y.shape)))
    total = _in_single(stop_gradient(slice_p(y, index=index)))
    moved = _in_single(x) - where(isfinite(total), total, 0)
    return moved, cumulative_logsumexp_p(moved, axis=axis, reverse=reverse)


def _in_single(x: Any) -> Any:
    return cast(x, "float32") if "float16" in str(x.dtype) else x  # also bfloat16


def _decay(y: Any, axis: int, reverse: bool) -> Any:
    return exp_difference(shift(y, axis, -1 if reverse else 1, first_along(y, axis)), y)


def _cumulative_logsumexp_vjp(t: Any, x: Any, y: Any, *, axis: int, reverse: bool) -> Any:
    if not y.shape[axis]:
        return t
    wide, sums = _shifted(x, y, axis, reverse)
    inner = recurrence_transpose(_in_single(t), _decay(sums, axis, reverse), axis, reverse)
    return cast_like(inner * exp_difference(wide, sums), x.dtype)


def _cumulative_logsumexp_jvp(t: Any, x: Any, y: Any, *, axis: int, reverse: bool) -> Any:
    if not y.shape[axis]:
        return t
    wide, sums = _shifted(x, y, axis, reverse)
    scaled = _in_single(t) * exp_difference(wide, sums)
    result = recurrence_p(_decay(sums, axis, reverse), scaled, axis=axis, reverse=reverse)
    return cast_like(result, x.dtype)


cumulative_logsumexp_p.vjps(_cumulative_logsumexp_vjp)
cumulative_logsumexp_p.jvps(_cumulative_logsumexp_jvp)


def _running_index(xp: Any, x: Any, *, axis: int, largest: bool) -> Any:
    shape = [1] * x.ndim
    shape[axis] = x.shape[axis]
    index = xp.reshape(xp.arange(x.shape[axis], device=x.device), tuple(shape))
    index, y, step = xp.broadcast_to(index, x.shape), x, 1
    while step < x.shape[axis]:
        head, early, late = slice(0, step), slice(0, -step), slice(step, None)
        a, b = y[_along(axis, early)], y[_along(axis, late)]
        keep = (a >= b if largest else a <= b) | (a != a)  # NaN propagates
        y = xp.concat([y[_along(axis, head)], xp.where(keep, a, b)], axis=axis)
        pair = index[_along(axis, early)], index[_along(axis, late)]
        index = xp.concat([index[_along(axis, head)], xp.where(keep, *pair)], axis=axis)
        step *= 2
    return index


running_index_p = nondifferentiable("running_index", _running_index)
running_index_p.batch(_batch(running_index_p))


def cumsum(
    x: Any, axis: int = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None
) -> Any:
    """Return the cumulative sum along `axis`; with `exclusive`, without the element itself.

    >>> cumsum([1.0, 2.0, 4.0], exclusive=True).tolist()
    [0.0, 1.0, 3.0]
    """
    x = as_operand(x)
    axis = normalize_axis(axis, len(x.shape), "cumsum")
    return cumsum_p(x, axis=axis, exclusive=bool(exclusive), reverse=bool(reverse))


def cumprod(
    x: Any, axis: int = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None
) -> Any:
    """Return the cumulative product along `axis`; its derivatives are exact where elements are 0.

    >>> cumprod([1.0, 2.0, 4.0], reverse=True).tolist()
    [8.0, 8.0, 4.0]
    """
    x = as_operand(x)
    axis = normalize_axis(axis, len(x.shape), "cumprod")
    return cumprod_p(x, axis=axis, exclusive=bool(exclusive), reverse=bool(reverse))


def cumulative_sum(x: Any, axis: int | None = None, include_initial: bool = False) -> Any:
    """Return the cumulative sum of the Array API; with `include_initial` it starts with 0.

    >>> cumulative_sum([1.0, 2.0], include_initial=True).tolist()
    [0.0, 1.0, 3.0]
    """
    x, axis = _only_axis("cumulative_sum", x, axis)
    y = cumsum(x, axis)
    return concat([zeros_like(first_along(y, axis)), y], axis) if include_initial else y


def cumulative_prod(x: Any, axis: int | None = None, include_initial: bool = False) -> Any:
    """Return the cumulative product of the Array API; with `include_initial` it starts with 1.

    >>> cumulative_prod([2.0, 3.0], include_initial=True).tolist()
    [1.0, 2.0, 6.0]
    """
    x, axis = _only_axis("cumulative_prod", x, axis)
    y = cumprod(x, axis)
    return concat([ones_like(first_along(y, axis)), y], axis) if include_initial else y


def _only_axis(name: str, x: Any, axis: int | None) -> tuple[Any, int]:
    x = as_operand(x)
    if axis is None:
        if len(x.shape) != 1:
            raise ArgumentError(
                f"{name} needs an axis unless the tensor is one-dimensional. Got shape {x.shape}."
            )
        axis = 0
    return x, normalize_axis(axis, len(x.shape), name)


def cumulative_logsumexp(
    x: Any, axis: int = 0, exclusive: bool = False, reverse: bool = False, name: str | None = None
) -> Any:
    """Return the cumulative log(sum(exp(x))) along `axis`; with `exclusive` it starts with -inf.

    >>> cumulative_logsumexp([0.0, 0.0]).round(4).tolist()
    [0.0, 0.6930999755859375]
    """
    x = as_operand(x)
    axis = normalize_axis(axis, len(x.shape), "cumulative_logsumexp")
    y = cumulative_logsumexp_p(x, axis=axis, reverse=bool(reverse))
    if not exclusive:
        return y
    return shift(y, axis, -1 if reverse else 1, full_like(first_along(y, axis), -math.inf))


def cummax(x: Any, axis: int = 0) -> Any:
    """Return the cumulative maximum along `axis`; the first of tied elements gets the gradient.

    >>> cummax([1.0, 3.0, 2.0]).tolist()
    [1.0, 3.0, 3.0]
    """
    return _running_extreme("cummax", x, axis, largest=True)


def cummin(x: Any, axis: int = 0) -> Any:
    """Return the cumulative minimum along `axis`; the first of tied elements gets the gradient.

    >>> cummin([2.0, 3.0, 1.0]).tolist()
    [2.0, 2.0, 1.0]
    """
    return _running_extreme("cummin", x, axis, largest=False)


def _running_extreme(name: str, x: Any, axis: int, largest: bool) -> Any:
    x = as_operand(x)
    axis = normalize_axis(axis, len(x.shape), name)
    index = running_index_p(x, axis=axis, largest=largest)
    return take_along_axis_p(x, index, axis=axis, unique=False)


def diff(x: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """Return the differences of adjacent elements along `axis`, repeated `n` times.

    >>> diff([1.0, 4.0, 9.0, 16.0], n=2).tolist()
    [2.0, 2.0]
    """
    x = as_operand(x)
    axis = normalize_axis(axis, len(x.shape), "diff")
    if n < 0:
        raise ArgumentError(f"diff needs n of 0 or more. Got {n}.")
    if n == 0:
        return x  # also with prepend or append, as in NumPy
    parts = [prepend, x, append]
    if prepend is not None or append is not None:
        x = concat([_as_part(part, x, axis) for part in parts if part is not None], axis)
    for _ in range(min(n, x.shape[axis])):  # after that many, nothing is left
        count = x.shape[axis]
        rest = (slice(None),) * (len(x.shape) - axis - 1)
        low, high = slice(0, max(count - 1, 0)), slice(1, count)
        whole = (slice(None),) * axis
        x = slice_p(x, index=(*whole, high, *rest)) - slice_p(x, index=(*whole, low, *rest))
    return x


def _as_part(part: Any, x: Any, axis: int) -> Any:
    """Convert `prepend` or `append` to a tensor; a scalar becomes a slice of length 1."""
    part = part if part is x else as_operand(part)
    if len(part.shape) == 0:
        return zeros_like(first_along(x, axis)) + part
    if len(part.shape) != len(x.shape):
        raise ShapeError(
            f"diff needs prepend and append to be scalars or to have {len(x.shape)} dimensions. "
            f"Got shape {part.shape}."
        )
    return part
