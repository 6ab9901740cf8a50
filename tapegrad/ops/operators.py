"""Python's operators on tensors and variables: one table, no maths."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tapegrad.core.indexed_slices import IndexedSlices
from tapegrad.core.tensor import Tensor
from tapegrad.core.variable import Variable
from tapegrad.errors import ArgumentTypeError
from tapegrad.ops import (
    arithmetic,
    bits,
    comparison,
    indexing,
    magnitude,
    powers,
    products,
    rounding,
    shape,
    variable_slices,
)
from tapegrad.ops.array_methods import bind_methods


def _swapped(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def call(self: Any, other: Any) -> Any:
        return function(other, self)

    return call


BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "add": arithmetic.add,
    "sub": arithmetic.subtract,
    "mul": arithmetic.multiply,
    "truediv": arithmetic.divide,
    "floordiv": rounding.floor_divide,
    "mod": rounding.mod,
    "pow": powers.power,
    "matmul": products.matmul,
    # On truth values these are logical and, or, exclusive or and not.
    "and": bits.bitwise_and,
    "or": bits.bitwise_or,
    "xor": bits.bitwise_xor,
    "lshift": bits.bitwise_left_shift,
    "rshift": bits.bitwise_right_shift,
}
UNARY: dict[str, Callable[[Any], Any]] = {
    "neg": arithmetic.negative,
    "pos": arithmetic.positive,
    "abs": magnitude.abs,
    "invert": bits.bitwise_invert,
    "round": rounding.round,
}


def _equal(self: Any, other: Any) -> Any:
    """Compare element by element; what cannot be a tensor, such as None, is not equal."""
    try:
        return comparison.equal(self, other)
    except ArgumentTypeError:
        return False


def _not_equal(self: Any, other: Any) -> Any:
    try:
        return comparison.not_equal(self, other)
    except ArgumentTypeError:
        return True


# Python swaps these by itself when the tensor stands on the right.
COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "lt": comparison.less,
    "le": comparison.less_equal,
    "gt": comparison.greater,
    "ge": comparison.greater_equal,
    "eq": _equal,
    "ne": _not_equal,
}
ITEMS: dict[str, Callable[..., Any]] = {
    "getitem": indexing.getitem,
    "setitem": indexing.setitem,
    "iter": indexing.iterate,
}
# A part of a variable can be assigned to, and writing assigns to its state.
VARIABLE_ITEMS = {
    **ITEMS,
    "getitem": variable_slices.variable_getitem,
    "setitem": variable_slices.variable_setitem,
}


def _array_ufunc(self: Any, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
    """NumPy asks who answers `np.sin(tensor)` and `ndarray * tensor`: we do, and it is recorded."""
    from tapegrad.ops import numpy_protocol  # loads nearly every module, so only when needed

    return numpy_protocol.call_ufunc(ufunc, method, inputs, options)


class _ArrayUfunc:
    """`__array_ufunc__` for NumPy, which asks the class; None for CuPy, which asks the value.

    None makes CuPy leave `cupy_array * tensor` to the tensor. Else it would read the tensor's
    memory and multiply by itself, and no tape would see it.
    """

    def __get__(self, value: Any, kind: type) -> Callable[..., Any] | None:
        return _array_ufunc if value is None else None


def _array_function(self: Any, function: Any, types: Any, args: Any, options: Any) -> Any:
    """Likewise for `np.mean(tensor)` and all functions that are not ufuncs."""
    from tapegrad.ops import numpy_protocol

    return numpy_protocol.call_function(function, args, options)


def _to(self: Any, device: str) -> Any:
    """Return the value on another device; its gradient comes back to where this one is."""
    return shape.to_device(self, device)


def bind_operators(kind: Any) -> None:
    """Give a class of values all operators."""
    kind.to = _to
    kind.__array_ufunc__ = _ArrayUfunc()
    kind.__array_function__ = _array_function
    if kind is not IndexedSlices:
        bind_methods(kind)
    for name, function in BINARY.items():
        setattr(kind, f"__{name}__", function)
        setattr(kind, f"__r{name}__", _swapped(function))
    for name, unary in UNARY.items():
        setattr(kind, f"__{name}__", unary)
    for name, compare in COMPARISONS.items():
        setattr(kind, f"__{name}__", compare)
    for name, item in (VARIABLE_ITEMS if kind is Variable else ITEMS).items():
        setattr(kind, f"__{name}__", item)


bind_operators(Tensor)
bind_operators(Variable)
bind_operators(IndexedSlices)
