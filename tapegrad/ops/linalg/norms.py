"""Norms of vectors and matrices. Their derivative at zero is 0 instead of NaN."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tapegrad.core.primitive.families import elementwise
from tapegrad.core.primitive.operand import as_operand, normalize_axes, normalize_axis
from tapegrad.core.values.indexed_slices import IndexedSlices
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.elementwise.magnitude import abs as absolute
from tapegrad.ops.elementwise.no_nan import divide_no_nan
from tapegrad.ops.elementwise.powers import power, rsqrt
from tapegrad.ops.elementwise.selection import maximum, where as choose
from tapegrad.ops.indexing.sparse_rows import merged
from tapegrad.ops.linalg.common import as_cell, as_matrices, dtype_of, identity_like
from tapegrad.ops.linalg.determinants import slogdet_p
from tapegrad.ops.linalg.eigen import svdvals_p
from tapegrad.ops.linalg.solve import inv_p
from tapegrad.ops.reduction.primitives import max as largest, min as smallest, sum as total
from tapegrad.ops.reduction.squares import euclidean_norm, sum_of_squares
from tapegrad.ops.shape.functions import moveaxis
from tapegrad.ops.shape.joining import stack
from tapegrad.ops.shape.primitives import reshape_p

root_p = elementwise(
    "root_or_zero",
    lambda t, x, y, *, order: t * divide_no_nan(y, x * order),
    forward=lambda xp, x, *, order: xp.pow(x, 1.0 / order),
)


def vector_norm(x: Any, ord: Any = 2, axis: Any = None, keepdims: bool = False) -> Any:
    """Return the `ord`-norm over `axis`, by default of all elements.

    `ord` is a number, inf or -inf; 0 counts the nonzero elements.

    >>> float(vector_norm([3.0, 4.0])), float(vector_norm([3.0, -4.0], 1))
    (5.0, 7.0)
    """
    x = _as_floating(x)
    if ord == 2:
        return euclidean_norm(x, axis, keepdims)
    if isinstance(ord, str):
        raise ArgumentError(f"The ord of a vector norm must be a number. Got {ord!r}.")
    size = absolute(x)
    if ord == math.inf:
        return _largest(size, axis, keepdims)
    if ord == -math.inf:
        return smallest(size, axis, keepdims)
    if ord == 1:
        return total(size, axis, keepdims)
    if ord == 0:
        return total(cast(size != 0.0, dtype_of(size)), axis, keepdims)
    return root_p(total(power(size, float(ord)), axis, keepdims), order=float(ord))


def _largest(sizes: Any, axis: Any, keepdims: bool = False) -> Any:
    """Return the maximum of numbers that are not negative; that of none is 0."""
    return (total if 0 in sizes.shape else largest)(sizes, axis, keepdims)


def _as_floating(x: Any) -> Any:
    x = as_operand(x)
    return x if dtype_of(x).is_differentiable else cast(x, "float32")


def matrix_norm(x: Any, ord: Any = "fro", axis: Any = (-2, -1), keepdims: bool = False) -> Any:
    """Return a norm of matrices; `ord` is 'fro', 'nuc', 1, 2, inf or a negative of these numbers.

    >>> x = [[3.0, 0.0], [0.0, 4.0]]
    >>> float(matrix_norm(x)), float(matrix_norm(x, 2))
    (5.0, 4.0)
    """
    x = _as_floating(x)
    row, column = (normalize_axis(a, len(x.shape), "matrix_norm") for a in axis)
    if ord in ("fro", "f", "euclidean"):
        return euclidean_norm(x, (row, column), keepdims)
    if ord in (1, -1, math.inf, -math.inf):
        inner, outer = (row, column) if ord in (1, -1) else (column, row)
        sums = total(absolute(x), inner, True)
        found = (_largest if ord > 0 else smallest)(sums, outer, True)
    elif ord in (2, -2, "nuc"):
        values = svdvals_p(moveaxis(x, (row, column), (-2, -1)))
        found = _reduce_singular_values(values, ord)
    else:
        raise ArgumentError(
            "The ord of a matrix norm must be 'euclidean', 'fro', 'nuc', 1, 2, inf or one of "
            f"their negatives. Got {ord!r}."
        )
    kept = tuple(1 if i in (row, column) else n for i, n in enumerate(x.shape))
    shape = kept if keepdims else tuple(n for i, n in enumerate(x.shape) if i not in (row, column))
    return reshape_p(found, shape=shape)


def _reduce_singular_values(values: Any, ord: Any) -> Any:
    if ord == "nuc":
        return total(values, -1)
    return (_largest if ord == 2 else smallest)(values, -1)


def norm(
    tensor: Any,
    ord: Any = "euclidean",
    axis: Any = None,
    keepdims: bool | None = None,
    name: str | None = None,
) -> Any:
    """Return the norm of vectors (one axis, or None for all elements) or matrices (two axes).

    >>> float(norm([3.0, 4.0])), norm([[3.0, 4.0]], 1, axis=1).tolist()
    (5.0, [7.0])
    """
    x = _as_floating(tensor)
    keepdims = bool(keepdims)
    if isinstance(axis, list | tuple) and len(axis) == 2:
        return matrix_norm(x, ord, tuple(axis), keepdims)
    if isinstance(axis, list | tuple) and len(axis) != 1:
        raise ShapeError(f"norm takes one axis or two. Got {tuple(axis)}.")
    if ord is None or ord in ("euclidean", "fro"):
        ord = 2
    return vector_norm(x, ord, axis, keepdims)


def normalize(
    tensor: Any, ord: Any = "euclidean", axis: Any = None, name: str | None = None
) -> tuple[Any, Any]:
    """Return the tensor divided by its norm, and the norm.

    >>> normalized, size = normalize([3.0, 4.0])
    >>> float(size[0])
    5.0
    """
    x = _as_floating(tensor)
    size = norm(x, ord, axis, keepdims=True)
    return x / size, size


def l2_normalize(
    x: Any, axis: Any = None, epsilon: float = 1e-12, name: str | None = None, dim: Any = None
) -> Any:
    """Return x / sqrt(max(sum(|x|²), epsilon)). `dim` is the older name of `axis`.

    >>> l2_normalize([3.0, 4.0]).round(5).tolist()
    [0.6000000238418579, 0.800000011920929]
    """
    x = _as_floating(x)
    axes = normalize_axes(dim if axis is None else axis, len(x.shape), "l2_normalize")
    return x * rsqrt(maximum(sum_of_squares(x, axes, True), float(epsilon)))


def global_norm(t_list: Sequence[Any], name: str | None = None) -> Any:
    """Return the Euclidean norm of all tensors together; None entries are skipped.

    >>> float(global_norm([[3.0], None, [4.0]]))
    5.0
    """
    if not isinstance(t_list, list | tuple):
        raise ArgumentError(f"global_norm needs a list of tensors. Got {type(t_list).__name__}.")
    tensors = [merged(t).values if isinstance(t, IndexedSlices) else t for t in t_list]
    sizes = [euclidean_norm(t) for t in tensors if t is not None]
    if not sizes:
        raise ArgumentError("global_norm needs at least one tensor that is not None. Got none.")
    return sizes[0] if len(sizes) == 1 else euclidean_norm(stack(sizes))


def cond(x: Any, p: Any = None) -> Any:
    """Return the condition number |x| |x^-1|, by default in the 2-norm.

    That of a singular matrix is infinite, unless `p` is -2 and the matrix is not 0.

    >>> float(cond([[2.0, 0.0], [0.0, 1.0]])), float(cond([[1.0, 1.0], [1.0, 1.0]], 1))
    (2.0, inf)
    """
    if p in (None, 2, -2):
        values = svdvals_p(as_matrices(x, "cond", square=False))
        high, low = largest(values, -1), smallest(values, -1)
        ratio = low / high if p == -2 else high / low
        return choose(high == 0.0, math.inf, ratio)
    x = as_matrices(x, "cond")
    # The inverse of a singular matrix is an error on the host: another matrix takes its place.
    singular = slogdet_p(x)[0] == 0.0
    inverse = inv_p(choose(as_cell(singular), identity_like(x), x))
    return choose(singular, math.inf, matrix_norm(x, p) * matrix_norm(inverse, p))
