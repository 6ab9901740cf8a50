"""Functions of tridiagonal matrices: solve, product, eigenvalues."""

from __future__ import annotations

from typing import Any

from tapegrad.core.primitive.operand import as_operand, common_operands
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.ops.casting.cast import as_float
from tapegrad.ops.elementwise.comparison import logical_and
from tapegrad.ops.indexing.slices_and_masks import boolean_mask
from tapegrad.ops.linalg.common import adjoint_of, as_matrices
from tapegrad.ops.linalg.eigen import eigh, eigvalsh
from tapegrad.ops.linalg.tridiagonal_systems import (
    bands_product,
    join_bands,
    tridiagonal_solve_p,
)
from tapegrad.ops.products.primitives import conjugate, swap_last
from tapegrad.ops.shape.diagonal import matrix_diag, matrix_diag_part
from tapegrad.ops.shape.functions import broadcast_arrays
from tapegrad.ops.shape.padding import pad
from tapegrad.ops.shape.primitives import reshape_p

FORMATS = ("compact", "matrix", "sequence")


def bands_of(diagonals: Any, diagonals_format: str, name: str) -> Any:
    """Return tridiagonal matrices in any format as their bands, `[..., 3, n]`."""
    if diagonals_format not in FORMATS:
        raise ArgumentError(
            f"{name} takes the diagonals_format 'compact', 'matrix' or 'sequence'. "
            f"Got {diagonals_format!r}."
        )
    if diagonals_format == "sequence":
        return _bands_of_sequence(diagonals, name)
    x = as_operand(diagonals)
    if diagonals_format == "matrix":
        x = as_matrices(x, name)
        return matrix_diag_part(x, k=(-1, 1), align="LEFT_RIGHT") if x.shape[-1] > 1 else _one(x)
    if len(x.shape) < 2 or x.shape[-2] != 3:
        raise ShapeError(
            f"{name} needs compact diagonals of shape [..., 3, n]. Got shape {tuple(x.shape)}."
        )
    return as_float(x)


def _one(x: Any) -> Any:
    """Return the bands of 1 x 1 matrices."""
    return pad(x, [(0, 0)] * (len(x.shape) - 2) + [(1, 1), (0, 0)])


def _bands_of_sequence(diagonals: Any, name: str) -> Any:
    """The outer diagonals may have n entries, one of which is unused, or n - 1."""
    if not isinstance(diagonals, list | tuple) or len(diagonals) != 3:
        raise ArgumentError(
            f"{name} needs a list of three diagonals: above, on and below the main diagonal."
        )
    upper, main, lower = (as_float(x) for x in common_operands(*diagonals))
    size = main.shape[-1] if main.shape else -1
    shapes = [tuple(x.shape) for x in (upper, main, lower)]
    if size < 0 or any(not shape or shape[-1] not in (size, size - 1) for shape in shapes):
        raise ShapeError(
            f"{name} needs a diagonal with n entries, and two with n or n - 1. Got shapes "
            f"{', '.join(map(str, shapes))}."
        )
    if upper.shape[-1] < size:
        upper = pad(upper, [(0, 0)] * (len(upper.shape) - 1) + [(0, 1)])
    if lower.shape[-1] < size:
        lower = pad(lower, [(0, 0)] * (len(lower.shape) - 1) + [(1, 0)])
    return join_bands(*broadcast_arrays(upper, main, lower))


def _check_rows(bands: Any, rhs: Any, name: str) -> None:
    if len(rhs.shape) < 2 or rhs.shape[-2] != bands.shape[-1]:
        raise ShapeError(
            f"{name} needs a right-hand side with {bands.shape[-1]} rows. Got shape "
            f"{tuple(rhs.shape)}."
        )


