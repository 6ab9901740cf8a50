"""Expression graphs of one element, traced from elementwise kernels and derivative rules.

An `Expression` replaces an array in a generic kernel or a rule. Calling the function with
expressions gives the graph that a fused kernel has to compute. The graph is independent of the
target language; c_source.py emits C.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tapegrad.core.backend.capabilities import NO_CAPABILITIES, Capabilities
from tapegrad.core.backend.registry import register_array_type
from tapegrad.core.recorder import RAW, using_stack
from tapegrad.core.warn_once import warn_once
from tapegrad.errors import TapegradError

DType = np.dtype[Any]
Weak = type[bool] | type[int] | type[float]

_BOOL = np.dtype(np.bool_)
_WEAK_ORDER: tuple[Weak, ...] = (bool, int, float)


class UntraceableError(Exception):
    """The function cannot be expressed as a graph of operations on one element."""


class Expression:
    """One number per element: an input, a constant, or an operation on other expressions.

    A Python number whose value is known only at run time has no dtype. It has a weak type (bool,
    int or float), which adapts to the dtype of the other operand.
    """

    __slots__ = ("dtype", "name", "operands", "value", "weak")
    __array_ufunc__ = None  # makes operators of NumPy scalars return NotImplemented
    shape = ()
    ndim = 0
    device = None

    def __init__(
        self,
        name: str,
        dtype: DType | None,
        operands: tuple[Expression, ...] = (),
        value: Any = None,
        weak: Weak | None = None,
    ) -> None:
        self.name = name
        self.dtype = dtype
        self.operands = operands
        self.value = value
        self.weak = weak

    __hash__ = object.__hash__

    def __repr__(self) -> str:
        inner = ", ".join(map(repr, self.operands)) if self.operands else repr(self.value)
        return f"{self.name}({inner})"

    def _refuse(self, *args: Any, **kwargs: Any) -> Any:
        raise UntraceableError("The values of an expression are not known.")

    __bool__ = __float__ = __int__ = __index__ = __complex__ = __len__ = _refuse
    __iter__ = __getitem__ = __array__ = _refuse

    def _no_operator(self, other: Any) -> Any:
        raise UntraceableError("There is no formula for this operator.")

    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __matmul__ = __rmatmul__ = _no_operator

    def __add__(self, other: Any) -> Any:
        return arithmetic("add", self, other)

    def __radd__(self, other: Any) -> Any:
        return arithmetic("add", other, self)

    def __sub__(self, other: Any) -> Any:
        return arithmetic("subtract", self, other)

    def __rsub__(self, other: Any) -> Any:
        return arithmetic("subtract", other, self)

    def __mul__(self, other: Any) -> Any:
        return arithmetic("multiply", self, other)

    def __rmul__(self, other: Any) -> Any:
        return arithmetic("multiply", other, self)

    def __truediv__(self, other: Any) -> Any:
        return floating("divide", self, other)

    def __rtruediv__(self, other: Any) -> Any:
        return floating("divide", other, self)

    def __pow__(self, other: Any) -> Any:
        return floating("pow", self, other)

    def __rpow__(self, other: Any) -> Any:
        return floating("pow", other, self)

    def __neg__(self) -> Any:
        return arithmetic("negative", self)

    def __pos__(self) -> Any:
        return self

    def __abs__(self) -> Any:
        return magnitude("abs", self)

    def __lshift__(self, other: Any) -> Any:
        return on_bits("bitwise_left_shift", self, other)

    def __rlshift__(self, other: Any) -> Any:
        return on_bits("bitwise_left_shift", other, self)

    def __rshift__(self, other: Any) -> Any:
        return on_bits("bitwise_right_shift", self, other)

    def __rrshift__(self, other: Any) -> Any:
        return on_bits("bitwise_right_shift", other, self)

    def __lt__(self, other: Any) -> Any:
        return comparison("less", self, other)

    def __le__(self, other: Any) -> Any:
        return comparison("less_equal", self, other)

    def __gt__(self, other: Any) -> Any:
        return comparison("greater", self, other)

    def __ge__(self, other: Any) -> Any:
        return comparison("greater_equal", self, other)

    def __eq__(self, other: Any) -> Any:
        return comparison("equal", self, other)

    def __ne__(self, other: Any) -> Any:
        return comparison("not_equal", self, other)

    def __and__(self, other: Any) -> Any:
        return on_bits("bitwise_and", self, other)

    def __rand__(self, other: Any) -> Any:
        return on_bits("bitwise_and", other, self)

    def __or__(self, other: Any) -> Any:
        return on_bits("bitwise_or", self, other)

    def __ror__(self, other: Any) -> Any:
        return on_bits("bitwise_or", other, self)

    def __xor__(self, other: Any) -> Any:
        return on_bits("bitwise_xor", self, other)

    def __rxor__(self, other: Any) -> Any:
        return on_bits("bitwise_xor", other, self)

    def __invert__(self) -> Any:
        return on_bits("bitwise_invert", self)


def array_input(index: int, dtype: DType) -> Expression:
    """Return the expression of the array at a position among the inputs."""
    return Expression("input", dtype, value=index)


def number_input(index: int, weak: Weak) -> Expression:
    """Return the expression of a Python number at a position among the inputs."""
    return Expression("input", None, value=index, weak=weak)


def constant(value: Any, dtype: DType) -> Expression:
    """Return the expression of a number that is known when tracing."""
    return Expression("constant", dtype, value=value)


def traced(function: Callable[..., Any], *args: Any, **params: Any) -> tuple[Expression, ...]:
    """Call a generic kernel or a rule with expressions and return the resulting expressions.

    Raises UntraceableError if the function is not elementwise.
    """
    with using_stack(RAW):
        try:
            result = function(*args, **params)
        except UntraceableError:
            raise
        except Exception as error:
            cause = f"{type(error).__name__}: {error}"
            if not isinstance(error, TapegradError) and not _has_numbers(args, params):
                warn_once(
                    f"{_name_of(function)} could not be traced, so it is not fused with other "
                    "operations, which gives the same results more slowly.",
                    cause,
                )
            raise UntraceableError(cause) from error
    results = result if isinstance(result, tuple) else (result,)
    for value in results:
        if not isinstance(value, Expression) or value.dtype is None:
            raise UntraceableError("The result is not an expression with a dtype.")
    return results


def _has_numbers(args: tuple[Any, ...], params: dict[str, Any]) -> bool:
    """Whether numbers came as expressions: callers then try again with their values."""
    return any([type(x) is Expression and x.dtype is None for x in (*args, *params.values())])


def _name_of(function: Callable[..., Any]) -> str:
    inner = getattr(function, "func", function)  # of a partial
    return f"{inner.__module__}.{inner.__qualname__}"


# Type promotion


def kind_of_dtype(dtype: DType) -> str:
    """Return NumPy's kind of a dtype, with "f" for bfloat16, for which NumPy has "V"."""
    kind = dtype.kind
    # NumPy builds the name of a dtype on each access, which is slow.
    return "f" if kind == "V" and dtype.name == "bfloat16" else kind


