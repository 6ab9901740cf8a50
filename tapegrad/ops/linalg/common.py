"""What the rules of linear algebra share: triangles, identities, safe reciprocals, batching."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.core.backend import backend_of
from tapegrad.core.dtypes import DType, as_dtype
from tapegrad.core.families import nondifferentiable
from tapegrad.core.operand import as_operand
from tapegrad.core.primitive import Primitive
from tapegrad.errors import ShapeError
from tapegrad.ops.basic import broadcast_p, reshape_p, sum_p
from tapegrad.ops.cast import cast_p
from tapegrad.ops.diagonal import band_p
from tapegrad.ops.matrix_product import conjugate, matmul_p, swap_last
from tapegrad.ops.no_nan import divide_no_nan
from tapegrad.ops.slicing import slice_p


def batches(primitive: Primitive) -> Primitive:
    """Give a primitive over matrices its batching rule: a batch is one more leading axis."""

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
    """Return the triangle on and below (or above) diagonal `offset`, zeros elsewhere."""
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
    """Return the identity of `x`'s dtype and device, by default for its last axis."""
    return identity_p(x, order=x.shape[-1] if size is None else size)


def reciprocal_or_zero(x: Any) -> Any:
    """Return 1 / x, and 0 where x is 0 (its derivative is 0 there, too)."""
    return divide_no_nan(1.0, x)


def _gaps(xp: Any, x: Any) -> Any:
    gaps = xp.expand_dims(x, axis=-2) - xp.expand_dims(x, axis=-1)
    if x.shape[-1] == 0:
        return gaps
    scale = xp.max(xp.abs(x), axis=-1, keepdims=True)
    eps = float(np.finfo(as_dtype(backend_of(x).dtype_of(x)).real_dtype.dtype).eps)
    equal = xp.abs(gaps) <= xp.expand_dims(scale, axis=-1) * (eps * x.shape[-1])
    one = xp.ones(gaps.shape, dtype=gaps.dtype, device=x.device)
    return xp.where(equal, 0 * one, one / xp.where(equal, one, gaps))


# Values that agree up to rounding count as equal. Then 0 stands for the infinite 1 / (x_j - x_i):
# right for every function that does not depend on how an eigenspace is split into vectors.
reciprocal_gaps_p = batches(Primitive("reciprocal_gaps", _gaps))


def _gaps_vjp(t: Any, y: Any) -> Any:
    share = -t * conjugate(y * y)
    last = len(share.shape) - 1
    columns = sum_p(share, axis=(last - 1,), keepdims=False)
    return columns - sum_p(share, axis=(last,), keepdims=False)


reciprocal_gaps_p.vjps(_gaps_vjp)
reciprocal_gaps_p.jvps(lambda t, y: -(as_row(t) - as_column(t)) * y * y)


def as_row(x: Any) -> Any:
    """Return vectors as matrices of one row, to scale columns with."""
    return reshape_p(x, shape=(*x.shape[:-1], 1, x.shape[-1]))


def as_column(x: Any) -> Any:
    """Return vectors as matrices of one column, to scale rows with."""
    return reshape_p(x, shape=(*x.shape, 1))


def as_cell(x: Any) -> Any:
    """Return numbers as 1 × 1 matrices, to scale whole matrices with."""
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
    """Return A B, with either factor's adjoint; at least two axes each."""
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
    """Return the dtype of a tensor, batched value or raw array."""
    dtype = x.dtype
    return dtype if isinstance(dtype, DType) else as_dtype(backend_of(x).dtype_of(x))


def as_matrices(value: Any, name: str, square: bool = True) -> Any:
    """Return `value` as an operand, and refuse what is no matrix with a sentence."""
    x = as_operand(value)
    shape = tuple(x.shape)
    if len(shape) < 2 or (square and shape[-1] != shape[-2]):
        kind = "square matrices" if square else "matrices"
        raise ShapeError(f"{name} needs {kind} in the last two axes. Got shape {shape}.")
    if dtype_of(x).is_differentiable:
        return x
    return cast_p(x, dtype=np.dtype("float32"))
