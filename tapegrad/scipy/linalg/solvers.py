"""Linear solvers: general, triangular, factorized, least squares, banded, Toeplitz."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.core.argument_checks import check_choice
from tapegrad.core.primitive.operand import as_operand
from tapegrad.core.values.convert import read_on_host
from tapegrad.core.values.tensor import Tensor
from tapegrad.errors import ShapeError
from tapegrad.ops.fourier.transforms import fft, ifft
from tapegrad.ops.indexing.along_axis import take_along_axis
from tapegrad.ops.indexing.sorting import argsort
from tapegrad.ops.linalg import decompositions, eigen, solve as solving, sylvester
from tapegrad.ops.linalg.common import adjoint_of, as_matrices, identity_like
from tapegrad.ops.linalg.determinants import det as determinant
from tapegrad.ops.linalg.pivots import row_swaps_p, swapped_rows_p
from tapegrad.ops.products.functions import kron
from tapegrad.ops.reduction.squares import sum_of_squares
from tapegrad.ops.shape.diagonal import band_part, set_diag, tril
from tapegrad.scipy.linalg.decompositions import mirrored
from tapegrad.scipy.linalg.ignored_options import ignoring
from tapegrad.scipy.linalg.matrices import toeplitz
from tapegrad.scipy.vocabulary import (
    broadcast_p,
    cast,
    concat,
    conjugate,
    eps_of,
    expand_dims,
    is_complex,
    largest,
    matrix_diag,
    matrix_diag_part,
    matrix_transpose,
    moveaxis,
    operand,
    operands,
    real,
    reshape_p,
    stop_gradient,
    sum_over,
    where,
)

_FORMS = (
    *(None, "gen", "general", "sym", "symmetric", "her", "hermitian", "pos", "positive definite"),
    *("diagonal", "tridiagonal", "banded", "upper triangular", "lower triangular"),
)
_TRANSPOSES = {0: 0, 1: 1, 2: 2, "N": 0, "T": 1, "C": 2}


@ignoring("overwrite_a", "overwrite_b", "check_finite")
def solve(
    a: Any, b: Any, lower: bool = False, *, assume_a: str | None = None, transposed: bool = False
) -> Any:
    """Solve a @ x = b; `assume_a='pos'` uses a Cholesky factorization.

    Only the entries that the assumed structure needs are read: one triangle (upper unless `lower`)
    of symmetric, Hermitian, positive definite and triangular matrices, or one or three diagonals.

    >>> solve([[2.0, 0.0], [0.0, 4.0]], [2.0, 2.0]).tolist()
    [1.0, 0.5]
    """
    check_choice("assume_a", assume_a, _FORMS)
    a, b = operands(a, b)
    if a.ndim < 2:
        a = reshape_p(a, shape=(1, a.size))
    if tuple(a.shape) == (1, 1) and b.shape[-2:-1] != (1,):
        return b / (a[0, 0] if b.ndim else a[0])  # SciPy divides by a number
    if b.ndim == 1 and a.ndim > 2:
        columns = expand_dims(b, -1)
        return solve(a, columns, lower, assume_a=assume_a, transposed=transposed)[..., 0]
    if b.ndim > 1 and a.shape[:-2] != b.shape[:-2]:
        lead = np.broadcast_shapes(tuple(a.shape[:-2]), tuple(b.shape[:-2]))
        a, b = (broadcast_p(x, shape=(*lead, *x.shape[-2:])) for x in (a, b))
    if assume_a in ("her", "hermitian", "pos", "positive definite"):
        a = mirrored(a if lower else adjoint_of(a))
    elif assume_a in ("sym", "symmetric"):
        half = a if lower else matrix_transpose(a)
        a = tril(half) + matrix_transpose(tril(half, -1))
    elif assume_a in ("diagonal", "tridiagonal"):
        width = 0 if assume_a == "diagonal" else 1
        a = band_part(a, width, width)
    if assume_a in ("pos", "positive definite"):
        # The matrix is Hermitian, so its transpose is its conjugate.
        a = conjugate(a) if transposed else a
        return cho_solve((decompositions.cholesky(a), True), b)
    if assume_a in ("upper triangular", "lower triangular"):
        is_lower = assume_a == "lower triangular"
        return solve_triangular(a, b, trans=1 if transposed else 0, lower=is_lower)
    return solving.solve(matrix_transpose(a) if transposed else a, b)


@ignoring("overwrite_b", "check_finite")
def solve_triangular(
    a: Any, b: Any, trans: Any = 0, lower: bool = False, unit_diagonal: bool = False
) -> Any:
    """Solve a @ x = b for a triangular matrix; the other triangle is not read.

    `trans` 1 or 'T' uses the transpose of a, 2 or 'C' its conjugate transpose.

    >>> solve_triangular([[2.0, 1.0], [9.0, 4.0]], [4.0, 4.0]).tolist()
    [1.5, 1.0]
    """
    a, b = operands(a, b)
    check_choice("trans", trans, _TRANSPOSES)
    kind = _TRANSPOSES[trans]
    if unit_diagonal:
        ones = 0.0 * matrix_diag_part(a) + 1
        a = set_diag(a, ones)
    a = conjugate(a) if kind == 1 and is_complex(a) else a
    return solving.triangular_solve(a, b, lower=lower, adjoint=kind != 0)


@ignoring("overwrite_a", "check_finite")
def inv(a: Any, *, assume_a: str | None = None, lower: bool = False) -> Any:
    """Return the inverse of a matrix; `assume_a` and `lower` are those of `solve`.

    >>> inv([[2.0, 0.0], [0.0, 4.0]]).tolist()
    [[0.5, 0.0], [0.0, 0.25]]
    """
    check_choice("assume_a", assume_a, _FORMS)
    a = operand(a)
    if assume_a in (None, "gen", "general"):
        return solving.inv(a)
    a = as_matrices(a, "inv")
    return solve(a, identity_like(a), lower, assume_a=assume_a)


@ignoring("check_finite")
def pinv(
    a: Any, *, atol: float | None = None, rtol: float | None = None, return_rank: bool = False
) -> Any:
    """Return the pseudoinverse; singular values up to atol + rtol * max(s) count as 0.

    With `return_rank` the result is a pair: the pseudoinverse and the number of the other values.

    >>> pinv([[2.0], [0.0]]).tolist()
    [[0.5, 0.0]]
    """
    a = operand(a)
    if rtol is None and not atol:
        rtol = max(a.shape[-2:], default=0) * eps_of(a)
    share = rtol or 0.0
    if not atol and not return_rank:
        return solving.pinv(a, share)
    values = stop_gradient(eigen.svdvals(a))
    if atol:
        largest = read_on_host(values, "pinv with atol").max(initial=0.0, axis=-1)
        if largest.ndim:
            raise ShapeError(f"pinv with atol needs a single matrix. Got shape {a.shape}.")
        share += float(atol) / float(largest) if largest > 0.0 else 0.0
    inverse = solving.pinv(a, share)
    rank = sum_over(cast(values > share * values[..., :1], "int32"), -1)
    return (inverse, rank) if return_rank else inverse


@ignoring("check_finite")
def pinvh(
    a: Any,
    atol: float | None = None,
    rtol: float | None = None,
    lower: bool = True,
    return_rank: bool = False,
) -> Any:
    """Return the pseudoinverse of a Hermitian matrix; only one triangle is read.

    The other arguments are those of `pinv`.

    >>> pinvh([[2.0, 0.0], [0.0, 0.0]]).tolist()
    [[0.5, 0.0], [0.0, 0.0]]
    """
    a = operand(a)
    whole = mirrored(a if lower else adjoint_of(a))
    return pinv(whole, atol=atol, rtol=rtol, return_rank=return_rank)


@ignoring("overwrite_a", "overwrite_b", "check_finite", "lapack_driver")
def lstsq(a: Any, b: Any, cond: float | None = None) -> tuple[Any, Any, Any, Any]:
    """Return the least-squares solution, the squared residuals, the rank and the singular values.

    Singular values below cond times the largest count as 0. The residuals are empty unless there
    are more rows than columns. Unlike SciPy's they are also returned for rank-deficient matrices.

    >>> lstsq([[1.0], [1.0]], [1.0, 3.0])[0].round(6).tolist()
    [2.0]
    """
    a, b = operands(a, b)
    m, n = a.shape[-2:]
    cond = eps_of(a) if cond is None else cond
    x = solving.pinv(a, cond) @ b
    values = eigen.svdvals(a)
    largest = values[..., :1]
    rank = sum_over(cast(values > cond * largest, "int32"), -1)
    if m > n:
        return x, sum_of_squares(a @ x - b, 0), rank, values
    return x, values[:0], rank, values


@ignoring("overwrite_a", "check_finite")
def det(a: Any) -> Any:
    """Return the determinant of a matrix.

    >>> round(float(det([[2.0, 0.0], [0.0, 4.0]])), 9)
    8.0
    """
    return determinant(operand(a))


# Factorizations and solvers that use them


@ignoring("overwrite_a", "check_finite")
def cholesky(a: Any, lower: bool = False) -> Any:
    """Return the Cholesky factor, upper triangular unless `lower`.

    >>> cholesky([[4.0]]).tolist()
    [[2.0]]
    """
    factor = decompositions.cholesky(operand(a))
    return factor if lower else adjoint_of(factor)


@ignoring("overwrite_a", "check_finite")
def cho_factor(a: Any, lower: bool = False) -> tuple[Any, bool]:
    """Return the Cholesky factor and whether it is the lower one, for `cho_solve`.

    >>> cho_factor([[4.0]])[0].tolist()
    [[2.0]]
    """
    return cholesky(a, lower), lower


@ignoring("overwrite_b", "check_finite")
def cho_solve(c_and_lower: tuple[Any, bool], b: Any) -> Any:
    """Solve a @ x = b, given the result of `cho_factor(a)`.

    >>> cho_solve(cho_factor([[4.0]]), [8.0]).tolist()
    [2.0]
    """
    factor, lower = c_and_lower
    factor, b = operands(factor, b)
    if b.ndim == 1 and factor.ndim > 2:
        return cho_solve((factor, lower), expand_dims(b, -1))[..., 0]
    first = solving.triangular_solve(factor, b, lower=lower, adjoint=not lower)
    return solving.triangular_solve(factor, first, lower=lower, adjoint=lower)


@ignoring("overwrite_a", "check_finite")
def lu_factor(a: Any) -> tuple[Any, Any]:
    """Return L and U packed in one matrix and the swaps of its rows, for `lu_solve`.

    Row k was swapped with row piv[k], one after the other.

    >>> packed, piv = lu_factor([[1.0, 2.0], [4.0, 4.0]])
    >>> piv.tolist()
    [1, 1]
    """
    packed, rows = decompositions.lu(operand(a))
    return packed, row_swaps_p(rows, count=min(packed.shape[-2:]))


@ignoring("overwrite_b", "check_finite")
def lu_solve(lu_and_piv: tuple[Any, Any], b: Any, trans: int = 0) -> Any:
    """Solve a @ x = b, given the result of `lu_factor(a)`.

    `trans` 1 uses the transpose of a, 2 its conjugate transpose.

    >>> lu_solve(lu_factor([[0.0, 2.0], [4.0, 4.0]]), [2.0, 8.0]).tolist()
    [1.0, 1.0]
    """
    packed, swaps = lu_and_piv
    packed, b = operands(packed, b)
    check_choice("trans", trans, (0, 1, 2))
    if b.ndim == 1:
        return lu_solve((packed, swaps), expand_dims(b, -1), trans)[..., 0]
    order = swapped_rows_p(cast(as_operand(swaps), "int32"), length=packed.shape[-2])
    lead = np.broadcast_shapes(tuple(packed.shape[:-2]), tuple(b.shape[:-2]))
    packed, b = (broadcast_p(x, shape=(*lead, *x.shape[-2:])) for x in (packed, b))
    places = expand_dims(order if trans == 0 else argsort(order), -1)
    places = broadcast_p(places, shape=tuple(b.shape))
    if trans == 0:
        ordered = take_along_axis(b, places, -2)
        y = solve_triangular(packed, ordered, lower=True, unit_diagonal=True)
        return solve_triangular(packed, y)
    y = solve_triangular(packed, b, trans=trans)
    y = solve_triangular(packed, y, trans=trans, lower=True, unit_diagonal=True)
    return take_along_axis(y, places, -2)


# Structured matrices


@ignoring("overwrite_ab", "overwrite_b", "check_finite")
def solve_banded(l_and_u: tuple[int, int], ab: Any, b: Any) -> Any:
    """Solve a @ x = b for a banded matrix with `ab[u + i - j, j] = a[i, j]`.

    The bands are expanded to a dense matrix.

    >>> solve_banded((0, 0), [[2.0, 4.0]], [2.0, 2.0]).tolist()
    [1.0, 0.5]
    """
    below, above = (int(n) for n in l_and_u)
    ab, b = operands(ab, b)
    if ab.ndim != 2 or ab.shape[0] != below + above + 1:
        raise ShapeError(
            f"solve_banded needs {below} + 1 + {above} diagonals as rows. Got shape {ab.shape}."
        )
    size = ab.shape[1]
    if size and max(below, above) >= size:  # diagonals beyond the corners have no entries
        ab = ab[max(above - size + 1, 0) : above + min(below, size - 1) + 1]
        below, above = min(below, size - 1), min(above, size - 1)
    bands = ab if below or above else reshape_p(ab, shape=(size,))
    full = matrix_diag(bands, k=(-below, above), num_rows=size, num_cols=size)
    return solving.solve(full, b)


@ignoring("check_finite")
def solve_toeplitz(c_or_cr: Any, b: Any) -> Any:
    """Solve a @ x = b for a Toeplitz matrix given by its first column or by (column, row).

    >>> solve_toeplitz([2.0, 0.0], [2.0, 4.0]).tolist()
    [1.0, 2.0]
    """
    column, row = c_or_cr if isinstance(c_or_cr, tuple) else (c_or_cr, None)
    return solve(toeplitz(column, row), b)


def matmul_toeplitz(
    c_or_cr: Any, x: Any, check_finite: bool = False, workers: int | None = None
) -> Any:
    """Return a @ x by FFT for a Toeplitz matrix given by its first column or by (column, row).

    `check_finite` and `workers` are ignored.

    >>> matmul_toeplitz([2.0, 0.0], [2.0, 4.0]).round(6).tolist()
    [4.0, 8.0]
    """
    column, row = c_or_cr if isinstance(c_or_cr, tuple) else (c_or_cr, None)
    column = operand(column)
    column, row, x = operands(column, conjugate(column) if row is None else row, x)
    m, n = column.shape[0], row.shape[0]
    # The first column of a circulant matrix that has this one as its upper left block.
    tail = row[n - 1 : 0 : -1]
    bins = fft(concat([column, tail], 0))
    bins = bins if x.ndim == 1 else expand_dims(bins, -1)
    y = ifft(bins * fft(x, m + n - 1, axis=0), axis=0)
    y = y[:m]
    return y if is_complex(column) else real(y)


def solve_circulant(
    c: Any,
    b: Any,
    singular: str = "raise",
    tol: float | None = None,
    caxis: int = -1,
    baxis: int = 0,
    outaxis: int = 0,
) -> Any:
    """Solve a @ x = b by FFT for circulant matrices given by their first columns.

    `caxis`, `baxis` and `outaxis` are the axes of the columns, right-hand sides and solutions; the
    other axes broadcast. With singular='lstsq' a singular matrix gives the solution of least
    squares: transformed entries of `c` up to `tol` count as 0. Otherwise a singular matrix raises
    on the CPU.

    >>> solve_circulant([2.0, 0.0], [2.0, 4.0]).tolist()
    [1.0, 2.0]
    """
    check_choice("singular", singular, ("raise", "lstsq"))
    c, b = operands(c, b)
    if not c.ndim or not b.ndim or c.shape[caxis] != b.shape[baxis]:
        raise ShapeError(
            f"solve_circulant needs c and b of one length. Got shapes {c.shape} and {b.shape}."
        )
    if not c.shape[caxis]:
        return 0.0 * b
    bins, right = fft(moveaxis(c, caxis, -1)), fft(moveaxis(b, baxis, -1))
    sizes = stop_gradient(abs(bins))
    limit = sizes.shape[-1] * eps_of(c) * largest(sizes, -1, keepdims=True) if tol is None else tol
    is_zero = sizes <= limit
    found = is_zero.array if isinstance(is_zero, Tensor) else None
    if singular == "raise" and isinstance(found, np.ndarray) and found.any():
        raise np.linalg.LinAlgError("The circulant matrix is singular; singular='lstsq' solves it.")
    if singular == "lstsq":
        right = where(is_zero, 0.0 * right, right)
        bins = where(is_zero, 1.0 + 0.0 * bins, bins)
    x = ifft(right / bins)
    return moveaxis(x if is_complex(c) or is_complex(b) else real(x), -1, outaxis)


def solve_sylvester(a: Any, b: Any, q: Any) -> Any:
    """Solve the Sylvester equation a @ x + x @ b = q.

    >>> solve_sylvester([[1.0]], [[3.0]], [[8.0]]).tolist()
    [[2.0]]
    """
    return sylvester.solve_sylvester(*operands(a, b, q))


def solve_continuous_lyapunov(a: Any, q: Any) -> Any:
    """Solve the continuous Lyapunov equation a @ x + x @ a^H = q.

    >>> solve_continuous_lyapunov([[2.0]], [[8.0]]).tolist()
    [[2.0]]
    """
    a, q = operands(a, q)
    return sylvester.solve_sylvester(a, adjoint_of(a), q)


def solve_lyapunov(a: Any, q: Any) -> Any:
    """Solve a @ x + x @ a^H = q; an alias of `solve_continuous_lyapunov`.

    >>> solve_lyapunov([[2.0]], [[8.0]]).tolist()
    [[2.0]]
    """
    return solve_continuous_lyapunov(a, q)


def solve_discrete_lyapunov(a: Any, q: Any, method: str | None = None) -> Any:
    """Solve the discrete Lyapunov equation a @ x @ a^H - x + q = 0 as one linear system.

    `method` is ignored.

    >>> solve_discrete_lyapunov([[0.5]], [[3.0]]).tolist()
    [[4.0]]
    """
    check_choice("method", method, (None, "direct", "bilinear"))
    a, q = operands(a, q)
    size = a.shape[0]
    whole = kron(a, conjugate(a))
    x = solving.solve(identity_like(whole) - whole, reshape_p(q, shape=(size * size,)))
    return reshape_p(x, shape=(size, size))
