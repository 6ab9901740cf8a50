"""Entropies, Box-Cox transforms, logsumexp and softmax."""

from __future__ import annotations

import math
from typing import Any

from tapegrad.core.primitive.operand import normalize_axes
from tapegrad.ops.casting.promotion import operand, operands
from tapegrad.ops.control.stop_gradient import stop_gradient
from tapegrad.ops.elementwise.comparison import isnan
from tapegrad.ops.elementwise.exponential import exp, log, log1p
from tapegrad.ops.elementwise.magnitude import sign
from tapegrad.ops.elementwise.selection import where
from tapegrad.ops.nn.softmax import log_softmax as log_softmax_along, softmax as softmax_along
from tapegrad.ops.reduction.logsumexp import largest_finite, logsumexp as log_sum_exp
from tapegrad.ops.reduction.primitives import max as largest, sum as sum_over
from tapegrad.ops.shape.functions import broadcast_arrays
from tapegrad.special_functions.removable_singularities import expm1_ratio


def entr(x: Any) -> Any:
    """Return -x log(x): 0 at 0 and -inf for negative x.

    >>> entr([-1.0, 2.0]).round(4).tolist()
    [-inf, -1.3863]
    """
    x = operand(x)
    safe = where((x <= 0) | (x == math.inf), 1.0, x)
    inside = where(x == math.inf, -math.inf, -safe * log(safe))
    return where(x < 0, -math.inf, inside)


def rel_entr(x: Any, y: Any) -> Any:
    """Return x log(x / y): 0 where x is 0 and y >= 0, inf elsewhere outside x, y > 0.

    >>> rel_entr([0.0, 1.0, 1.0], [1.0, 1.0, 0.0]).tolist()
    [0.0, 0.0, inf]
    """
    x, y = operands(x, y)
    is_none, is_inside = isnan(x) | isnan(y), (x > 0) & (y > 0)
    above, below = where(is_inside, x, 1.0), where(is_inside, y, 1.0)
    inside = above * (log(above) - log(below))
    y = where(is_inside, inside, where((x == 0) & (y >= 0), 0.0, math.inf))
    return where(is_none, math.nan, y)


def kl_div(x: Any, y: Any) -> Any:
    """Return x log(x / y) - x + y: y where x is 0 and y >= 0.

    >>> kl_div([0.0, 1.0], [3.0, 1.0]).tolist()
    [3.0, 0.0]
    """
    x, y = operands(x, y)
    entropy = rel_entr(x, y)
    is_infinite = entropy == math.inf
    return where(is_infinite, math.inf, entropy - x + y)


def boxcox(x: Any, lmbda: Any) -> Any:
    """Return the Box-Cox transform (x ** lmbda - 1) / lmbda, or log(x) where lmbda is 0.

    >>> boxcox(2.0, [1.0, 2.0]).tolist()
    [1.0, 1.5]
    """
    x, lmbda = operands(x, lmbda)
    x, lmbda = broadcast_arrays(x, lmbda)
    is_inside = (x > 0) & (x < math.inf)
    logs = log(where(is_inside, x, 1.0))
    y = logs * expm1_ratio(lmbda * logs)
    return where(is_inside, y, _at_ends(x == 0, x == math.inf, lmbda))


def boxcox1p(x: Any, lmbda: Any) -> Any:
    """Return boxcox(1 + x, lmbda), accurate near x = 0.

    >>> boxcox1p(1.0, 1.0).tolist()
    1.0
    """
    x, lmbda = operands(x, lmbda)
    is_inside = (x > -1) & (x < math.inf)
    logs = log1p(where(is_inside, x, 0.0))
    y = logs * expm1_ratio(lmbda * logs)
    return where(is_inside, y, _at_ends(x == -1, x == math.inf, lmbda))


def _at_ends(is_zero: Any, is_infinite: Any, lmbda: Any) -> Any:
    """Return the transforms of 0 and of infinity, and NaN for other arguments."""
    at_zero = where(lmbda > 0, -1 / where(lmbda > 0, lmbda, 1.0), -math.inf)
    at_infinity = where(lmbda < 0, -1 / where(lmbda < 0, lmbda, 1.0), math.inf)
    y = where(is_zero, at_zero, where(is_infinite, at_infinity, math.nan))
    return where(isnan(lmbda), lmbda, y)


def logsumexp(
    a: Any, axis: Any = None, b: Any = None, keepdims: bool = False, return_sign: bool = False
) -> Any:
    """Return log(sum(b * exp(a))) without overflow.

    With `return_sign` the result is the logarithm of the absolute value of the sum, and its sign.

    >>> round(float(logsumexp([0.0, 0.0], b=[1.0, 3.0])), 4)
    1.3863
    """
    if b is None and not return_sign:
        return log_sum_exp(operand(a), axis=axis, keepdims=keepdims)
    a, b = operands(a, 1.0 if b is None else b)
    a = where(b == 0, -math.inf, a + 0.0 * b)
    axes = normalize_axes(axis, a.ndim, "logsumexp")
    top = stop_gradient(largest(a, axes, keepdims=True))
    top = where((top == -math.inf) | (top == math.inf), 0.0, top)
    total = sum_over(b * exp(a - top), axes, keepdims=True)
    if not return_sign:
        y = log(total) + top
        return y if keepdims else sum_over(y, axes)
    is_zero = total == 0
    y = where(is_zero, -math.inf, log(abs(where(is_zero, 1.0, total))) + top)
    signs = sign(total)
    return (y, signs) if keepdims else (sum_over(y, axes), sum_over(signs, axes))


def softmax(x: Any, axis: Any = None) -> Any:
    """Return exp(x) divided by its sum along `axis` (default: all axes).

    >>> softmax([0.0, 0.0]).tolist()
    [0.5, 0.5]
    """
    x = operand(x)
    if isinstance(axis, int):
        return softmax_along(x, axis)
    axes, shifted = _shifted(x, axis, "softmax")
    terms = exp(shifted)
    return terms / sum_over(terms, axes, keepdims=True)


def log_softmax(x: Any, axis: Any = None) -> Any:
    """Return the logarithm of softmax.

    >>> log_softmax([1.0, -1000.0]).tolist()
    [0.0, -1001.0]
    """
    x = operand(x)
    if isinstance(axis, int):
        return log_softmax_along(x, axis)
    axes, shifted = _shifted(x, axis, "log_softmax")
    return shifted - log(sum_over(exp(shifted), axes, keepdims=True))


def _shifted(x: Any, axis: Any, name: str) -> tuple[Any, Any]:
    """Return the axes, and x minus the largest number along them."""
    axes = normalize_axes(axis, x.ndim, name)
    return axes, x - largest_finite(x, axes)
