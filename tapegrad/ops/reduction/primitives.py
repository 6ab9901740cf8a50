"""Reductions over axes under their Array API names: sum, mean, prod, max, min, any, all, argmax.

TensorFlow's names (`reduce_sum`, ...) are in functions.py, statistics in statistics.py.
"""

from __future__ import annotations

from typing import Any

from tapegrad.core.primitive.families import Function, linear, nondifferentiable
from tapegrad.core.primitive.fastpath import one_operand
from tapegrad.core.primitive.operand import as_operand, normalize_axes, normalize_axis
from tapegrad.core.primitive.primitive import Primitive
from tapegrad.ops.reduction.axes import (
    Axes,
    batch_over_axes,
    count_over,
    divide_by_count,
    kept_shape,
    spread,
    spread_times,
)
from tapegrad.ops.reduction.cumulative import cumprod_p
from tapegrad.ops.shape.primitives import broadcast_p, lift_unbatched, permute_p, reshape_p, sum_p

# Mean


def _mean_transpose(t: Any, x_shape: tuple[int, ...], *, axis: Axes, keepdims: bool) -> Any:
    scaled = divide_by_count(t, count_over(x_shape, axis) or 1)
    return broadcast_p(spread(scaled, x_shape, axis, keepdims), shape=x_shape)


def _mean(xp: Any, x: Any, *, axis: Axes, keepdims: bool) -> Any:
    if xp.isdtype(x.dtype, ("bool", "integral")):
        x = xp.astype(x, xp.float64)
    return xp.mean(x, axis=axis, keepdims=keepdims)


mean_p = linear("mean", _mean, transpose=_mean_transpose)
mean_p.batch(batch_over_axes(mean_p))

# Product. The derivative with respect to an element is the product of the others, computed as two
# exclusive cumulative products. There is no division, so zeros need no special case.


def _product_of_others(x: Any, axis: Axes) -> Any:
    shape = tuple(x.shape)
    rest = tuple(i for i in range(len(shape)) if i not in axis)
    count = count_over(shape, axis)
    rows = reshape_p(permute_p(x, axes=(*rest, *axis)), shape=(*(shape[i] for i in rest), count))
    last = len(rest)
    before = cumprod_p(rows, axis=last, exclusive=True, reverse=False)
    others = before * cumprod_p(rows, axis=last, exclusive=True, reverse=True)
    moved = reshape_p(others, shape=tuple(shape[i] for i in (*rest, *axis)))
    order = (*rest, *axis)
    return permute_p(moved, axes=tuple(order.index(i) for i in range(len(shape))))


def _prod(xp: Any, x: Any, *, axis: Axes, keepdims: bool) -> Any:
    if xp.isdtype(x.dtype, "bool"):
        x = xp.astype(x, xp.int64)
    return xp.prod(x, axis=axis, keepdims=keepdims, dtype=x.dtype)


prod_p = Primitive("prod", _prod)
prod_p.vjps(
    lambda t, x, *, axis, keepdims: spread_times(t, _product_of_others(x, axis), axis, keepdims)
)
prod_p.jvps(
    lambda t, x, *, axis, keepdims: sum_p(
        t * _product_of_others(x, axis), axis=axis, keepdims=keepdims
    )
)
prod_p.conjugates = True
prod_p.batch(batch_over_axes(prod_p))

# Maximum and minimum. Tied elements share the gradient equally.


def _ties(xp: Any, x: Any, y: Any, *, axis: Axes, keepdims: bool) -> Any:
    y = y if keepdims else xp.reshape(y, kept_shape(x.shape, axis))
    # If the result is NaN, every NaN of the operand counts as tied.
    hits = xp.astype((x == y) | ((x != x) & (y != y)), x.dtype)
    return hits / xp.sum(hits, axis=axis, keepdims=True, dtype=x.dtype)


ties_p = nondifferentiable("ties", _ties)


@ties_p.batch
def _batch_ties(
    size: int, batched: tuple[bool, bool], x: Any, y: Any, *, axis: Axes, keepdims: bool
) -> Any:
    x, y = lift_unbatched(size, batched, x, y)
    return ties_p(x, y, axis=tuple(a + 1 for a in axis), keepdims=keepdims)


def _extreme(name: str) -> Primitive:
    primitive = Primitive(
        name, lambda xp, x, *, axis, keepdims: getattr(xp, name)(x, axis=axis, keepdims=keepdims)
    )
    primitive.vjps(
        lambda t, x, y, *, axis, keepdims: (
            spread(t, x.shape, axis, keepdims) * ties_p(x, y, axis=axis, keepdims=keepdims)
        )
    )
    primitive.jvps(
        lambda t, x, y, *, axis, keepdims: sum_p(
            t * ties_p(x, y, axis=axis, keepdims=keepdims), axis=axis, keepdims=keepdims
        )
    )
    primitive.batch(batch_over_axes(primitive))
    return primitive


max_p = _extreme("max")
min_p = _extreme("min")

# Without a derivative