def tridiagonal_solve(
    diagonals: Any,
    rhs: Any,
    diagonals_format: str = "compact",
    transpose_rhs: bool = False,
    conjugate_rhs: bool = False,
    name: str | None = None,
    partial_pivoting: bool = True,
    perturb_singular: bool = False,
) -> Any:
    """Solve A @ x = rhs for tridiagonal matrices A.

    The formats are 'compact', with the superdiagonal, the diagonal and the subdiagonal as rows of
    `[..., 3, n]`, 'sequence', with these three in a list, and 'matrix'. A right-hand side with one
    axis less than compact diagonals holds vectors. With `transpose_rhs`, right-hand sides are
    rows; solutions are always columns. Rows of A are always exchanged where that is more precise,
    and `partial_pivoting` has no effect. With `perturb_singular`, pivots that are almost 0 are
    replaced, so that solutions are finite.

    >>> tridiagonal_solve([[1.0, 0.0], [2.0, 2.0], [0.0, 0.0]], [4.0, 2.0]).tolist()
    [1.5, 1.0]
    """
    bands = bands_of(diagonals, diagonals_format, "tridiagonal_solve")
    bands, right = common_operands(bands, rhs)
    right = conjugate(right) if conjugate_rhs else right
    is_vector = len(right.shape) == len(bands.shape) - 1
    if is_vector:
        right = reshape_p(right, shape=(*right.shape, 1))
    elif transpose_rhs and len(right.shape) > 1:
        right = swap_last(right)
    _check_rows(bands, right, "tridiagonal_solve")
    x = tridiagonal_solve_p(bands, right, adjoint=False, perturb=bool(perturb_singular))
    return reshape_p(x, shape=tuple(x.shape[:-1])) if is_vector else x


def tridiagonal_matmul(
    diagonals: Any, rhs: Any, diagonals_format: str = "compact", name: str | None = None
) -> Any:
    """Return the products of tridiagonal matrices and matrices.

    `tridiagonal_solve` says what the formats are.

    >>> tridiagonal_matmul([[1.0, 0.0], [2.0, 2.0], [0.0, 0.0]], [[1.5], [1.0]]).tolist()
    [[4.0], [2.0]]
    """
    bands = bands_of(diagonals, diagonals_format, "tridiagonal_matmul")
    bands, right = common_operands(bands, rhs)
    _check_rows(bands, right, "tridiagonal_matmul")
    return bands_product(bands, right)


def eigh_tridiagonal(
    alpha: Any,
    beta: Any,
    eigvals_only: bool = True,
    select: str = "a",
    select_range: Any = None,
    tol: float | None = None,
    name: str | None = None,
) -> Any:
    """Return eigenvalues, smallest first, of Hermitian tridiagonal matrices.

    `alpha` is the diagonal and `beta` the subdiagonal. `select` is 'a' for all eigenvalues, 'i' for
    those with an index in `select_range`, whose end counts, or 'v' for those in an interval
    `(low, high]`. Without `eigvals_only`, the result is a pair of eigenvalues and eigenvectors. The
    eigenvalues have full precision; `tol` has no effect.

    >>> eigh_tridiagonal([2.0, 2.0], [1.0]).round(6).tolist()
    [1.0, 3.0]
    """
    if select not in ("a", "i", "v") or (select != "a" and select_range is None):
        raise ArgumentError(
            "eigh_tridiagonal takes select='a', or select='i' or 'v' with a select_range. "
            f"Got {select!r} with {select_range!r}."
        )
    main, below = (as_float(x) for x in common_operands(alpha, beta))
    size = main.shape[-1] if main.shape else 0
    if not below.shape or below.shape[-1] != size - 1:
        raise ShapeError(
            "eigh_tridiagonal needs a diagonal alpha and a subdiagonal beta with one entry less. "
            f"Got shapes {tuple(main.shape)} and {tuple(below.shape)}."
        )
    x = matrix_diag(main)
    if size > 1:
        outside = matrix_diag(below, k=-1, num_rows=size, num_cols=size)
        x = x + outside + adjoint_of(outside)
    if eigvals_only:
        values = eigvalsh(x)
        return _selected(values, values, select, select_range)
    values, vectors = eigh(x)
    chosen = _selected(swap_last(vectors), values, select, select_range)
    return _selected(values, values, select, select_range), swap_last(chosen)


def _selected(x: Any, values: Any, select: str, select_range: Any) -> Any:
    """Return the entries of x, along its axis of eigenvalues, that are selected."""
    if select == "a":
        return x
    ends = _ends(select_range)
    axis = len(values.shape) - 1
    if select == "i":
        first, last = ends
        if first != int(first) or last != int(last) or not 0 <= first <= last < values.shape[-1]:
            raise ArgumentError(
                f"select_range must hold two indices from 0 to {values.shape[-1] - 1}, in order. "
                f"Got {select_range!r}."
            )
        return x[(*[slice(None)] * axis, slice(int(first), int(last) + 1))]
    return boolean_mask(x, logical_and(values > ends[0], values <= ends[1]))


def _ends(select_range: Any) -> tuple[float, float]:
    try:
        first, last = (float(end) for end in select_range)
    except (TypeError, ValueError):
        raise ArgumentError(
            f"select_range must be a pair of numbers. Got {select_range!r}."
        ) from None
    return first, last
