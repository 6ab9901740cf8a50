"""NumPy functions on tensors: `np.mean(t)` and `np.sin(t)` are recorded on the tape.

NumPy offers each call to its arguments (`__array_ufunc__`, `__array_function__`). The tables here
map the common functions to tapegrad's. The registered array interface has the rest, and raises for
functions without an equivalent: a silent copy to the host would cut the value off from the tape.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from opcode import opmap
from typing import Any

import numpy as np

from tapegrad.core.backend.registry import find_backend
from tapegrad.core.values.array_interface import array_interface
from tapegrad.core.values.convert import NUMBERS, adapted
from tapegrad.core.values.dlpack import is_elsewhere
from tapegrad.core.values.dtypes import DType
from tapegrad.core.values.tensor import Tensor
from tapegrad.core.values.variable import Variable
from tapegrad.errors import ArgumentTypeError
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
from tapegrad.ops.interface import operator_functions

Function = Callable[..., Any]
_NUMPYS = (np.ndarray, np.generic)
_PLAIN = NUMBERS | {Tensor, Variable}

UFUNCS: dict[Any, Function] = {
    np.add: arithmetic.add,
    np.subtract: arithmetic.subtract,
    np.multiply: arithmetic.multiply,
    np.divide: arithmetic.divide,
    np.negative: arithmetic.negative,
    np.positive: arithmetic.positive,
    np.conjugate: arithmetic.conj,
    np.square: powers.square,
    np.sqrt: powers.sqrt,
    np.exp: exponential.exp,
    np.expm1: exponential.expm1,
    np.log: exponential.log,
    np.log10: exponential.log10,
    np.log1p: exponential.log1p,
    np.logaddexp: exponential.logaddexp,
    np.sin: trigonometric.sin,
    np.cos: trigonometric.cos,
    np.tan: trigonometric.tan,
    np.arcsin: trigonometric.asin,
    np.arccos: trigonometric.acos,
    np.arctan: trigonometric.atan,
    np.sinh: trigonometric.sinh,
    np.cosh: trigonometric.cosh,
    np.tanh: trigonometric.tanh,
    np.arcsinh: trigonometric.asinh,
    np.arccosh: trigonometric.acosh,
    np.arctanh: trigonometric.atanh,
    np.absolute: magnitude.abs,
    np.sign: magnitude.sign,
    np.copysign: magnitude.copysign,
    np.floor: rounding.floor,
    np.ceil: rounding.ceil,
    np.trunc: rounding.trunc,
    np.remainder: rounding.mod,
    np.fmod: rounding.fmod,
    np.maximum: selection.maximum,
    np.minimum: selection.minimum,
    np.fmax: selection.fmax,
    np.fmin: selection.fmin,
    np.equal: comparison.equal,
    np.not_equal: comparison.not_equal,
    np.less: comparison.less,
    np.less_equal: comparison.less_equal,
    np.greater: comparison.greater,
    np.greater_equal: comparison.greater_equal,
    np.isnan: comparison.isnan,
    np.isinf: comparison.isinf,
    np.isfinite: comparison.isfinite,
    np.bitwise_and: bits.bitwise_and,
    np.bitwise_or: bits.bitwise_or,
    np.bitwise_xor: bits.bitwise_xor,
    np.invert: bits.bitwise_invert,
    np.left_shift: bits.bitwise_left_shift,
    np.right_shift: bits.bitwise_right_shift,
    np.gcd: bits.gcd,
    np.lcm: bits.lcm,
    np.divmod: operator_functions.divmod,
    np.matmul: operator_functions.matmul,
    np.vecdot: operator_functions.vecdot,
}
"""Replacements for plain calls, without options."""

_SINCE_2_2 = {"matvec": operator_functions.matvec, "vecmat": operator_functions.vecmat}
UFUNCS.update({getattr(np, n): ours for n, ours in _SINCE_2_2.items() if hasattr(np, n)})


def _on_host(function: Function) -> Function:
    """Call a function whose result is a plain Python value with copies on the host."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return function(*[_host(arg) for arg in args], **kwargs)

    return call


def _host(value: Any) -> Any:
    is_ours = isinstance(value, Tensor | Variable) or hasattr(value, "dense_shape")
    return value.numpy() if is_ours else value


