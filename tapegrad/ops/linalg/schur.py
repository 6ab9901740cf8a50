"""The Schur decomposition and the Hessenberg form: unitary similarity transformations."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.core.primitive.families import nondifferentiable
from tapegrad.core.primitive.primitive import Primitive
from tapegrad.errors import ArgumentError
from tapegrad.ops.casting.cast import cast_p
from tapegrad.ops.elementwise.magnitude import abs as magnitude
from tapegrad.ops.elementwise.no_nan import divide_no_nan
from tapegrad.ops.elementwise.selection import where
from tapegrad.ops.indexing.primitives import slice_p
from tapegrad.ops.kinds import is_complex
from tapegrad.ops.linalg.common import (
    adjoint_of,
    as_matrices,
    batches,
    dtype_of,
    identity_like,
    product,
    triangle,
)
from tapegrad.ops.linalg.schur_iteration import decompose
from tapegrad.ops.linalg.solve import solve_p
from tapegrad.ops.products.primitives import swap_last
from tapegrad.ops.reduction.squares import euclidean_norm
from tapegrad.ops.shape.joining import concat
from tapegrad.ops.shape.primitives import broadcast_p, reshape_p

schur_p = batches(Primitive("schur", decompose, many=True))
schur_real_p = batches(nondifferentiable("schur_real", decompose, many=True))


def _strictly_lower(x: Any) -> Any:
    return triangle(x, lower=True, offset=-1)


def _solve_commutator(t: Any, below: Any, adjoint: bool = False) -> Any:
    """Return the strictly lower X such that T X - X T has the given strictly lower part.

    T is upper triangular, so the strictly lower part depends on the strictly lower X only. One
    linear system has all entries of X as unknowns, with identity rows for the entries that are
    not strictly lower. `adjoint` solves the adjoint system.
    """
    *lead, n, _ = t.shape
    one = identity_like(t)
    left = reshape_p(t, shape=(*lead, n, 1, n, 1)) * reshape_p(one, shape=(n, 1, n))
    right = reshape_p(swap_last(t), shape=(*lead, 1, n, 1, n)) * reshape_p(one, shape=(n, 1, n, 1))
    system = reshape_p(left - right, shape=(*lead, n * n, n * n))
    is_lower = reshape_p(_strictly_lower(one * 0 + 1), shape=(n * n, 1))
    rest = identity_like(system) * (1 - is_lower)
    system = system * is_lower * swap_last(is_lower) + rest
    rows = reshape_p(_strictly_lower(below), shape=(*lead, n * n, 1))
    return reshape_p(solve_p(system, rows, adjoint=adjoint), shape=(*lead, n, n))


# The Schur vectors are defined up to phases. The rules keep the phases fixed, and are exact for all
# functions that do not depend on them. There is no derivative where eigenvalues are equal.


@schur_p.jvp
def _schur_jvp(ts: Any, y1: Any, y2: Any) -> tuple[Any, Any]:
    """With M = Z^H dA Z: dZ = Z W and dT = M + T W - W T; a skew W makes dT triangular."""
    moved = product(product(y2, ts[0], adjoint_a=True), y2)
    lower = -_solve_commutator(y1, moved)
    skew = lower - adjoint_of(lower)
    upper = moved + product(y1, skew) - product(skew, y1)
    return triangle(upper, lower=False), product(y2, skew)


@schur_p.vjp
def _schur_vjp(t: Any, y1: Any, y2: Any) -> tuple[Any]:
    upper = triangle(t[0], lower=False)
    skew = product(y1, upper, adjoint_a=True) - product(upper, y1, adjoint_b=True)
    skew = skew + product(y2, t[1], adjoint_a=True)
    inner = upper - _solve_commutator(y1, skew - adjoint_of(skew), adjoint=True)
    return (product(product(y2, inner), y2, adjoint_b=True),)


def schur(a: Any, output: str = "real") -> tuple[Any, Any]:
    """Return t and z with a = z @ t @ z^H, z unitary and t upper triangular.

    With output 'real', t of a real matrix is real, with 2 × 2 blocks on the diagonal for complex
    eigenvalues; this form has no derivative. With output 'complex' the derivative exists if all
    eigenvalues are distinct, for functions that do not depend on the phases of the columns. The
    function is meant for small matrices: a GPU takes 40 + 4 n sweeps for n rows, and the
    derivative solves a system of n² unknowns.

    >>> t, z = schur([[0.0, 2.0], [-2.0, 0.0]], "complex")
    >>> sorted(t.numpy().diagonal().imag.round(5).tolist())
    [-2.0, 2.0]
    """
    if output not in ("real", "complex", "r", "c"):
        raise ArgumentError(f"The output of schur must be 'real' or 'complex'. Got {output!r}.")
    x = as_matrices(a, "schur")
    if is_complex(x):
        return schur_p(x)  # type: ignore[no-any-return]
    if output in ("real", "r"):
        return schur_real_p(x)  # type: ignore[no-any-return]
    wide = np.result_type(dtype_of(x).dtype, np.complex64)
    return schur_p(cast_p(x, dtype=wide))  # type: ignore[no-any-return]


def hessenberg(a: Any) -> tuple[Any, Any]:
    """Return h and q with a = q @ h @ q^H, q unitary and h zero below its first subdiagonal.

    >>> h, q = hessenberg([[1.0, 2.0, 3.0], [3.0, 1.0, 1.0], [4.0, 1.0, 1.0]])
    >>> h.numpy().round(5)[:, 0].tolist()
    [1.0, -5.0, 0.0]
    """
    h = as_matrices(a, "hessenberg")
    n = h.shape[-1]
    q = broadcast_p(identity_like(h), shape=tuple(h.shape))
    for k in range(n - 2):
        normal, factor = _reflection(h, k)
        back = adjoint_of(normal) * factor
        h = h - product(normal, product(back, h))
        h = h - product(product(h, normal), back)
        q = q - product(product(q, normal), back)
    return triangle(h, lower=False, offset=-1), q


def _reflection(h: Any, k: int) -> tuple[Any, Any]:
    """Return the Householder vector v that clears column k, and 2 / |v|² (0 if it is clear)."""
    lead = [slice(None)] * (len(h.shape) - 2)
    column = slice_p(h, index=(*lead, slice(k + 1, None), slice(k, k + 1)))
    first = slice_p(column, index=(*lead, slice(0, 1), slice(None)))
    below = slice_p(column, index=(*lead, slice(1, None), slice(None)))
    rest = euclidean_norm(below, axis=-2, keepdims=True)
    length = euclidean_norm(column, axis=-2, keepdims=True)
    size = magnitude(first)
    phase = where(size == 0, 1.0, divide_no_nan(first, cast_p(size, dtype=dtype_of(h).dtype)))
    head = first + phase * cast_p(length, dtype=dtype_of(h).dtype)
    above = slice_p(h, index=(*lead, slice(0, k + 1), slice(k, k + 1))) * 0
    normal = concat([above, head, below], -2)
    square = euclidean_norm(normal, axis=-2, keepdims=True) ** 2
    factor = where(rest == 0, 0.0, divide_no_nan(2.0, square))
    return normal, cast_p(factor, dtype=dtype_of(h).dtype)
