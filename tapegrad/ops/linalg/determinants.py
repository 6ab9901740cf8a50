"""Determinants and their logarithms."""

from __future__ import annotations

from typing import Any

from tapegrad.core.primitive.primitive import Primitive
from tapegrad.ops.casting.cast import cast_p
from tapegrad.ops.elementwise.arithmetic import conj
from tapegrad.ops.elementwise.complex_numbers import complex as join_parts, imag
from tapegrad.ops.kinds import is_complex
from tapegrad.ops.linalg.common import (
    adjoint_of,
    as_cell,
    as_matrices,
    batches,
    diagonal_of,
    dtype_of,
    identity_like,
    product,
)
from tapegrad.ops.linalg.solve import inv_p
from tapegrad.ops.shape.primitives import sum_p

det_p = batches(Primitive("det", lambda xp, x: xp.linalg.det(x)))


def _trace(x: Any) -> Any:
    diagonal = diagonal_of(x)
    return sum_p(diagonal, axis=(len(diagonal.shape) - 1,), keepdims=False)


def _adjugate(xp: Any, x: Any) -> Any:
    """Return V diag(Π_{j≠i} s_j) U^H det(U V^H), from the singular value decomposition.

    The products are formed without division, so singular matrices have an adjugate too.
    """
    u, s, vh = xp.linalg.svd(x)
    n = x.shape[-1]
    one = xp.ones(s.shape, dtype=s.dtype, device=s.device)
    others = [
        xp.prod(xp.where(xp.arange(n, device=s.device) == i, one, s), axis=-1) for i in range(n)
    ]
    sizes = xp.astype(xp.stack(others, axis=-1), x.dtype) if n else xp.astype(s, x.dtype)
    phase = xp.linalg.slogdet(xp.matmul(u, vh))[0]
    scaled = xp.conj(xp.matrix_transpose(vh)) if is_complex(x) else xp.matrix_transpose(vh)
    back = xp.conj(xp.matrix_transpose(u)) if is_complex(x) else xp.matrix_transpose(u)
    inner = xp.matmul(scaled * xp.expand_dims(sizes, axis=-2), back)
    return inner * xp.expand_dims(xp.expand_dims(phase, axis=-1), axis=-1)


# d det(A) = tr(adj(A) dA). Unlike det(A) A^-1, the adjugate exists for singular matrices too.
adjugate_p = batches(Primitive("adjugate", _adjugate))


def _adjugate_jvp(t: Any, x: Any, y: Any) -> Any:
    """d adj(A) = (tr(adj dA) I - adj dA) A^-1."""
    inverse = inv_p(x)
    moved = product(y, t)
    return as_cell(_trace(moved)) * inverse - product(moved, inverse)


def _adjugate_vjp(t: Any, x: Any, y: Any) -> Any:
    inverse = inv_p(x)
    back = product(t, inverse, adjoint_b=True)
    total = as_cell(_trace(product(inverse, t, adjoint_a=True)))
    return product(y, total * identity_like(back) - back, adjoint_a=True)


adjugate_p.vjps(_adjugate_vjp)
adjugate_p.jvps(_adjugate_jvp)
det_p.vjps(lambda t, x: as_cell(t) * adjoint_of(adjugate_p(x)))
det_p.jvps(lambda t, x: _trace(product(adjugate_p(x), t)))


def det(input: Any, name: str | None = None) -> Any:  # TensorFlow's name
    """Return the determinant of each matrix.

    >>> float(det([[2.0, 0.0], [0.0, 3.0]]))
    6.0
    """
    return det_p(as_matrices(input, "det"))


slogdet_p = batches(Primitive("slogdet", lambda xp, x: tuple(xp.linalg.slogdet(x)), many=True))


@slogdet_p.vjp
def _slogdet_vjp(t: Any, y1: Any, x: Any) -> tuple[Any]:
    """d log|det| = Re tr(A^-1 dA); the phase of a complex sign changes by the imaginary part."""
    back = adjoint_of(inv_p(x))
    if not is_complex(x):
        return (as_cell(t[1]) * back,)
    phase_cotangent = -imag(conj(t[0]) * y1)
    return (as_cell(join_parts(t[1], phase_cotangent)) * back,)


@slogdet_p.jvp
def _slogdet_jvp(ts: Any, y1: Any, x: Any) -> tuple[Any, Any]:
    moved = _trace(product(inv_p(x), ts[0]))
    if not is_complex(x):
        return y1 * 0.0, moved
    length = cast_p(moved, dtype=dtype_of(moved).real_dtype.dtype)
    return y1 * (moved - length), length


def slogdet(input: Any, name: str | None = None) -> tuple[Any, Any]:
    """Return the sign or phase of the determinant and the logarithm of its absolute value.

    >>> sign, log = slogdet([[2.0, 0.0], [0.0, -0.5]])
    >>> float(sign), float(log)
    (-1.0, 0.0)
    """
    return slogdet_p(as_matrices(input, "slogdet"))  # type: ignore[no-any-return]


def logdet(matrix: Any, name: str | None = None) -> Any:
    """Return log|det| of each matrix, without overflow.

    >>> float(logdet([[1.0, 0.0], [0.0, 1.0]]))
    0.0
    """
    return slogdet(matrix)[1]
