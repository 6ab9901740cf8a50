"""The Array API namespace of expressions, for tracing generic kernels."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tapegrad.core.trace.expression import (
    EXPRESSIONS,
    LOGIC_OF_BITS,
    Expression,
    UntraceableError,
    arithmetic,
    brought,
    choice,
    comparison,
    constant,
    floating,
    kind_of_dtype,
    logic,
    magnitude,
    on_bits,
    promoted,
)

Function = Callable[..., Any]

_FLOATING = (
    "acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh", "cbrt", "ceil", "copysign", "cos",
    "cosh", "divide", "erf", "erfc", "erfcinv", "erfcx", "erfinv", "exp", "exp2", "expm1", "floor",
    "fmod", "hypot", "log", "log10", "log1p", "log2", "logaddexp", "logaddexp2",
    "ndtr", "nextafter", "pow", "reciprocal", "round", "rsqrt", "sin", "sinh",
    "spacing", "sqrt", "tan", "tanh", "trunc",
)  # fmt: skip
_ARITHMETIC = ("add", "maximum", "minimum", "multiply", "negative", "sign", "square", "subtract")
_COMPARISONS = ("equal", "greater", "greater_equal", "less", "less_equal", "not_equal")
_TESTS = ("isfinite", "isinf", "isnan", "signbit")
_LOGIC = ("logical_and", "logical_not", "logical_or", "logical_xor")
_BITS = (*LOGIC_OF_BITS, "bitwise_left_shift", "bitwise_right_shift")
_KINDS = {
    "bool": "b",
    "signed integer": "i",
    "unsigned integer": "u",
    "integral": "iu",
    "real floating": "f",
    "complex floating": "c",
    "numeric": "iufc",
}
_REAL_ONLY = frozenset({
    "atan2", "cbrt", "ceil", "copysign", "erf", "erfc", "erfcinv", "erfcx", "erfinv", "floor",
    "floor_divide", "fmod", "hypot", "logaddexp", "logaddexp2", "maximum", "minimum", "ndtr",
    "nextafter", "remainder", "round", "sign", "spacing", "trunc", "exp2", "expm1", "log2",
})  # fmt: skip


def _checked(family: Function, name: str, *values: Any) -> Expression:
    result: Expression = family(name, *values)
    if name in _REAL_ONLY and result.dtype is not None and kind_of_dtype(result.dtype) == "c":
        raise UntraceableError(f"{name} of complex numbers is not traced.")
    return result


def _quotient(name: str, x: Any, y: Any) -> Expression:
    """Return a rounded quotient or its remainder; integers may be divided by other numbers.

    In C an integer that is divided by 0, and the least one that is divided by -1, end the process.
    """
    is_safe = isinstance(y, int) and type(y) is not bool and y not in (0, -1)
    return (arithmetic if is_safe else floating)(name, x, y)


class _Namespace:
    """`xp` for expressions; functions that it lacks cannot be traced."""

    __name__ = "expressions"
    pi = np.pi
    inf = np.inf
    nan = np.nan
    where = staticmethod(choice)

    def __init__(self) -> None:
        for family, names in ((floating, _FLOATING), (arithmetic, _ARITHMETIC)):
            for name in names:
                setattr(self, name, partial(_checked, family, name))
        for name in ("floor_divide", "remainder"):
            setattr(self, name, partial(_checked, _quotient, name))
        for name in (*_COMPARISONS, *_TESTS):
            setattr(self, name, partial(comparison, name))
        for name in _LOGIC:
            setattr(self, name, partial(logic, name))
        for name in _BITS:
            setattr(self, name, partial(on_bits, name))
        for name in ("abs", "real", "imag"):
            setattr(self, name, partial(magnitude, name))
        for dtype in ("bool_", "int32", "int64", "float32", "float64"):
            setattr(self, dtype.rstrip("_"), np.dtype(getattr(np, dtype)))

    def __getattr__(self, name: str) -> Any:
        raise UntraceableError(f"{name} is not a function of expressions.")

    def positive(self, x: Expression) -> Expression:
        return x

    def conj(self, x: Expression) -> Expression:
        is_complex = x.dtype is not None and kind_of_dtype(x.dtype) == "c"
        return arithmetic("conj", x) if is_complex else x

    def clip(self, x: Any, min: Any = None, max: Any = None) -> Any:
        x = x if min is None else _checked(arithmetic, "maximum", x, min)
        return x if max is None else _checked(arithmetic, "minimum", x, max)

    def float_exponent(self, x: Expression) -> Expression:
        _check_real(x)
        return Expression("float_exponent", np.dtype(np.int32), (x,))

    def ldexp(self, x: Expression, n: Any) -> Expression:
        """Return x * 2**n; exponents beyond those of all numbers are cut off."""
        _check_real(x)
        if isinstance(n, Expression):
            if n.dtype is None or kind_of_dtype(n.dtype) not in "biu":
                raise UntraceableError("The exponent must be an array of integers or a number.")
            n = arithmetic("maximum", brought(n, np.dtype(np.int64)), -4000)
            n = arithmetic("minimum", n, 4000)
        else:
            n = max(-4000, min(4000, n))
        return Expression("ldexp", x.dtype, (x, brought(n, np.dtype(np.int32))))

    def astype(self, x: Expression, dtype: Any, copy: bool = True) -> Expression:
        if dtype is None:
            raise UntraceableError("astype needs a dtype, and a Python number has none.")
        return brought(x, np.dtype(dtype))

    def zeros_like(self, x: Expression, dtype: Any = None) -> Any:
        return _filled(0, x, dtype)

    def ones_like(self, x: Expression, dtype: Any = None) -> Any:
        return _filled(1, x, dtype)

    def full_like(self, x: Expression, fill_value: Any, dtype: Any = None) -> Any:
        return _filled(fill_value, x, dtype)

    def full(self, shape: Any, fill_value: Any, dtype: Any = None, device: Any = None) -> Any:
        if shape != ():
            raise UntraceableError("Expressions cannot create arrays with axes.")
        return self.asarray(fill_value, dtype)

    def zeros(self, shape: Any, dtype: Any = None, device: Any = None) -> Any:
        return self.full(shape, 0, dtype)

    def asarray(self, value: Any, dtype: Any = None, device: Any = None) -> Any:
        if dtype is None:
            raise UntraceableError("asarray needs a dtype.")
        return brought(value, np.dtype(dtype))

    def isdtype(self, dtype: Any, kind: Any) -> bool:
        kinds = kind if isinstance(kind, tuple) else (kind,)
        letter = kind_of_dtype(dtype)
        return any(letter in _KINDS[k] if isinstance(k, str) else dtype == k for k in kinds)

    def finfo(self, dtype: Any) -> Any:
        return np.finfo(dtype)


def _check_real(x: Any) -> None:
    if not isinstance(x, Expression) or x.dtype is None or kind_of_dtype(x.dtype) != "f":
        raise UntraceableError("Only floating point numbers have an exponent.")


def _filled(value: Any, x: Expression, dtype: Any) -> Any:
    wanted = x.dtype if dtype is None else np.dtype(dtype)
    return value if wanted is None else constant(value, wanted)


def _of_parts(real: Any, imag: Any) -> Expression:
    """Return a complex number from its real and imaginary part."""
    parts, dtype, _ = promoted((real, imag))
    if dtype is None or kind_of_dtype(dtype) != "f":
        raise UntraceableError("The parts of complex numbers must be floating-point arrays.")
    part, whole = (np.float64, np.complex128) if dtype == np.float64 else (np.float32, np.complex64)
    operands = tuple(brought(value, np.dtype(part)) for value in parts)
    return Expression("complex", np.dtype(whole), operands)


EXPRESSIONS.xp = _Namespace()
# The generic kernel multiplies by 1j, which loops would compute for each element.
EXPRESSIONS.kernels["complex"] = _of_parts
