"""What this package takes and gives: plain NumPy values outside, tensors while a trace runs.

A value is *traced* while an active recorder follows it. On the CPU everything else is an array
or a number of NumPy's. On another device it is a tensor that nobody follows if it was made there;
who gives arrays or numbers of NumPy's gets such back, though the work in between is done there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tapegrad.core import host, nest
from tapegrad.core.device import current_device
from tapegrad.core.primitive import INTERPRETERS
from tapegrad.core.recorder import Token, active_stack
from tapegrad.core.tensor import Tensor, wrap
from tapegrad.errors import ArgumentTypeError, MissingRuleError
from tapegrad.numpy.values import as_array
from tapegrad.ops import arithmetic, cast

Function = Callable[..., Any]

FLOATS = (float, complex, np.floating, np.complexfloating, np.ndarray)
_DOUBLE = np.dtype("float64")
_WIDE = {"longdouble": "float64", "clongdouble": "complex128"}


class MissingDerivativeError(MissingRuleError, NotImplementedError):
    """A function on the way has no derivative for the argument that is differentiated."""


def is_tensor(value: Any) -> bool:
    """Whether `value` is a tensor, traced or not.

    >>> is_tensor(2.0)
    False
    """
    return isinstance(value, Tensor) or type(value) in INTERPRETERS


def is_traced(value: Any) -> bool:
    """Whether an active recorder follows `value`.

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
    """Return the value of a tensor without its history; other values as they are.

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
    """Return a traced tensor as it is and any other one as its raw value."""
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
    """Return a result to a caller: one that he may write into."""
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
    """Whether arrays made now are tensors: on every device but the CPU."""
    return current_device() != "cpu"


def holds_tensors(values: Any) -> bool:
    """Whether there is a tensor among the values, or in lists, tuples and dicts among them.

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
    """Whether there is an array of NumPy's among the values, or in lists and tuples among them.

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
    """Return a tensor that nobody follows as NumPy's array or number; all else as it is."""
    return value.numpy()[()] if type(value) is Tensor and not is_traced(value) else value


def as_tensor(value: Any) -> Any:
    """Return a value as a tensor with NumPy's dtype; wider floats than tensors have are cut.

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
    """Return an argument to differentiate by as a tensor with an identity of its own."""
    if type(value) is float or (type(value) is np.ndarray and value.dtype == _DOUBLE):
        return wrap(host.place(np.array(value)))
    tensor = as_tensor(value)
    if not tensor.dtype.is_differentiable:
        tensor = cast.cast(tensor, "float64")
    if is_tensor(value):
        return wrap(tensor.array) if tensor.node is None else arithmetic.positive(tensor)
    return tensor


def is_source(value: Any) -> bool:
    """Whether a value can be differentiated by; of arrays also those of integers.

    >>> is_source(1.0), is_source(1), is_source(np.arange(3))
    (True, False, True)
    """
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "fciub"
    return is_tensor(value) or isinstance(value, FLOATS)


def refuse(value: Any) -> ArgumentTypeError:
    """Return the error for an argument that has no derivative."""
    return ArgumentTypeError(
        f"An argument of type {type(value).__name__} has no derivatives: use floats, arrays of "
        f"them, or lists, tuples and dicts that hold some. Got {value!r}."
    )


class Guard:
    """A recorder that follows the arguments and forbids ways out that no derivative survives.

    Where NumPy or Python asks a traced value for a number (`float(x)`, `a[0] = x` with an array
    `a`), what is computed from there on would be a constant.
    """

    listens = False
    watches_variables = False
    notes_cuts = True
    frame = None

    def __init__(self) -> None:
        self.token = Token(keeps_history=False)

    def follows_variable(self, variable: Any, node: Any) -> bool:
        """Variables are none of our arguments."""
        return False

    def note_cut(self, reason: str, node: Any, where: str) -> None:
        """Refuse what HIPS autograd refuses too."""
        way = reason.removeprefix("left the tape through ")
        if way in _FORBIDDEN or way.startswith("__array__"):
            raise ArgumentTypeError(
                f"A traced value would become a constant through {way} at {where}, and its "
                "derivative would be lost. Use this package's numpy on it; to write it into an "
                "array, make that one with tapegrad.numpy.zeros; getval(x) gives a constant."
            )


_FORBIDDEN = {"float()", "int()", "complex()", "index()"}
