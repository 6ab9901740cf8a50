"""Products of matrices and vectors: matmul, dot, tensordot, kron. See einsum.py for einsum."""

from __future__ import annotations

import math
from typing import Any

from tapegrad.core.argument_checks import check_whole, check_wholes
from tapegrad.core.primitive.fastpath import two_operands
from tapegrad.core.primitive.operand import as_operand, common_operands, normalize_axis
from tapegrad.core.values.tensor import Tensor
from tapegrad.core.values.variable import Variable
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.ops.products.primitives import (
    conjugate,
    fold_left,
    matmul_p,
    matvec_p,
    plane_p,
    swap_last,
)
from tapegrad.ops.shape.functions import moveaxis
from tapegrad.ops.shape.primitives import permute_p, reshape_p

_plain_product = two_operands(plane_p, {"transpose_a": False, "transpose_b": False})


def adjoint(matrix: Any, name: str | None = None) -> Any:
    """Return the conjugate transpose of a matrix or of each matrix in a stack.

    >>> adjoint([[1.0, 2.0, 3.0]]).shape
    (3, 1)
    """
    matrix = as_operand(matrix)
    if len(matrix.shape) < 2:
        raise ShapeError(f"adjoint needs a matrix. Got shape {matrix.shape}.")
    return swap_last(conjugate(matrix))


def matmul(
    a: Any,
    b: Any,
    transpose_a: bool = False,
    transpose_b: bool = False,
    adjoint_a: bool = False,
    adjoint_b: bool = False,
    a_is_sparse: Any = False,
    b_is_sparse: Any = False,
    output_type: Any = None,
    grad_a: Any = False,
    grad_b: Any = False,
    name: str | None = None,
) -> Any:
    """Return the matrix product; leading axes broadcast, and vectors work as in NumPy.

    The arguments after `adjoint_b` are accepted for compatibility with TensorFlow and ignored.

    >>> a = [[1.0, 2.0]]
    >>> float(matmul(a, a, transpose_b=True)[0, 0])
    5.0
    """
    if type(a) is Tensor and type(b) is Variable:  # the usual product of a layer
        b = b.shared_value()
    elif type(a) is not Tensor or type(b) is not Tensor:
        a, b = common_operands(a, b)
    if not (transpose_a or transpose_b or adjoint_a or adjoint_b) and a.ndim == b.ndim == 2:
        return _plain_product(a, b)
    if adjoint_a:
        _check_not_transposed(transpose_a, "a")
        a, transpose_a = conjugate(a), True
    if adjoint_b:
        _check_not_transposed(transpose_b, "b")
        b, transpose_b = conjugate(b), True
    rank_a, rank_b = a.ndim, b.ndim
    if rank_a == 2 and rank_b == 2:
        return plane_p(a, b, transpose_a=bool(transpose_a), transpose_b=bool(transpose_b))
    if rank_a == 2 and rank_b == 1:
        return matvec_p(a, b, transpose=bool(transpose_a))
    if rank_a == 1 and rank_b == 2:
        if a.shape[0] != b.shape[1 if transpose_b else 0]:  # the primitive has another order
            raise ShapeError(
                f"matmul cannot take shapes {a.shape} and {b.shape}: the vector has length "
                f"{a.shape[0]}, and the columns of the matrix {b.shape[1 if transpose_b else 0]}."
            )
        return matvec_p(b, a, transpose=not transpose_b)
    if rank_a > 2 and rank_b == 2 and not transpose_a:
        return fold_left(a, b, transpose_b)
    return _matmul_any(a, b, transpose_a, transpose_b)


def _check_not_transposed(transpose: bool, which: str) -> None:
    if transpose:
        raise ArgumentError(
            f"matmul takes either transpose_{which} or adjoint_{which}. Got both; leave one out."
        )


