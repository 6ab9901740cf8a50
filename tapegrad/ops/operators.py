"""Python's operators on tensors and variables: one table, no maths."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import numpy as np

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
    operator_functions,
    powers,
    products,
    rounding,
    shape,
    variable_slices,
)
from tapegrad.ops.array_methods import bind_methods
from tapegrad.ops.turns import in_turn


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
    "divmod": operator_functions.divmod,
    "pow": powers.power,
    "matmul": operator_functions.matmul,
    # On truth values these are logical and, or, exclusive or and not.
    "and": bits.bitwise_and,
    "or": bits.bitwise_or,
    "xor": bits.bitwise_xor,
    "lshift": bits.bitwise_left_shift,
    "rshift": bits.bitwise_right_shift,
}
_power = in_turn(powers.power, "__rpow__")


def _power_without_modulus(x: Any, y: Any, modulus: Any = None) -> Any:
    if modulus is not None:
        raise ArgumentTypeError("pow() of a tensor takes no modulus. Write (x ** y) % modulus.")
    return _power(x, y)


OPERATORS = {
    **{name: in_turn(function, f"__r{name}__") for name, function in BINARY.items()},
    "pow": _power_without_modulus,
    "matmul": in_turn(products.matmul, "__rmatmul__", beside_others=operator_functions.matmul),
}
"""The same for the left side, which has to leave what it cannot take to the right one."""
UNARY: dict[str, Callable[[Any], Any]] = {
    "neg": arithmetic.negative,
    "pos": arithmetic.positive,
    "abs": magnitude.abs,
    "invert": bits.bitwise_invert,
    "round": rounding.round,
}


# Python swaps these by itself when the tensor stands on the right.
COMPARISONS = {
    "lt": in_turn(comparison.less, "__gt__"),
    "le": in_turn(comparison.less_equal, "__ge__"),
    "gt": in_turn(comparison.greater, "__lt__"),
    "ge": in_turn(comparison.greater_equal, "__le__"),
    # What cannot be a tensor, such as None, is not equal to one.
    "eq": in_turn(comparison.equal, "__eq__", otherwise=False),
    "ne": in_turn(comparison.not_equal, "__ne__", otherwise=True),
}
ITEMS: dict[str, Callable[..., Any]] = {
    "getitem": indexing.getitem,
    "setitem": indexing.setitem,
    "iter": indexing.iterate,
    "contains": operator_functions.contains,
}
# A part of a variable can be assigned to, and writing assigns to its state.
VARIABLE_ITEMS = {
    **ITEMS,
    "getitem": variable_slices.variable_getitem,
    "setitem": variable_slices.variable_setitem,
}


@cache
def _protocol() -> Any:
    from tapegrad.ops import numpy_protocol  # loads further modules, so only when needed

    return numpy_protocol


def _array_ufunc(self: Any, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
    """NumPy asks who answers `np.sin(tensor)` and `ndarray * tensor`: we do, and it is recorded."""
    try:
        return _protocol().call_ufunc(ufunc, method, inputs, options)
    except ArgumentTypeError:
        kinds = [type(value) for value in (*inputs, *options.get("out", ()))]
        if _are_known(kinds, "__array_ufunc__", _array_ufunc):
            raise
        return NotImplemented


class _ArrayUfunc:
    """`__array_ufunc__` for NumPy, which asks the class; None for CuPy, which asks the value.

    None makes CuPy leave `cupy_array * tensor` to the tensor. Else it would read the tensor's
    memory and multiply by itself, and no tape would see it.
    """

    def __get__(self, value: Any, kind: type) -> Callable[..., Any] | None:
        return _array_ufunc if value is None else None


def _array_function(self: Any, function: Any, types: Any, args: Any, options: Any) -> Any:
    """Likewise for `np.mean(tensor)` and all functions that are not ufuncs."""
    try:
        return _protocol().call_function(function, args, options)
    except ArgumentTypeError:
        if _are_known(types, "__array_function__", _array_function):
            raise
        return NotImplemented


def _are_known(kinds: Iterable[type], method: str, ours: Callable[..., Any]) -> bool:
    """Whether no type but tensors and NumPy's arrays has an answer, to which NumPy would go on."""
    known = (None, ours, getattr(np.ndarray, method))
    return all([getattr(kind, method, None) in known for kind in kinds])


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
        setattr(kind, f"__{name}__", OPERATORS[name])
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
