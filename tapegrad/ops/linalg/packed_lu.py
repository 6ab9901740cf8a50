"""Functions of the packed result of `lu`: solve, inverse, and the matrix itself."""

from __future__ import annotations

from typing import Any

from tapegrad.core.primitive.operand import as_operand, common_operands
from tapegrad.errors import DTypeError, ShapeError
from tapegrad.ops.indexing.along_axis import take_along_axis
from tapegrad.ops.indexing.sorting import argsort
from tapegrad.ops.linalg.common import as_matrices, dtype_of, identity_like, product, triangle
from tapegrad.ops.linalg.solve import triangular_solve_p
from tapegrad.ops.shape.functions import broadcast_to
from tapegrad.ops.shape.primitives import broadcast_p, reshape_p


def _packed(lower_upper: Any, perm: Any, name: str) -> tuple[Any, Any]:
    x, order = as_matrices(lower_upper, name), as_operand(perm)
    if not dtype_of(order).is_integer:
        raise DTypeError(f"{name} needs a permutation of integers. Got dtype {dtype_of(order)}.")
    if not order.shape or order.shape[-1] != x.shape[-1]:
        raise ShapeError(
            f"{name} needs a permutation of {x.shape[-1]} rows. Got shape {tuple(order.shape)}."
        )
    return x, order


def _factors(x: Any) -> tuple[Any, Any]:
    unit = triangle(x, lower=True, offset=-1) + identity_like(x)
    return unit, triangle(x, lower=False)


def _take_rows(x: Any, order: Any) -> Any:
    """Return the rows of matrices in an order that may differ between the matrices."""
    lead = broadcast_shape(tuple(x.shape[:-2]), tuple(order.shape[:-1]))
    x = broadcast_to(x, (*lead, *x.shape[-2:]))
    order = reshape_p(order, shape=(*order.shape, 1))
    return take_along_axis(x, broadcast_to(order, (*lead, order.shape[-2], x.shape[-1])), -2)


def broadcast_shape(first: tuple[int, ...], second: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape of two batches together."""
    rank = max(len(first), len(second))
    first, second = (1,) * (rank - len(first)) + first, (1,) * (rank - len(second)) + second
    if any(m != n and 1 not in (m, n) for m, n in zip(first, second)):
        raise ShapeError(f"The batches {first} and {second} do not fit together.")
    return tuple(n if m == 1 else m for m, n in zip(first, second))


def lu_solve(
    lower_upper: Any, perm: Any, rhs: Any, validate_args: bool = False, name: str | None = None
) -> Any:
    """Return x with A @ x = rhs, given `lower_upper, perm = lu(A)`.

    >>> lu_solve([[1.0, 0.0], [0.0, 2.0]], [1, 0], [[4.0], [3.0]]).tolist()
    [[3.0], [2.0]]
    """
    packed, order = _packed(lower_upper, perm, "lu_solve")
    packed, right = common_operands(packed, rhs)
    if len(right.shape) < 2 or right.shape[-2] != packed.shape[-1]:
        raise ShapeError(
            f"lu_solve needs a right-hand side with {packed.shape[-1]} rows, in at least two axes. "
            f"Got shape {tuple(right.shape)}."
        )
    lower, upper = _factors(packed)
    middle = triangular_solve_p(lower, _take_rows(right, order), lower=True, adjoint=False)
    return triangular_solve_p(upper, middle, lower=False, adjoint=False)


def lu_matrix_inverse(
    lower_upper: Any, perm: Any, validate_args: bool = False, name: str | None = None
) -> Any:
    """Return the inverse of A, given `lower_upper, perm = lu(A)`.

    >>> lu_matrix_inverse([[1.0, 0.0], [0.0, 2.0]], [1, 0]).tolist()
    [[0.0, 1.0], [0.5, 0.0]]
    """
    packed, order = _packed(lower_upper, perm, "lu_matrix_inverse")
    size = packed.shape[-1]
    unit = broadcast_p(identity_like(packed), shape=(*packed.shape[:-2], size, size))
    return lu_solve(packed, order, unit)


def lu_reconstruct(
    lower_upper: Any, perm: Any, validate_args: bool = False, name: str | None = None
) -> Any:
    """Return A, given `lower_upper, perm = lu(A)`.

    >>> lu_reconstruct([[1.0, 0.0], [0.0, 2.0]], [1, 0]).tolist()
    [[0.0, 2.0], [1.0, 0.0]]
    """
    packed, order = _packed(lower_upper, perm, "lu_reconstruct")
    return _take_rows(product(*_factors(packed)), argsort(order, axis=-1))
