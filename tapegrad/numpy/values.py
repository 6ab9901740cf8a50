"""Conversion of arguments to tensors with NumPy's dtypes, and the options `out=` and `where=`.

Elsewhere in the package, Python floats become float32, as in TensorFlow. Here they become float64
and ints become int64, unless they are combined with an array.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.core.argument_checks import check_choice
from tapegrad.core.backend.registry import find_backend
from tapegrad.core.primitive.primitive import INTERPRETERS
from tapegrad.core.recorder import RAW, active_stack
from tapegrad.core.values import host
from tapegrad.core.values.convert import (
    NUMBERS,
    adapted,
    device_array,
    to_host_array,
    to_tensor,
)
from tapegrad.core.values.dtypes import DType, as_dtype, numpy_dtype
from tapegrad.core.values.tensor import Tensor, wrap
from tapegrad.core.values.variable import Variable
from tapegrad.errors import (
    ArgumentError,
    ArgumentTypeError,
    DTypeError,
    OutOfRangeError,
    ShapeError,
)
from tapegrad.ops.casting.cast import cast
from tapegrad.ops.control.loops import is_recording
from tapegrad.ops.creation import numpy_dtype_of
from tapegrad.ops.elementwise.selection import where as choose
from tapegrad.ops.shape.joining import holds_tensors, stack

NoValue: Any = type("NoValue", (), {"__repr__": lambda self: "<no value>", "__slots__": ()})()
"""The default of parameters for which None has a meaning."""


def as_array(value: Any, near: Any = None) -> Any:
    """Return `value` in a form that primitives accept; host values keep NumPy's dtype.

    They are placed on the device of `near`, or on the current one.

    >>> as_array([1.0, 2.0]).dtype, as_array(3).dtype
    (<dtype: 'float64'>, <dtype: 'int64'>)
    """
    kind = type(value)
    if kind is Tensor or kind in INTERPRETERS:
        return value
    if kind is Variable:
        return value.shared_value()
    if kind in (list, tuple) and holds_tensors(value):
        return stack(as_arrays(value))
    if active_stack() is RAW and find_backend(kind) is not None:
        return value
    if isinstance(value, Tensor):
        return value
    if kind not in (list, tuple):
        converted = adapted(value)
        if converted is not value:
            return as_array(converted)
        on_device = device_array(value)
        if on_device is not None:
            return wrap(on_device)
    return _placed(as_host(value), near)


def _placed(array: np.ndarray, near: Any) -> Tensor:
    near = near.shared_value() if type(near) is Variable else near
    while type(near) in INTERPRETERS:
        near = near.tensor
    if isinstance(near, Tensor):
        return wrap(host.place_like(array, near.array))
    return wrap(host.place(array))


def is_array(value: Any) -> bool:
    """Return whether a value has a device: a tensor, a variable, or a batched value.

    >>> is_array(as_array(1.0)), is_array([1.0])
    (True, False)
    """
    return isinstance(value, Tensor | Variable) or type(value) in INTERPRETERS


def as_host(value: Any, dtype: Any = None) -> np.ndarray:
    """Return a value that is not a tensor as a NumPy array, with NumPy's choice of dtype."""
    if value is not None and not isinstance(value, str | bytes | np.ndarray | np.generic):
        try:
            array = np.asarray(value)
        except (ValueError, TypeError, OverflowError):
            return to_host_array(value, dtype)  # type: ignore[no-any-return]
        if dtype is not None and (array.dtype.kind in "biufc" or _holds_large_numbers(array)):
            wanted = numpy_dtype(dtype)
            is_narrower = wanted.kind in "iu" or (array.dtype.kind == "c" and wanted.kind == "f")
            return checked_array(value, wanted) if is_narrower else array.astype(wanted)
        value = array
    return to_host_array(value, dtype)  # type: ignore[no-any-return]


def _holds_large_numbers(array: np.ndarray) -> bool:
    """Say if NumPy chose objects only because no integer dtype holds the Python numbers."""
    return array.dtype.kind == "O" and all([type(item) in NUMBERS for item in array.flat])


