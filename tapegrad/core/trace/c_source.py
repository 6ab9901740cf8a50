"""Emit C for expressions: one statement per operation, common subexpressions once.

The source is valid CUDA C++ and, except for complex numbers, plain C++ with <cmath>.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tapegrad.core.trace.expression import Expression, UntraceableError, kind_of_dtype

TYPES = {
    "bool": "bool",
    "int8": "signed char",
    "int16": "short",
    "int32": "int",
    "int64": "long long",
    "uint8": "unsigned char",
    "uint16": "unsigned short",
    "uint32": "unsigned int",
    "uint64": "unsigned long long",
    "float16": "float",  # arithmetic on half precision uses single precision
    "bfloat16": "float",
    "float32": "float",
    "float64": "double",
    "complex64": "complex<float>",
    "complex128": "complex<double>",
}
_WEAK_TYPES = {bool: "bool", int: "long long", float: "double"}

_INFIX = {
    "add": "+",
    "subtract": "-",
    "multiply": "*",
    "divide": "/",
    "less": "<",
    "less_equal": "<=",
    "greater": ">",
    "greater_equal": ">=",
    "equal": "==",
    "not_equal": "!=",
    "logical_and": "&&",
    "logical_or": "||",
    "logical_xor": "!=",
    "bitwise_and": "&",
    "bitwise_or": "|",
    "bitwise_xor": "^",
}
_SPELLED = {
    "negative": "-{0}",
    "logical_not": "!{0}",
    "where": "{0} ? {1} : {2}",
    "complex": "{T}({0}, {1})",
    "square": "{0} * {0}",
    "reciprocal": "({T})1 / {0}",
    "rsqrt": "({T})1 / sqrt({0})",
    # A NaN operand gives NaN, as in NumPy.
    "maximum": "{0} > {1} || {0} != {0} ? {0} : {1}",
    "minimum": "{0} < {1} || {0} != {0} ? {0} : {1}",
    "sign": "{0} != {0} ? {0} : ({T})(({0} > ({T})0) - ({0} < ({T})0))",
    "isnan": "{0} != {0}",
    "isinf": "({0} - {0}) != ({0} - {0}) && {0} == {0}",
    "isfinite": "({0} - {0}) == ({0} - {0})",
    "signbit": "signbit({0}) != 0",
    "round": "rint({0})",
    "abs": "fabs({0})",
    "real": "{0}",
    "imag": "({T})0",
    "floor_divide": "floored_quotient({0}, {1})",
    "remainder": "floored_remainder({0}, {1})",
    "logaddexp": "log_of_sum({0}, {1})",
    "logaddexp2": "log2_of_sum({0}, {1})",
    "float_exponent": "exponent_of({0})",
    "ldexp": "times_power_of_two({0}, {1})",
    "ndtr": "normcdf({0})",
    "bitwise_invert": "~{0}",
    # As in NumPy, a shift by more bits than there are leaves none but the sign.
    "bitwise_left_shift": "{1} >= 0 && {1} < {W} ? ({T})({0} << {1}) : ({T})0",
    "bitwise_right_shift": "{1} >= 0 && {1} < {W} ? ({T})({0} >> {1}) : ({T})({0} < 0 ? -1 : 0)",
}
_LOG_AT_INFINITY = "{T}(hypot({0}.real(), {0}.imag()), atan2({0}.imag(), {0}.real()))"
_COMPLEX = {
    "abs": "abs({0})",
    "real": "{0}.real()",
    "imag": "{0}.imag()",
    "isnan": "{0}.real() != {0}.real() || {0}.imag() != {0}.imag()",
    "conj": "conj({0})",
    # CuPy's functions differ from the C standard at infinities, NaN and signed zeros.
    "log": "isinf({0}.real()) || isinf({0}.imag()) ? " + _LOG_AT_INFINITY + " : log({0})",
    "log1p": "isinf({0}.real()) || isinf({0}.imag()) ? "
    + _LOG_AT_INFINITY
    + " : log({T}({0}.real() + 1, {0}.imag()))",
    "tanh": "{0}.real() == 0 && !isfinite({0}.imag())"
    " ? {T}({0}.real(), {0}.imag() - {0}.imag()) : tanh({0})",
    "acosh": "{0}.real() == 0 && isnan({0}.imag())"
    " ? {T}({0}.imag(), 1.57079632679489662) : acosh({0})",
}
_INTEGER = {
    "abs": "{0} < 0 ? -{0} : {0}",
    "isnan": "false",
    "isinf": "false",
    "isfinite": "true",
    "signbit": "{0} < 0",
    # The divisor may be an argument, which is 0 in another call.
    "floor_divide": "{1} == 0 ? ({T})0 : {0} / {1} - ({0} % {1} != 0 && ({0} < 0) != ({1} < 0))",
    "remainder": "{1} == 0 ? ({T})0 : {0} % {1} + ({0} % {1} != 0 && ({0} < 0) != ({1} < 0) ? {1} "
    ": ({T})0)",
}

HELPERS = r"""
// The remainder with the sign of the divisor, as in Python.
template <class T> __device__ __forceinline__ T floored_remainder(T a, T b) {
    T r = fmod(a, b);
    if (r == 0) return copysign((T)0, b);
    return (r < 0) != (b < 0) ? r + b : r;
}
// The quotient that belongs to it.
template <class T> __device__ __forceinline__ T floored_quotient(T a, T b) {
    if (b == 0) return a / b;
    const T r = fmod(a, b);
    T q = (a - r) / b;
    if (r != 0 && (r < 0) != (b < 0)) q -= 1;
    if (q == 0) return copysign((T)0, a / b);
    const T whole = floor(q);
    return q - whole > (T)0.5 ? whole + 1 : whole;
}
template <class T> __device__ __forceinline__ T log_of_sum(T a, T b) {
    if (a == b) return a + (T)0.693147180559945309417232121458;
    T gap = a - b;
    if (gap > 0) return a + log1p(exp(-gap));
    return gap <= 0 ? b + log1p(exp(gap)) : gap;
}
template <class T> __device__ __forceinline__ T log2_of_sum(T a, T b) {
    if (a == b) return a + 1;
    const T gap = a - b;
    if (gap != gap) return gap;
    return (gap > 0 ? a : b) + log1p(exp2(-fabs(gap))) * (T)1.44269504088896340735992468100;
}
// Computed on the bits: CuPy flushes subnormal numbers to 0 in single precision.
__device__ __forceinline__ float next_after(float a, float b) {
    const int i = __float_as_int(a), j = __float_as_int(b);
    if (a != a || b != b) return a + b;
    if (i == j || ((i | j) << 1) == 0) return b;
    if ((i << 1) == 0) return __int_as_float((j & 0x80000000) | 1);
    const bool outwards = (i < 0) == (j < 0) ? (j & 0x7fffffff) > (i & 0x7fffffff) : false;
    return __int_as_float(outwards ? i + 1 : i - 1);
}
__device__ __forceinline__ double next_after(double a, double b) { return nextafter(a, b); }
#define nextafter next_after
__device__ __forceinline__ float spacing(float x) {
    const int size = __float_as_int(x) & 0x7fffffff, exponent = size >> 23;
    if (exponent == 0xff) return x - x;
    int step = exponent > 23 ? (exponent - 23) << 23 : 1 << (exponent > 1 ? exponent - 1 : 0);
    if (size == 0x7f7fffff) step = 0x7f800000;  // from the largest number to infinity
    return __int_as_float(__float_as_int(x) < 0 && size ? step | 0x80000000 : step);
}
__device__ __forceinline__ double spacing(double x) {
    const double step = nextafter(fabs(x), 1e308 * 1e308) - fabs(x);
    return x < 0 ? -step : step;
}
// The exponent of frexp.
__device__ __forceinline__ int exponent_of(float x) {
    const int size = __float_as_int(x) & 0x7fffffff;
    if (size == 0 || size >= 0x7f800000) return 0;
    return size >> 23 ? (size >> 23) - 126 : -117 - __clz(size);
}
__device__ __forceinline__ int exponent_of(double x) {
    int exponent = 0;
    if (isfinite(x)) frexp(x, &exponent);
    return exponent;
}
// In double precision, because subnormal operands would be flushed.
__device__ __forceinline__ float times_power_of_two(float x, int n) {
    const int size = __float_as_int(x) & 0x7fffffff;
    if (size >> 23) return (float)ldexp((double)x, n);
    return copysign((float)ldexp((double)size, n - 149), x);
}
__device__ __forceinline__ double times_power_of_two(double x, int n) { return ldexp(x, n); }
// Round to odd in single precision. Rounding the result to half precision then equals rounding the
// double directly, because no tie can arise.
__device__ __forceinline__ float cut_to_odd(double x) {
    const float y = __double2float_rz(x);
    return (double)y == x ? y : __int_as_float(__float_as_int(y) | 1);
}
"""


def type_of(expression: Expression) -> str:
    """Return the C type in which an expression is computed."""
    if expression.dtype is None:
        assert expression.weak is not None
        return _WEAK_TYPES[expression.weak]
    return _type_of_dtype(expression.dtype)


@functools.cache
def _type_of_dtype(dtype: Any) -> str:
    name = dtype.name  # which NumPy builds on each access
    if name not in TYPES:
        raise UntraceableError(f"There is no C type for {name}.")
    return TYPES[name]


def literal(value: Any, c_type: str) -> str:
    """Return a Python number as an exact C literal."""
    if isinstance(value, complex):
        part = c_type.removeprefix("complex<").removesuffix(">")
        return f"{c_type}({literal(value.real, part)}, {literal(value.imag, part)})"
    if isinstance(value, bool):
        return f"({c_type})({int(value)})"
    if isinstance(value, int) and abs(value) < 2**63:
        return f"({c_type})({value}LL)"
    number = float(value)
    if math.isnan(number):
        return f"({c_type})(0.0 / 0.0)"
    if math.isinf(number):
        return f"({c_type})({'-' if number < 0 else ''}1e308 * 1e308)"
    return f"({c_type})({number.hex()})"


Spellings = Mapping[str, Callable[[Expression], str | None]]
"""Functions from a call to its formula, by the names of the called functions; None: the usual."""


def statements(
    outputs: Sequence[Expression],
    inputs: Sequence[str],
    of_floats: Spellings | None = None,
    of_complex: Mapping[str, str] | None = None,
    casts: Mapping[str, str] | None = None,
) -> tuple[list[str], list[str]]:
    """Return the statements that compute expressions from named inputs, and the result names.

    `of_floats` has functions that return other formulas than the usual ones for calls with real
    floating-point operands. `of_complex` has all formulas for calls with complex operands, if they
    are not the usual ones. `casts` has formulas of casts, by the names of the dtypes of results.
    """
    writer = _Writer(inputs, of_floats or {}, of_complex, casts or {})
    names = [writer.name_of(output) for output in outputs]
    return writer.lines, names


class _Writer:
    """Emits each distinct operation once, after its operands."""

    def __init__(
        self,
        inputs: Sequence[str],
        of_floats: Spellings,
        of_complex: Mapping[str, str] | None,
        casts: Mapping[str, str],
    ) -> None:
        self.inputs = inputs
        self._casts = casts
        self._of_floats = of_floats
        self._of_complex = of_complex
        self.lines: list[str] = []
        self._by_node: dict[int, str] = {}
        self._by_text: dict[str, str] = {}

    def name_of(self, root: Expression) -> str:
        """Return the name of an expression's value; not recursive, because graphs can be deep."""
        waiting = [root]
        while waiting:
            node = waiting[-1]
            missing = [o for o in node.operands if id(o) not in self._by_node]
            if missing and id(node) not in self._by_node:
                waiting.extend(missing)
                continue
            waiting.pop()
            if id(node) not in self._by_node:
                self._by_node[id(node)] = self._write(node)
        return self._by_node[id(root)]

    def _write(self, node: Expression) -> str:
        if node.name == "input":
            return self.inputs[int(node.value)]
        c_type = type_of(node)
        if node.name == "constant":
            return literal(node.value, c_type)
        formula = self._formula(node, c_type)
        name = self._by_text.get(c_type + formula)
        if name is None:
            name = self._by_text[c_type + formula] = f"v{len(self._by_text)}"
            self.lines.append(f"const {c_type} {name} = {formula};")
        return name

    def _formula(self, node: Expression, c_type: str) -> str:
        names = [self._by_node[id(operand)] for operand in node.operands]
        if self._of_complex is not None and "c" in map(_kind, node.operands):
            own = self._of_complex.get(node.name)
            if own is None:
                raise UntraceableError(f"There is no formula for {node.name} of complex numbers.")
            return own.format(*names, T=c_type)
        if node.name == "astype":
            own = self._casts.get(node.dtype.name) if self._casts and node.dtype else None
            source = node.operands[0]
            if own is not None and source.dtype != node.dtype and _kind(source) != "c":
                return own.format(names[0])
            return _converted(names[0], node.operands[0], node)
        of_floats = self._of_floats.get(node.name) if _kind(node.operands[0]) == "f" else None
        spelling = None if of_floats is None else of_floats(node)
        if node.name in _INFIX and spelling is None:
            return f"{names[0]} {_INFIX[node.name]} {names[1]}"
        if node.name == "pow" and spelling is None:
            return _power(names, node)
        if spelling is None:
            spelling = _spelling(node)
        if spelling is None:
            return f"{node.name}({', '.join(names)})"
        width = 8 * node.dtype.itemsize if node.dtype is not None else 64
        return spelling.format(*names, T=c_type, W=width)


