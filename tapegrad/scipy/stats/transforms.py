"""Box-Cox and Yeo-Johnson transforms and their log-likelihoods."""

from __future__ import annotations

import math
from typing import Any

from tapegrad.errors import ShapeError
from tapegrad.scipy.stats.samples import read_values
from tapegrad.scipy.vocabulary import (
    largest,
    log,
    log1p,
    operand,
    operands,
    smallest,
    stop_gradient,
    where,
)
from tapegrad.special_functions.entropy import boxcox as transformed
from tapegrad.special_functions.removable_singularities import expm1_ratio

_GOLDEN = 0.5 * (math.sqrt(5) - 1)
_REACH, _ROUNDS = 12.0, 70


def _power(logs: Any, lmbda: Any) -> Any:
    """Return (exp(lmbda logs) - 1) / lmbda, smooth at lmbda = 0."""
    return logs * expm1_ratio(lmbda * logs)


def _read(lmb: Any, data: Any, axis: Any, name: str) -> tuple[Any, Any]:
    lmb, data = operands(lmb, data)
    return lmb, read_values(data, axis, "propagate", name)


def boxcox_llf(lmb: Any, data: Any, *, axis: Any = 0, keepdims: bool = False) -> Any:
    """Return the log-likelihood of a Box-Cox transform, differentiable in both arguments.

    >>> round(float(boxcox_llf(1.0, [1.0, 2.0, 4.0])), 6)
    -0.662749
    """
    lmb, values = _read(lmb, data, axis, "boxcox_llf")
    logs = log(values.x)
    # Divide by the value with the largest power, so that the powers do not overflow.
    ends = largest(logs, values.axis, True), smallest(logs, values.axis, True)
    top = stop_gradient(where(lmb > 0, *ends))
    moved = _replace(values, _power(logs - top, lmb))
    spread = 2 * lmb * top + log(moved.var())
    y = (lmb - 1) * values.total(logs) - 0.5 * values.count * spread
    return values.without_axis(y, keepdims)


def _replace(values: Any, x: Any) -> Any:
    return read_values(x, values.axis, "propagate", "boxcox_llf")


def boxcox(x: Any, lmbda: Any = None) -> Any:
    """Return the Box-Cox transform of positive values; without lmbda also the most likely lmbda.

    The search covers -12 to 12. The lmbda found is a constant for gradients.

    >>> boxcox([1.0, 3.0], 2.0).round(6).tolist()
    [0.0, 4.0]
    """
    if lmbda is not None:
        return transformed(x, lmbda)
    x = _sample_of(x, "boxcox")
    best = _likeliest(lambda lmb: boxcox_llf(lmb, stop_gradient(x)), x)
    return _power(log(x), best), best


def _signed_power(x: Any, lmbda: Any) -> Any:
    """Return the Yeo-Johnson transform, which uses different powers on both sides of 0."""
    is_left = x < 0
    logs = log1p(where(is_left, -x, x))
    lmbda = where(is_left, 2 - lmbda, lmbda)
    y = _power(logs, lmbda)
    return where(is_left, -y, y)


def yeojohnson_llf(lmb: Any, data: Any, *, axis: Any = 0, keepdims: bool = False) -> Any:
    """Return the log-likelihood of a Yeo-Johnson transform, differentiable in both arguments.

    >>> round(float(yeojohnson_llf(1.0, [1.0, 2.0, 4.0])), 6)
    -0.662749
    """
    lmb, values = _read(lmb, data, axis, "yeojohnson_llf")
    x = values.x
    logs = where(x < 0, -1.0, 1.0) * log1p(where(x < 0, -x, x))
    moved = _replace(values, _signed_power(x, lmb))
    y = (lmb - 1) * values.total(logs) - 0.5 * values.count * log(moved.var())
    return values.without_axis(y, keepdims)


def yeojohnson(x: Any, lmbda: Any = None) -> Any:
    """Return the Yeo-Johnson transform; without lmbda also the most likely lmbda.

    >>> yeojohnson([-1.0, 0.0, 3.0], 1.0).round(6).tolist()
    [-1.0, 0.0, 3.0]
    """
    if lmbda is not None:
        return _signed_power(*operands(x, lmbda))
    x = _sample_of(x, "yeojohnson")
    best = _likeliest(lambda lmb: yeojohnson_llf(lmb, stop_gradient(x)), x)
    return _signed_power(x, best), best


def _sample_of(x: Any, name: str) -> Any:
    x = operand(x)
    if x.ndim != 1 or x.shape[0] < 2:
        raise ShapeError(
            f"{name} without lmbda needs a vector of at least two values. Got shape {x.shape}."
        )
    return x


def _likeliest(llf: Any, x: Any) -> Any:
    """Return the most likely lmbda by golden section search on the device."""
    zero = 0.0 * stop_gradient(x)[0]
    low, high = zero - _REACH, zero + _REACH
    for _ in range(_ROUNDS):
        width = _GOLDEN * (high - low)
        left, right = high - width, low + width
        is_left = llf(left) > llf(right)
        low, high = where(is_left, low, left), where(is_left, right, high)
    return 0.5 * (low + high)
