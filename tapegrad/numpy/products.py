"""Products of vectors, matrices and arrays."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tapegrad.core.argument_checks import check_choice, check_whole
from tapegrad.core.primitive.operand import normalize_axis
from tapegrad.core.values.dtypes import numpy_dtype
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.numpy.values import (
    CASTINGS,
    as_array,
    as_arrays,
    check_cast,
    deliver,
    dtype_of,
    refuse_order,
    side_by_side,
    with_dtype,
)
from tapegrad.ops.elementwise.arithmetic import conj
from tapegrad.ops.indexing.views import READ_ONLY, ReadOnly, as_view
from tapegrad.ops.kinds import is_complex
from tapegrad.ops.products import einsum as einsum_module, functions as products
from tapegrad.ops.reduction import primitives as reduction
from tapegrad.ops.shape.diagonal import diagonal as diagonal_of
from tapegrad.ops.shape.functions import expand_dims, moveaxis, reshape
from tapegrad.ops.shape.joining import stack


def _product(
    name: str,
    function: Callable[[Any, Any], Any],
    inputs: Sequence[Any],
    core: tuple[int, int, int],
    out: Any,
    axes: Any,
    dtype: Any,
    casting: str,
) -> Any:
    """Compute a product over the last axes; `core` gives their number for inputs and result.

    `axes` gives their positions if they are not the last ones.
    """
    given = side_by_side(*inputs)
    if name == "matmul":  # a vector is a row before a matrix and a column after one
        ranks = [min(len(x.shape), 2) for x in given]
        core = (ranks[0], ranks[1], sum(ranks) - 2)
    if any([len(x.shape) < count for x, count in zip(given, core)]):
        raise ShapeError(
            f"{name} needs {core[0]} and {core[1]} axes or more. Got shapes "
            f"{given[0].shape} and {given[1].shape}."
        )
    arrays = as_arrays(given)
    if axes is not None:
        if len(axes) not in (2, 3):
            raise ArgumentError(f"{name} takes axes= for two inputs and the result. Got {axes}.")
        arrays = [
            moveaxis(x, _tuple(where), tuple(range(-count, 0)))
            for x, where, count in zip(arrays, axes, core, strict=False)
        ]
    if dtype is not None or casting != "same_kind":
        wanted = dtype_of(arrays[0]) if dtype is None else numpy_dtype(dtype)
        for x in given:
            check_cast(name, dtype_of(x), wanted, casting)
    result = function(*[with_dtype(x, dtype) for x in arrays])
    if axes is not None and len(axes) == 3 and core[2]:
        result = moveaxis(result, tuple(range(-core[2], 0)), _tuple(axes[2]))
    return deliver(result, out, casting, broadcasts=True)


def _tuple(axes: Any) -> tuple[int, ...]:
    return tuple(axes) if np.iterable(axes) else (axes,)


def matmul(
    x1: Any,
    x2: Any,
    /,
    out: Any = None,
    *,
    axes: Any = None,
    dtype: Any = None,
    casting: str = "same_kind",
    order: str = "K",
    subok: bool = True,
) -> Any:
    """Return the matrix product over the last two axes; leading axes broadcast.

    >>> matmul([[1, 2], [3, 4]], [5, 6]).tolist()
    [17, 39]
    """
    refuse_order(order)
    return _product("matmul", products.matmul, (x1, x2), (2, 2, 2), out, axes, dtype, casting)


def matvec(
    x1: Any,
    x2: Any,
    /,
    out: Any = None,
    *,
    axes: Any = None,
    dtype: Any = None,
    casting: str = "same_kind",
    order: str = "K",
    subok: bool = True,
) -> Any:
    """Return the product of matrices with vectors; leading axes broadcast.

    >>> matvec([[1, 2], [3, 4]], [5, 6]).tolist()
    [17, 39]
    """
    refuse_order(order)
    return _product("matvec", products.matvec, (x1, x2), (2, 1, 1), out, axes, dtype, casting)


def vecmat(
    x1: Any,
    x2: Any,
    /,
    out: Any = None,
    *,
    axes: Any = None,
    dtype: Any = None,
    casting: str = "same_kind",
    order: str = "K",
    subok: bool = True,
) -> Any:
    """Return the product of conjugated vectors with matrices; leading axes broadcast.

    >>> vecmat([5, 6], [[1, 2], [3, 4]]).tolist()
    [23, 34]
    """
    refuse_order(order)
    return _product("vecmat", products.vecmat, (x1, x2), (1, 2, 1), out, axes, dtype, casting)


def vecdot(
    x1: Any,
    x2: Any,
    /,
    out: Any = None,
    *,
    axis: int = -1,
    keepdims: bool = False,
    axes: Any = None,
    dtype: Any = None,
    casting: str = "same_kind",
    order: str = "K",
    subok: bool = True,
) -> Any:
    """Return the sum of conj(x1) * x2 over one axis; the others broadcast.

    >>> vecdot([[1, 2], [3, 4]], [1, 1]).tolist()
    [3, 7]
    """
    refuse_order(order)

    def function(a: Any, b: Any) -> Any:
        lengths = [x.shape[normalize_axis(axis, len(x.shape), "vecdot")] for x in (a, b)]
        if lengths[0] != lengths[1]:
            raise ShapeError(
                f"vecdot needs equal lengths along axis {axis}. Got shapes {a.shape} and {b.shape}."
            )
        left = conj(a) if is_complex(a) else a
        moved = moveaxis(left, axis, -1) * moveaxis(b, axis, -1)
        total = with_dtype(reduction.sum(moved, -1), dtype_of(moved))
        return expand_dims(total, axis) if keepdims else total

    core = (1, 1, int(keepdims))
    return _product("vecdot", function, (x1, x2), core, out, axes, dtype, casting)


def dot(a: Any, b: Any, out: Any = None) -> Any:
    """Return the dot product: over the last axis of `a` and the second to last of `b`.

    >>> dot([1, 2], [3, 4]).tolist()
    11
    """
    first, second = as_arrays([a, b])
    # For matrices the product itself, which is faster than tensordot.
    is_product = sorted((len(first.shape), len(second.shape))) in ([1, 2], [2, 2])
    is_product = is_product and dtype_of(first).kind in "fc"
    return deliver((products.matmul if is_product else products.dot)(first, second), out)


def vdot(a: Any, b: Any, /) -> Any:
    """Return the sum of conj(a) * b over all elements.

    >>> vdot([1, 2], [3, 4]).tolist()
    11
    """
    return products.vdot(*as_arrays([a, b]))


def inner(a: Any, b: Any, /) -> Any:
    """Return the inner product: sums over the last axes of both.

    >>> inner([1, 2], [3, 4]).tolist()
    11
    """
    return products.inner(*as_arrays([a, b]))


def outer(a: Any, b: Any, out: Any = None) -> Any:
    """Return the outer product of the flattened arrays.

    >>> outer([1, 2], [3, 4]).tolist()
    [[3, 4], [6, 8]]
    """
    return deliver(products.outer(*side_by_side(a, b)), out)


def tensordot(a: Any, b: Any, axes: Any = 2) -> Any:
    """Sum products over pairs of axes: a number of inner axes, or a list for each array.

    >>> tensordot([[1, 2]], [[3], [4]], axes=1).tolist()
    [[11]]
    """
    first, second = as_arrays([a, b])
    return products.tensordot(first, second, axes)


def kron(a: Any, b: Any) -> Any:
    """Return the Kronecker product.

    >>> kron([1, 2], [1, 1]).tolist()
    [1, 1, 2, 2]
    """
    return products.kron(*side_by_side(a, b))


def einsum(
    *operands: Any,
    out: Any = None,
    optimize: Any = False,
    dtype: Any = None,
    order: str = "K",
    casting: Any = "safe",
) -> Any:
    """Return the sum of products that a subscript string, or lists of axes, describe.

    `optimize` is ignored; the contraction order is chosen here.

    >>> einsum("ij,j->i", [[1, 2], [3, 4]], [1, 1]).tolist()
    [3, 7]
    """
    if isinstance(operands[0], str):
        arrays = as_arrays(operands[1:])
        subscripts = operands[0]
    else:
        subscripts, arrays = _with_letters(operands)
    refuse_order(order)
    check_choice("casting", casting, CASTINGS)
    if dtype is not None:
        for x in arrays:
            check_cast("einsum", dtype_of(x), numpy_dtype(dtype), casting)
        arrays = [with_dtype(x, dtype) for x in arrays]
    result = einsum_module.einsum(subscripts, *arrays)
    # Sums of booleans are logical or.
    result = with_dtype(result, "bool") if dtype_of(arrays[0]).kind == "b" else result
    return deliver(result, out, casting)


def _with_letters(operands: tuple[Any, ...]) -> tuple[str, list[Any]]:
    """Convert `einsum(x, [0, 1], y, [1], [0])` to a subscript string and the arrays."""
    count = len(operands) // 2
    arrays = as_arrays(operands[: 2 * count : 2])
    inputs = ["".join(_letter(k) for k in axes) for axes in operands[1 : 2 * count : 2]]
    text = ",".join(inputs)
    if len(operands) % 2:
        text += "->" + "".join(_letter(k) for k in operands[-1])
    return text, arrays


_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def _letter(axis: Any) -> str:
    if axis is Ellipsis:
        return "..."
    number = check_whole("subscript", axis, "einsum")
    if not 0 <= number < len(_LETTERS):
        raise ArgumentError(f"einsum needs subscripts from 0 to {len(_LETTERS) - 1}. Got {number}.")
    return _LETTERS[number]


def einsum_path(*operands: Any, optimize: Any = "greedy", einsum_call: bool = False) -> Any:
    """Return the best contraction order for `einsum`, which NumPy computes from the shapes.

    >>> einsum_path("ij,jk->ik", [[1.0]], [[1.0]])[0]
    ['einsum_path', (0, 1)]
    """
    shapes: Any = [
        np.broadcast_to(np.zeros(()), tuple(x.shape)) if hasattr(x, "shape") else x
        for x in operands
    ]
    options: Any = {"optimize": optimize, "einsum_call": einsum_call}
    return np.einsum_path(*shapes, **options)


def cross(
    a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None
) -> Any:
    """Return the cross product of vectors of length 3 (or 2, whose third entry is 0).

    >>> cross([1, 0, 0], [0, 1, 0]).tolist()
    [0, 0, 1]
    """
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = as_arrays([a, b])
    x, y = moveaxis(x, axisa, -1), moveaxis(y, axisb, -1)
    if x.shape[-1] not in (2, 3) or y.shape[-1] not in (2, 3):
        raise ShapeError(
            f"cross needs vectors of length 2 or 3. Got shapes {x.shape} and {y.shape}."
        )
    parts = [[v[..., k] if k < v.shape[-1] else 0 * v[..., 0] for k in range(3)] for v in (x, y)]
    (a1, a2, a3), (b1, b2, b3) = parts
    last = a1 * b2 - a2 * b1
    if x.shape[-1] == y.shape[-1] == 2:
        return last
    result = stack([a2 * b3 - a3 * b2, a3 * b1 - a1 * b3, last], -1)
    return moveaxis(result, -1, normalize_axis(axisc, len(result.shape), "cross"))


def trace(
    a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None
) -> Any:
    """Return the sum along a diagonal of the matrices in two axes.

    >>> trace([[1, 2], [3, 4]]).tolist()
    5
    """
    x = as_array(a)
    return deliver(diagonal(x, offset, axis1, axis2).sum(-1, dtype=dtype), out)


def diagonal(a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    """Return a diagonal of the matrices in two axes, as the last axis.

    >>> diagonal([[1, 2], [3, 4]]).tolist()
    [1, 4]
    """
    x = as_array(a)
    if len(x.shape) < 2:
        raise ShapeError(f"diagonal needs two axes or more. Got shape {x.shape}.")
    axis1, axis2 = (normalize_axis(k, len(x.shape), "diagonal") for k in (axis1, axis2))
    if axis1 == axis2:
        raise ArgumentError(f"diagonal needs two different axes. Got axis {axis1} twice.")
    rows, columns = x.shape[axis1], x.shape[axis2]
    if -rows < offset < columns:
        where = (offset, axis1, axis2)
        how = ReadOnly("diagonal", lambda x: diagonal_of(x, *where), lambda x: x.diagonal(*where))
        return as_view(diagonal_of(x, *where), x, READ_ONLY, how)
    moved = moveaxis(x, (axis1, axis2), (-2, -1))
    return reshape(moved[..., :0, :0], (*moved.shape[:-2], 0))
