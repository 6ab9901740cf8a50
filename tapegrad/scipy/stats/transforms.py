"""Power transforms that make a sample look normal, and how likely they make it."""

from __future__ import annotations

import math
from typing import Any

from tapegrad.ops.basic import reshape_p
from tapegrad.ops.exponential import log, log1p
from tapegrad.ops.magnitude import sign
from tapegrad.ops.selection import where
from tapegrad.ops.stop_gradient import stop_gradient
from tapegrad.scipy.operands import operand, operands
from tapegrad.scipy.stats.extremes import expm1_ratio
from tapegrad.scipy.stats.samples import read_values

_GOLDEN = 0.5 * (math.sqrt(5) - 1)
_REACH, _ROUNDS = 12.0, 70


def _power(logs: Any, lmbda: Any) -> Any:
    """(exp(lmbda logs) - 1) / lmbda, smooth at 0."""
    return logs * expm1_ratio(lmbda * logs)


def _read(lmb: Any, data: Any, axis: Any, name: str) -> tuple[Any, Any]:
    lmb, data = operands(lmb, data)
    return lmb, read_values(data, axis, "propagate", name)


def boxcox_llf(lmb: Any, data: Any, *, axis: Any = 0, keepdims: bool = False) -> Any:
    """Return the log-likelihood of a Box-Cox transform; both arguments get gradients.

    >>> round(float(boxcox_llf(1.0, [1.0, 2.0, 4.0])), 6)
    -0.662749
    """
    lmb, values = _read(lmb, data, axis, "boxcox_llf")
    logs = log(values.x)
    moved = _replace(values, _power(logs, lmb))
    y = (lmb - 1) * values.total(logs) - 0.5 * values.count * log(moved.var())
    return values.dropped(y, keepdims)


def _replace(values: Any, x: Any) -> Any:
    return read_values(x, values.axis, "propagate", "boxcox_llf")


def boxcox(x: Any, lmbda: Any = None) -> Any:
    """Return the Box-Cox transform of positive values; without lmbda the likeliest one with it.

    That one is looked for between -12 and 12, and is a constant for gradients.

    >>> boxcox([1.0, 3.0], 2.0).numpy().round(6).tolist()
    [0.0, 4.0]
    """
    if lmbda is not None:
        x, lmbda = operands(x, lmbda)
        return _power(log(x), lmbda)
    x = operand(x)
    best = _likeliest(lambda lmb: boxcox_llf(lmb, stop_gradient(x)), x)
    return _power(log(x), best), best


def _signed_power(x: Any, lmbda: Any) -> Any:
    """Yeo and Johnson's transform: one power on either side of 0."""
    is_left = x < 0
    logs = log1p(where(is_left, -x, x))
    lmbda = where(is_left, 2 - lmbda, lmbda)
    y = _power(logs, lmbda)
    return where(is_left, -y, y)


def yeojohnson_llf(lmb: Any, data: Any, *, axis: Any = 0, keepdims: bool = False) -> Any:
    """Return the log-likelihood of a Yeo-Johnson transform; both arguments get gradients.

    >>> round(float(yeojohnson_llf(1.0, [1.0, 2.0, 4.0])), 6)
    -0.662749
    """
    lmb, values = _read(lmb, data, axis, "yeojohnson_llf")
    x = values.x
    logs = sign(stop_gradient(x)) * log1p(where(x < 0, -x, x))
    moved = _replace(values, _signed_power(x, lmb))
    y = (lmb - 1) * values.total(logs) - 0.5 * values.count * log(moved.var())
    return values.dropped(y, keepdims)


def yeojohnson(x: Any, lmbda: Any = None) -> Any:
    """Return the Yeo-Johnson transform; without lmbda the likeliest one with it.

    >>> yeojohnson([-1.0, 0.0, 3.0], 1.0).numpy().round(6).tolist()
    [-1.0, 0.0, 3.0]
    """
    if lmbda is not None:
        return _signed_power(*operands(x, lmbda))
    x = operand(x)
    best = _likeliest(lambda lmb: yeojohnson_llf(lmb, stop_gradient(x)), x)
    return _signed_power(x, best), best


def _likeliest(llf: Any, x: Any) -> Any:
    """The lmbda of the largest likelihood, by golden sections: all on the device."""
    zero = 0.0 * reshape_p(stop_gradient(x), shape=(-1,))[0]
    low, high = zero - _REACH, zero + _REACH
    for _ in range(_ROUNDS):
        width = _GOLDEN * (high - low)
        left, right = high - width, low + width
        is_left = llf(left) > llf(right)
        low, high = where(is_left, low, left), where(is_left, right, high)
    return 0.5 * (low + high)