def promoted(values: Sequence[Any]) -> tuple[list[Any], DType | None, Weak | None]:
    """Cast operands to their common dtype; Python numbers are weakly typed, as in NumPy."""
    dtypes = [v.dtype for v in values if isinstance(v, Expression) and v.dtype is not None]
    weak = max((_weak_kind(v) for v in values), key=_WEAK_ORDER.index)
    if not dtypes:
        raised = [v if isinstance(v, Expression) else _weak_constant(v) for v in values]
        return raised, None, weak
    dtype = dtypes[0]
    for other in dtypes[1:]:
        dtype = dtype if dtype == other else np.result_type(dtype, other)
    dtype = _widened(dtype, weak)
    return [brought(v, dtype) for v in values], dtype, None


def rounded_number(number: Any, dtype: DType) -> Any:
    """Return a number rounded to a dtype, as a float or int."""
    nearest = float(dtype.type(number))
    return nearest if type(number) is float or not math.isfinite(nearest) else int(nearest)


def _weak_kind(value: Any) -> Weak:
    if isinstance(value, Expression):
        return value.weak or bool
    for weak in _WEAK_ORDER:
        if isinstance(value, weak):
            return weak
    raise UntraceableError(f"{type(value).__name__} is not an operand of expressions.")


def _widened(dtype: DType, weak: Weak) -> DType:
    """The result dtype of an array and a Python number."""
    kind = kind_of_dtype(dtype)
    if kind in "fc" or weak is bool:
        return dtype
    if weak is float:
        return np.dtype(np.float64)
    return np.dtype(np.int64) if kind == "b" else dtype


