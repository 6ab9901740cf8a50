"""Conversion of values: plain NumPy values outside of a trace, tensors inside.

A value is *traced* while an active recorder follows it. On the CPU all other values are NumPy
arrays and numbers. On another device, arrays made there are untraced tensors. Callers that pass
NumPy arrays or numbers get NumPy values back, although the computation runs on the device.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.core.primitive.primitive import INTERPRETERS
from tapegrad.core.recorder import Token, active_stack
from tapegrad.core.values import host, nest
from tapegrad.core.values.device import current_device
from tapegrad.core.values.tensor import Tensor, wrap
from tapegrad.errors import ArgumentTypeError, MissingRuleError
from tapegrad.numpy.values import as_array
from tapegrad.ops.casting import cast
from tapegrad.ops.elementwise import arithmetic

Function = Callable[..., Any]

FLOATS = (float, complex, np.floating, np.complexfloating, np.ndarray)
_DOUBLE = np.dtype("float64")
_WIDE = {"longdouble": "float64", "clongdouble": "complex128"}


class MissingDerivativeError(MissingRuleError, NotImplementedError):
    """A function in the computation has no derivative for the differentiated argument."""


def is_tensor(value: Any) -> bool:
    """Return whether `value` is a tensor, traced or not.

    >>> is_tensor(2.0)
    False
    """
    return isinstance(value, Tensor) or type(value) in INTERPRETERS


def is_traced(value: Any) -> bool:
    """Return whether an active recorder follows `value`.

    >>> is_traced(np.ones(2))
    False
    """
    if type(value) is not Tensor:
        return type(value) in INTERPRETERS
    node = value.node
    if node is None:
        return False
    tokens = active_stack().tokens
    return any([token in node.tokens for token in tokens])


def raw(value: Any) -> Any:
    """Return the value of a tensor without its history; other values unchanged.

    >>> raw(as_array([1.0, 2.0])).tolist()
    [1.0, 2.0]
    """
    if not isinstance(value, Tensor):
        return value
    array = value.array
    if isinstance(array, np.ndarray):
        return array if array.ndim else array[()]
    return array if isinstance(array, np.generic) else wrap(array)


def plain(value: Any) -> Any:
    """Return a traced tensor unchanged and any other tensor as its raw value."""
    return value if is_traced(value) else raw(value)


def plain_structure(structure: Any) -> Any:
    """Apply `plain` to all values in a container.

    >>> plain_structure({"a": as_array(1.0)})
    {'a': np.float64(1.0)}
    """
    if isinstance(structure, Tensor):
        return plain(structure)
    return map_leaves(plain, structure) if nest.is_nested(structure) else structure


def own(value: Any) -> Any:
    """Return a result to the caller as a value that may be written into."""
    result = plain(value)
    if isinstance(result, np.ndarray) and (result.base is not None or not result.flags.writeable):
        return result.copy()
    return result


def own_structure(structure: Any) -> Any:
    """Apply `own` to all values in a container."""
    return map_leaves(own, structure)


def map_leaves(function: Callable[[Any], Any], structure: Any) -> Any:
    """Apply a function to every leaf; containers keep their type.

    >>> map_leaves(lambda x: x + 1, (1, {"b": 2, "a": [3]}))
    (2, {'b': 3, 'a': [4]})
    """
    if not nest.is_nested(structure):
        return function(structure)
    leaves = [function(leaf) for leaf in nest.flatten(structure)]
    return nest.pack_sequence_as(structure, leaves)


def uses_tensors() -> bool:
    """Return whether new arrays are tensors: on every device but the CPU."""
    return current_device() != "cpu"


def holds_tensors(values: Any) -> bool:
    """Return whether there is a tensor among the values, also in lists, tuples and dicts.

    >>> holds_tensors(([1.0, 2.0], {"axis": 0}))
    False
    """
    for value in values:
        kind = type(value)
        if kind is Tensor or kind in INTERPRETERS:
            return True
        if kind is list or kind is tuple:
            if holds_tensors(value):
                return True
        elif kind is dict and holds_tensors(value.values()):
            return True
    return False


def holds_arrays(values: Any) -> bool:
    """Return whether there is a NumPy array among the values, also in lists and tuples.

    >>> holds_arrays(([np.ones(2), 1.0],)), holds_arrays(([1.0, 2.0], 3))
    (True, False)
    """
    for value in values:
        if isinstance(value, np.ndarray):
            return True
        if type(value) in (list, tuple) and holds_arrays(value):
            return True
    return False


def on_host(value: Any) -> Any:
    """Return an untraced tensor as a NumPy array or number; other values unchanged."""
    return value.numpy()[()] if type(value) is Tensor and not is_traced(value) else value


def as_tensor(value: Any) -> Any:
    """Return a value as a tensor with NumPy's dtype; extended precision becomes double.

    >>> as_tensor(1.5).dtype
    <dtype: 'float64'>
    """
    if is_tensor(value):
        return value
    if isinstance(value, np.ndarray | np.generic) and value.dtype.name not in ("float64", "int64"):
        kind = "clongdouble" if value.dtype.kind == "c" else "longdouble"
        if value.dtype == np.dtype(kind):
            value = value.astype(_WIDE[kind])
    return as_array(value)


def source(value: Any) -> Any:
    """Return a differentiable argument as a new tensor."""
    if type(value) is float or (type(value) is np.ndarray and value.dtype == _DOUBLE):
        return wrap(host.place(np.array(value)))
    tensor = as_tensor(value)
    if not tensor.dtype.is_differentiable:
        tensor = cast.cast(tensor, "float64")
    if is_tensor(value):
        return wrap(tensor.array) if tensor.node is None else arithmetic.positive(tensor)
    return tensor


def is_source(value: Any) -> bool:
    """Return whether a value is differentiable; integer arrays count too.

    >>> is_source(1.0), is_source(1), is_source(np.arange(3))
    (True, False, True)
    """
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "fciub"
    return is_tensor(value) or isinstance(value, FLOATS)


def refuse(value: Any) -> ArgumentTypeError:
    """Return the error for an argument without a derivative."""
    return ArgumentTypeError(
        f"An argument of type {type(value).__name__} is not differentiable: use floats, arrays of "
        f"floats, or lists, tuples and dicts of these. Got {value!r}."
    )


class Guard:
    """A recorder that watches the arguments and forbids conversions that lose the derivative.

    If NumPy or Python converts a traced value to a number (`float(x)`, `a[0] = x` with an array
    `a`), everything computed from it would be constant.
    """

    listens = False
    watches_variables = False
    tracks_exits = True
    allows_exits = warns_of_numbers = False
    frame = None

    def __init__(self) -> None:
        self.token = Token(keeps_history=False)

    def follows_variable(self, variable: Any, node: Any) -> bool:
        """Ignore variables: they are not arguments."""
        return False

    def note_cut(self, reason: str, node: Any, where: str, *_: bool) -> None:
        """Raise where HIPS autograd raises too."""
        way = reason.removeprefix("left the tape through ")
        if way.startswith(_FORBIDDEN):
            raise ArgumentTypeError(
                f"A traced value would become a constant through {way} at {where}, and its "
                "derivative would be lost. Use this package's numpy; to write it into an array, "
                "make that array with tapegrad.numpy.zeros; getval(x) returns a constant."
            )


_FORBIDDEN = (
    *("float()", "int()", "complex()", "index()", "__array__", "item()", "tolist()"),
    *("math.trunc()", "bytes()", "__dlpack__"),
)
