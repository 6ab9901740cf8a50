"""Wrapping of NumPy modules, for extensions of HIPS autograd."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from tapegrad import numpy as tensors
from tapegrad.compat.autograd import numpy as anp
from tapegrad.compat.autograd.dispatch import dispatched
from tapegrad.compat.autograd.numpy.own import make_diagonal
from tapegrad.compat.autograd.primitives import notrace_primitive, primitive

__all__ = ["make_diagonal", "notrace_primitive", "primitive", "wrap_namespace"]


def wrap_namespace(old: MutableMapping[str, Any], new: MutableMapping[str, Any]) -> None:
    """Copy the names of a module into a dictionary; functions that tapegrad has are recorded.

    Others become primitives without derivatives, which `defvjp` can define.

    >>> names: dict[str, Any] = {}
    >>> wrap_namespace({"sin": __import__("numpy").sin, "pi": 3.0}, names)
    >>> sorted(names)
    ['pi', 'sin']
    """
    for name, value in old.items():
        if isinstance(value, type) or not callable(value):
            new[name] = value
            continue
        known = getattr(tensors, name, None)
        new[name] = primitive(value) if known is None else dispatched(name, value, known)


def __getattr__(name: str) -> Any:
    """NumPy functions that HIPS autograd wraps in this module."""
    return getattr(anp, name)