def checked_array(value: Any, dtype: np.dtype[Any]) -> np.ndarray:
    """Return Python numbers as a NumPy array of a dtype, or raise if it cannot hold them.

    >>> checked_array([1, 2], np.dtype("int8")).tolist()
    [1, 2]
    """
    try:
        return np.asarray(value, dtype)
    except OverflowError as error:
        raise OutOfRangeError(f"{error}. Use a wider dtype.") from error
    except ValueError as error:  # NaN
        raise ArgumentError(f"{error}. Use a floating dtype.") from error
    except TypeError as error:
        raise DTypeError(
            f"Complex numbers cannot be converted to {dtype}. Take their real parts first."
        ) from error


def side_by_side(*values: Any) -> list[Any]:
    """Return each value as an array, all on the device of the first that has one."""
    near = next((as_array(value) for value in values if is_array(value)), None)
    return [as_array(value, near) for value in values]


def as_arrays(values: Any) -> list[Any]:
    """Return each value as an array, all promoted to a common dtype.

    >>> [x.dtype.name for x in as_arrays([[1], [2.5]])]
    ['float64', 'float64']
    """
    return in_common_dtype(side_by_side(*values))


def in_common_dtype(arrays: list[Any]) -> list[Any]:
    """Return arrays promoted to a common dtype.

    >>> [x.dtype.name for x in in_common_dtype([as_array(1), as_array(2.5)])]
    ['float64', 'float64']
    """
    if len({dtype_of(x) for x in arrays}) < 2:
        return arrays
    common = np.result_type(*[dtype_of(x) for x in arrays])
    return [with_dtype(x, common) for x in arrays]


def with_numbers(values: Any) -> list[Any]:
    """Return each value as an array of one dtype, to which Python numbers adapt.

    >>> [x.dtype.name for x in with_numbers([as_array(np.float32(1.0)), 2.5])]
    ['float32', 'float32']
    """
    values = list(values)
    kinds = [v if type(v) in NUMBERS else dtype_of(as_array(v)) for v in values]
    return [with_dtype(x, np.result_type(*kinds)) for x in side_by_side(*values)]


def operands(x1: Any, x2: Any) -> tuple[Any, Any]:
    """Return two operands; a Python number next to an array keeps the array's dtype."""
    if type(x1) in NUMBERS and type(x2) not in NUMBERS:
        return x1, as_array(x2)
    if type(x2) in NUMBERS and type(x1) not in NUMBERS:
        return as_array(x1), x2
    if is_array(x2):
        second = as_array(x2)
        return as_array(x1, second), second
    first = as_array(x1)
    return first, as_array(x2, first)


def beside(value: Any, x: Any) -> Any:
    """Return an operand of a method of the array `x`, with the dtype it has next to an operator.

    >>> beside([0.5], as_array(np.float32(1.0))).dtype
    <dtype: 'float32'>
    """
    if value is None or type(value) in NUMBERS or is_array(value):
        return value
    if isinstance(value, list | tuple) and holds_tensors(value):
        return as_array(value, x)
    near = x.shared_value() if type(x) is Variable else x
    while type(near) in INTERPRETERS:
        near = near.tensor
    return to_tensor(value, like=near)


def as_array_like(value: Any, x: Any) -> Any:
    """Return a number as an array with the dtype that it has next to `x`; arrays unchanged."""
    if type(value) not in NUMBERS:
        return as_array(value, x)
    return _placed(np.asarray(value, np.result_type(dtype_of(x), value)), x)


def dtype_of(x: Any) -> np.dtype[Any]:
    """Return the NumPy dtype of an array."""
    return numpy_dtype_of(x)


def known_values(values: Any) -> np.ndarray | None:
    """Return values that can be checked: they are on the host, and no recording reads them."""
    if not is_array(values):
        return np.asarray(values)
    is_host = type(values) is Tensor and type(values.array) is np.ndarray
    return values.array if is_host and not is_recording() else None


def with_dtype(x: Any, dtype: Any) -> Any:
    """Cast an array to a dtype; None or its own dtype returns it unchanged."""
    if dtype is None:
        return x
    wanted = numpy_dtype(dtype)
    return x if dtype_of(x) == wanted else cast(x, as_dtype(wanted))


