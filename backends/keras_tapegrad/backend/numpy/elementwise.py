"""Elementwise functions with Keras' dtypes, on the functions of tapegrad.numpy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keras.src.backend.common import standardize_dtype
from keras.src.backend.common.dtypes import INT_TYPES
from keras.src.backend.config import floatx

import tapegrad as tg
import tapegrad.numpy as np
from keras_tapegrad.backend.promotion import result_type
from keras_tapegrad.backend.tensors import (
    cast_to,
    common,
    convert_to_tensor,
    floating_dtype,
    is_whole,
)
from tapegrad.keras import ops

Function = Callable[..., Any]


def _named(run: Function, function: Function) -> Function:
    run.__name__, run.__doc__ = function.__name__, function.__doc__
    return run


def _same(function: Function) -> Function:
    """Return a function of one tensor whose result keeps its dtype."""

    def run(x: Any) -> Any:
        return function(convert_to_tensor(x))

    return _named(run, function)


def _floating(function: Function) -> Function:
    """Return a function of one tensor, which becomes floating first."""

    def run(x: Any) -> Any:
        x = convert_to_tensor(x)
        dtype = floating_dtype(x)
        return tg.cast(function(tg.cast(x, dtype)), dtype)

    return _named(run, function)


def wide_dtype(name: str) -> str:
    """Return the dtype of functions for which int64 gives float64, and other integers floatx."""
    if name in ("int64", "uint64", "float64"):
        return "float64"
    return name if "float" in name or "complex" in name else floatx()


def _wide(function: Function) -> Function:
    def run(x: Any) -> Any:
        x = convert_to_tensor(x)
        return function(tg.cast(x, wide_dtype(standardize_dtype(x.dtype))))

    return _named(run, function)


def _promoted(function: Function, also: tuple[Any, ...] = (), no_bool: bool = False) -> Function:
    """Return a function of two tensors, which get their common dtype first."""

    def run(x1: Any, x2: Any) -> Any:
        x1, x2 = common(x1, x2, also=also)
        if no_bool and x1.dtype.name == "bool":
            x1, x2 = tg.cast(x1, "int32"), tg.cast(x2, "int32")
        return function(x1, x2)

    return _named(run, function)


def _wide_pair(function: Function) -> Function:
    def run(x1: Any, x2: Any) -> Any:
        x1, x2 = common(x1, x2)
        dtype = wide_dtype(x1.dtype.name)
        return function(tg.cast(x1, dtype), tg.cast(x2, dtype))

    return _named(run, function)


def _logical(function: Function) -> Function:
    def run(x1: Any, x2: Any) -> Any:
        return function(convert_to_tensor(x1, "bool"), convert_to_tensor(x2, "bool"))

    return _named(run, function)


def _bits(function: Function) -> Function:
    def run(x: Any, y: Any) -> Any:
        return function(*common(x, y))

    return _named(run, function)


# Result dtypes are those of the arguments.
absolute = abs = _same(np.absolute)
conjugate = conj = _same(np.conjugate)
copy = _same(np.copy)
imag = _same(np.imag)
negative = _same(np.negative)
real = _same(np.real)
sign = _same(np.sign)

# Results are booleans.
isfinite = _same(np.isfinite)
isinf = _same(np.isinf)
isnan = _same(np.isnan)
isneginf = _same(np.isneginf)
isposinf = _same(np.isposinf)
isreal = _same(np.isreal)
signbit = _same(np.signbit)
logical_and = _logical(np.logical_and)
logical_or = _logical(np.logical_or)
logical_xor = _logical(np.logical_xor)
equal = _promoted(np.equal)
greater = _promoted(np.greater)
greater_equal = _promoted(np.greater_equal)
less = _promoted(np.less)
less_equal = _promoted(np.less_equal)
not_equal = _promoted(np.not_equal)

# Results are floating.
arccos = _floating(np.arccos)
arccosh = _floating(np.arccosh)
arcsin = _floating(np.arcsin)
arcsinh = _floating(np.arcsinh)
arctan = _floating(np.arctan)
arctanh = _floating(np.arctanh)
ceil = _floating(np.ceil)
cos = _floating(np.cos)
cosh = _floating(np.cosh)
exp = _floating(np.exp)
exp2 = _floating(np.exp2)
expm1 = _floating(np.expm1)
fabs = _floating(np.fabs)
floor = _floating(np.floor)
log = _floating(np.log)
log10 = _floating(np.log10)
log1p = _floating(np.log1p)
log2 = _floating(np.log2)
sin = _floating(np.sin)
sinc = _floating(np.sinc)
sinh = _floating(np.sinh)
sqrt = _floating(np.sqrt)
tan = _floating(np.tan)
tanh = _floating(np.tanh)
cbrt = _wide(np.cbrt)
deg2rad = _wide(np.deg2rad)
i0 = _wide(np.i0)
rad2deg = _wide(np.rad2deg)
arctan2 = _promoted(np.arctan2, (float,))
divide = true_divide = _promoted(np.divide, (float,))
logaddexp = _promoted(np.logaddexp, (float,))
logaddexp2 = _promoted(np.logaddexp2, (float,))
nextafter = _promoted(np.nextafter, (float,))
divide_no_nan = _promoted(tg.math.divide_no_nan, (float,))
heaviside = _wide_pair(np.heaviside)
hypot = _wide_pair(np.hypot)

# Results have the common dtype.
add = _promoted(np.add)
floor_divide = _promoted(np.floor_divide)
fmax = _promoted(np.fmax)
fmin = _promoted(np.fmin)
fmod = _promoted(np.fmod, no_bool=True)
gcd = _promoted(np.gcd)
lcm = _promoted(np.lcm)
maximum = _promoted(np.maximum)
minimum = _promoted(np.minimum)
mod = _promoted(np.mod, no_bool=True)
multiply = _promoted(np.multiply)
power = _promoted(np.power)
subtract = _promoted(np.subtract)
bitwise_and = _bits(np.bitwise_and)
bitwise_or = _bits(np.bitwise_or)
bitwise_xor = _bits(np.bitwise_xor)
bitwise_invert = bitwise_not = _same(np.bitwise_invert)
bitwise_left_shift = left_shift = _bits(np.bitwise_left_shift)
bitwise_right_shift = right_shift = _bits(np.bitwise_right_shift)


def angle(x: Any) -> Any:
    """Return the angles of complex numbers."""
    x = convert_to_tensor(x)
    return np.angle(tg.cast(x, floating_dtype(x)))


def logical_not(x: Any) -> Any:
    """Return the negation, after a conversion to booleans."""
    return np.logical_not(convert_to_tensor(x, "bool"))


def square(x: Any) -> Any:
    """Return the squares; booleans become int32."""
    x = convert_to_tensor(x)
    return np.square(tg.cast(x, "int32") if x.dtype.name == "bool" else x)


def reciprocal(x: Any) -> Any:
    """Return 1 / x."""
    x = convert_to_tensor(x)
    return 1 // x if is_whole(x) else np.reciprocal(x)


def trunc(x: Any) -> Any:
    """Round towards 0; integers are unchanged."""
    x = convert_to_tensor(x)
    return x if is_whole(x) else np.trunc(x)


def round(x: Any, decimals: int = 0) -> Any:  # Keras' name
    """Round to decimals; integers keep their dtype."""
    x = convert_to_tensor(x)
    if x.dtype.name == "bool":
        return tg.cast(x, "int32")
    return np.round(x, decimals)


def ldexp(x1: Any, x2: Any) -> Any:
    """Return x1 * 2**x2."""
    x1, x2 = convert_to_tensor(x1), convert_to_tensor(x2)
    if standardize_dtype(x2.dtype) not in INT_TYPES:
        raise TypeError(f"The exponents of ldexp must be integers. Got {x2.dtype}.")
    dtype = result_type(x1.dtype, x2.dtype, float)
    return tg.cast(np.ldexp(tg.cast(x1, dtype), tg.cast(x2, "int32")), dtype)


def clip(x: Any, x_min: Any, x_max: Any) -> Any:
    """Limit values to an interval; booleans become int32."""
    x = convert_to_tensor(x)
    dtype = "int32" if x.dtype.name == "bool" else x.dtype
    x = tg.cast(x, dtype)
    low, high = (None if end is None else convert_to_tensor(end) for end in (x_min, x_max))
    return cast_to(np.clip(x, low, high), dtype)


def nan_to_num(x: Any, nan: float = 0.0, posinf: Any = None, neginf: Any = None) -> Any:
    """Replace NaN and infinities by numbers."""
    x = convert_to_tensor(x)
    return x if is_whole(x) else np.nan_to_num(x, nan=nan, posinf=posinf, neginf=neginf)


def allclose(
    x1: Any, x2: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Any:
    """Whether all entries are close."""
    x1, x2 = common(x1, x2)
    return np.allclose(x1, x2, rtol=rtol, atol=atol, equal_nan=equal_nan)


def isclose(
    x1: Any, x2: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False
) -> Any:
    """Whether entries are close."""
    x1, x2 = common(x1, x2)
    return np.isclose(x1, x2, rtol=rtol, atol=atol, equal_nan=equal_nan)


def where(condition: Any, x1: Any = None, x2: Any = None) -> Any:
    """Choose between two tensors, or return the places where the condition holds."""
    chosen = convert_to_tensor(condition, "bool")
    if x1 is None or x2 is None:
        return tuple([tg.cast(part, "int32") for part in np.nonzero(chosen)])
    return np.where(chosen, *common(x1, x2))


def select(condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    """Choose from several tensors by the first condition that holds."""
    conditions = [convert_to_tensor(one, "bool") for one in condlist]
    *choices, last = common(*choicelist, default)
    return np.select(conditions, choices, last)


def view(x: Any, dtype: Any = None) -> Any:
    """Return the same bytes as another dtype."""
    return ops.view(convert_to_tensor(x), None if dtype is None else standardize_dtype(dtype))