def _matmul_any(a: Any, b: Any, transpose_a: bool, transpose_b: bool) -> Any:
    """Multiply operands of any rank; a vector is a matrix with a temporary unit axis."""
    if not a.shape or not b.shape:
        raise ShapeError(
            "matmul needs vectors or matrices. Got shapes "
            f"{a.shape} and {b.shape}; use multiply for scalars."
        )
    row, column = len(a.shape) == 1, len(b.shape) == 1
    if row:
        a, transpose_a = reshape_p(a, shape=(1, *a.shape)), False
    if column:
        b, transpose_b = reshape_p(b, shape=(*b.shape, 1)), False
    if column and len(a.shape) > 2 and not transpose_a:
        product = fold_left(a, b, transpose_b=False)
    else:
        product = matmul_p(a, b, transpose_a=bool(transpose_a), transpose_b=bool(transpose_b))
    if not row and not column:
        return product
    shape = list(product.shape)
    if column:
        del shape[-1]
    if row:
        del shape[len(shape) - (not column) - 1]
    return reshape_p(product, shape=tuple(shape))


def matvec(
    a: Any,
    b: Any,
    transpose_a: bool = False,
    adjoint_a: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    name: str | None = None,
) -> Any:
    """Return matrices times vectors, [..., m, n] times [..., n] to [..., m].

    >>> matvec([[1.0, 2.0], [3.0, 4.0]], [1.0, 1.0]).tolist()
    [3.0, 7.0]
    """
    a, b = common_operands(a, b)
    if len(a.shape) == 2 and len(b.shape) == 1 and not adjoint_a:
        return matvec_p(a, b, transpose=bool(transpose_a))
    column = reshape_p(b, shape=(*b.shape, 1))
    product = matmul(a, column, transpose_a=transpose_a, adjoint_a=adjoint_a)
    return reshape_p(product, shape=tuple(product.shape[:-1]))


def vecmat(a: Any, b: Any) -> Any:
    """Return conjugated vectors times matrices, [..., m] times [..., m, n] to [..., n].

    >>> vecmat([1.0, 1.0], [[1.0, 2.0], [3.0, 4.0]]).tolist()
    [4.0, 6.0]
    """
    a, b = common_operands(a, b)
    row = reshape_p(conjugate(a), shape=(*a.shape[:-1], 1, a.shape[-1]))
    product = matmul(row, b)
    return reshape_p(product, shape=(*product.shape[:-2], product.shape[-1]))


def vecdot(x1: Any, x2: Any, axis: int = -1) -> Any:
    """Return the sum of conj(x1) * x2 over one axis; the other axes broadcast.

    >>> vecdot([[1.0, 2.0], [3.0, 4.0]], [1.0, 1.0]).tolist()
    [3.0, 7.0]
    """
    x1, x2 = common_operands(x1, x2)
    if axis != -1:
        x1, x2 = moveaxis(x1, axis, -1), moveaxis(x2, axis, -1)
    row = reshape_p(conjugate(x1), shape=(*x1.shape[:-1], 1, x1.shape[-1]))
    product = matmul_p(
        row, reshape_p(x2, shape=(*x2.shape, 1)), transpose_a=False, transpose_b=False
    )
    return reshape_p(product, shape=tuple(product.shape[:-2]))


def dot(a: Any, b: Any) -> Any:
    """Return NumPy's dot: contract the last axis of `a` with the second to last of `b`.

    If `b` is a vector, its only axis is contracted.

    >>> float(dot([1.0, 2.0], [3.0, 4.0]))
    11.0
    """
    a, b = common_operands(a, b)
    if not a.shape or not b.shape:
        return a * b
    return tensordot(a, b, ([-1], [-1 if len(b.shape) == 1 else -2]))


def vdot(a: Any, b: Any) -> Any:
    """Return the sum of conj(a) * b over all elements.

    >>> float(vdot([[1.0, 2.0]], [[3.0, 4.0]]))
    11.0
    """
    a, b = common_operands(a, b)
    flat_a = reshape_p(a, shape=(math.prod(a.shape),))
    return vecdot(flat_a, reshape_p(b, shape=(math.prod(b.shape),)))


def inner(a: Any, b: Any) -> Any:
    """Return the sum of products over the last axis of both operands.

    >>> inner([[1.0, 2.0], [3.0, 4.0]], [1.0, 1.0]).tolist()
    [3.0, 7.0]
    """
    a, b = common_operands(a, b)
    if not a.shape or not b.shape:
        return a * b
    return tensordot(a, b, ([-1], [-1]))


