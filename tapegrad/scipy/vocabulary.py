"""The words in which the modules here are written: functions of tensors that many of them need.

In `tapegrad.ops` these live by topic, and some bear the names of Python's own. Here they stand
together, each under the name by which all modules know it.
"""

from __future__ import annotations

from tapegrad.ops.basic import broadcast_p, reshape_p
from tapegrad.ops.cast import cast, in_dtype
from tapegrad.ops.comparison import isnan
from tapegrad.ops.complex_numbers import complex as complex_of, imag, real
from tapegrad.ops.creation import as_constant, numpy_dtype_of, ones_like, zeros_for, zeros_like
from tapegrad.ops.cumulative import cumsum, diff
from tapegrad.ops.diagonal import matrix_diag, matrix_diag_part
from tapegrad.ops.exponential import exp, expm1, log, log1p
from tapegrad.ops.gather import gather, move_axis, place_next_to, take_add_p, take_p
from tapegrad.ops.joining import concat, holds_tensors, stack
from tapegrad.ops.kinds import is_complex
from tapegrad.ops.magnitude import sign
from tapegrad.ops.matrix_product import conjugate
from tapegrad.ops.powers import sqrt
from tapegrad.ops.reduction import (
    all as every,
    max as largest,
    mean,
    min as smallest,
    sum as sum_over,
)
from tapegrad.ops.rounding import floor, rint
from tapegrad.ops.selection import clip, maximum, minimum, where
from tapegrad.ops.shape import broadcast_arrays, expand_dims, matrix_transpose, moveaxis
from tapegrad.ops.sigmoids import log_sigmoid, sigmoid
from tapegrad.ops.special import betaln, digamma, erf, lgamma, log_ndtr, ndtr, ndtri
from tapegrad.ops.stop_gradient import stop_gradient
from tapegrad.ops.trigonometric import asin, asinh, atan, atan2, atanh, cos, sin, tanh
from tapegrad.scipy.operands import (
    arguments,
    eps_of,
    is_number,
    numbers_like,
    operand,
    operands,
    take,
)

__all__ = [
    "arguments", "as_constant", "asin", "asinh", "atan", "atan2", "atanh", "betaln",
    "broadcast_arrays", "broadcast_p", "cast", "clip", "complex_of", "concat", "conjugate",
    "cos", "cumsum", "diff", "digamma", "eps_of", "erf", "every", "exp", "expand_dims", "expm1",
    "floor", "gather", "holds_tensors", "imag", "in_dtype", "is_complex", "is_number", "isnan",
    "largest", "lgamma", "log", "log1p", "log_ndtr", "log_sigmoid", "matrix_diag",
    "matrix_diag_part", "matrix_transpose", "maximum", "mean", "minimum", "move_axis",
    "moveaxis", "ndtr", "ndtri", "numbers_like", "numpy_dtype_of", "ones_like", "operand",
    "operands", "place_next_to", "real", "reshape_p", "rint", "sigmoid", "sign", "sin",
    "smallest", "sqrt", "stack", "stop_gradient", "sum_over", "take", "take_add_p", "take_p",
    "tanh", "where", "zeros_for", "zeros_like",
]  # fmt: skip
