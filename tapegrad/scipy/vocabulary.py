"""Operations that most modules of tapegrad.scipy import, under one set of names.

Functions whose names would shadow Python builtins are renamed: `largest` for max, `smallest` for
min, `sum_over` for sum, `every` for all, and `complex_of` for complex.
"""

from __future__ import annotations

from tapegrad.ops.casting.cast import cast, in_dtype
from tapegrad.ops.casting.promotion import numbers_like, operand, operands
from tapegrad.ops.control.stop_gradient import stop_gradient
from tapegrad.ops.creation import as_constant, numpy_dtype_of, ones_like, zeros_for, zeros_like
from tapegrad.ops.elementwise.comparison import isnan
from tapegrad.ops.elementwise.complex_numbers import complex as complex_of, imag, real
from tapegrad.ops.elementwise.exponential import exp, expm1, log, log1p
from tapegrad.ops.elementwise.magnitude import sign
from tapegrad.ops.elementwise.powers import sqrt
from tapegrad.ops.elementwise.rounding import floor, rint
from tapegrad.ops.elementwise.selection import clip, maximum, minimum, where
from tapegrad.ops.elementwise.sigmoids import log_sigmoid, sigmoid
from tapegrad.ops.elementwise.special_functions import (
    betaln,
    digamma,
    erf,
    lgamma,
    log_ndtr,
    ndtr,
    ndtri,
)
from tapegrad.ops.elementwise.trigonometric import asin, asinh, atan, atan2, atanh, cos, sin, tanh
from tapegrad.ops.indexing.gather import gather, move_axis, place_next_to, take_add_p, take_p
from tapegrad.ops.kinds import is_complex
from tapegrad.ops.products.primitives import conjugate
from tapegrad.ops.reduction.cumulative import cumsum, diff
from tapegrad.ops.reduction.primitives import (
    all as every,
    max as largest,
    mean,
    min as smallest,
    sum as sum_over,
)
from tapegrad.ops.shape.diagonal import matrix_diag, matrix_diag_part
from tapegrad.ops.shape.functions import broadcast_arrays, expand_dims, matrix_transpose, moveaxis
from tapegrad.ops.shape.joining import concat, holds_tensors, stack
from tapegrad.ops.shape.primitives import broadcast_p, reshape_p
from tapegrad.scipy.operands import arguments, eps_of, is_number, take

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
