"""Slices, segment reductions, Fourier transforms and matrix functions with Keras signatures.

Fourier transforms take and return complex numbers as pairs of real and imaginary parts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tapegrad.core.argument_checks import check_wholes
from tapegrad.core.primitive.operand import as_operand
from tapegrad.core.values.dtypes import as_dtype
from tapegrad.ops.creation import ones_like
from tapegrad.ops.elementwise.complex_numbers import complex as complex_of, imag, real
from tapegrad.ops.elementwise.selection import where
from tapegrad.ops.elementwise.trigonometric import cos, sin
from tapegrad.ops.fourier.transforms import (
    fftn,
    ifftn,
    irfft as inverse_real,
    rfft as real_transform,
)
from tapegrad.ops.indexing import segment_functions
from tapegrad.ops.indexing.functions import index_update
from tapegrad.ops.linalg.common import adjoint_of, identity_like
from tapegrad.ops.linalg.solve import cholesky_solve, triangular_solve
from tapegrad.ops.reduction.functions import reduce_max
from tapegrad.ops.shape.functions import broadcast_to, reshape
from tapegrad.ops.shape.joining import stack


def shape(x: Any) -> tuple[int, ...]:
    """Return the shape of a tensor.

    >>> shape([[1.0, 2.0]])
    (1, 2)
    """
    return tuple(as_operand(x).shape)


def dtype(x: Any) -> str:
    """Return the name of a tensor's dtype.

    >>> dtype([1.0, 2.0])
    'float32'
    """
    return str(as_operand(x).dtype.name)


def convert_to_numpy(x: Any) -> Any:
    """Return a copy as a NumPy array.

    >>> convert_to_numpy([1.0, 2.0])
    array([1., 2.], dtype=float32)
    """
    return as_operand(x).numpy()


def get_item(x: Any, key: Any) -> Any:
    """Return `x[key]`.

    >>> get_item([1.0, 2.0], -1).tolist()
    2.0
    """
    return as_operand(x)[key]


def slice_update(inputs: Any, start_indices: Any, updates: Any) -> Any:
    """Return a tensor in which the block at `start_indices` is replaced by `updates`.

    >>> slice_update([1.0, 2.0, 3.0], [1], [8.0, 9.0]).tolist()
    [1.0, 8.0, 9.0]
    """
    x, block = as_operand(inputs), as_operand(updates)
    starts = check_wholes("start_indices", start_indices, "slice_update")
    # As in Keras, a block that would extend beyond the end starts earlier.
    firsts = [max(0, min(n, size - m)) for n, size, m in zip(starts, x.shape, block.shape)]
    places = tuple(slice(first, first + m) for first, m in zip(firsts, block.shape))
    return index_update(x, places, block)


def _segments(kind: str, empty: float | None = None) -> Callable[..., Any]:
    reduce = getattr(segment_functions, f"unsorted_segment_{kind}")

    def run(data: Any, segment_ids: Any, num_segments: Any = None, sorted: bool = False) -> Any:
        ids = as_operand(segment_ids)
        number = int(reduce_max(ids)) + 1 if num_segments is None else num_segments
        found = reduce(data, ids, number)
        if empty is None or not as_dtype(found.dtype).is_floating:
            return found
        # As in Keras; TensorFlow returns the smallest or largest finite number.
        sizes = segment_functions.unsorted_segment_sum(ones_like(ids), ids, number)
        is_empty = reshape(sizes == 0, (number,) + (1,) * (len(found.shape) - 1))
        return where(is_empty, empty, found)

    run.__doc__ = f"Return the {kind} of each segment. Without num_segments, read it from the ids."
    return run


segment_max = _segments("max", -math.inf)
segment_min = _segments("min", math.inf)
segment_prod = _segments("prod")
segment_sum = _segments("sum")


def _parts(x: Any) -> tuple[Any, Any]:
    return real(x), imag(x)


def _joined(x: Any) -> Any:
    first, second = x
    return complex_of(as_operand(first), as_operand(second))


def fft(x: Any) -> tuple[Any, Any]:
    """Return the discrete Fourier transform along the last axis.

    >>> fft(([1.0, 1.0], [0.0, 0.0]))[0].tolist()
    [2.0, 0.0]
    """
    return _parts(fftn(_joined(x), axes=(-1,)))


def fft2(x: Any) -> tuple[Any, Any]:
    """Return the discrete Fourier transform along the last two axes.

    >>> fft2(([[1.0, 1.0]], [[0.0, 0.0]]))[0].tolist()
    [[2.0, 0.0]]
    """
    return _parts(fftn(_joined(x), axes=(-2, -1)))


def ifft2(x: Any) -> tuple[Any, Any]:
    """Return the inverse of `fft2`.

    >>> ifft2(([[2.0, 0.0]], [[0.0, 0.0]]))[0].tolist()
    [[1.0, 1.0]]
    """
    return _parts(ifftn(_joined(x), axes=(-2, -1)))


def rfft(x: Any, fft_length: int | None = None) -> tuple[Any, Any]:
    """Return the nonredundant half of the Fourier transform of real numbers.

    >>> rfft([1.0, 1.0])[0].tolist()
    [2.0, 0.0]
    """
    return _parts(real_transform(as_operand(x), fft_length))


def irfft(x: Any, fft_length: int | None = None) -> Any:
    """Return the inverse of `rfft`.

    >>> irfft(([2.0, 0.0], [0.0, 0.0])).tolist()
    [1.0, 1.0]
    """
    return inverse_real(_joined(x), fft_length)


def view_as_complex(x: Any) -> Any:
    """Return complex numbers from real and imaginary parts along the last axis.

    >>> view_as_complex([[1.0, 2.0]]).tolist()
    [(1+2j)]
    """
    pairs = as_operand(x)
    return complex_of(pairs[..., 0], pairs[..., 1])


def view_as_real(x: Any) -> Any:
    """Return real and imaginary parts along a new last axis.

    >>> view_as_real([1 + 2j]).tolist()
    [[1.0, 2.0]]
    """
    return stack(list(_parts(as_operand(x))), -1)


def polar(abs_: Any, angle: Any) -> Any:
    """Return complex numbers from absolute values and angles.

    >>> polar([2.0], [0.0]).tolist()
    [(2+0j)]
    """
    size, phase = as_operand(abs_), as_operand(angle)
    return complex_of(size * cos(phase), size * sin(phase))


def solve_triangular(a: Any, b: Any, lower: bool = False) -> Any:
    """Solve `a @ x = b` for a triangular matrix, upper by default; b may be a vector.

    >>> solve_triangular([[2.0, 0.0], [0.0, 4.0]], [2.0, 4.0]).tolist()
    [1.0, 1.0]
    """
    matrix, rhs = as_operand(a), as_operand(b)
    if len(rhs.shape) == len(matrix.shape) - 1:
        return triangular_solve(matrix, rhs[..., None], lower=lower)[..., 0]
    return triangular_solve(matrix, rhs, lower=lower)


def cholesky_inverse(x: Any, upper: bool = False) -> Any:
    """Return the inverse of the matrix with the Cholesky factor `x`.

    >>> cholesky_inverse([[2.0, 0.0], [0.0, 1.0]]).tolist()
    [[0.25, 0.0], [0.0, 1.0]]
    """
    factor = adjoint_of(as_operand(x)) if upper else as_operand(x)
    return cholesky_solve(factor, broadcast_to(identity_like(factor), factor.shape))
