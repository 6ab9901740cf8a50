# Made by ci/stubs.py, never by hand.
import builtins
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from tapegrad.core.values.tensor import Tensor

def abs(x: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return the absolute value; the gradient at 0 is 0, also for complex numbers.
    """
def accumulate_n(inputs: Any, shape: Any = ..., tensor_dtype: Any = ..., name: builtins.str | None = ...) -> Tensor: ...
def acos(x: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return the inverse cosine.
    """
def acosh(x: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return the inverse hyperbolic cosine.
    """
def add(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return x + y.
    """
def add_n(inputs: Any, name: builtins.str | None = ...) -> Tensor: ...
def angle(input: Any, name: builtins.str | None = ...) -> Tensor: ...
def approx_max_k(operand: Any, k: builtins.int, reduction_dimension: builtins.int = ..., recall_target: builtins.float = ..., reduction_input_size_override: builtins.int = ..., aggregate_to_topk: builtins.bool = ..., name: builtins.str | None = ...) -> builtins.tuple[Tensor, Tensor]: ...
def approx_min_k(operand: Any, k: builtins.int, reduction_dimension: builtins.int = ..., recall_target: builtins.float = ..., reduction_input_size_override: builtins.int = ..., aggregate_to_topk: builtins.bool = ..., name: builtins.str | None = ...) -> builtins.tuple[Tensor, Tensor]: ...
def approximate_equal(x: Any, y: Any, tolerance: builtins.float = ..., name: builtins.str | None = ...) -> Tensor: ...
def argmax(input: Any, axis: builtins.int | None = ..., output_type: Any = ..., name: builtins.str | None = ...) -> Tensor: ...
def argmin(input: Any, axis: builtins.int | None = ..., output_type: Any = ..., name: builtins.str | None = ...) -> Tensor: ...
def asin(x: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return the inverse sine.
    """
def asinh(x: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return the inverse hyperbolic sine.
    """
def atan(x: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return the inverse tangent.
    """
def atan2(y: Any, x: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return the angle of the point (x, y); the gradient at (0, 0) is 0.
    """
def atanh(x: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return the inverse hyperbolic tangent.
    """
def bessel_i0(x: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return the modified Bessel function I₀.
    """
def bessel_i0e(x: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return exp(-|x|) I₀(x).
    """
def bessel_i1(x: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return the modified Bessel function I₁.
    """
def bessel_i1e(x: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return exp(-|x|) I₁(x).
    """
def betainc(a: Any, b: Any, x: Any, name: builtins.str | None = ...) -> Tensor: ...
def bincount(arr: Any, weights: Any = ..., minlength: builtins.int | None = ..., maxlength: builtins.int | None = ..., dtype: Any = ..., name: builtins.str | None = ..., axis: builtins.int | None = ..., binary_output: builtins.bool = ...) -> Tensor: ...
def cbrt(x: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return the real cube root, also for negative numbers.
    """
def ceil(x: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return the smallest integer >= x.
    """
def confusion_matrix(labels: Any, predictions: Any, num_classes: builtins.int | None = ..., weights: Any = ..., dtype: Any = ..., name: builtins.str | None = ...) -> Tensor: ...
def conj(x: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return the complex conjugate.
    """
def cos(x: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return the cosine.
    """
def cosh(x: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return the hyperbolic cosine.
    """
def count_nonzero(input: Any, axis: Any = ..., keepdims: builtins.bool | None = ..., dtype: Any = ..., name: builtins.str | None = ...) -> Tensor: ...
def cumprod(x: Any, axis: builtins.int = ..., exclusive: builtins.bool = ..., reverse: builtins.bool = ..., name: builtins.str | None = ...) -> Tensor: ...
def cumsum(x: Any, axis: builtins.int = ..., exclusive: builtins.bool = ..., reverse: builtins.bool = ..., name: builtins.str | None = ...) -> Tensor: ...
def cumulative_logsumexp(x: Any, axis: builtins.int = ..., exclusive: builtins.bool = ..., reverse: builtins.bool = ..., name: builtins.str | None = ...) -> Tensor: ...
def digamma(x: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return the derivative of lgamma.
    """
def divide(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return x / y.
    """
def divide_no_nan(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return x / y, and 0 where y is 0.
    """
def equal(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return whether x == y, element by element.
    """
def erf(x: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return the error function.
    """
def erfc(x: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return 1 - erf(x), accurate for large x.
    """
def erfcinv(x: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return the inverse of erfc.
    """
def erfcx(x: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return exp(x²) erfc(x).
    """
def erfinv(x: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return the inverse of erf.
    """
def exp(x: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return e to the power x.
    """
def expm1(x: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return exp(x) - 1, accurate near 0.
    """
def floor(x: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return the largest integer <= x.
    """
def floordiv(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return x / y rounded down.
    """
def floormod(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return x - floor(x / y) * y, which has the sign of y.
    """
def greater(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return whether x > y, element by element.
    """
def greater_equal(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return whether x >= y, element by element.
    """
def hypot(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return sqrt(x**2 + y**2) without intermediate overflow.
    """
def igamma(a: Any, x: Any, name: builtins.str | None = ...) -> Tensor: ...
def igammac(a: Any, x: Any, name: builtins.str | None = ...) -> Tensor: ...
def imag(input: Any, name: builtins.str | None = ...) -> Tensor: ...
def in_top_k(targets: Any, predictions: Any, k: builtins.int, name: builtins.str | None = ...) -> Tensor: ...
def invert_permutation(x: Any, name: builtins.str | None = ...) -> Tensor: ...
def is_finite(x: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return whether each element is a finite number.
    """
def is_inf(x: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return whether each element is infinite.
    """
def is_nan(x: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return whether each element is NaN.
    """
def is_non_decreasing(x: Any, name: builtins.str | None = ...) -> Tensor: ...
def is_strictly_increasing(x: Any, name: builtins.str | None = ...) -> Tensor: ...
def l2_normalize(x: Any, axis: Any = ..., epsilon: builtins.float = ..., name: builtins.str | None = ..., dim: Any = ...) -> Tensor: ...
def lbeta(x: Any, name: builtins.str | None = ...) -> Tensor: ...
def less(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return whether x < y, element by element.
    """
def less_equal(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return whether x <= y, element by element.
    """
def lgamma(x: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return log |Γ(x)|.
    """
def log(x: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return the natural logarithm.
    """
def log1p(x: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return log(1 + x), accurate near 0.
    """
def log_sigmoid(x: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return the logarithm of the sigmoid without underflow.
    """
def log_softmax(logits: Any, axis: builtins.int | None = ..., name: builtins.str | None = ...) -> Tensor: ...
def logaddexp(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return log(exp(x) + exp(y)) without overflow.
    """
def logical_and(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return x and y, element by element.
    """
def logical_not(x: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return not x, element by element.
    """
def logical_or(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return x or y, element by element.
    """
def logical_xor(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return whether exactly one of x and y is true.
    """
def maximum(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return the larger of x and y; NaN if either is NaN.
    """
def minimum(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return the smaller of x and y; NaN if either is NaN.
    """
def mod(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return x - floor(x / y) * y, which has the sign of y.
    """
def multiply(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return x * y.
    """
def multiply_no_nan(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return x * y, and 0 where y is 0 even if x is infinite or NaN.
    """
def ndtri(x: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return the inverse of ndtr.
    """
def negative(x: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return -x.
    """
def nextafter(x1: Any, x2: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return the next float after x1 towards x2.
    """
def not_equal(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return whether x != y, element by element.
    """
def polygamma(a: Any, x: Any, name: builtins.str | None = ...) -> Tensor: ...
def polyval(coeffs: Any, x: Any, name: builtins.str | None = ...) -> Tensor: ...
def pow(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor: ...
def real(input: Any, name: builtins.str | None = ...) -> Tensor: ...
def reciprocal(x: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return 1 / x.
    """
def reciprocal_no_nan(x: Any, name: builtins.str | None = ...) -> Tensor: ...
def reduce_all(input_tensor: Any, axis: Any = ..., keepdims: builtins.bool = ..., name: builtins.str | None = ...) -> Tensor: ...
def reduce_any(input_tensor: Any, axis: Any = ..., keepdims: builtins.bool = ..., name: builtins.str | None = ...) -> Tensor: ...
def reduce_euclidean_norm(input_tensor: Any, axis: Any = ..., keepdims: builtins.bool = ..., name: builtins.str | None = ...) -> Tensor: ...
def reduce_logsumexp(input_tensor: Any, axis: Any = ..., keepdims: builtins.bool = ..., name: builtins.str | None = ...) -> Tensor: ...
def reduce_max(input_tensor: Any, axis: Any = ..., keepdims: builtins.bool = ..., name: builtins.str | None = ...) -> Tensor: ...
def reduce_mean(input_tensor: Any, axis: Any = ..., keepdims: builtins.bool = ..., name: builtins.str | None = ...) -> Tensor: ...
def reduce_min(input_tensor: Any, axis: Any = ..., keepdims: builtins.bool = ..., name: builtins.str | None = ...) -> Tensor: ...
def reduce_prod(input_tensor: Any, axis: Any = ..., keepdims: builtins.bool = ..., name: builtins.str | None = ...) -> Tensor: ...
def reduce_std(input_tensor: Any, axis: Any = ..., keepdims: builtins.bool = ..., name: builtins.str | None = ...) -> Tensor: ...
def reduce_sum(input_tensor: Any, axis: Any = ..., keepdims: builtins.bool = ..., name: builtins.str | None = ...) -> Tensor: ...
def reduce_variance(input_tensor: Any, axis: Any = ..., keepdims: builtins.bool = ..., name: builtins.str | None = ...) -> Tensor: ...
def rint(x: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return the nearest integer, halves to even.
    """
def round(x: Any, decimals: builtins.int | None = ..., name: builtins.str | None = ...) -> Tensor: ...
def rsqrt(x: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return 1 / sqrt(x).
    """
def scalar_mul(scalar: Any, x: Any, name: builtins.str | None = ...) -> Tensor: ...
def segment_max(data: Any, segment_ids: Any, name: builtins.str | None = ...) -> Tensor: ...
def segment_mean(data: Any, segment_ids: Any, name: builtins.str | None = ...) -> Tensor: ...
def segment_min(data: Any, segment_ids: Any, name: builtins.str | None = ...) -> Tensor: ...
def segment_prod(data: Any, segment_ids: Any, name: builtins.str | None = ...) -> Tensor: ...
def segment_sum(data: Any, segment_ids: Any, name: builtins.str | None = ...) -> Tensor: ...
def sigmoid(x: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return 1 / (1 + exp(-x)).
    """
def sign(x: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return -1, 0 or 1, or x / |x| for complex x; the gradient of real signs is zero.
    """
def sin(x: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return the sine.
    """
def sinc(x: Any, name: builtins.str | None = ...) -> Tensor: ...
def sinh(x: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return the hyperbolic sine.
    """
def softmax(logits: Any, axis: builtins.int | None = ..., name: builtins.str | None = ...) -> Tensor: ...
def softplus(features: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return log(1 + exp(x)) without overflow.
    """
def softsign(features: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return x / (1 + |x|).
    """
from tapegrad import special as special
def sqrt(x: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return the square root.
    """
def square(x: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return x * x.
    """
def squared_difference(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor: ...
def subtract(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return x - y.
    """
def tan(x: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return the tangent.
    """
def tanh(x: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return the hyperbolic tangent.
    """
def top_k(input: Any, k: builtins.int = ..., sorted: builtins.bool = ..., index_type: Any = ..., name: builtins.str | None = ...) -> Any: ...
def truediv(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return x / y.
    """
def truncatediv(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return x / y rounded towards zero.
    """
def truncatemod(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return x - trunc(x / y) * y, which has the sign of x.
    """
def unsorted_segment_max(data: Any, segment_ids: Any, num_segments: Any, name: builtins.str | None = ...) -> Tensor: ...
def unsorted_segment_mean(data: Any, segment_ids: Any, num_segments: Any, name: builtins.str | None = ...) -> Tensor: ...
def unsorted_segment_min(data: Any, segment_ids: Any, num_segments: Any, name: builtins.str | None = ...) -> Tensor: ...
def unsorted_segment_prod(data: Any, segment_ids: Any, num_segments: Any, name: builtins.str | None = ...) -> Tensor: ...
def unsorted_segment_sqrt_n(data: Any, segment_ids: Any, num_segments: Any, name: builtins.str | None = ...) -> Tensor: ...
def unsorted_segment_sum(data: Any, segment_ids: Any, num_segments: Any, name: builtins.str | None = ...) -> Tensor: ...
def xdivy(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return x / y, and 0 where x is 0 for every y.
    """
def xlog1py(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return x * log(1 + y), and 0 where x is 0.
    """
def xlogy(x: Any, y: Any, name: builtins.str | None = ...) -> Tensor:
    r"""Return x * log(y), and 0 where x is 0.
    """
def zero_fraction(value: Any, name: builtins.str | None = ...) -> Tensor: ...
def zeta(x: Any, q: Any, name: builtins.str | None = ...) -> Tensor: ...