any_p = nondifferentiable("any")
all_p = nondifferentiable("all")
count_nonzero_p = nondifferentiable(
    "count_nonzero",
    lambda xp, x, *, axis, keepdims: xp.sum(
        xp.astype(xp.astype(x, xp.bool), xp.int64), axis=axis, keepdims=keepdims, dtype=xp.int64
    ),
)
for _primitive in (any_p, all_p, count_nonzero_p):
    _primitive.batch(batch_over_axes(_primitive))


def _arg_extreme(name: str) -> Primitive:
    def batch(size: int, batched: Any, x: Any, *, axis: int) -> Any:
        return primitive(x, axis=axis + 1)

    primitive = nondifferentiable(name, batch=batch)
    return primitive


argmax_p = _arg_extreme("argmax")
argmin_p = _arg_extreme("argmin")


_full_reductions: dict[tuple[str, int], Function] = {}


def over_everything(primitive: Primitive, x: Any) -> Any:
    """Reduce over all axes. Most losses end with this, so the parameters are cached by rank."""
    key = (primitive.name, x.ndim)
    reduce = _full_reductions.get(key)
    if reduce is None:
        reduce = one_operand(primitive, {"axis": tuple(range(x.ndim)), "keepdims": False})
        _full_reductions[key] = reduce
    return reduce(x)


def sum(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Return the sum over `axis`: an int, several, or None for all.

    Integers keep their dtype; booleans are counted.

    >>> float(sum([1.0, 2.0, 3.0]))
    6.0
    """
    x = as_operand(x)
    if axis is None and not keepdims:
        return over_everything(sum_p, x)
    return sum_p(x, axis=normalize_axes(axis, x.ndim, "sum"), keepdims=bool(keepdims))


def mean(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Return the mean over `axis`.

    For integers the result is floating point, as in NumPy. The mean of no elements is NaN.

    >>> float(mean([1.0, 2.0, 6.0]))
    3.0
    """
    x = as_operand(x)
    if axis is None and not keepdims:
        return over_everything(mean_p, x)
    return mean_p(x, axis=normalize_axes(axis, x.ndim, "mean"), keepdims=bool(keepdims))


def prod(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Return the product over `axis`; its derivatives are exact where elements are 0.

    >>> float(prod([2.0, 3.0]))
    6.0
    """
    x = as_operand(x)
    return prod_p(x, axis=normalize_axes(axis, x.ndim, "prod"), keepdims=bool(keepdims))


def max(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Return the maximum over `axis`; tied elements share the gradient equally.

    >>> float(max([1.0, 3.0, 2.0]))
    3.0
    """
    x = as_operand(x)
    return max_p(x, axis=normalize_axes(axis, x.ndim, "max"), keepdims=bool(keepdims))


def min(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Return the minimum over `axis`; tied elements share the gradient equally.

    >>> float(min([3.0, 1.0, 2.0]))
    1.0
    """
    x = as_operand(x)
    return min_p(x, axis=normalize_axes(axis, x.ndim, "min"), keepdims=bool(keepdims))


def any(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Return whether at least one element over `axis` is true or nonzero.

    >>> bool(any([False, True]))
    True
    """
    x = as_operand(x)
    return any_p(x, axis=normalize_axes(axis, x.ndim, "any"), keepdims=bool(keepdims))


def all(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Return whether all elements over `axis` are true or nonzero.

    >>> bool(all([False, True]))
    False
    """
    x = as_operand(x)
    return all_p(x, axis=normalize_axes(axis, x.ndim, "all"), keepdims=bool(keepdims))


def count_nonzero(x: Any, axis: Any = None, keepdims: bool = False) -> Any:
    """Return the number of nonzero elements over `axis`, as int64.

    >>> int(count_nonzero([0.0, 2.0, 3.0]))
    2
    """
    x = as_operand(x)
    return count_nonzero_p(
        x, axis=normalize_axes(axis, x.ndim, "count_nonzero"), keepdims=bool(keepdims)
    )


def argmax(x: Any, axis: int | None = None, keepdims: bool = False) -> Any:
    """Return the index of the first maximum along `axis`.

    Without `axis` the index refers to the flattened tensor, as in NumPy. TensorFlow's `argmax`,
    which defaults to axis 0, is in functions.py.

    >>> int(argmax([2.0, 5.0, 1.0]))
    1
    """
    return _arg(argmax_p, x, axis, bool(keepdims))


def argmin(x: Any, axis: int | None = None, keepdims: bool = False) -> Any:
    """Return the index of the first minimum along `axis`.

    Without `axis` the index refers to the flattened tensor, as in NumPy. TensorFlow's `argmin`,
    which defaults to axis 0, is in functions.py.

    >>> int(argmin([2.0, 5.0, 1.0]))
    2
    """
    return _arg(argmin_p, x, axis, bool(keepdims))


def _arg(primitive: Primitive, x: Any, axis: int | None, keepdims: bool) -> Any:
    x = as_operand(x)
    rank = len(x.shape)
    if axis is None or (rank == 0 and axis in (0, -1)):  # NumPy takes a number for one row
        index = primitive(reshape_p(x, shape=(count_over(x.shape, tuple(range(rank))),)), axis=0)
        return reshape_p(index, shape=(1,) * rank) if keepdims else index
    index = primitive(x, axis=normalize_axis(axis, rank, primitive.name))
    return spread(index, x.shape, (axis % rank,), False) if keepdims else index
