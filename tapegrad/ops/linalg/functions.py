"""Functions of matrices: powers, exponential, square root and logarithm.

The last three are differentiated by a property of all analytic functions: f applied to the block
matrix [[A, E], [0, A]] has the derivative of f at A along E in its upper right corner (Mathias
1996). Orders nest.

How often to square or take roots depends on the values. The kernels here do not read them and
take fixed numbers of steps, enough for all; a backend on the host can stop earlier with its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.core.families import nondifferentiable
from tapegrad.core.primitive import Primitive
from tapegrad.errors import ArgumentError
from tapegrad.ops.joining import concat
from tapegrad.ops.linalg.common import adjoint_of, as_matrices, batches, identity_like, product
from tapegrad.ops.linalg.solve import inv_p
from tapegrad.ops.linalg.triangular_functions import (
    by_schur,
    logarithm as triangular_logarithm,
    root as triangular_root,
)
from tapegrad.ops.slicing import slice_p


def _analytic(name: str, forward: Any) -> Primitive:
    """Declare a function of square matrices whose derivative is read off a block matrix."""
    primitive = batches(Primitive(name, forward))

    def along(x: Any, direction: Any) -> Any:
        n = x.shape[-1]
        above = concat([x, direction], -1)
        below = concat([direction * 0.0, x], -1)
        corner = (*[slice(None)] * (len(x.shape) - 2), slice(0, n), slice(n, 2 * n))
        return slice_p(primitive(concat([above, below], -2)), index=corner)

    # tr(G L(A, E)) = tr(L(A, G) E): f is never asked at A^H, which may lie on another branch.
    primitive.vjps(lambda t, x: adjoint_of(along(x, adjoint_of(t))))
    primitive.jvps(lambda t, x: along(x, t))
    return primitive


def _identity(xp: Any, x: Any) -> Any:
    return xp.eye(x.shape[-1], dtype=x.dtype, device=x.device)


def _norms(xp: Any, x: Any) -> Any:
    """The 1-norm of each matrix, as 1 × 1 matrices."""
    if x.shape[-1] == 0:
        return xp.zeros((*x.shape[:-2], 1, 1), dtype=xp.abs(x).dtype, device=x.device)
    return xp.max(xp.sum(xp.abs(x), axis=-2, keepdims=True), axis=-1, keepdims=True)


_PADE = (
    64764752532480000, 32382376266240000, 7771770303897600, 1187353796428800, 129060195264000,
    10559470521600, 670442572800, 33522128640, 1323241920, 40840800, 960960, 16380, 182, 1,
)  # fmt: skip


_MOST_SQUARINGS = 32
_MOST_STEPS = 30
_MOST_ROOTS = 8


def _expm(xp: Any, x: Any) -> Any:
    """Scaling and squaring with the Padé approximant of degree 13 (Higham 2005)."""
    steps = xp.ceil(xp.log2(xp.clip(_norms(xp, x) / 5.37, 1.0, 2.0**_MOST_SQUARINGS)))
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
    for step in range(_MOST_SQUARINGS):
        result = xp.where(steps > step, xp.matmul(result, result), result)
    return result


def _sqrtm(xp: Any, x: Any) -> Any:
    """The product form of the Denman-Beavers iteration (Cheng, Higham, Kenney and Laub 2001).

    Where an eigenvalue of a real matrix is negative or 0, `rest` has one that stays so, and never
    comes near the identity: then the root is not real, and NaN is given. Only rounding can make
    it positive, when it is next to 0, where no other comes after the first step. Complex matrices
    may have such eigenvalues.
    """
    if xp.isdtype(x.dtype, "complex floating"):
        return by_schur(xp, x, triangular_root)
    one = _identity(xp, x)
    root, rest = x, x
    is_real = _norms(xp, x) >= 0
    for step in range(_MOST_STEPS):
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
    """Square roots until close to the identity, then the Padé approximant of log(1 + z).

    The approximant is Gauss quadrature of z / (1 + s z) over s from 0 to 1 (Higham 2001).
    """
    if xp.isdtype(x.dtype, "complex floating"):
        return by_schur(xp, x, triangular_logarithm)
    one = _identity(xp, x)
    for _ in range(_MOST_ROOTS):
        x = _sqrtm(xp, x)
    small = x - one
    total = small * 0.0
    for node, weight in zip(_NODES, _WEIGHTS):
        total = total + xp.linalg.solve(one + small * ((node + 1) / 2), small) * (weight / 2)
    return total * 2.0**_MOST_ROOTS


expm_p = _analytic("expm", _expm)
sqrtm_p = _analytic("sqrtm", _sqrtm)
logm_p = _analytic("logm", _logm)


def expm(input: Any, name: str | None = None) -> Any:  # TensorFlow's name
    """Return the matrix exponential.

    >>> expm([[0.0, 1.0], [0.0, 0.0]]).tolist()
    [[1.0, 1.0], [0.0, 1.0]]
    """
    return expm_p(as_matrices(input, "expm"))


def sqrtm(input: Any, name: str | None = None) -> Any:  # TensorFlow's name
    """Return the principal square root, of the dtype of the input.

    That of a real matrix with an eigenvalue that is negative or 0 is not real: on the CPU this
    raises, on a device it gives NaN. Cast such a matrix to a complex dtype.

    >>> sqrtm([[4.0, 0.0], [0.0, 4.0]]).round(5).tolist()
    [[2.0, 0.0], [0.0, 2.0]]
    """
    return sqrtm_p(as_matrices(input, "sqrtm"))


def logm(input: Any, name: str | None = None) -> Any:  # TensorFlow's name
    """Return the principal logarithm, of the dtype of the input.

    For a real matrix whose logarithm is not real, see `sqrtm`.

    >>> logm([[1.0, 1.0], [0.0, 1.0]]).round(5).tolist()
    [[0.0, 1.0], [0.0, 0.0]]
    """
    return logm_p(as_matrices(input, "logm"))


def matrix_power(matrix: Any, n: int) -> Any:
    """Return the matrix times itself n times; negative n takes the inverse first.

    >>> matrix_power([[2.0, 0.0], [0.0, 3.0]], 3).tolist()
    [[8.0, 0.0], [0.0, 27.0]]
    """
    x = as_matrices(matrix, "matrix_power")
    if int(n) != n:
        raise ArgumentError(f"matrix_power needs a whole number. Got {n!r}.")
    if n < 0:
        x, n = inv_p(x), -n
    if n == 0:
        return x * 0.0 + identity_like(x)
    result = None
    while n:
        if n & 1:
            result = x if result is None else product(result, x)
        n >>= 1
        if n:
            x = product(x, x)
    return result


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


def matrix_rank(
    a: Any, tol: float | None = None, validate_args: bool = False, name: str | None = None
) -> Any:
    """Return how many singular values exceed `tol`; it has no derivative.

    >>> int(matrix_rank([[1.0, 2.0], [2.0, 4.0]]))
    1
    """
    return matrix_rank_p(as_matrices(a, "matrix_rank", square=False), tol=tol)
