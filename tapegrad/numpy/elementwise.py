"""NumPy's universal functions, one line each, in terms of `tapegrad.ops`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from tapegrad.core.values.convert import NUMBERS
from tapegrad.core.values.tensor import Tensor
from tapegrad.errors import ArgumentTypeError
from tapegrad.numpy.loops import loop_dtypes
from tapegrad.numpy.reductions import running_over
from tapegrad.numpy.ufuncs import Binary, Unary
from tapegrad.numpy.values import as_array_like, dtype_of, narrow_floating, side_by_side, with_dtype
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.creation import full_like_p
from tapegrad.ops.elementwise import (
    arithmetic,
    bits,
    comparison,
    exponential,
    magnitude,
    powers,
    rounding,
    selection,
    trigonometric,
)
from tapegrad.ops.elementwise.complex_numbers import complex as complex_of, imag, real
from tapegrad.ops.elementwise.selection import where as choose
from tapegrad.ops.indexing import functions as indexing
from tapegrad.ops.interface import operator_functions
from tapegrad.ops.reduction import cumulative, primitives as reduction
from tapegrad.ops.reduction.logsumexp import logsumexp

_WHOLE = frozenset("biu")
_LEAST_NORMAL, _LEAST_EXPONENT, _LARGEST_HALF = 2.0**-14, -13, 65504.0
"""For float16: the exponents that `frexp` returns."""


def _narrow(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Convert integer arguments as NumPy's floating-point loops do."""
    return lambda x: function(narrow_floating(x))


