"""Python operators on tensors and variables, as one table."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import numpy as np

from tapegrad.core.values.indexed_slices import IndexedSlices
from tapegrad.core.values.tensor import Tensor
from tapegrad.core.values.variable import Variable
from tapegrad.errors import ArgumentTypeError
from tapegrad.ops.elementwise import arithmetic, bits, comparison, magnitude, powers, rounding
from tapegrad.ops.indexing.functions import augmented, getitem, iterate, setitem
from tapegrad.ops.interface import operator_functions, variable_slices
from tapegrad.ops.interface.array_methods import bind_methods
from tapegrad.ops.interface.reflected_operators import as_operator
from tapegrad.ops.products.functions import matmul
from tapegrad.ops.shape.functions import to_device


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
    # For booleans these are the logical operations.
    "and": bits.bitwise_and,
    "or": bits.bitwise_or,
    "xor": bits.bitwise_xor,
    "lshift": bits.bitwise_left_shift,
    "rshift": bits.bitwise_right_shift,
}
_power = as_operator(powers.power, "__rpow__")


def _power_without_modulus(x: Any, y: Any, modulus: Any = None) -> Any:
    if modulus is not None:
        raise ArgumentTypeError(
            "pow() of a tensor does not take a modulus. Write (x ** y) % modulus."
        )
    return _power(x, y)


OPERATORS = {
    **{name: as_operator(function, f"__r{name}__") for name, function in BINARY.items()},
    "pow": _power_without_modulus,
    "matmul": as_operator(matmul, "__rmatmul__", for_host_values=operator_functions.matmul),
}
"""The methods for a left operand, which return NotImplemented if the right one may answer."""
UNARY: dict[str, Callable[[Any], Any]] = {
    "neg": arithmetic.negative,
    "pos": arithmetic.positive,
    "abs": magnitude.abs,
    "invert": bits.bitwise_invert,
    "round": rounding.round,
}


# Python swaps these itself if the tensor is on the right.
COMPARISONS = {
    "lt": as_operator(comparison.less, "__gt__"),
    "le": as_operator(comparison.less_equal, "__ge__"),
    "gt": as_operator(comparison.greater, "__lt__"),
    "ge": as_operator(comparison.greater_equal, "__le__"),
    # A value that cannot be converted to a tensor, such as None, is not equal to it.
    "eq": as_operator(comparison.equal, "__eq__", otherwise=False),
    "ne": as_operator(comparison.not_equal, "__ne__", otherwise=True),
}
ITEMS: dict[str, Callable[..., Any]] = {
    "getitem": getitem,
    "setitem": setitem,
    "iter": iterate,
    "contains": operator_functions.contains,
}
# A slice of a variable has `assign`, and item assignment changes its state.
VARIABLE_ITEMS = {
    **ITEMS,
    "getitem": variable_slices.variable_getitem,
    "setitem": variable_slices.variable_setitem,
}


@cache
def _protocol() -> Any:
    from tapegrad.ops.interface import numpy_protocol  # few programs call NumPy on tensors

    _functions_of_ufuncs.update(numpy_protocol.UFUNCS)
    return numpy_protocol


_functions_of_ufuncs: dict[Any, Callable[..., Any]] = {}
"""The functions for ufuncs, from the first call on: to look one up there takes longer."""


def _array_ufunc(self: Any, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
    """Answer NumPy ufuncs such as `np.sin(tensor)` and `ndarray * tensor`, and record them."""
    try:
        if method == "__call__" and not options and len(inputs) == 1:
            function = _functions_of_ufuncs.get(ufunc)
            if function is not None:
                return function(inputs[0])
        return _protocol().call_ufunc(ufunc, method, inputs, options)
    except ArgumentTypeError:
        types = [type(value) for value in (*inputs, *options.get("out", ()))]
        if _are_known(types, "__array_ufunc__", _array_ufunc):
            raise
        return NotImplemented


class _ArrayUfunc:
    """`__array_ufunc__` for NumPy, which looks it up on the class; None for CuPy, on the instance.

    With None, CuPy returns NotImplemented for `cupy_array * tensor`, and the tensor computes it.
    Otherwise CuPy would read the memory of the tensor, and the product would not be recorded.
    """

    def __get__(self, value: Any, owner: type) -> Callable[..., Any] | None:
        return _array_ufunc if value is None else None


def _array_function(self: Any, function: Any, types: Any, args: Any, options: Any) -> Any:
    """Answer NumPy functions that are not ufuncs, such as `np.mean(tensor)`."""
    try:
        return _protocol().call_function(function, args, options)
    except ArgumentTypeError:
        if _are_known(types, "__array_function__", _array_function):
            raise
        return NotImplemented


def _are_known(types: Iterable[type], method: str, ours: Callable[..., Any]) -> bool:
    """Return whether only tensors and NumPy arrays implement a NumPy protocol method.

    If another type implements it, NumPy calls that type after NotImplemented.
    """
    known = (None, ours, getattr(np.ndarray, method))
    return all([getattr(array_type, method, None) in known for array_type in types])


def _to(self: Any, device: str) -> Any:
    """Return the value on another device; the gradient is on the device of this value."""
    return to_device(self, device)


def bind_operators(array_type: Any) -> None:
    """Add all operators to a class."""
    array_type.to = _to
    array_type.__array_ufunc__ = _ArrayUfunc()
    array_type.__array_function__ = _array_function
    if array_type is not IndexedSlices:
        bind_methods(array_type)
    for name, function in BINARY.items():
        setattr(array_type, f"__{name}__", OPERATORS[name])
        setattr(array_type, f"__r{name}__", _swapped(function))
    for name, unary in UNARY.items():
        setattr(array_type, f"__{name}__", unary)
    for name, compare in COMPARISONS.items():
        setattr(array_type, f"__{name}__", compare)
    if array_type not in (Variable, IndexedSlices):
        for name, operator in OPERATORS.items():
            if name != "divmod":
                setattr(array_type, f"__i{name}__", augmented(operator))
    for name, item in (VARIABLE_ITEMS if array_type is Variable else ITEMS).items():
        setattr(array_type, f"__{name}__", item)


bind_operators(Tensor)
bind_operators(Variable)
bind_operators(IndexedSlices)