def _spelling(node: Expression) -> str | None:
    kind = _kind(node.operands[0])
    if kind == "c" and node.name in _COMPLEX:
        return _COMPLEX[node.name]
    if kind in "biu" and node.name in _INTEGER:
        return _INTEGER[node.name]
    if kind == "c" and node.name in ("isinf", "isfinite", "signbit", "round"):
        raise UntraceableError(f"{node.name} of complex numbers is not traced.")
    return _SPELLED.get(node.name)


def _kind(node: Expression) -> str:
    if node.dtype is not None:
        return kind_of_dtype(node.dtype)
    return "f" if node.weak is float else "i"


def _converted(name: str, source: Expression, node: Expression) -> str:
    """Emit a cast; complex numbers do not convert to real ones, doubles are rounded once."""
    from_kind, to_kind = _kind(source), _kind(node)
    if to_kind == "b":
        return f"{name} != {type_of(source)}(0)" if from_kind == "c" else f"{name} != 0"
    if from_kind == "c" and to_kind == "c":
        part = type_of(node).removeprefix("complex<").removesuffix(">")
        return f"{type_of(node)}(({part}){name}.real(), ({part}){name}.imag())"
    if to_kind == "c":
        part = type_of(node).removeprefix("complex<").removesuffix(">")
        return f"{type_of(node)}(({part}){name})"
    if from_kind == "c":
        raise UntraceableError("Complex numbers are not cast to real ones.")
    if node.dtype is not None and node.dtype.name == "float16" and _is_double(source):
        return f"cut_to_odd({name})"
    if from_kind == "b" and to_kind == "f":  # compilers vectorise a choice, but not a conversion
        return f"{name} ? ({type_of(node)})1 : ({type_of(node)})0"
    return name


def _is_double(node: Expression) -> bool:
    return node.dtype is not None and node.dtype.name == "float64"


def _power(names: list[str], node: Expression) -> str:
    exponent = node.operands[1]
    value = exponent.value if exponent.name == "constant" else None
    if value == 2:
        return f"{names[0]} * {names[0]}"
    if value == 3:
        return f"{names[0]} * {names[0]} * {names[0]}"
    return f"pow({names[0]}, {names[1]})"
