"""Activation functions with one or two buffers.

Operands may be NumPy scalars, which augmented assignment replaces instead of changing them.
Functions of real numbers use `np.fabs`, which raises for complex numbers.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tapegrad.core.backend.registry import by_name
from tapegrad_numpy.kernels.bfloat16 import numbers_like
from tapegrad_numpy.kernels.half import refuse_complex, widened
from tapegrad_numpy.kernels.special import KERNELS as SPECIAL

_CUBIC = 0.044715
_ROOT = 0.7978845608028654  # sqrt(2 / π)
_DENSITY = 1 / math.sqrt(2 * math.pi)


def relu(x: Any) -> Any:
    return np.maximum(x, 0)


def relu6(x: Any) -> Any:
    return np.minimum(np.maximum(x, 0), 6)


def leaky_relu(x: Any, *, alpha: float) -> Any:
    if x.itemsize == 2:
        (alpha,) = numbers_like(x, alpha)
    if 0 <= alpha <= 1:
        return np.maximum(x, alpha * x)
    return np.where(x > 0, x, alpha * x)


def elu(x: Any, *, scale: float, alpha: float, width: float) -> Any:
    if x.itemsize == 2:
        scale, alpha, width = numbers_like(x, scale, alpha, width)
    result = np.minimum(x, 0)
    if width != 1:
        result /= width
    result = np.expm1(result)
    result *= alpha
    # At each element one of the two terms is zero, so their sum selects without a mask.
    result += np.maximum(x, 0)
    if scale != 1:
        result *= scale
    return result


def _floats(x: Any) -> Any:
    """Convert integers, whose negative may not exist, to the floats that ufuncs compute with."""
    return x if x.dtype.kind not in "biu" else x.astype(np.result_type(x, np.float16))


def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x)) has full relative precision, except where exp(-x) overflows."""
    x = _floats(x)
    result = np.negative(x)
    try:
        with np.errstate(over="raise"):
            result = np.exp(result)
    except FloatingPointError:
        return _sigmoid_with_overflow(x)
    result += 1
    return 1 / result


def _sigmoid_with_overflow(x: Any) -> Any:
    """The sigmoid of numbers so small that exp(x), the result, is not a normal number."""
    with np.errstate(over="ignore", under="ignore"):
        result = np.exp(np.negative(x))
        return np.where(np.isinf(result), np.exp(x), 1 / (1 + result))[()]


def softplus(x: Any) -> Any:
    x = _floats(x)
    result = -np.fabs(x)
    result = np.log1p(np.exp(result))
    result += np.maximum(x, 0)
    return result


def log_sigmoid(x: Any) -> Any:
    x = _floats(x)
    result = -np.fabs(x)
    result = np.log1p(np.exp(result))
    return np.minimum(x, 0) - result


def silu(x: Any, *, beta: float) -> Any:
    result = sigmoid(_scaled(x, beta))
    result *= x
    return result


def silu_slope(x: Any, *, beta: float) -> Any:
    scaled = _scaled(x, beta)
    gate = sigmoid(scaled)
    result = 1 - gate
    result *= scaled
    result += 1
    result *= gate
    return result


def _scaled(x: Any, beta: float) -> Any:
    x = _floats(x)
    return x if beta == 1 else numbers_like(x, beta)[0] * x


def mish(x: Any) -> Any:
    result = np.tanh(softplus(x))
    result *= x
    return result


def gelu_tanh(x: Any) -> Any:
    result = _gelu_gate(np.square(x), x)
    result += 1
    result *= 0.5  # first, because 2 x may overflow
    result *= x
    return result


def gelu_tanh_slope(x: Any) -> Any:
    # From |x| = 30 on, tanh is 1: the bound changes nothing but keeps infinity out of 0 * x**3.
    squared = np.minimum(np.square(x), 900)
    gate = _gelu_gate(squared.copy(), x)
    squared *= 3 * _CUBIC * _ROOT
    squared += _ROOT
    squared *= 1 - gate
    gate += 1
    squared *= gate
    squared *= x
    squared += gate
    squared *= 0.5
    return squared


def _gelu_gate(squared: Any, x: Any) -> Any:
    """tanh(sqrt(2 / π) (x + c x³)) from x² in a buffer that may be written to."""
    squared *= _CUBIC
    squared += 1
    squared *= x
    squared *= _ROOT
    return np.tanh(squared)


def gelu_slope(x: Any) -> Any:
    refuse_complex(x)
    wide = widened(x)
    result = np.exp(-0.5 * wide * wide)
    result *= _DENSITY
    result *= wide
    result += SPECIAL["ndtr"](wide)
    return result.astype(x.dtype, copy=False)


def softsign(x: Any) -> Any:
    result = np.fabs(x)
    result += 1
    return x / result


KERNELS = by_name(
    relu,
    relu6,
    leaky_relu,
    elu,
    sigmoid,
    softplus,
    log_sigmoid,
    silu,
    silu_slope,
    mish,
    gelu_tanh,
    gelu_tanh_slope,
    gelu_slope,
    softsign,
)
