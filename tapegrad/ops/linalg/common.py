"""Helpers for the linear algebra rules: triangles, identities, safe reciprocals, batching."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.core.backend.registry import backend_of
from tapegrad.core.primitive.families import nondifferentiable
from tapegrad.core.primitive.operand import as_operand
from tapegrad.core.primitive.primitive import Primitive
from tapegrad.core.values.dtypes import DType, as_dtype
from tapegrad.errors import ShapeError
from tapegrad.ops.casting.cast import cast_p
from tapegrad.ops.elementwise.no_nan import divide_no_nan
from tapegrad.ops.indexing.primitives import slice_p
from tapegrad.ops.products.primitives import conjugate, matmul_p, swap_last
from tapegrad.ops.shape.diagonal import band_p
from tapegrad.ops.shape.primitives import broadcast_p, reshape_p, sum_p


def batches(primitive: Primitive) -> Primitive:
    """Set the batching rule of a primitive over matrices: the batch is one more leading axis."""

    def rule(size: int, batched: tuple[bool, ...], *args: Any, **params: Any) -> Any:
        rank = max(len(arg.shape) - flag for arg, flag in zip(args, batched))
        aligned = [
            reshape_p(arg, shape=(size, *[1] * (rank + 1 - len(arg.shape)), *arg.shape[1:]))
            if flag and len(arg.shape) <= rank
            else arg
            for arg, flag in zip(args, batched)
        ]
        return primitive(*aligned, **params)

    primitive.batch_rule = rule
    return primitive


def triangle(x: Any, lower: bool, offset: int = 0) -> Any:
    """Return the lower or upper triangle from diagonal `offset` on, with zeros elsewhere."""
    return band_p(x, low=None, high=offset) if lower else band_p(x, low=offset, high=None)


def lower_half(x: Any) -> Any:
    """Return the lower triangle with its diagonal halved: x = half + half^H if x is Hermitian."""
    both = triangle(x, lower=True) + triangle(x, lower=True, offset=-1)
    return both * 0.5


identity_p: Primitive = nondifferentiable(
    "identity_matrix",
    lambda xp, x, *, order: xp.eye(order, dtype=x.dtype, device=x.device),
    batch=lambda size, batched, x, *, order: broadcast_p(
        identity_p(x, order=order), shape=(size, order, order)
    ),
)


def identity_like(x: Any, size: int | None = None) -> Any:
    """Return the identity matrix with the dtype and device of `x`, by default of its last axis."""
    return identity_p(x, order=x.shape[-1] if size is None else size)


def reciprocal_or_zero(x: Any) -> Any:
    """Return 1 / x, and 0 where x is 0; the derivative there is 0 too."""
    return divide_no_nan(1.0, x)


def _reciprocal_gaps(xp: Any, x: Any) -> Any:
    gaps = xp.expand_dims(x, axis=-2) - xp.expand_dims(x, axis=-1)
    if x.shape[-1] == 0:
        return gaps
    scale = xp.max(xp.abs(x), axis=-1, keepdims=True)
    eps = float(np.finfo(as_dtype(backend_of(x).dtype_of(x)).real_dtype.dtype).eps)
    equal = xp.abs(gaps) <= xp.expand_dims(scale, axis=-1) * (eps * x.shape[-1])
    one = xp.ones(gaps.shape, dtype=gaps.dtype, device=x.device)
    return xp.where(equal, 0 * one, one / xp.where(equal, one, gaps))


# 1 / (x_j - x_i), with 0 where the values are equal up to rounding. The 0 gives exact derivatives
# of every function that does not depend on the choice of a basis in an eigenspace.
reciprocal_gaps_p = batches(Primitive("reciprocal_gaps", _reciprocal_gaps))


def _reciprocal_gaps_vjp(t: Any, y: Any) -> Any:
    scaled = -t * conjugate(y * y)
    last = len(scaled.shape) - 1
    columns = sum_p(scaled, axis=(last - 1,), keepdims=False)
    return columns - sum_p(scaled, axis=(last,), keepdims=False)


reciprocal_gaps_p.vjps(_reciprocal_gaps_vjp)
reciprocal_gaps_p.jvps(lambda t, y: -(as_row(t) - as_column(t)) * y * y)


def as_row(x: Any) -> Any:
    """Return vectors as matrices with one row, to scale columns."""
    return reshape_p(x, shape=(*x.shape[:-1], 1, x.shape[-1]))


def as_column(x: Any) -> Any:
    """Return vectors as matrices with one column, to scale rows."""
    return reshape_p(x, shape=(*x.shape, 1))


def as_cell(x: Any) -> Any:
    """Return scalars as 1 × 1 matrices, to scale whole matrices."""
    return reshape_p(x, shape=(*x.shape, 1, 1))


def diagonal_of(x: Any) -> Any:
    """Return the diagonals of matrices: every (columns + 1)th element."""
    *lead, m, n = x.shape
    k = min(m, n)
    flat = reshape_p(x, shape=(*lead, m * n))
    index = slice(None, k * (n + 1), n + 1) if k < m else slice(None, None, n + 1)
    return slice_p(flat, index=(*[slice(None)] * len(lead), index))


def diagonal_matrix(x: Any) -> Any:
    """Return square matrices with the given diagonals."""
    return as_row(x) * identity_like(x)


def product(a: Any, b: Any, adjoint_a: bool = False, adjoint_b: bool = False) -> Any:
    """Return the matrix product A B, with the adjoint of either factor if requested."""
    return matmul_p(
        conjugate(a) if adjoint_a else a,
        conjugate(b) if adjoint_b else b,
        transpose_a=adjoint_a,
        transpose_b=adjoint_b,
    )


def adjoint_of(x: Any) -> Any:
    """Return the conjugate transpose."""
    return swap_last(conjugate(x))


def hermitian_part(x: Any) -> Any:
    """Return (x + x^H) / 2."""
    return (x + adjoint_of(x)) * 0.5


def dtype_of(x: Any) -> DType:
    """Return the dtype of a tensor, batched value or backend array."""
    dtype = x.dtype
    return dtype if isinstance(dtype, DType) else as_dtype(backend_of(x).dtype_of(x))


def as_matrices(value: Any, name: str, square: bool = True) -> Any:
    """Return `value` as a floating operand, or raise if it does not hold matrices."""
    x = as_operand(value)
    shape = tuple(x.shape)
    if len(shape) < 2 or (square and shape[-1] != shape[-2]):
        expected = "square matrices" if square else "matrices"
        raise ShapeError(f"{name} needs {expected} in the last two axes. Got shape {shape}.")
    if dtype_of(x).is_differentiable:
        return x
    return cast_p(x, dtype=np.dtype("float32"))