def _of_dtypes(function: Function) -> Function:
    """Call a function of dtypes with the dtypes of tensors, which copies no values."""

    def call(*args: Any, **kwargs: Any) -> Any:
        pairs = [(arg, getattr(arg, "dtype", None)) for arg in args]
        return function(*[d.dtype if isinstance(d, DType) else arg for arg, d in pairs], **kwargs)

    return call


FUNCTIONS: dict[Any, Function] = {
    np.array_equal: _on_host(np.array_equal),
    np.allclose: _on_host(np.allclose),
    np.result_type: _of_dtypes(np.result_type),
    np.can_cast: _of_dtypes(np.can_cast),
}
"""Replacements for functions that are not ufuncs; they take precedence over the interface."""


_ARRAY_AS_OUT = (
    "In np.{} out= must be a tensor, because an operand is one. Got a NumPy array. Write "
    "`array = array + tensor` for `array += tensor`, or take tensor.numpy()."
)


@cache
def _method(ufunc: Any, method: str) -> Function:
    """Return the replacement for a method of a ufunc, or for its call with options."""
    return array_interface().find_ufunc_method(ufunc, method)


@cache
def _function(function: Any) -> Function:
    """Return the replacement for a function that is not a ufunc."""
    return FUNCTIONS.get(function) or array_interface().find_function(function)


def call_ufunc(ufunc: Any, method: str, inputs: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Call the replacement for a NumPy ufunc that was called with a tensor."""
    if method == "__call__" and not options:
        function = UFUNCS.get(ufunc)
        if function is not None and (len(inputs) == 1 or _takes_operators_dtype(*inputs)):
            return function(*inputs)
    try:
        return _method(ufunc, method)(*inputs, **options)
    except ArgumentTypeError as error:
        if any([isinstance(place, np.ndarray) for place in options.get("out", ())]):
            raise ArgumentTypeError(_ARRAY_AS_OUT.format(ufunc.__name__)) from error
        raise


def _takes_operators_dtype(x: Any, y: Any) -> bool:
    """Return whether the result has the dtype that an operator would give; see docs/dtypes.md.

    NumPy's functions promote arrays as NumPy does. In operators an array takes the dtype of the
    tensor, and `array * tensor` arrives here as a call of `np.multiply`.
    """
    if type(x) in _PLAIN and type(y) in _PLAIN:
        return True
    is_first = _is_ours(x)
    if (is_first and _is_ours(y)) or type(x) in NUMBERS or type(y) in NUMBERS:
        return True
    ours, other = (x, y) if is_first else (y, x)
    dtype, given = ours.dtype.dtype, _host_dtype(other)
    try:
        if given is None or given == dtype or np.result_type(dtype, given) == dtype:
            return True
    except TypeError:  # no common dtype: the operator's error says why
        return True
    return not is_first and _is_in_operator(sys._getframe(_USERS_FRAME))


def _host_dtype(value: Any) -> np.dtype[Any] | None:
    """Return the dtype that NumPy gives a value on the host; None if it holds no numbers."""
    if not isinstance(value, _NUMPYS):
        on_device = find_backend(type(value)) is not None or is_elsewhere(value)
        if isinstance(value, str | bytes) or on_device or adapted(value) is not value:
            return None
        try:
            value = np.asarray(value)
        except (TypeError, ValueError):
            return None
    dtype: np.dtype[Any] = value.dtype
    return dtype if dtype.kind in "biufc" else None


def _is_ours(value: Any) -> bool:
    """Whether this is a tensor, a variable or a batched value."""
    return isinstance(getattr(value, "dtype", None), DType)


_USERS_FRAME = 3
"""The frames between that of NumPy's caller and the function above: two of the protocol."""
_OPERATORS = {opmap[name] for name in ("BINARY_OP", "COMPARE_OP")}


def _is_in_operator(frame: Any) -> bool:
    """Return whether a frame is at an operator such as `*`, not at a call."""
    return frame.f_code.co_code[frame.f_lasti] in _OPERATORS


def call_function(function: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    """Call the replacement for a NumPy function that was called with a tensor."""
    return _function(function)(*args, **options)
