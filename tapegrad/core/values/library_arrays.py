"""The NumPy arrays that libraries get from `np.asarray(x)`.

`np.asarray(x)` is a read-only snapshot, so that a write to it is not mistaken for a write to `x`.
Compiled code of SciPy and scikit-learn may need memory to write to all the same: their functions
get a copy. Only the argument `output` of `scipy.ndimage` is meant to be written. It is
the memory of the tensor itself, as if the caller had passed `np.from_dlpack(x)`.
"""

from __future__ import annotations

import threading
from types import FrameType
from typing import Any

import numpy as np

from tapegrad.core.call_site import module_of
from tapegrad.errors import ArgumentError

_PACKAGES = ("scipy.", "sklearn.")
"""Packages that write to no argument, except for those that they document."""
_lock = threading.Lock()


def may_write(caller: FrameType) -> bool:
    """Whether the code that converts a tensor gets a copy that it may write to."""
    return module_of(caller).startswith(_PACKAGES)


def refuse_buffer(caller: FrameType) -> None:
    """Raise for code that gets memory to write to, so that NumPy calls `__array__` instead."""
    if may_write(caller):
        raise BufferError("A tensor's buffer is read-only. np.array(x) returns memory to write to.")


def is_output(x: object, caller: FrameType) -> bool:
    """Whether a function of scipy.ndimage converts `x` in order to write its result there."""
    return module_of(caller).startswith("scipy.ndimage.") and caller.f_locals.get("output") is x


def output_memory(x: Any) -> np.ndarray:
    """Return the memory of a tensor for a function that writes its result there.

    If views share elements with the tensor, all of them first become views of one memory, so that
    they show the result, too.
    """
    root = x
    while getattr(root, "view_of", None) is not None:
        root = root.view_of[0]
    if not isinstance(root.array, np.ndarray):
        raise no_output("this tensor, which is not in host memory")
    with _lock:
        family = _shown_by(root, np.ascontiguousarray(root.array))
        if any(tensor.node is not None for tensor, _ in family):
            raise no_output("this tensor, because a tape follows it or a view of it")
        if len(family) == 1:
            x._exposed()
        elif not all(t.is_shared and _is_same(t.array, array) for t, array in family):
            _expose(_shown_by(root, np.array(root.array, order="C")))
    memory: np.ndarray = x.array
    if not memory.flags.writeable:
        raise no_output("a read-only view", "y = result")
    return memory


def _expose(family: list[tuple[Any, np.ndarray]]) -> None:
    """Let tensors show parts of one memory that other code writes."""
    if any(tensor.array.dtype != array.dtype for tensor, array in family):
        raise no_output("this tensor, because a view shows its real part")
    for tensor, array in family:
        tensor._show(array)


def _shown_by(tensor: Any, memory: np.ndarray) -> list[tuple[Any, np.ndarray]]:
    """Return a tensor and its living views with the parts of the memory that they show."""
    found = [(tensor, memory)]
    for ref in getattr(tensor, "views", ()):
        view = ref()
        if view is not None:
            _, kind, how = view.view_of
            found += _shown_by(view, kind.layout(memory, how))
    return found


def _is_same(array: Any, shown: np.ndarray) -> bool:
    """Whether an array is a certain part of a memory."""
    here, there = array.__array_interface__, shown.__array_interface__
    return all(here[name] == there[name] for name in ("data", "shape", "strides", "typestr"))


def no_output(what: str, remedy: str = "x[...] = result") -> ArgumentError:
    """Return the error of an `output` that SciPy cannot write to."""
    return ArgumentError(
        f"SciPy cannot write its result to {what}. Leave out output=, and assign the result: "
        f"{remedy}."
    )
