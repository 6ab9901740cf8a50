"""Primitives on string tensors: those that move, join or compare values.

All others say that they compute with numbers. The kernels are the generic ones, run by NumPy on
arrays of objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tapegrad.core.backend.registry import find_backend
from tapegrad.core.primitive.primitive import INTERPRETERS, Primitive
from tapegrad.core.values import host
from tapegrad.core.values.convert import read_on_host
from tapegrad.core.values.strings import (
    StringTensor,
    equal_texts,
    is_text,
    string_tensor,
    text_array,
)
from tapegrad.core.values.tensor import wrap
from tapegrad.errors import ArgumentTypeError

MOVING = {
    *("broadcast_to", "concat", "flip", "gather_rows", "identity", "permute_dims", "reshape"),
    *("roll", "slice", "slice_set", "split", "stack", "stop_gradient", "take", "take_along_axis"),
    *("take_runs", "take_set", "unstack", "where"),
}
"""Primitives whose results are elements of their operands."""


def call_on_text(primitive: Primitive, args: Sequence[Any], params: dict[str, Any]) -> Any:
    """Run a primitive that has a string tensor among its operands."""
    name = primitive.name
    if name in ("add", "equal", "not_equal"):
        return _of_two(name, *args)
    if name == "full_like":
        return _filled(**params)
    if name not in MOVING:
        raise ArgumentTypeError(
            f"{name} computes with numbers. Got text, not numbers; functions of text are in "
            "tapegrad.strings, and tapegrad.strings.to_number reads numbers."
        )
    backend = find_backend(np.ndarray)
    assert backend is not None
    found = primitive.generic_kernel(backend.xp)(*map(_raw, args), **params)
    return tuple(map(_wrapped, found)) if primitive.many else _wrapped(found)


def _filled(shape: tuple[int, ...], value: Any, dtype: Any) -> Any:
    """Return equal texts, of which the empty one is the zero, or equal numbers."""
    if dtype is not None and np.dtype(dtype).kind != "O":
        return wrap(host.place(np.full(shape, value, dtype)))
    if not is_text(value) and value != 0:
        raise ArgumentTypeError(f"A string tensor cannot be filled with the number {value!r:.60}.")
    found = np.empty(shape, object)
    found.fill(text_array(value).item() if is_text(value) else b"")
    return string_tensor(found)


def _of_two(name: str, first: Any, second: Any) -> Any:
    if not is_text(first) or not is_text(second):
        raise ArgumentTypeError(f"{name} takes two texts or two numbers. Got one of each.")
    if name == "add":
        return string_tensor(np.add(text_array(first), text_array(second)))
    found = equal_texts(first, second)
    return found if name == "equal" else ~found


def _raw(arg: Any) -> Any:
    return text_array(arg) if is_text(arg) else read_on_host(arg, "a function of text")


def _wrapped(found: Any) -> Any:
    is_number = isinstance(found, np.ndarray | np.generic) and found.dtype.kind != "O"
    return wrap(host.place(np.asarray(found))) if is_number else string_tensor(found)


INTERPRETERS[StringTensor] = call_on_text
