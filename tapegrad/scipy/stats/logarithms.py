"""Logarithms at the edge of a support, with gradient 0 where the derivative is infinite.

The derivatives of `xlogy` and `log` are infinite there. Multiplied by the 0 of a following
exponential they would be NaN.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.scipy.vocabulary import (
    exp,
    expm1,
    log,
    log1p,
    minimum,
    numpy_dtype_of,
    stop_gradient,
    where,
)


def log_or_minus_infinity(p: Any) -> Any:
    """Return log(p), without a gradient where p is 0 or nearly underflows.

    >>> import tapegrad
    >>> log_or_minus_infinity(tapegrad.constant([0.0, 1.0])).tolist()
    [-inf, 0.0]
    """
    # The reciprocal of smaller numbers would overflow.
    smallest = 1e-300 if numpy_dtype_of(p) == np.float64 else 1e-37
    is_zero, is_little = p <= 0, p < smallest
    little = log(stop_gradient(where(is_zero, 1.0, p)))
    rest = log(where(is_little, 1.0, p))
    return where(is_zero, -math.inf, where(is_little, little, rest))


def times_log(a: Any, x: Any) -> Any:
    """Return a log(x) for x >= 0, which is 0 where a is 0; there is no gradient where x is 0.

    >>> import tapegrad
    >>> a = tapegrad.constant([-1.0, 0.0, 2.0])
    >>> times_log(a, tapegrad.zeros(3)).tolist()
    [inf, 0.0, -inf]
    """
    is_zero = x == 0
    return where(is_zero, _at_zero(a), a * log(where(is_zero, 1.0, x)))


def times_log1p(a: Any, x: Any) -> Any:
    """Return a log(1 + x) for x >= -1, accurate near 0; there is no gradient at -1.

    >>> import tapegrad
    >>> float(times_log1p(tapegrad.constant(2.0), tapegrad.constant(-1.0)))
    -inf
    """
    is_zero = x == -1
    return where(is_zero, _at_zero(a), a * log1p(where(is_zero, 0.0, x)))


def _at_zero(a: Any) -> Any:
    return where(a > 0, -math.inf, where(a < 0, math.inf, 0.0 * a))


def log_complement(x: Any) -> Any:
    """Return log(1 - exp(-x)) for x >= 0, and -inf without a gradient at 0.

    >>> import tapegrad
    >>> log_complement(tapegrad.constant([0.0, 1000.0])).tolist()
    [-inf, -0.0]
    """
    is_zero, is_near = x <= 0, x < math.log(2)
    near = log(-expm1(-where(is_near & ~is_zero, x, 0.5)))
    far = log1p(-exp(-where(is_near, 1.0, x)))
    return where(is_zero, -math.inf, where(is_near, near, far))


def exp_or_infinite(x: Any) -> Any:
    """Return exp(x), and infinity without a gradient where x is infinite.

    >>> import tapegrad
    >>> float(exp_or_infinite(tapegrad.constant(math.inf)))
    inf
    """
    is_infinite = x == math.inf
    return where(is_infinite, math.inf, exp(where(is_infinite, 0.0, x)))


def bounded_exp(x: Any) -> Any:
    """Return exp(x), limited to a constant that is large enough to make exp(-exp(x)) 0.

    >>> import tapegrad
    >>> bool(bounded_exp(tapegrad.constant(1e30)) < float("inf"))
    True
    """
    return exp(minimum(x, 700.0 if numpy_dtype_of(x) == np.float64 else 80.0))


def beyond_zero(formula: Callable[..., Any], at_zero: float) -> Callable[..., Any]:
    """Extend a formula to 0 by its limit `at_zero`, without a gradient there.

    >>> import tapegrad
    >>> beyond_zero(lambda x: 1 / x, math.inf)(tapegrad.constant([0.0, 2.0])).tolist()
    [inf, 0.5]
    """

    def call(x: Any, *shapes: Any) -> Any:
        is_zero = x == 0
        return where(is_zero, at_zero, formula(where(is_zero, 1.0, x), *shapes))

    return call
