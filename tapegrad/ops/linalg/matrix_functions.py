"""Primitives for functions of matrices: expm, sqrtm, logm and matrix_rank.

The first three are differentiated by a property of all analytic functions: f applied to the block
matrix [[A, E], [0, A]] has the derivative of f at A in the direction E in its upper right block
(Mathias 1996). The rule applies to every order.

How many squarings or roots are needed depends on the values. The kernels here do not read the
values and take a fixed, sufficient number of steps; the kernel of a backend on the host can stop
earlier.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.core.primitive.families import nondifferentiable
from tapegrad.core.primitive.primitive import Primitive
from tapegrad.ops.indexing.primitives import slice_p
from tapegrad.ops.linalg.common import adjoint_of, batches
from tapegrad.ops.linalg.triangular_functions import (
    by_schur,
    logarithm as triangular_logarithm,
    root as triangular_root,
)
from tapegrad.ops.shape.joining import concat


def _analytic(name: str, forward: Any) -> Primitive:
    """Declare an analytic function of square matrices, differentiated by a block matrix."""
    primitive = batches(Primitive(name, forward))

    def directional_derivative(x: Any, direction: Any) -> Any:
        n = x.shape[-1]
        above = concat([x, direction], -1)
        below = concat([direction * 0.0, x], -1)
        corner = (*[slice(None)] * (len(x.shape) - 2), slice(0, n), slice(n, 2 * n))
        return slice_p(primitive(concat([above, below], -2)), index=corner)

    # tr(G L(A, E)) = tr(L(A, G) E), so f is not evaluated at A^H, which may be on another branch.
    primitive.vjps(lambda t, x: adjoint_of(directional_derivative(x, adjoint_of(t))))
    primitive.jvps(lambda t, x: directional_derivative(x, t))
    return primitive


def _identity(xp: Any, x: Any) -> Any:
    return xp.eye(x.shape[-1], dtype=x.dtype, device=x.device)


def _norms(xp: Any, x: Any) -> Any:
    """Return the 1-norm of each matrix, as 1 × 1 matrices."""
    if x.shape[-1] == 0:
        return xp.zeros((*x.shape[:-2], 1, 1), dtype=xp.abs(x).dtype, device=x.device)
    return xp.max(xp.sum(xp.abs(x), axis=-2, keepdims=True), axis=-1, keepdims=True)


_PADE = (
    64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800, 129060195264000,
    10559470521600, 670442572800, 33522128640, 1323241920, 40840800, 960960, 16380, 182, 1,
)  # fmt: skip


_MAX_SQUARINGS = 32
_MAX_STEPS = 30
_MAX_ROOTS = 8


def _expm(xp: Any, x: Any) -> Any:
    """Scaling and squaring with the Padé approximant of degree 13 (Higham 2005)."""
    steps = xp.ceil(xp.log2(xp.clip(_norms(xp, x) / 5.37, 1.0, 2.0**_MAX_SQUARINGS)))
    x = x * xp.astype(xp.pow(xp.full_like(steps, 0.5), steps), x.dtype)
    b = [c / _PADE[0] for c in _PADE]
    one = _identity(xp, x)
    x2 = xp.matmul(x, x)
    x4 = xp.matmul(x2, x2)
    x6 = xp.matmul(x4, x2)
    odd = xp.matmul(x6, x6 * b[13] + x4 * b[11] + x2 * b[9])
    odd = xp.matmul(x, odd + x6 * b[7] + x4 * b[5] + x2 * b[3] + one * b[1])
    even = xp.matmul(x6, x6 * b[12] + x4 * b[10] + x2 * b[8])
    even = even + x6 * b[6] + x4 * b[4] + x2 * b[2] + one * b[0]
    result = xp.linalg.solve(even - odd, even + odd)
    for step in range(_MAX_SQUARINGS):
        result = xp.where(steps > step, xp.matmul(result, result), result)
    return result


def _sqrtm(xp: Any, x: Any) -> Any:
    """The product form of the Denman-Beavers iteration (Cheng, Higham, Kenney and Laub 2001).

    If a real matrix has a negative or zero eigenvalue, the root is not real and the result is NaN.
    In that case `rest` keeps such an eigenvalue and does not converge to the identity. Rounding
    can make it positive only if it is close to 0, and after the first step no other eigenvalue is
    close to 0; the norm of the inverse detects this case. Complex matrices may have negative
    eigenvalues.
    """
    if xp.isdtype(x.dtype, "complex floating"):
        return by_schur(xp, x, triangular_root)
    one = _identity(xp, x)
    root, rest = x, x
    is_real = _norms(xp, x) >= 0
    for step in range(_MAX_STEPS):
        inverse = xp.linalg.inv(rest)
        if step:
            is_real = is_real & (_norms(xp, inverse) < 0.1 / float(xp.finfo(x.dtype).eps))
        root = xp.matmul(root, one + inverse) * 0.5
        rest = (one + (rest + inverse) * 0.5) * 0.5
    is_real = is_real & (_norms(xp, rest - one) < 0.01)
    distance = _norms(xp, xp.matmul(root, root) - x)
    is_real = is_real & (distance <= _norms(xp, x) * float(xp.finfo(x.dtype).eps) ** 0.5)
    return xp.where(is_real, root, xp.full_like(root, float("nan")))


_NODES, _WEIGHTS = (v.tolist() for v in np.polynomial.legendre.leggauss(8))


def _logm(xp: Any, x: Any) -> Any:
    """Take square roots until close to the identity, then the Padé approximant of log(1 + z).

    The approximant is Gauss quadrature of z / (1 + s z) over s from 0 to 1 (Higham 2001).
    """
    if xp.isdtype(x.dtype, "complex floating"):
        return by_schur(xp, x, triangular_logarithm)
    one = _identity(xp, x)
    for _ in range(_MAX_ROOTS):
        x = _sqrtm(xp, x)
    small = x - one
    total = small * 0.0
    for node, weight in zip(_NODES, _WEIGHTS):
        total = total + xp.linalg.solve(one + small * ((node + 1) / 2), small) * (weight / 2)
    return total * 2.0**_MAX_ROOTS


expm_p = _analytic("expm", _expm)
sqrtm_p = _analytic("sqrtm", _sqrtm)
logm_p = _analytic("logm", _logm)


def _matrix_rank(xp: Any, x: Any, *, tol: float | None) -> Any:
    values = xp.linalg.svdvals(x)
    if values.shape[-1] == 0:
        return xp.zeros(values.shape[:-1], dtype=xp.int32, device=x.device)
    if tol is None:
        scale = max(x.shape[-2:]) * float(xp.finfo(values.dtype).eps)
        limit = xp.max(values, axis=-1, keepdims=True) * scale
    else:
        limit = xp.full(values.shape, tol, dtype=values.dtype, device=x.device)
    return xp.sum(xp.astype(values > limit, xp.int32), axis=-1, dtype=xp.int32)


matrix_rank_p = batches(nondifferentiable("matrix_rank", _matrix_rank))
