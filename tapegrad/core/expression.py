"""Formulas of one element: what elementwise kernels and rules compute, as a graph.

An `Expression` stands for an array inside a generic kernel or a derivative rule. Running the
function on expressions, in place of arrays, says what a fused kernel has to compute. Nothing here
knows a language; see c_source.py.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tapegrad.core.backend import adopt
from tapegrad.core.recorder import RAW, using_stack

DType = np.dtype[Any]
Weak = type[bool] | type[int] | type[float]

_BOOL = np.dtype(np.bool_)
_WEAK_ORDER: tuple[Weak, ...] = (bool, int, float)


class UntraceableError(Exception):
    """The function does something that no formula of one element can do."""


class Expression:
    """A number per element: an input, a constant, or an operation on other expressions.

    A Python number whose value is only known at run time has no dtype but a kind of number, which
    like the number itself adapts to the dtype of what it meets.
    """

    __slots__ = ("dtype", "name", "operands", "value", "weak")
    __array_ufunc__ = None  # NumPy's scalars leave the operators to this class
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
        return logic("logical_and", self, other)

    def __or__(self, other: Any) -> Any:
        return logic("logical_or", self, other)

    def __xor__(self, other: Any) -> Any:
        return logic("logical_xor", self, other)

    def __invert__(self) -> Any:
        return logic("logical_not", self)


def array_input(index: int, dtype: DType) -> Expression:
    """Stand for the array at a position among the inputs."""
    return Expression("input", dtype, value=index)


def number_input(index: int, kind: Weak) -> Expression:
    """Stand for a Python number at a position among the inputs."""
    return Expression("input", None, value=index, weak=kind)


def constant(value: Any, dtype: DType) -> Expression:
    """A number that is the same for all elements and known now."""
    return Expression("constant", dtype, value=value)


def traced(function: Callable[..., Any], *args: Any, **params: Any) -> tuple[Expression, ...]:
    """Run a generic kernel or a rule on expressions and return what it computes.

    Raises UntraceableError if it does something else than compute with single elements.
    """
    with using_stack(RAW):
        try:
            result = function(*args, **params)
        except UntraceableError:
            raise
        except Exception as error:
            raise UntraceableError(f"{type(error).__name__}: {error}") from error
    results = result if isinstance(result, tuple) else (result,)
    for value in results:
        if not isinstance(value, Expression) or value.dtype is None:
            raise UntraceableError("The result is not an array of one number per element.")
    return results


# How dtypes meet


def kind_of_dtype(dtype: DType) -> str:
    """NumPy's letter, with "f" for bfloat16, which NumPy does not know."""
    return "f" if dtype.name == "bfloat16" else dtype.kind


def promoted(values: Sequence[Any]) -> tuple[list[Any], DType | None, Weak | None]:
    """Bring operands to their common dtype; numbers adapt, as in NumPy."""
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
    """The float or int that is nearest to a number among those of a dtype."""
    nearest = float(dtype.type(number))
    return nearest if type(number) is float or not math.isfinite(nearest) else int(nearest)


def _weak_kind(value: Any) -> Weak:
    if isinstance(value, Expression):
        return value.weak or bool
    for kind in _WEAK_ORDER:
        if isinstance(value, kind):
            return kind
    raise UntraceableError(f"A formula does not take {type(value).__name__}.")


def _widened(dtype: DType, weak: Weak) -> DType:
    """The dtype of an array after it met a number."""
    kind = kind_of_dtype(dtype)
    if kind in "fc" or weak is bool:
        return dtype
    if weak is float:
        return np.dtype(np.float64)
    return np.dtype(np.int64) if kind == "b" else dtype


def _weak_constant(value: Any) -> Expression:
    return Expression("constant", None, value=value, weak=_weak_kind(value))


def brought(value: Any, dtype: DType) -> Expression:
    """A value as an expression of a dtype."""
    if not isinstance(value, Expression):
        _weak_kind(value)
        return constant(value, dtype)
    if value.dtype == dtype and value.weak is None:
        return value
    if value.name == "constant":
        return constant(value.value, dtype)
    return Expression("astype", dtype, (value,))


# The kinds of operations


def arithmetic(name: str, *values: Any) -> Expression:
    """An operation whose result has the dtype of its operands."""
    operands, dtype, weak = promoted(values)
    if dtype == _BOOL:
        raise UntraceableError(f"{name} of truth values is left to the array library.")
    return Expression(name, dtype, tuple(operands), weak=weak)


def floating(name: str, *values: Any) -> Expression:
    """The same for operations that integers do not have."""
    operands, dtype, weak = promoted(values)
    if dtype is not None and kind_of_dtype(dtype) not in "fc":
        raise UntraceableError(f"{name} of integers is left to the array library.")
    if weak is not None:
        operands, weak = [_as_float(operand) for operand in operands], float
    return Expression(name, dtype, tuple(operands), weak=weak)


def _as_float(value: Expression) -> Expression:
    return value if value.weak is float else Expression("astype", None, (value,), weak=float)


def comparison(name: str, *values: Any) -> Expression:
    """An operation with a truth value for a result."""
    operands, _, _ = promoted(values)
    return Expression(name, _BOOL, tuple(operands))


def logic(name: str, *values: Any) -> Expression:
    """An operation on truth values."""
    operands, dtype, _ = promoted(values)
    if dtype != _BOOL:
        raise UntraceableError(f"{name} of numbers is left to the array library.")
    return Expression(name, _BOOL, tuple(operands))


def magnitude(name: str, x: Expression) -> Expression:
    """abs, real or imag: the result is real for complex operands too."""
    if x.dtype is None or kind_of_dtype(x.dtype) != "c":
        return arithmetic(name, x)
    real = np.dtype(np.float32 if x.dtype == np.complex64 else np.float64)
    return Expression(name, real, (x,))


def choice(condition: Any, x: Any, y: Any) -> Expression:
    """`x` where the condition holds, else `y`."""
    operands, dtype, weak = promoted((x, y))
    truth = condition if isinstance(condition, Expression) else constant(condition, _BOOL)
    if truth.dtype != _BOOL:
        raise UntraceableError("A condition must be a truth value.")
    return Expression("where", dtype, (truth, *operands), weak=weak)


class _Expressions:
    """The backend object that expressions belong to while rules run on them."""

    name = "expressions"
    array_types = (Expression,)

    def __init__(self) -> None:
        self.kernels: dict[str, Callable[..., Any]] = {}
        self.xp: Any = None

    def dtype_of(self, array: Expression) -> Any:
        return array.dtype


EXPRESSIONS: Any = _Expressions()
adopt(Expression, EXPRESSIONS)
