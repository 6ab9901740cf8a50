"""Matrix decompositions and matrix functions with SciPy's signatures."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from tapegrad.autodiff.transforms import jvp
from tapegrad.core.argument_checks import check_choice
from tapegrad.core.values.convert import read_on_host
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.ops.indexing.along_axis import take_along_axis
from tapegrad.ops.indexing.sorting import argsort
from tapegrad.ops.linalg import decompositions, eigen, functions, norms, schur as rotations, solve
from tapegrad.ops.linalg.common import adjoint_of, identity_like
from tapegrad.ops.linalg.pivots import column_order_p
from tapegrad.ops.shape.diagonal import tril, triu
from tapegrad.scipy.linalg.ignored_options import ignoring
from tapegrad.scipy.vocabulary import (
    broadcast_p,
    cast,
    expand_dims,
    gather,
    largest,
    operand,
    operands,
    stack,
    stop_gradient,
    where,
)


@ignoring("overwrite_a", "check_finite")
def lu(a: Any, permute_l: bool = False, *, p_indices: bool = False) -> Any:
    """Return p, l, u with a = p @ l @ u, or (p @ l, u) with `permute_l`.

    With `p_indices`, p is a vector with a = l[p] @ u.

    >>> p, l, u = lu([[1.0, 2.0], [4.0, 4.0]])
    >>> p.tolist(), u.tolist()
    ([[0.0, 1.0], [1.0, 0.0]], [[4.0, 4.0], [0.0, 1.0]])
    """
    packed, rows = decompositions.lu(operand(a))
    m, n = packed.shape[-2:]
    k = min(m, n)
    left = packed[..., :k]
    ones = identity_like(left, m)[:, :k]
    lower = tril(left, -1) + ones
    upper = triu(packed[..., :k, :])
    order = argsort(rows)
    if p_indices and not permute_l:
        return order, lower, upper
    unit = gather(identity_like(packed, m), order)
    if permute_l:
        return unit @ lower, upper
    return unit, lower, upper


@ignoring("overwrite_a", "lwork", "check_finite")
def qr(a: Any, *, mode: str = "full", pivoting: bool = False) -> Any:
    """Return q and r with q @ r = a.

    The mode is 'full', 'economic', or 'r', which returns r alone in a tuple. With `pivoting` the
    last result is the order p of columns with q @ r = a[:, p], in which the absolute values on the
    diagonal of r fall.

    >>> q, r = qr([[3.0], [4.0]], mode="economic")
    >>> q.shape, r.shape
    ((2, 1), (1, 1))
    """
    check_choice("The mode of qr", mode, ("full", "economic", "r"))
    a = operand(a)
    last: tuple[Any, ...] = ()
    if pivoting:
        order = column_order_p(a)
        last = (order,)
        places = broadcast_p(expand_dims(order, -2), shape=tuple(a.shape))
        a = take_along_axis(a, places, -1)
    q, r = decompositions.qr(a, full_matrices=mode != "economic")
    return (r, *last) if mode == "r" else (q, r, *last)


@ignoring("overwrite_a", "check_finite", "lapack_driver")
def svd(a: Any, full_matrices: bool = True, compute_uv: bool = True) -> Any:
    """Return u, s, vh with a = (u * s) @ vh.

    With `full_matrices` the result is differentiable only for square matrices.

    >>> svd([[3.0, 0.0], [0.0, 4.0]], compute_uv=False).tolist()
    [4.0, 3.0]
    """
    return eigen.svd(operand(a), full_matrices, compute_uv)


@ignoring("overwrite_a", "check_finite")
def svdvals(a: Any) -> Any:
    """Return the singular values, largest first.

    >>> svdvals([[3.0, 0.0], [0.0, 4.0]]).tolist()
    [4.0, 3.0]
    """
    return eigen.svdvals(operand(a))


@ignoring("overwrite_a", "overwrite_b", "check_finite")
def eig(
    a: Any,
    b: Any = None,
    left: bool = False,
    right: bool = True,
    *,
    homogeneous_eigvals: bool = False,
) -> Any:
    """Return the complex eigenvalues and the eigenvectors as columns.

    With an invertible `b` they solve a @ v = w * b @ v. `left` adds the vectors u with
    u^H @ a = w * u^H @ b before the right ones, `right=False` leaves these out. With
    `homogeneous_eigvals` the values are the quotients of two rows.

    >>> values, vectors = eig([[2.0, 0.0], [0.0, 3.0]])
    >>> sorted(values.numpy().real.tolist())
    [2.0, 3.0]
    """
    a, b = _pencil(a, b)
    if not left and not right:
        return _quotients(eigen.eigvals(_reduced(a, b)), homogeneous_eigvals)
    values, vectors = eigen.eig(_reduced(a, b))
    parts = [_quotients(values, homogeneous_eigvals)]
    if left:
        moved = vectors if b is None else cast(b, vectors.dtype) @ vectors
        parts.append(_of_length_one(adjoint_of(solve.inv(moved))))
    if right:
        parts.append(vectors)
    return tuple(parts)


def _pencil(a: Any, b: Any) -> tuple[Any, Any]:
    if b is None:
        return operand(a), None
    a, b = operands(a, b)
    if tuple(a.shape[-2:]) != tuple(b.shape[-2:]):
        raise ShapeError(f"eig needs matrices of one size. Got shapes {a.shape} and {b.shape}.")
    return a, b


def _reduced(a: Any, b: Any) -> Any:
    """Return the matrix with the eigenvalues of the pencil."""
    return a if b is None else solve.solve(b, a)


def _quotients(values: Any, are_wanted: bool) -> Any:
    return stack([values, 0.0 * values + 1.0], -2) if are_wanted else values


def _of_length_one(vectors: Any) -> Any:
    return vectors / norms.vector_norm(vectors, axis=-2, keepdims=True)


@ignoring("overwrite_a", "overwrite_b", "check_finite")
def eigvals(a: Any, b: Any = None, *, homogeneous_eigvals: bool = False) -> Any:
    """Return the complex eigenvalues, with `b` those of a @ v = w * b @ v; see `eig`.

    >>> sorted(eigvals([[2.0, 0.0], [0.0, 3.0]]).numpy().real.tolist())
    [2.0, 3.0]
    """
    return eig(a, b, right=False, homogeneous_eigvals=homogeneous_eigvals)


@ignoring("overwrite_a", "overwrite_b", "check_finite", "driver")
def eigh(
    a: Any,
    b: Any = None,
    *,
    lower: bool = True,
    eigvals_only: bool = False,
    type: int = 1,
    subset_by_index: tuple[int, int] | None = None,
    subset_by_value: tuple[float, float] | None = None,
) -> Any:
    """Return eigenvalues (smallest first) and eigenvectors of a symmetric or Hermitian matrix.

    With a positive definite `b` they solve a @ v = w * b @ v; with type=2 a @ b @ v = w * v, with
    type=3 b @ a @ v = w * v. `subset_by_index` holds the first and the last index to return,
    `subset_by_value` a range (low, high] of values, which is read on the host; all eigenvalues are
    computed.

    >>> eigh([[2.0, 0.0], [0.0, 3.0]], eigvals_only=True).tolist()
    [2.0, 3.0]
    """
    check_choice("type", type, (1, 2, 3))
    a = operand(a)
    a = a if lower else adjoint_of(a)
    chosen = _subset(a, subset_by_index)
    if subset_by_value is not None and chosen:
        raise ArgumentError("eigh takes subset_by_index or subset_by_value, not both.")
    if b is None:
        parts = [eigen.eigvalsh(a)] if eigvals_only else list(eigen.eigh(a))
        back = None
    else:
        whole, back = _whitened(a, b, lower, type)
        parts = [eigen.eigvalsh(whole)] if eigvals_only else list(eigen.eigh(whole))
    if subset_by_value is not None:
        chosen = _range_of(parts[0], subset_by_value)
    parts = _chosen(parts, chosen)
    if eigvals_only:
        return parts[0]
    return parts[0], parts[1] if back is None else back(parts[1])


def _whitened(a: Any, b: Any, lower: bool, type: int) -> tuple[Any, Callable[[Any], Any]]:
    """Return the Hermitian matrix of a problem with two matrices, and the way to its vectors."""
    a, b = operands(mirrored(a), b)
    factor = decompositions.cholesky(b if lower else adjoint_of(b))
    if type == 1:
        half = solve.triangular_solve(factor, a)
        whole = adjoint_of(solve.triangular_solve(factor, adjoint_of(half)))
    else:
        whole = adjoint_of(factor) @ a @ factor
    if type == 3:
        return whole, lambda vectors: factor @ vectors
    return whole, lambda vectors: solve.triangular_solve(factor, vectors, adjoint=True)


def _subset(a: Any, wanted: tuple[int, int] | None) -> Any:
    if wanted is None:
        return ()
    first, last = (int(place) for place in wanted)
    if not 0 <= first <= last < a.shape[-1]:
        raise ArgumentError(
            f"subset_by_index must be two indices 0 <= first <= last <= {a.shape[-1] - 1}. "
            f"Got {wanted!r}."
        )
    return (..., slice(first, last + 1))


def _range_of(values: Any, wanted: tuple[float, float]) -> Any:
    low, high = (float(value) for value in wanted)
    if not low < high:
        raise ArgumentError(f"subset_by_value must be two rising values. Got {wanted!r}.")
    found = read_on_host(values, "subset_by_value")
    if found.ndim != 1:
        raise ShapeError("subset_by_value needs a single matrix.")
    return (..., slice(int((found <= low).sum()), int((found <= high).sum())))


def _chosen(parts: Sequence[Any], index: Any) -> list[Any]:
    return [part[index] if index else part for part in parts]


def mirrored(a: Any) -> Any:
    """Return the Hermitian matrix with this lower triangle."""
    below = tril(a, -1)
    return tril(a) + adjoint_of(below)


@ignoring("overwrite_a", "overwrite_b", "check_finite", "driver")
def eigvalsh(
    a: Any,
    b: Any = None,
    *,
    lower: bool = True,
    type: int = 1,
    subset_by_index: tuple[int, int] | None = None,
    subset_by_value: tuple[float, float] | None = None,
) -> Any:
    """Return the eigenvalues of a symmetric or Hermitian matrix, smallest first; see `eigh`.

    >>> eigvalsh([[2.0, 0.0], [0.0, 3.0]]).tolist()
    [2.0, 3.0]
    """
    return eigh(
        a,
        b,
        lower=lower,
        eigvals_only=True,
        type=type,
        subset_by_index=subset_by_index,
        subset_by_value=subset_by_value,
    )


@ignoring("lwork", "overwrite_a", "check_finite")
def schur(a: Any, output: str = "real") -> tuple[Any, Any]:
    """Return t and z with a = z @ t @ z^H: z unitary, t upper triangular.

    With output 'real', a real matrix gives a real t with 2 × 2 blocks on the diagonal for complex
    eigenvalues. This form is not differentiable. The 'complex' form is differentiable if no two
    eigenvalues are equal, in functions that do not depend on the phases of the columns.

    >>> t, z = schur([[0.0, 2.0], [-2.0, 0.0]])
    >>> t.tolist()
    [[0.0, 2.0], [-2.0, 0.0]]
    """
    return rotations.schur(operand(a), output)


@ignoring("overwrite_a", "check_finite")
def hessenberg(a: Any, calc_q: bool = False) -> Any:
    """Return the Hessenberg form h of a matrix, and with `calc_q` also q with a = q @ h @ q^H.

    >>> h = hessenberg([[1.0, 2.0, 3.0], [3.0, 1.0, 1.0], [4.0, 1.0, 1.0]])
    >>> h.numpy()[:, 0].round(6).tolist()
    [1.0, -5.0, 0.0]
    """
    h, q = rotations.hessenberg(operand(a))
    return (h, q) if calc_q else h


def polar(a: Any, side: str = "right") -> tuple[Any, Any]:
    """Return the polar decomposition a = u @ p, or a = p @ u for side 'left'.

    u has orthonormal columns or rows, and p is positive semidefinite.

    >>> u, p = polar([[0.0, -2.0], [3.0, 0.0]])
    >>> p.round(6).tolist()
    [[3.0, 0.0], [0.0, 2.0]]
    """
    check_choice("side", side, ("left", "right"))
    left, values, right = eigen.svd(operand(a))
    u = left @ right
    if side == "right":
        return u, (adjoint_of(right) * expand_dims(values, -2)) @ right
    return u, (left * expand_dims(values, -2)) @ adjoint_of(left)


def expm(A: Any) -> Any:
    """Return the exponential of a matrix.

    >>> expm([[0.0, 0.0], [0.0, 0.0]]).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    return functions.expm(operand(A))


