"""The NumPy arrays that libraries get from `np.asarray(x)`.

`np.asarray(x)` is a read-only snapshot, so that a write to it is not mistaken for a write to `x`.
Compiled code of SciPy and scikit-learn may need memory to write to all the same: their functions
get a copy of their own. Only the argument `output` of `scipy.ndimage` is meant to be written. It is
the memory of the tensor itself, as if the caller had passed `np.from_dlpack(x)`.
"""

from __future__ import annotations

from types import FrameType
from typing import Any, Protocol

import numpy as np

from tapegrad.core.call_site import module_of
from tapegrad.errors import ArgumentError

_PACKAGES = ("scipy.", "sklearn.")
"""Packages that write to no argument, except for those that they document."""


class _Tensor(Protocol):
    """The part of a tensor that is read here."""

    array: Any
    node: Any

    def _exposed(self) -> Any: ...


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


def output_memory(x: _Tensor) -> np.ndarray:
    """Return the memory of a tensor for a function that writes its result there."""
    views = getattr(x, "views", ())
    if getattr(x, "view_of", None) is not None or any(ref() is not None for ref in views):
        raise no_output("this tensor, because a view shares its elements", "x[...] = result")
    if x.node is not None:
        raise no_output("this tensor, because a tape follows it", "x[...] = result")
    if not isinstance(x.array, np.ndarray):
        raise no_output("this tensor, which is not in host memory", "x[...] = result")
    memory: np.ndarray = x._exposed()  # noqa: SLF001
    return memory


def no_output(what: str, remedy: str) -> ArgumentError:
    """Return the error of an `output` that SciPy cannot write to."""
    return ArgumentError(
        f"SciPy cannot write its result to {what}. Leave out output=, and assign the result: "
        f"{remedy}."
    )
