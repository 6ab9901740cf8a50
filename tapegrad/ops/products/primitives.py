"""Primitives for products of matrices, stacks of matrices, and matrices with vectors.

The transposes of the operands are parameters, so that no rule copies an operand to transpose it.
"""

from __future__ import annotations

import math
from typing import Any

from tapegrad.core.primitive.primitive import Primitive
from tapegrad.ops.elementwise.arithmetic import conj
from tapegrad.ops.kinds import is_complex
from tapegrad.ops.shape.primitives import permute_p, reshape_p, sum_to_shape


def _matmul(xp: Any, a: Any, b: Any, *, transpose_a: bool, transpose_b: bool) -> Any:
    if transpose_a:
        a = xp.matrix_transpose(a)
    if transpose_b:
        b = xp.matrix_transpose(b)
    return xp.matmul(a, b)


# Two matrices. Every dense layer uses this product, so its rules save as little as possible.

plane_p = Primitive("matmul", _matmul, selects=False)


def _plane_vjp_a(t: Any, x2: Any, *, transpose_a: bool, transpose_b: bool) -> Any:
    """dA = dY B^T, or its transpose; both are matrix products, so nothing is copied."""
    if transpose_a:
        return plane_p(x2, t, transpose_a=transpose_b, transpose_b=True)
    return plane_p(t, x2, transpose_a=False, transpose_b=not transpose_b)


def _plane_vjp_b(t: Any, x1: Any, *, transpose_a: bool, transpose_b: bool) -> Any:
    """dB = A^T dY, or its transpose."""
    if transpose_b:
        return plane_p(t, x1, transpose_a=True, transpose_b=transpose_a)
    return plane_p(x1, t, transpose_a=not transpose_a, transpose_b=False)


def _set_product_jvps(primitive: Primitive) -> None:
    """Declare the JVPs of a product: replace one factor by its tangent."""
    primitive.jvps(
        lambda t, x2, *, transpose_a, transpose_b: primitive(
            t, x2, transpose_a=transpose_a, transpose_b=transpose_b
        ),
        lambda t, x1, *, transpose_a, transpose_b: primitive(
            x1, t, transpose_a=transpose_a, transpose_b=transpose_b
        ),
    )


plane_p.vjps(_plane_vjp_a, _plane_vjp_b)
plane_p.conjugates = True  # for complex values the sweep conjugates: transposes become adjoints
_set_product_jvps(plane_p)

# Stacks of matrices. Leading axes broadcast; the rules sum over broadcast axes.

stack_p = Primitive("matmul_stack", _matmul, selects=False)


def _stack_vjp_a(
    t: Any, x2: Any, x1_shape: tuple[int, ...], *, transpose_a: bool, transpose_b: bool
) -> Any:
    if transpose_a:
        cotangent = stack_p(x2, t, transpose_a=transpose_b, transpose_b=True)
    else:
        cotangent = stack_p(t, x2, transpose_a=False, transpose_b=not transpose_b)
    return cotangent if cotangent.shape == x1_shape else sum_to_shape(cotangent, x1_shape)


def _stack_vjp_b(
    t: Any, x1: Any, x2_shape: tuple[int, ...], *, transpose_a: bool, transpose_b: bool
) -> Any:
    if transpose_b:
        cotangent = stack_p(t, x1, transpose_a=True, transpose_b=transpose_a)
    else:
        cotangent = stack_p(x1, t, transpose_a=not transpose_a, transpose_b=False)
    return cotangent if cotangent.shape == x2_shape else sum_to_shape(cotangent, x2_shape)


stack_p.vjps(_stack_vjp_a, _stack_vjp_b)
stack_p.conjugates = True
_set_product_jvps(stack_p)


def matmul_p(a: Any, b: Any, *, transpose_a: bool, transpose_b: bool) -> Any:
    """Multiply matrices with `plane_p`, stacks of matrices with `stack_p`."""
    both = len(a.shape) == 2 and len(b.shape) == 2
    primitive = plane_p if both else stack_p
    return primitive(a, b, transpose_a=transpose_a, transpose_b=transpose_b)


