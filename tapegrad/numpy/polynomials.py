"""NumPy's `poly` functions: polynomials given by coefficients, highest power first."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.core.argument_checks import check_rounds
from tapegrad.core.values.convert import read_on_host
from tapegrad.errors import ArgumentError, ShapeError
from tapegrad.numpy import linalg
from tapegrad.numpy.building import diag, vander
from tapegrad.numpy.creation import copy
from tapegrad.numpy.joining import concat
from tapegrad.numpy.manipulation import atleast_1d, ravel
from tapegrad.numpy.values import as_array, as_arrays, dtype_of, floating, side_by_side, with_dtype
from tapegrad.ops.convolution.sequences import convolve
from tapegrad.ops.creation import full_like_p
from tapegrad.ops.elementwise.complex_numbers import real
from tapegrad.ops.kinds import is_complex
from tapegrad.ops.products.functions import matmul
from tapegrad.ops.reduction import primitives as reduction
from tapegrad.ops.shape.functions import reshape
from tapegrad.ops.shape.joining import stack


def zeros_beside(x: Any, count: int) -> Any:
    """Return `count` zeros with the dtype and device of `x`.

    >>> zeros_beside(as_array([1.0]), 2).tolist()
    [0.0, 0.0]
    """
    return full_like_p(x, shape=(count,), value=0, dtype=dtype_of(x))


def polyval(p: Any, x: Any) -> Any:
    """Return the value of a polynomial at each `x`.

    >>> polyval([1, 0, 2], [3.0, 4.0]).tolist()
    [11.0, 18.0]
    """
    coefficients, x = side_by_side(p, x)
    result = full_like_p(x, shape=tuple(x.shape), value=0, dtype=dtype_of(x))
    for k in range(coefficients.shape[0]):
        result = result * x + coefficients[k]
    return result


def _aligned(a1: Any, a2: Any) -> list[Any]:
    both = [atleast_1d(x) for x in as_arrays([a1, a2])]
    count = max(x.shape[0] for x in both)
    return [concat([zeros_beside(x, count - x.shape[0]), x]) for x in both]


def polyadd(a1: Any, a2: Any) -> Any:
    """Return the sum of two polynomials.

    >>> polyadd([1, 2], [1, 0, 0]).tolist()
    [1, 1, 2]
    """
    first, second = _aligned(a1, a2)
    return first + second


def polysub(a1: Any, a2: Any) -> Any:
    """Return the difference of two polynomials.

    >>> polysub([1, 2], [1, 0, 0]).tolist()
    [-1, 1, 2]
    """
    first, second = _aligned(a1, a2)
    return first - second


def polymul(a1: Any, a2: Any) -> Any:
    """Return the product of two polynomials.

    >>> polymul([1, 2], [1, 3]).tolist()
    [1, 5, 6]
    """
    first, second = (atleast_1d(x) for x in as_arrays([a1, a2]))
    return convolve(trimmed(first), trimmed(second))


def trimmed(x: Any) -> Any:
    """Remove leading zeros, but keep at least one coefficient.

    >>> trimmed(as_array([0.0, 1.0, 2.0])).tolist()
    [1.0, 2.0]
    """
    places = np.flatnonzero(read_on_host(x, "a polynomial's degree"))
    return x[int(places[0]) :] if places.size else x[-1:]


def polydiv(u: Any, v: Any) -> tuple[Any, Any]:
    """Return the quotient and the remainder of two polynomials.

    >>> [part.tolist() for part in polydiv([1.0, 5.0, 6.0], [1.0, 2.0])]
    [[1.0, 3.0], [0.0]]
    """
    top, bottom = as_arrays([floating(atleast_1d(x)) for x in side_by_side(u, v)])
    steps = max(top.shape[0] - bottom.shape[0] + 1, 1)
    quotient, rest = [], copy(top)
    for k in range(top.shape[0] - bottom.shape[0] + 1):
        factor = rest[k] / bottom[0]
        quotient.append(factor)
        pieces = [rest[:k], rest[k : k + bottom.shape[0]] - factor * bottom]
        rest = concat([*pieces, rest[k + bottom.shape[0] :]])
    found = stack(quotient) if quotient else zeros_beside(top, steps)
    return found, _near_trimmed(rest)


def _near_trimmed(x: Any) -> Any:
    """Remove leading entries of a remainder that are zero up to rounding, as NumPy does."""
    values = read_on_host(x, "polydiv()")
    first = 0
    while first < len(values) - 1 and abs(values[first]) <= 1e-8:
        first += 1
    return x[first:]


def polyder(p: Any, m: int = 1) -> Any:
    """Return the `m`-th derivative of a polynomial.

    >>> polyder([1, 0, 2, 5]).tolist()
    [3, 0, 2]
    """
    if m < 0:
        raise ArgumentError(f"polyder needs m >= 0. Got {m}.")
    x = as_array(p)
    x = with_dtype(x, np.result_type(dtype_of(x), "int64")) if m else x
    for _ in range(min(m, x.shape[0])):  # after that many, nothing is left
        count = x.shape[0]
        x = x[: max(count - 1, 0)] * _falling(x, count - 1)
    return x


def _falling(x: Any, start: int) -> Any:
    """Return the integers from `start` down to 1, in the dtype of `x`."""
    return as_array(np.arange(start, 0, -1).astype(dtype_of(x)), x)


def polyint(p: Any, m: int = 1, k: Any = None) -> Any:
    """Return the `m`-th antiderivative of a polynomial, with constants `k` (0 by default).

    >>> polyint([3, 2]).tolist()
    [1.5, 2.0, 0.0]
    """
    check_rounds("m", m, "polyint")
    x = as_array(p)
    if m:  # NumPy divides by int64
        x = with_dtype(x, np.result_type(dtype_of(x), "float64"))
    constants = [0.0] * m if k is None else ravel(as_array(k, x))
    for step in range(m):
        fixed = constants[0] if k is not None and len(constants) == 1 else constants[step]
        x = concat([x / _falling(x, x.shape[0]), reshape(as_array(fixed, x), (1,))])
    return x


def poly(seq_of_zeros: Any) -> Any:
    """Return the polynomial with the given roots, or the characteristic polynomial of a matrix.

    >>> poly([1.0, 2.0]).tolist()
    [1.0, -3.0, 2.0]
    """
    roots_of = as_array(seq_of_zeros)
    if len(roots_of.shape) == 2:
        roots_of = linalg.eigvals(roots_of)
    elif len(roots_of.shape) != 1:
        raise ShapeError(f"poly needs roots or a square matrix. Got {roots_of.shape}.")
    roots_of = floating(roots_of)
    result = full_like_p(roots_of, shape=(1,), value=1, dtype=dtype_of(roots_of))
    for k in range(roots_of.shape[0]):
        one = full_like_p(roots_of, shape=(1,), value=1, dtype=dtype_of(roots_of))
        result = convolve(result, concat([one, -roots_of[k : k + 1]]))
    if is_complex(result):
        values = np.sort_complex(read_on_host(roots_of, "poly()"))
        if np.array_equal(values, np.sort_complex(values.conj())):
            return real(result)
    return result


def roots(p: Any) -> Any:
    """Return the roots of a polynomial: the eigenvalues of its companion matrix.

    >>> sorted(roots([1.0, -3.0, 2.0]).real.round(6).tolist())
    [1.0, 2.0]
    """
    x = floating(p)
    places = np.flatnonzero(read_on_host(x, "roots()"))
    if not places.size:
        return zeros_beside(x, 0)
    trailing = x.shape[0] - int(places[-1]) - 1
    x = x[int(places[0]) : int(places[-1]) + 1]
    if x.shape[0] < 2:
        return zeros_beside(x, trailing)
    below = diag(full_like_p(x, shape=(x.shape[0] - 2,), value=1, dtype=dtype_of(x)), -1)
    first = reshape(-x[1:] / x[0], (1, x.shape[0] - 1))
    found = linalg.eigvals(concat([first, below[1:]]))
    if not np.iscomplex(read_on_host(found, "roots()")).any() and not is_complex(x):
        found = real(found)
    return concat([found, zeros_beside(found, trailing)]) if trailing else found


def polyfit(
    x: Any, y: Any, deg: int, rcond: Any = None, full: bool = False, w: Any = None, cov: Any = False
) -> Any:
    """Fit a polynomial of a degree to points by least squares.

    With `full`, also return residuals, rank, singular values and their limit. With `cov`, also
    return the covariance of the coefficients.

    >>> polyfit([0.0, 1.0, 2.0], [1.0, 3.0, 5.0], 1).round(6).tolist()
    [2.0, 1.0]
    """
    x, y = (floating(part) for part in side_by_side(x, y))
    if len(x.shape) != 1 or len(y.shape) not in (1, 2) or x.shape[0] != y.shape[0]:
        raise ShapeError(
            f"polyfit needs as many values as points. Got shapes {x.shape} and {y.shape}."
        )
    limit = x.shape[0] * float(np.finfo(dtype_of(x)).eps) if rcond is None else rcond
    matrix, right = vander(x, int(deg) + 1), y
    if w is not None:
        weights = floating(w, x)
        matrix = matrix * reshape(weights, (-1, 1))
        right = right * (reshape(weights, (-1, 1)) if len(y.shape) == 2 else weights)
    scale = reduction.sum(matrix * matrix, 0) ** 0.5
    found = matmul(linalg.pinv(matrix / scale, limit), right)
    found = found / (reshape(scale, (-1, 1)) if len(y.shape) == 2 else scale)
    if not full and not cov:
        return found
    _, residuals, rank, values = linalg.lstsq(matrix / scale, right, limit)
    if full:
        return found, residuals, int(rank), values, limit
    return found, _covariance(matrix, scale, residuals, x.shape[0], int(deg) + 1, cov)


def _covariance(matrix: Any, scale: Any, residuals: Any, count: int, order: int, cov: Any) -> Any:
    scaled = matrix / scale
    base = linalg.inv(scaled.T @ scaled) / (reshape(scale, (-1, 1)) * scale)
    if cov == "unscaled":
        return base
    if count <= order:
        raise ArgumentError(f"polyfit needs more than {order} points for cov=True. Got {count}.")
    factor = residuals / (count - order)
    return base * factor[0] if factor.shape[0] == 1 else reshape(base, (order, order, 1)) * factor