def outer(a: Any, b: Any) -> Any:
    """Return the outer product of the flattened operands.

    >>> outer([1.0, 2.0], [3.0, 4.0]).tolist()
    [[3.0, 4.0], [6.0, 8.0]]
    """
    a, b = common_operands(a, b)
    column = reshape_p(a, shape=(math.prod(a.shape), 1))
    return column * reshape_p(b, shape=(1, math.prod(b.shape)))


def tensordot(a: Any, b: Any, axes: Any = 2, name: str | None = None) -> Any:
    """Contract two tensors over `axes`: a number of inner axes, or a list of axes per tensor.

    >>> a = [[1.0, 2.0], [3.0, 4.0]]
    >>> float(tensordot(a, a, 2)), tensordot(a, a, [[0], [1]]).shape
    (30.0, (2, 2))
    """
    a, b = common_operands(a, b)
    left, right = _contracted(axes, len(a.shape), len(b.shape))
    lengths = [a.shape[i] for i in left]
    if lengths != [b.shape[i] for i in right]:
        raise ShapeError(
            f"tensordot needs equal lengths along axes {left} of shape {a.shape} and axes "
            f"{right} of shape {b.shape}."
        )
    free_a = [i for i in range(len(a.shape)) if i not in left]
    free_b = [i for i in range(len(b.shape)) if i not in right]
    kept_a, kept_b = tuple(a.shape[i] for i in free_a), tuple(b.shape[i] for i in free_b)
    size = math.prod(lengths)
    rows = _as_matrix(a, (*free_a, *left), (math.prod(kept_a), size))
    columns = _as_matrix(b, (*right, *free_b), (size, math.prod(kept_b)))
    product = matmul_p(rows, columns, transpose_a=False, transpose_b=False)
    shape = (*kept_a, *kept_b)
    return product if product.shape == shape else reshape_p(product, shape=shape)


def _contracted(axes: Any, rank_a: int, rank_b: int) -> tuple[list[int], list[int]]:
    if isinstance(axes, int) or getattr(axes, "ndim", None) == 0:
        count = check_whole("axes", axes, "tensordot")
        if not 0 <= count <= min(rank_a, rank_b):
            raise ShapeError(
                f"tensordot cannot contract {count} axes of tensors with {rank_a} and {rank_b} "
                "axes."
            )
        return list(range(rank_a - count, rank_a)), list(range(count))
    left, right = (_as_list(part) for part in axes)
    if len(left) != len(right):
        raise ShapeError(f"tensordot needs equally many axes of a and b. Got {left} and {right}.")
    return (
        [normalize_axis(axis, rank_a, "tensordot") for axis in left],
        [normalize_axis(axis, rank_b, "tensordot") for axis in right],
    )


def _as_list(part: Any) -> list[int]:
    return [*check_wholes("axes", part, "tensordot")]


def _as_matrix(x: Any, order: tuple[int, ...], shape: tuple[int, int]) -> Any:
    if order != tuple(range(len(order))):
        x = permute_p(x, axes=order)
    return x if x.shape == shape else reshape_p(x, shape=shape)


def kron(a: Any, b: Any) -> Any:
    """Return the Kronecker product; shapes are aligned at the last axis, as in NumPy.

    >>> kron([1.0, 2.0], [1.0, 1.0]).tolist()
    [1.0, 1.0, 2.0, 2.0]
    """
    a, b = common_operands(a, b)
    rank = max(len(a.shape), len(b.shape))
    wide_a = (*[1] * (rank - len(a.shape)), *a.shape)
    wide_b = (*[1] * (rank - len(b.shape)), *b.shape)
    spread_a = tuple(n for pair in zip(wide_a, [1] * rank) for n in pair)
    spread_b = tuple(n for pair in zip([1] * rank, wide_b) for n in pair)
    product = reshape_p(a, shape=spread_a) * reshape_p(b, shape=spread_b)
    return reshape_p(product, shape=tuple(m * n for m, n in zip(wide_a, wide_b)))
