"""The primitive under all matrix products: matrices, either of them transposed, in stacks.

Transposes are part of the primitive, so that no rule copies an operand to turn it round.
"""

from __future__ import annotations

import math
from typing import Any

from tapegrad.core.primitive import Primitive, explain_failure, record
from tapegrad.core.recorder import active_stack, make_node
from tapegrad.core.tensor import Tensor, wrap
from tapegrad.ops.arithmetic import conj
from tapegrad.ops.basic import permute_p, reshape_p, sum_to_shape
from tapegrad.ops.kinds import is_complex


def _matmul(xp: Any, a: Any, b: Any, *, transpose_a: bool, transpose_b: bool) -> Any:
    if transpose_a:
        a = xp.matrix_transpose(a)
    if transpose_b:
        b = xp.matrix_transpose(b)
    return xp.matmul(a, b)


matmul_p = Primitive("matmul", _matmul)


def _matmul_vjp_a(
    t: Any, x2: Any, x1_shape: tuple[int, ...], *, transpose_a: bool, transpose_b: bool
) -> Any:
    """dA = dY B^H, or its transpose; both are products again, so nothing is copied."""
    b = conjugate(x2)
    if transpose_a:
        share = matmul_p(b, t, transpose_a=transpose_b, transpose_b=True)
    else:
        share = matmul_p(t, b, transpose_a=False, transpose_b=not transpose_b)
    return share if share.shape == x1_shape else sum_to_shape(share, x1_shape)


def _matmul_vjp_b(
    t: Any, x1: Any, x2_shape: tuple[int, ...], *, transpose_a: bool, transpose_b: bool
) -> Any:
    """dB = A^H dY, or its transpose."""
    a = conjugate(x1)
    if transpose_b:
        share = matmul_p(t, a, transpose_a=True, transpose_b=transpose_a)
    else:
        share = matmul_p(a, t, transpose_a=not transpose_a, transpose_b=False)
    return share if share.shape == x2_shape else sum_to_shape(share, x2_shape)


matmul_p.vjps(_matmul_vjp_a, _matmul_vjp_b)
matmul_p.jvps(
    lambda t, x2, *, transpose_a, transpose_b: matmul_p(
        t, x2, transpose_a=transpose_a, transpose_b=transpose_b
    ),
    lambda t, x1, *, transpose_a, transpose_b: matmul_p(
        x1, t, transpose_a=transpose_a, transpose_b=transpose_b
    ),
)


@matmul_p.batch
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
    """Many matrices times one: a single product of all their rows."""
    *lead, m, k = a.shape
    rows = reshape_p(a, shape=(math.prod((*lead, m)), k))
    product = matmul_p(rows, b, transpose_a=False, transpose_b=transpose_b)
    return reshape_p(product, shape=(*lead, m, product.shape[-1]))


def _fold_right(a: Any, b: Any, transpose_a: bool, transpose_b: bool) -> Any:
    """One matrix times many: the transposed product, folded."""
    if not transpose_b:
        b = reshape_p(b, shape=(*b.shape[:-2], 1, b.shape[-2]))
    product = fold_left(b, a, transpose_b=not transpose_a)
    return swap_last(product)


def conjugate(x: Any) -> Any:
    """Return the conjugate of complex values, real ones as they are (no copy)."""
    return conj(x) if is_complex(x) else x


def swap_last(x: Any) -> Any:
    """Return matrices transposed: the last two axes swapped."""
    rank = len(x.shape)
    return permute_p(x, axes=(*range(rank - 2), rank - 1, rank - 2))


PARAMS = {
    (first, second): {"transpose_a": first, "transpose_b": second}
    for first in (False, True)
    for second in (False, True)
}


def matmul_tensors(a: Tensor, b: Tensor, params: dict[str, Any]) -> Tensor:
    """Bind `matmul_p` to two matrices, spelled out: every dense layer comes this way."""
    x, y = a.array, b.array
    try:
        result = matmul_p.kernel(type(x))(x, y, **params)
    except (ValueError, TypeError) as error:
        explain_failure(matmul_p, (x, y), error)
    node1, node2 = a.node, b.node
    if node1 is None and node2 is None:
        return wrap(result)
    stack = active_stack()
    tokens, dtype = stack.tokens, result.dtype
    if (
        (node1 is None or node1.tokens is tokens)
        and (node2 is None or node2.tokens is tokens)
        and not stack.listeners
        and x.dtype == dtype
        and y.dtype == dtype
    ):
        saved1 = None if node1 is None else (y, x.shape)
        saved2 = None if node2 is None else (x, y.shape)
        inputs, saved = (node1, node2), (saved1, saved2)
        return wrap(result, make_node(tokens, matmul_p, params, inputs, saved, None))
    return wrap(result, record(stack, matmul_p, params, (x, y), (node1, node2), result))