def expm_frechet(
    A: Any, E: Any, method: str | None = None, compute_expm: bool = True, check_finite: bool = True
) -> Any:
    """Return the exponential of A and its Fréchet derivative in the direction E.

    With `compute_expm=False` only the derivative is returned. `method` is ignored: the derivative
    is always computed in forward mode.

    >>> expm_frechet([[0.0]], [[2.0]], compute_expm=False).tolist()
    [[2.0]]
    """
    check_choice("method", method, (None, "SPS", "blockEnlarge"))
    A, E = operands(A, E)
    y, slope = jvp(functions.expm, [A], [E])
    return (y, slope) if compute_expm else slope


def logm(A: Any) -> Any:
    """Return the principal logarithm of a matrix; a real matrix gives a real result.

    A real matrix with a negative or zero eigenvalue has no real logarithm: the CPU raises and a GPU
    returns NaN. Cast the matrix to a complex dtype to get the complex logarithm.

    >>> logm([[1.0, 0.0], [0.0, 1.0]]).tolist()
    [[0.0, 0.0], [0.0, 0.0]]
    """
    return functions.logm(operand(A))


def sqrtm(A: Any) -> Any:
    """Return the principal square root of a matrix; a real matrix gives a real result.

    A real matrix with a negative eigenvalue has no real root; see `logm`.

    >>> sqrtm([[4.0, 0.0], [0.0, 9.0]]).round(6).tolist()
    [[2.0, 0.0], [0.0, 3.0]]
    """
    return functions.sqrtm(operand(A))


@ignoring("check_finite")
def norm(a: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    """Return a vector or matrix norm, with the arguments of `numpy.linalg.norm`.

    The Euclidean norm of a vector does not overflow where its squares do.

    >>> float(norm([3.0, 4.0]))
    5.0
    """
    a = operand(a)
    if a.ndim == 1 and a.shape[0] and ord in (None, 2):
        size = stop_gradient(largest(abs(a)))
        unit = where((size > 0) & (size < math.inf), size, 1.0)
        return norms.vector_norm(a / unit, axis=axis, keepdims=keepdims) * unit
    if ord is None:
        return norms.vector_norm(a, axis=axis, keepdims=keepdims)
    if axis is None and a.ndim > 2:
        raise ArgumentError("norm with ord needs a vector, a matrix, or the axis argument.")
    is_matrix = a.ndim == 2 if axis is None else isinstance(axis, tuple) and len(axis) == 2
    if is_matrix:
        return norms.matrix_norm(a, ord, (-2, -1) if axis is None else axis, keepdims)
    return norms.vector_norm(a, ord, axis, keepdims)
