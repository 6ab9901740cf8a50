"""The operators that other operators make: adjoints, inverses, products, factors.

The base class makes them of classes that inherit from it. Those classes are named here when they
are defined, so that imports point one way.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

_Class = TypeVar("_Class", bound=type)

_MAKERS: dict[str, Callable[..., Any]] = {}


def makes(kind: str) -> Callable[[_Class], _Class]:
    """Name a class as the one that stands for all operators of a kind."""

    def register(cls: _Class) -> _Class:
        _MAKERS[kind] = cls
        return cls

    return register


def make(kind: str, *args: Any, **hints: Any) -> Any:
    """Return an operator of a kind: "adjoint", "inversion", "composition" or "triangle"."""
    return _MAKERS[kind](*args, **hints)