def _weak_constant(value: Any) -> Expression:
    return Expression("constant", None, value=value, weak=_weak_kind(value))


def brought(value: Any, dtype: DType) -> Expression:
    """Return a value as an expression of a dtype."""
    if not isinstance(value, Expression):
        _weak_kind(value)
        return constant(value, dtype)
    if value.dtype == dtype and value.weak is None:
        return value
    if value.name == "constant":
        return constant(value.value, dtype)
    return Expression("astype", dtype, (value,))


# Families of operations


LOGIC_OF_BITS = {
    "bitwise_and": "logical_and",
    "bitwise_invert": "logical_not",
    "bitwise_or": "logical_or",
    "bitwise_xor": "logical_xor",
}
"""The names of bitwise operations for booleans."""


def arithmetic(name: str, *values: Any) -> Expression:
    """Return an operation whose result has the dtype of its operands."""
    operands, dtype, weak = promoted(values)
    if dtype == _BOOL:
        raise UntraceableError(f"{name} of booleans is not traced.")
    return Expression(name, dtype, tuple(operands), weak=weak)


def floating(name: str, *values: Any) -> Expression:
    """Return an operation that is defined for floating point operands only."""
    operands, dtype, weak = promoted(values)
    if dtype is not None and kind_of_dtype(dtype) not in "fc":
        raise UntraceableError(f"{name} of integers is not traced.")
    if weak is not None:
        operands, weak = [_as_float(operand) for operand in operands], float
    return Expression(name, dtype, tuple(operands), weak=weak)


def _as_float(value: Expression) -> Expression:
    return value if value.weak is float else Expression("astype", None, (value,), weak=float)


def comparison(name: str, *values: Any) -> Expression:
    """Return an operation with a boolean result."""
    operands, _, _ = promoted(values)
    return Expression(name, _BOOL, tuple(operands))


def logic(name: str, *values: Any) -> Expression:
    """Return an operation on booleans."""
    operands, dtype, _ = promoted(values)
    if dtype != _BOOL:
        raise UntraceableError(f"{name} of numbers is not traced.")
    return Expression(name, _BOOL, tuple(operands))


def on_bits(name: str, *values: Any) -> Expression:
    """Return a bitwise operation on integers; on booleans it is the logical one."""
    operands, dtype, weak = promoted(values)
    if dtype == _BOOL and name in LOGIC_OF_BITS:
        return logic(LOGIC_OF_BITS[name], *values)
    if dtype is None or kind_of_dtype(dtype) not in "iu":
        raise UntraceableError(f"{name} of other numbers than integers is not traced.")
    return Expression(name, dtype, tuple(operands), weak=weak)


def magnitude(name: str, x: Expression) -> Expression:
    """Return abs, real or imag, whose result is real for complex operands too."""
    if x.dtype is None or kind_of_dtype(x.dtype) != "c":
        return arithmetic(name, x)
    real = np.dtype(np.float32 if x.dtype == np.complex64 else np.float64)
    return Expression(name, real, (x,))


def choice(condition: Any, x: Any, y: Any) -> Expression:
    """Return `x` where the condition is true, else `y`."""
    operands, dtype, weak = promoted((x, y))
    truth = condition if isinstance(condition, Expression) else constant(condition, _BOOL)
    if truth.dtype != _BOOL:
        raise UntraceableError("A condition must be boolean.")
    return Expression("where", dtype, (truth, *operands), weak=weak)


class _Expressions:
    """The backend of expressions, which rules find when they are traced."""

    name = "expressions"
    array_types = (Expression,)

    def __init__(self) -> None:
        self.kernels: dict[str, Callable[..., Any]] = {}
        self.xp: Any = None

    def dtype_of(self, array: Expression) -> Any:
        return array.dtype

    def capabilities(self) -> Capabilities:
        return NO_CAPABILITIES


EXPRESSIONS: Any = _Expressions()
register_array_type(Expression, EXPRESSIONS)