@plane_p.batch
@stack_p.batch
def _batch_matmul(
    size: int, batched: tuple[bool, ...], a: Any, b: Any, *, transpose_a: bool, transpose_b: bool
) -> Any:
    if not batched[1] and len(b.shape) == 2 and (not transpose_a or a.shape[-1] == 1):
        if transpose_a:
            a = reshape_p(a, shape=(*a.shape[:-2], 1, a.shape[-2]))
        return fold_left(a, b, transpose_b)
    if not batched[0] and len(a.shape) == 2 and (transpose_b or b.shape[-1] == 1):
        return _fold_right(a, b, transpose_a, transpose_b)
    rank = max(len(a.shape) - batched[0], len(b.shape) - batched[1])
    if batched[0]:
        a = _align(a, rank)
    if batched[1]:
        b = _align(b, rank)
    return matmul_p(a, b, transpose_a=transpose_a, transpose_b=transpose_b)


def _align(x: Any, rank: int) -> Any:
    missing = rank + 1 - len(x.shape)
    return reshape_p(x, shape=(x.shape[0], *[1] * missing, *x.shape[1:])) if missing else x


def fold_left(a: Any, b: Any, transpose_b: bool) -> Any:
    """Multiply many matrices by one: a single product of all their rows."""
    *lead, m, k = a.shape
    rows = reshape_p(a, shape=(math.prod((*lead, m)), k))
    product = matmul_p(rows, b, transpose_a=False, transpose_b=transpose_b)
    return reshape_p(product, shape=(*lead, m, product.shape[-1]))


def _fold_right(a: Any, b: Any, transpose_a: bool, transpose_b: bool) -> Any:
    """Multiply one matrix by many: the transposed product, folded."""
    if not transpose_b:
        b = reshape_p(b, shape=(*b.shape[:-2], 1, b.shape[-2]))
    product = fold_left(b, a, transpose_b=not transpose_a)
    return swap_last(product)


def conjugate(x: Any) -> Any:
    """Return the conjugate of complex values; real values are returned unchanged, not copied."""
    return conj(x) if is_complex(x) else x


def swap_last(x: Any) -> Any:
    """Transpose matrices: swap the last two axes."""
    rank = len(x.shape)
    return permute_p(x, axes=(*range(rank - 2), rank - 1, rank - 2))


# A matrix and a vector. As a matrix product this would need two reshapes, three primitives in all.


def _matvec(xp: Any, a: Any, x: Any, *, transpose: bool) -> Any:
    return xp.matmul(x, a) if transpose else xp.matmul(a, x)


matvec_p = Primitive("matvec", _matvec, selects=False)


def _matvec_vjp_a(t: Any, x2: Any, *, transpose: bool) -> Any:
    """dA = t x^T, or its transpose."""
    first, second = (x2, t) if transpose else (t, x2)
    return reshape_p(first, shape=(*first.shape, 1)) * second


matvec_p.vjps(_matvec_vjp_a, lambda t, x1, *, transpose: matvec_p(x1, t, transpose=not transpose))
matvec_p.conjugates = True
matvec_p.jvps(
    lambda t, x2, *, transpose: matvec_p(t, x2, transpose=transpose),
    lambda t, x1, *, transpose: matvec_p(x1, t, transpose=transpose),
)


@matvec_p.batch
def _batch_matvec(size: int, batched: tuple[bool, bool], a: Any, x: Any, *, transpose: bool) -> Any:
    if not batched[0]:
        return matmul_p(x, a, transpose_a=False, transpose_b=not transpose)
    column = (size if batched[1] else 1, x.shape[-1], 1)
    product = matmul_p(a, reshape_p(x, shape=column), transpose_a=transpose, transpose_b=False)
    return reshape_p(product, shape=tuple(product.shape[:-1]))