def _as_numpy(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Convert integers and booleans to the dtypes of NumPy's loop."""

    def call(*inputs: Any) -> Any:
        kinds = [type(x) if type(x) in NUMBERS else dtype_of(x) for x in inputs]
        if not any([getattr(kind, "kind", "") in _WHOLE for kind in kinds]):
            return function(*inputs)
        if any([getattr(kind, "kind", "f") not in "biufc" for kind in kinds]):
            return function(*inputs)  # bfloat16, which NumPy does not know
        wanted = loop_dtypes(name, tuple(kinds), None, "same_kind")
        pairs = zip(inputs, wanted, strict=False)
        return function(*[x if type(x) in NUMBERS else with_dtype(x, kind) for x, kind in pairs])

    return call


def _of_truths(function: Callable[..., Any]) -> Callable[..., Any]:
    """Convert complex arguments to booleans, which not every device does."""

    def truth(x: Any) -> Any:
        is_complex = type(x) is complex or (type(x) not in NUMBERS and dtype_of(x).kind == "c")
        return comparison.not_equal(x, 0) if is_complex else x

    return lambda *inputs: function(*[truth(x) for x in inputs])


def _power(x1: Any, x2: Any) -> Any:
    """Powers with NumPy's dtypes for complex exponents and for booleans."""
    if isinstance(x2, complex):
        x2 = as_array_like(x2, x1)
    elif isinstance(x2, int) and not isinstance(x2, bool) and dtype_of(x1).kind == "b":
        x1 = with_dtype(x1, "int64")
    return _one_at_zero(powers.power(x1, x2), x2)


def _float_power(x1: Any, x2: Any) -> Any:
    x1, x2 = side_by_side(x1, x2)
    return _one_at_zero(powers.float_power(x1, x2), x2)


def _one_at_zero(y: Any, exponent: Any) -> Any:
    """Return 1 where a complex power has exponent 0: devices compute log(0)."""
    if dtype_of(y).kind != "c" or type(exponent) in NUMBERS or not _is_elsewhere(y):
        return y
    return choose(comparison.equal(exponent, 0), 1.0, y)


def _log2(x: Any) -> Any:
    if dtype_of(x).kind != "c":
        return exponential.log2(x)
    # By parts: infinity times a complex number is NaN.
    y = exponential.log(x)
    return complex_of(real(y) / math.log(2.0), imag(y) / math.log(2.0))


def _is_elsewhere(x: Any) -> bool:
    """Return whether a library other than NumPy holds the array."""
    while type(x) is not Tensor and hasattr(x, "tensor"):
        x = x.tensor
    # Asks for the device, not for the type of array: inside a function it is a recorded one.
    return type(x) is not Tensor or x.device != "cpu"


def _nextafter(x1: Any, x2: Any) -> Any:
    arrays = [x for x in (x1, x2) if type(x) not in NUMBERS]
    if any([dtype_of(x) != "float16" or not _is_elsewhere(x) for x in arrays]):
        return bits.nextafter(x1, x2)
    x1, x2 = side_by_side(x1, x2)
    return cast(_next_half(cast(x1, "float32"), cast(x2, "float32")), "float16")


def _next_half(x: Any, y: Any) -> Any:
    """Return the float16 number after `x` towards `y`, computed in float32."""
    size = magnitude.abs(x)
    mantissa, exponent = bits.frexp(selection.maximum(size, _LEAST_NORMAL))
    grows = (x > 0) == (y > x)
    # Below a power of two the spacing halves, except among subnormal numbers.
    shrinks = (mantissa == 0.5) & (exponent > _LEAST_EXPONENT) & ~grows
    places = exponent - 11 - cast(shrinks, exponent.dtype)
    step = bits.ldexp(1.0 + selection.minimum(size, 0.0), places)
    moved = x + choose(y > x, step, -step)
    moved = choose(comparison.isinf(x), magnitude.sign(x) * _LARGEST_HALF, moved)
    return choose((x == y) | (y != y), y, moved)


def _subtract_at(x: Any, index: Any, value: Any) -> Any:
    return indexing.index_add(x, index, arithmetic.negative(as_array_like(value, x)))


def _log_sum(base: float) -> Callable[..., Any]:
    """Return the logarithm of a sum of powers over axes; the base is given by its logarithm."""

    def reduce(x: Any, axis: tuple[int, ...], keepdims: bool) -> Any:
        if 0 in x.shape:  # an empty sum is 0
            return reduction.sum(x - math.inf, axis, keepdims) - math.inf
        return logsumexp(x * base, axis, keepdims) / base

    return reduce


def _ldexp(x1: Any, x2: Any) -> Any:
    if type(x2) is float or (type(x2) is not int and dtype_of(x2).kind not in "biu"):
        raise ArgumentTypeError("ldexp needs integers as exponents. Got floating-point numbers.")
    return bits.ldexp(x1, x2)


def _spacing(x: Any) -> Any:
    """Return the distance from each number to the next one away from zero."""
    kind = dtype_of(x)
    if kind != "float16" or not _is_elsewhere(x):
        return bits.spacing(x)
    away = choose(x < 0, -math.inf, full_like_p(x, shape=(), value=math.inf, dtype=kind))
    return with_dtype(_nextafter(x, with_dtype(away, kind)) - x, kind)


# Arithmetic

add = Binary(
    "add",
    arithmetic.add,
    identity=0,
    reduction=reduction.sum,
    running=running_over(cumulative.cumsum),
    placing=indexing.index_add,
)
subtract = Binary("subtract", arithmetic.subtract, placing=_subtract_at)
multiply = Binary(
    "multiply",
    arithmetic.multiply,
    identity=1,
    reduction=reduction.prod,
    running=running_over(cumulative.cumprod),
)
divide = true_divide = Binary("divide", arithmetic.divide)
floor_divide = Binary("floor_divide", _as_numpy("floor_divide", rounding.floor_divide))
remainder = mod = Binary("remainder", rounding.mod)
fmod = Binary("fmod", rounding.fmod)
divmod = Binary("divmod", operator_functions.divmod, nout=2)
power = pow = Binary("power", _as_numpy("power", _power))
float_power = Binary("float_power", _float_power)
negative = Unary("negative", arithmetic.negative)
positive = Unary("positive", arithmetic.positive)
absolute = abs = Unary("absolute", magnitude.abs)
fabs = Unary("fabs", _as_numpy("fabs", magnitude.fabs))
conjugate = conj = Unary("conjugate", arithmetic.conj)
reciprocal = Unary("reciprocal", _as_numpy("reciprocal", powers.reciprocal))
square = Unary("square", powers.square)
sqrt = Unary("sqrt", powers.sqrt)
cbrt = Unary("cbrt", _as_numpy("cbrt", powers.cbrt))
sign = Unary("sign", magnitude.sign)
copysign = Binary("copysign", magnitude.copysign)
heaviside = Binary("heaviside", _as_numpy("heaviside", magnitude.heaviside))
hypot = Binary("hypot", _as_numpy("hypot", powers.hypot), identity=0)

# Exponentials and logarithms

exp = Unary("exp", exponential.exp)
exp2 = Unary("exp2", _as_numpy("exp2", exponential.exp2))
expm1 = Unary("expm1", exponential.expm1)
log = Unary("log", exponential.log)
log2 = Unary("log2", _as_numpy("log2", _log2))
log10 = Unary("log10", exponential.log10)
log1p = Unary("log1p", exponential.log1p)
logaddexp = Binary("logaddexp", exponential.logaddexp, identity=-math.inf, reduction=_log_sum(1.0))
logaddexp2 = Binary(
    "logaddexp2",
    _as_numpy("logaddexp2", exponential.logaddexp2),
    identity=-math.inf,
    reduction=_log_sum(math.log(2.0)),
)

# Trigonometry

sin = Unary("sin", trigonometric.sin)
cos = Unary("cos", trigonometric.cos)
tan = Unary("tan", trigonometric.tan)
arcsin = asin = Unary("arcsin", trigonometric.asin)
arccos = acos = Unary("arccos", trigonometric.acos)
arctan = atan = Unary("arctan", trigonometric.atan)
sinh = Unary("sinh", trigonometric.sinh)
cosh = Unary("cosh", trigonometric.cosh)
tanh = Unary("tanh", trigonometric.tanh)
arcsinh = asinh = Unary("arcsinh", trigonometric.asinh)
arccosh = acosh = Unary("arccosh", trigonometric.acosh)
arctanh = atanh = Unary("arctanh", trigonometric.atanh)
arctan2 = atan2 = Binary("arctan2", _as_numpy("arctan2", trigonometric.atan2))
deg2rad = radians = Unary("deg2rad", _narrow(trigonometric.deg2rad))
rad2deg = degrees = Unary("rad2deg", _narrow(trigonometric.rad2deg))

# Rounding and parts

floor = Unary("floor", rounding.floor)
ceil = Unary("ceil", rounding.ceil)
trunc = Unary("trunc", rounding.trunc)
rint = Unary("rint", _narrow(rounding.rint))
modf = Unary("modf", _narrow(rounding.modf), nout=2)
frexp = Unary("frexp", _as_numpy("frexp", bits.frexp), nout=2)
ldexp = Binary("ldexp", _as_numpy("ldexp", _ldexp))
nextafter = Binary("nextafter", _as_numpy("nextafter", _nextafter))
spacing = Unary("spacing", _narrow(_spacing))
signbit = Unary("signbit", _as_numpy("signbit", magnitude.signbit))

# Maximum and minimum

maximum = Binary("maximum", selection.maximum, reduction=reduction.max, running=cumulative.cummax)
minimum = Binary("minimum", selection.minimum, reduction=reduction.min, running=cumulative.cummin)
fmax = Binary("fmax", selection.fmax, in_any_order=True)
fmin = Binary("fmin", selection.fmin, in_any_order=True)

# Comparisons and logic

equal = Binary("equal", comparison.equal)
not_equal = Binary("not_equal", comparison.not_equal)
less = Binary("less", comparison.less)
less_equal = Binary("less_equal", comparison.less_equal)
greater = Binary("greater", comparison.greater)
greater_equal = Binary("greater_equal", comparison.greater_equal)
logical_and = Binary(
    "logical_and", _of_truths(comparison.logical_and), identity=True, reduction=reduction.all
)
logical_or = Binary(
    "logical_or", _of_truths(comparison.logical_or), identity=False, reduction=reduction.any
)
logical_xor = Binary("logical_xor", _of_truths(comparison.logical_xor), identity=False)
logical_not = Unary("logical_not", _of_truths(comparison.logical_not))
isnan = Unary("isnan", comparison.isnan)
isinf = Unary("isinf", comparison.isinf)
isfinite = Unary("isfinite", comparison.isfinite)

# Bits and integers

bitwise_and = Binary("bitwise_and", bits.bitwise_and, identity=-1)
bitwise_or = Binary("bitwise_or", bits.bitwise_or, identity=0)
bitwise_xor = Binary("bitwise_xor", bits.bitwise_xor, identity=0)
invert = bitwise_not = bitwise_invert = Unary("invert", bits.bitwise_invert)
left_shift = bitwise_left_shift = Binary("left_shift", bits.bitwise_left_shift)
right_shift = bitwise_right_shift = Binary("right_shift", bits.bitwise_right_shift)
gcd = Binary("gcd", bits.gcd, identity=0)
lcm = Binary("lcm", bits.lcm)


def _bitwise_count(x: Any) -> Any:
    """Return the number of set bits in the absolute value of each integer, as uint8."""
    kind = dtype_of(x)
    if kind.kind not in "biu":
        raise ArgumentTypeError(f"bitwise_count needs integers. Got {x.dtype}.")
    rest = magnitude.abs(x) if kind.kind == "i" else x
    rest = cast(cast(rest, "uint8") if kind.kind == "b" else rest, "uint64")
    count = full_like_p(rest, shape=tuple(rest.shape), value=0, dtype=dtype_of(rest))
    for _ in range(8 * kind.itemsize):
        count = count + (rest & 1)
        rest = rest >> 1
    return cast(count, "uint8")


bitwise_count = Unary("bitwise_count", _bitwise_count)