def floating(x: Any, near: Any = None) -> Any:
    """Return the array in floating point: integers and booleans become float64."""
    x = as_array(x, near)
    return x if as_dtype(dtype_of(x)).is_differentiable else cast(x, "float64")


def narrow_floating(x: Any) -> Any:
    """Return integers in the narrowest floating dtype that NumPy's loops use for them."""
    kind = dtype_of(x)
    if kind.kind in "fc" or as_dtype(kind).is_differentiable:
        return x
    return cast(x, {1: "float16", 2: "float32"}.get(kind.itemsize, "float64"))


def inexact(dtype: Any) -> DType:
    """Return the dtype if it is floating or complex, else float64."""
    wanted = as_dtype(dtype)
    return wanted if wanted.is_differentiable else as_dtype("float64")


def summed_dtype(x: Any) -> np.dtype[Any]:
    """Return the dtype in which NumPy sums: small integers and booleans use 64 bits."""
    kind = dtype_of(x)
    if kind.kind not in "biu" or kind.itemsize == 8:
        return kind
    return np.dtype("uint64") if kind.kind == "u" else np.dtype("int64")


def is_axis_of_number(axis: Any, x: Any) -> bool:
    """Return whether `x` has no axes and `axis` is one that NumPy accepts for numbers.

    >>> is_axis_of_number(-1, as_array(1.0)), is_axis_of_number(-1, as_array([1.0]))
    (True, False)
    """
    return not x.shape and isinstance(axis, int | np.integer) and axis in (0, -1)


CASTINGS = ("no", "equiv", "safe", "same_kind", "unsafe")


def check_cast(name: str, given: Any, wanted: Any, casting: Any) -> None:
    """Raise if NumPy's rule `casting` forbids to cast one dtype to another."""
    check_choice("casting", casting, CASTINGS)
    if not np.can_cast(given, wanted, casting):
        raise DTypeError(
            f"{name} cannot cast {given} to {wanted} with casting={casting!r}. Convert the "
            "operands with astype first."
        )


def deliver(result: Any, out: Any, casting: Any = "same_kind", broadcasts: bool = False) -> Any:
    """Return the result, written into `out` if one is given.

    `out` has the shape of the result, or with `broadcasts` a shape that the result broadcasts to.

    >>> place = as_array([0.0, 0.0])
    >>> deliver(as_array([1.0, 2.0]), place) is place, place.tolist()
    (True, [1.0, 2.0])
    """
    if isinstance(out, tuple) and len(out) == 1:
        (out,) = out
    if out is None or out is Ellipsis:  # `...` asks for an array, which all results are
        return result
    if not isinstance(out, Tensor | Variable) and type(out) not in INTERPRETERS:
        raise ArgumentTypeError(
            f"out= must be a tensor of the result's shape. Got {type(out).__name__}."
        )
    kind = out.dtype
    if not np.can_cast(dtype_of(result), kind.dtype, casting):
        raise ArgumentTypeError(
            f"A result of {result.dtype} cannot be written to out= of {kind}; make out a tensor "
            f"of {result.dtype}."
        )
    have, place = tuple(result.shape), tuple(out.shape)
    if have != place and not (broadcasts and len(have) <= len(place)):
        raise ShapeError(f"A result of shape {have} cannot be written to out= of shape {place}.")
    out[...] = with_dtype(result, kind)
    return out


def selected(result: Any, condition: Any, out: Any) -> Any:
    """Return `result` where `where=` is true, elsewhere the content of `out` (or 0)."""
    if condition is True:
        return result
    if out is None:
        return choose(as_array(condition, result), result, 0)
    return choose(as_array(condition, result), result, out[0] if isinstance(out, tuple) else out)


def refuse_order(order: str | None) -> None:
    """Raise for Fortran order: tensors are always in C order."""
    if order not in (None, "C", "K", "A"):
        raise ArgumentTypeError(f"Tensors only have order 'C'. Got order={order!r}.")
