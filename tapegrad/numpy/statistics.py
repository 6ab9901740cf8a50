"""Averages, covariance and correlation. Medians and quantiles are in quantiles.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.core.primitive.operand import normalize_axes, normalize_axis
from tapegrad.core.values.dtypes import as_dtype
from tapegrad.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    ShapeError,
    ZeroDivisorError,
)
from tapegrad.numpy.joining import concat
from tapegrad.numpy.manipulation import atleast_2d
from tapegrad.numpy.reductions import sum as total
from tapegrad.numpy.values import (
    NoValue,
    as_array,
    dtype_of,
    floating,
    is_array,
    side_by_side,
    with_dtype,
)
from tapegrad.ops.creation import full_like_p
from tapegrad.ops.elementwise.arithmetic import conj
from tapegrad.ops.elementwise.complex_numbers import complex, imag, real
from tapegrad.ops.elementwise.selection import maximum
from tapegrad.ops.kinds import is_complex
from tapegrad.ops.products.functions import matmul
from tapegrad.ops.reduction import primitives as reduction
from tapegrad.ops.shape.functions import broadcast_to, permute_dims, reshape


def average(
    a: Any, axis: Any = None, weights: Any = None, returned: bool = False, *, keepdims: bool = False
) -> Any:
    """Return the mean over `axis`, weighted if `weights` are given.

    >>> average([1, 2, 6], weights=[1, 1, 2]).tolist()
    3.75
    """
    x, w = (as_array(a), None) if weights is None else side_by_side(a, weights)
    if w is None:
        result = reduction.mean(x, axis, keepdims)
        count = int(np.prod(x.shape)) // max(int(np.prod(result.shape)), 1)
        shape, kind = tuple(result.shape), dtype_of(result)
        share = full_like_p(result, shape=shape, value=count, dtype=kind)
        return (result, share) if returned else result
    if not is_array(weights):
        _check_sum(np.asarray(weights), tuple(x.shape), axis)
    if w.shape != x.shape:
        w = _spread(w, x, axis)
    kind = np.result_type(dtype_of(x), dtype_of(w), *(("f8",) if dtype_of(x).kind in "biu" else ()))
    share = total(with_dtype(w, kind), axis, keepdims=keepdims)
    result = total(with_dtype(x, kind) * with_dtype(w, kind), axis, keepdims=keepdims) / share
    return (result, broadcast_to(share, tuple(result.shape))) if returned else result


def _spread(w: Any, x: Any, axis: Any) -> Any:
    """Return weights along some axes, reshaped to broadcast against the array."""
    if axis is None:
        raise ArgumentTypeError(
            "average needs axis= if the shape of weights differs from that of the array."
        )
    named = axis if isinstance(axis, list | tuple) else (axis,)
    axes = tuple(normalize_axis(k, len(x.shape), "average") for k in named)
    if w.shape != tuple(x.shape[k] for k in axes):
        raise ShapeError(
            f"average needs weights of shape {tuple(x.shape[k] for k in axes)} along axes {axes}. "
            f"Got shape {w.shape}."
        )
    w = permute_dims(
        w, np.argsort(axes).tolist()
    )  # the axes of the weights are in the order of `axis`
    lengths = tuple(n if k in axes else 1 for k, n in enumerate(x.shape))
    return broadcast_to(reshape(w, lengths), tuple(x.shape))


def _check_sum(weights: np.ndarray, shape: tuple[int, ...], axis: Any) -> None:
    """Raise for weights that add up to 0, unless they are on a device."""
    axes = None if weights.shape != shape or axis is None else normalize_axes(axis, len(shape), "")
    if np.any(weights.sum(axes) == 0):
        raise ZeroDivisorError("average needs weights that do not add up to 0.")


# Covariance


def cov(
    m: Any,
    y: Any = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: Any = None,
    aweights: Any = None,
    *,
    dtype: Any = None,
) -> Any:
    """Return the covariance matrix of variables in rows (or columns).

    >>> cov([[1.0, 2.0], [2.0, 4.0]]).tolist()
    [[0.5, 1.0], [1.0, 2.0]]
    """
    if dtype is not None and not as_dtype(dtype).is_differentiable:
        raise DTypeError(f"cov needs a floating or complex dtype. Got {dtype!r}.")
    if ddof is not None and ddof != int(ddof):
        raise ArgumentError(f"cov needs an integer ddof. Got {ddof}.")
    _check_weights("fweights", fweights)
    _check_weights("aweights", aweights)
    if y is not None:
        m, y = side_by_side(m, y)
    x = _variables(m, dtype)
    x = x if rowvar or np.ndim(m) == 1 else x.T
    if y is not None:
        others = _variables(y, dtype)
        # A single row of `y` is one variable, unlike that of `m`; so it is in NumPy.
        x = concat([x, others if rowvar or others.shape[0] == 1 else others.T], axis=0)
    degrees = (0 if bias else 1) if ddof is None else ddof
    weights = None if fweights is None else floating(fweights, x)
    if aweights is not None:
        weights = floating(aweights, x) if weights is None else weights * floating(aweights, x)
    if weights is None:
        count: Any = x.shape[1]
        centre = reduction.mean(x, 1, True)
        factor: Any = max(count - degrees, 0)
    else:
        count = weights.sum()
        centre = total(x * weights, 1, keepdims=True) / count
        factor = count - degrees
        if aweights is not None and degrees:
            factor = count - degrees * (weights * floating(aweights, x)).sum() / count
        factor = maximum(factor, 0.0)
    x = x - centre
    other = x if weights is None else x * weights
    other = conj(other) if is_complex(other) else other
    result = matmul(x, other, transpose_b=True) / factor
    return reshape(result, ()) if result.shape[0] == 1 else result


def _check_weights(name: str, weights: Any) -> None:
    """Raise for invalid weights; values are only checked on the host."""
    if weights is None:
        return
    if np.ndim(weights) != 1:
        raise ShapeError(f"cov needs {name} with one axis.")
    if is_array(weights):
        if name == "fweights" and dtype_of(as_array(weights)).kind not in "biu":
            raise ArgumentTypeError(f"cov needs integers as fweights. Got {weights.dtype}.")
        return
    values = np.asarray(weights)
    if name == "fweights" and np.any(values != np.around(values)):
        raise ArgumentTypeError(f"cov needs integers as fweights. Got {weights}.")
    if np.any(values < 0):
        raise ArgumentError(f"cov needs nonnegative {name}. Got {weights}.")


def _variables(m: Any, dtype: Any) -> Any:
    x = floating(m)
    x = with_dtype(x, np.result_type(dtype_of(x), "float64") if dtype is None else dtype)
    if len(x.shape) > 2:
        raise ShapeError(f"cov needs one or two axes. Got shape {x.shape}.")
    return atleast_2d(x)


def corrcoef(
    x: Any, y: Any = None, rowvar: bool = True, bias: Any = NoValue, ddof: Any = NoValue,
    *, dtype: Any = None,
) -> Any:  # fmt: skip
    """Return the correlation coefficients of variables in rows (or columns).

    >>> corrcoef([[1.0, 2.0], [2.0, 4.0]]).round(6).tolist()
    [[1.0, 1.0], [1.0, 1.0]]
    """
    c = cov(x, y, rowvar, dtype=dtype)
    if not c.shape:
        return c / c
    size = real(c.diagonal()) ** 0.5 if is_complex(c) else c.diagonal() ** 0.5
    scaled = c / reshape(size, (-1, 1)) / size
    if is_complex(scaled):
        return complex(real(scaled).clip(-1, 1), imag(scaled).clip(-1, 1))
    return scaled.clip(-1, 1)  # a rounding may lead out of the range
