"""TensorFlow's `tf.math` names: elementwise functions, reductions, special functions."""

from typing import Any as _Any

from tapegrad import special
from tapegrad.absent import absence as _absence
from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.ops.composed import (
    confusion_matrix,
    invert_permutation,
    is_non_decreasing,
    is_strictly_increasing,
    polyval,
    reciprocal_no_nan,
    scalar_mul,
)
from tapegrad.ops.elementwise.arithmetic import (
    add,
    conj,
    divide,
    divide as truediv,
    multiply,
    negative,
    subtract,
)
from tapegrad.ops.elementwise.bessel import bessel_i0, bessel_i0e, bessel_i1, bessel_i1e
from tapegrad.ops.elementwise.bits import nextafter
from tapegrad.ops.elementwise.comparison import (
    approximate_equal,
    equal,
    greater,
    greater_equal,
    isfinite as is_finite,
    isinf as is_inf,
    isnan as is_nan,
    less,
    less_equal,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    not_equal,
)
from tapegrad.ops.elementwise.complex_numbers import angle, imag, real
from tapegrad.ops.elementwise.exponential import exp, expm1, log, log1p, logaddexp, xlog1py, xlogy
from tapegrad.ops.elementwise.magnitude import abs, sign
from tapegrad.ops.elementwise.no_nan import divide_no_nan, multiply_no_nan, xdivy
from tapegrad.ops.elementwise.powers import (
    cbrt,
    hypot,
    power as pow,
    reciprocal,
    rsqrt,
    sqrt,
    square,
    squared_difference,
)
from tapegrad.ops.elementwise.rounding import (
    ceil,
    floor,
    floor_divide as floordiv,
    fmod as truncatemod,
    mod,
    mod as floormod,
    rint,
    round,
    truncatediv,
)
from tapegrad.ops.elementwise.selection import maximum, minimum
from tapegrad.ops.elementwise.sigmoids import log_sigmoid, sigmoid, softplus, softsign
from tapegrad.ops.elementwise.special_functions import (
    betainc,
    digamma,
    erf,
    erfc,
    erfcinv,
    erfcx,
    erfinv,
    igamma,
    igammac,
    lbeta,
    lgamma,
    ndtri,
    polygamma,
    zeta,
)
from tapegrad.ops.elementwise.trigonometric import (
    acos,
    acosh,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    cos,
    cosh,
    sin,
    sinc,
    sinh,
    tan,
    tanh,
)
from tapegrad.ops.indexing.approximate_top import approx_max_k, approx_min_k
from tapegrad.ops.indexing.segment_functions import (
    segment_max,
    segment_mean,
    segment_min,
    segment_prod,
    segment_sum,
    unsorted_segment_max,
    unsorted_segment_mean,
    unsorted_segment_min,
    unsorted_segment_prod,
    unsorted_segment_sqrt_n,
    unsorted_segment_sum,
)
from tapegrad.ops.indexing.sorting import in_top_k, top_k
from tapegrad.ops.linalg.norms import l2_normalize
from tapegrad.ops.nn.softmax import log_softmax, softmax
from tapegrad.ops.reduction.counting import bincount
from tapegrad.ops.reduction.cumulative import cumprod, cumsum, cumulative_logsumexp
from tapegrad.ops.reduction.functions import (
    argmax,
    argmin,
    count_nonzero,
    reduce_all,
    reduce_any,
    reduce_euclidean_norm,
    reduce_logsumexp,
    reduce_max,
    reduce_mean,
    reduce_min,
    reduce_prod,
    reduce_std,
    reduce_sum,
    reduce_variance,
)
from tapegrad.ops.reduction.statistics import zero_fraction
from tapegrad.ops.reduction.sums import accumulate_n, add_n

__all__ = [
    "abs", "accumulate_n", "acos", "acosh", "add", "add_n", "angle", "approx_max_k", "approx_min_k",
    "approximate_equal", "argmax", "argmin", "asin", "asinh", "atan", "atan2", "atanh", "bessel_i0",
    "bessel_i0e", "bessel_i1", "bessel_i1e", "betainc", "bincount", "cbrt", "ceil",
    "confusion_matrix", "conj", "cos", "cosh", "count_nonzero", "cumprod", "cumsum",
    "cumulative_logsumexp", "digamma", "divide", "divide_no_nan", "equal", "erf", "erfc", "erfcinv",
    "erfcx", "erfinv", "exp", "expm1", "floor", "floordiv", "floormod", "greater", "greater_equal",
    "hypot", "igamma", "igammac", "imag", "in_top_k", "invert_permutation", "is_finite", "is_inf",
    "is_nan", "is_non_decreasing", "is_strictly_increasing", "l2_normalize", "lbeta", "less",
    "less_equal", "lgamma", "log", "log1p", "log_sigmoid", "log_softmax", "logaddexp",
    "logical_and", "logical_not", "logical_or", "logical_xor", "maximum", "minimum", "mod",
    "multiply", "multiply_no_nan", "ndtri", "negative", "nextafter", "not_equal", "polygamma",
    "polyval", "pow", "real", "reciprocal", "reciprocal_no_nan", "reduce_all", "reduce_any",
    "reduce_euclidean_norm", "reduce_logsumexp", "reduce_max", "reduce_mean", "reduce_min",
    "reduce_prod", "reduce_std", "reduce_sum", "reduce_variance", "rint", "round", "rsqrt",
    "scalar_mul", "segment_max", "segment_mean", "segment_min", "segment_prod", "segment_sum",
    "sigmoid", "sign", "sin", "sinc", "sinh", "softmax", "softplus", "softsign", "special", "sqrt",
    "square", "squared_difference", "subtract", "tan", "tanh", "top_k", "truediv", "truncatediv",
    "truncatemod", "unsorted_segment_max", "unsorted_segment_mean", "unsorted_segment_min",
    "unsorted_segment_prod", "unsorted_segment_sqrt_n", "unsorted_segment_sum", "xdivy", "xlog1py",
    "xlogy", "zero_fraction", "zeta",
]  # fmt: skip

_check_calls(globals(), __all__)


def __getattr__(name: str) -> _Any:
    raise _absence("math", name)
