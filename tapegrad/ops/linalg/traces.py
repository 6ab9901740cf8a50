"""trace, cross, multi_dot, tensorsolve and tensorinv."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from tapegrad.core.primitive.operand import as_operand, common_operands, normalize_axis
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.ops.indexing.primitives import slice_p
from tapegrad.ops.linalg.common import diagonal_of
from tapegrad.ops.linalg.solve import inv_p, solve
from tapegrad.ops.products.functions import matmul
from tapegrad.ops.shape.functions import moveaxis
from tapegrad.ops.shape.joining import stack
from tapegrad.ops.shape.primitives import permute_p, reshape_p, sum_p


def trace(x: Any, name: str | None = None) -> Any:
    """Return the sum of the diagonal of each matrix.

    >>> float(trace([[1.0, 2.0], [3.0, 4.0]]))
    5.0
    """
    x = as_operand(x)
    if len(x.shape) < 2:
        raise ShapeError(f"trace needs matrices in the last two axes. Got shape {x.shape}.")
    diagonal = diagonal_of(x)
    return sum_p(diagonal, axis=(len(diagonal.shape) - 1,), keepdims=False)


def cross(a: Any, b: Any, axis: int = -1, name: str | None = None) -> Any:
    """Return the cross product of vectors of length 3 along `axis`.

    >>> cross([1.0, 0.0, 0.0], [0.0, 1.0, 0.0]).tolist()
    [0.0, 0.0, 1.0]
    """
    a, b = common_operands(a, b)
    if axis != -1:
        a, b = moveaxis(a, axis, -1), moveaxis(b, axis, -1)
    if a.shape[-1] != 3 or b.shape[-1] != 3:
        raise ShapeError(f"cross needs vectors of length 3. Got shapes {a.shape} and {b.shape}.")
    x, y, z = (_entry(a, i) for i in range(3))
    u, v, w = (_entry(b, i) for i in range(3))
    result = stack([y * w - z * v, z * u - x * w, x * v - y * u], -1)
    return moveaxis(result, -1, axis)


def _entry(x: Any, i: int) -> Any:
    return slice_p(x, index=(*[slice(None)] * (len(x.shape) - 1), i))


def multi_dot(arrays: Sequence[Any]) -> Any:
    """Multiply a chain of matrices in the cheapest order; the first and last may be vectors.

    >>> float(multi_dot([[1.0, 2.0], [[1.0, 0.0], [0.0, 1.0]], [3.0, 4.0]]))
    11.0
    """
    factors = common_operands(*arrays)
    if len(factors) < 2:
        raise ArgumentError(f"multi_dot needs at least two matrices. Got {len(factors)}.")
    if len(factors) == 2:
        return matmul(*factors)
    inner = [factor.shape[-1] for factor in factors[:-1]]
    last = 1 if len(factors[-1].shape) == 1 else factors[-1].shape[-1]
    first = 1 if len(factors[0].shape) == 1 else factors[0].shape[0]
    splits = _cheapest_splits([first, *inner, last])

    def multiply(i: int, j: int) -> Any:
        if i == j:
            return factors[i]
        k = splits[i, j]
        return matmul(multiply(i, k), multiply(k + 1, j))

    return multiply(0, len(factors) - 1)


def _cheapest_splits(sizes: list[int]) -> dict[tuple[int, int], int]:
    """Return the best split of each part of the chain, by dynamic programming."""
    count = len(sizes) - 1
    cost: dict[tuple[int, int], float] = {(i, i): 0.0 for i in range(count)}
    splits: dict[tuple[int, int], int] = {}
    for length in range(1, count):
        for i in range(count - length):
            j = i + length
            costs = {
                k: cost[i, k] + cost[k + 1, j] + sizes[i] * sizes[k + 1] * sizes[j + 1]
                for k in range(i, j)
            }
            splits[i, j] = min(costs, key=lambda k: costs[k])
            cost[i, j] = costs[splits[i, j]]
    return splits


def tensorsolve(a: Any, b: Any, axes: Sequence[int] | None = None) -> Any:
    """Return x with tensordot(a, x, x.ndim) = b.

    >>> tensorsolve([[2.0, 0.0], [0.0, 4.0]], [2.0, 2.0]).tolist()
    [1.0, 0.5]
    """
    a, b = common_operands(a, b)
    if axes is not None:
        last = [normalize_axis(axis, len(a.shape), "tensorsolve") for axis in axes]
        a = permute_p(a, axes=(*(i for i in range(len(a.shape)) if i not in last), *last))
    shape = tuple(a.shape[len(b.shape) :])
    n = math.prod(shape)
    if math.prod(b.shape) != n or math.prod(a.shape) != n * n:
        raise ShapeError(
            f"tensorsolve needs as many equations as unknowns. Got shapes {a.shape} and {b.shape}."
        )
    return reshape_p(solve(reshape_p(a, shape=(n, n)), reshape_p(b, shape=(n,))), shape=shape)


def tensorinv(a: Any, ind: int = 2) -> Any:
    """Return the inverse of the linear map tensordot(a, ·, ind).

    >>> tensorinv([[2.0, 0.0], [0.0, 4.0]], ind=1).tolist()
    [[0.5, 0.0], [0.0, 0.25]]
    """
    a = as_operand(a)
    left, right = tuple(a.shape[:ind]), tuple(a.shape[ind:])
    n = math.prod(left)
    if ind < 1 or n != math.prod(right):
        raise ShapeError(
            f"tensorinv needs as many elements before axis ind={ind} as after it. "
            f"Got shape {a.shape}."
        )
    return reshape_p(inv_p(reshape_p(a, shape=(n, n))), shape=(*right, *left))
