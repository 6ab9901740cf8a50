"""The methods of NumPy's arrays on tensors, loaded when the first of them is asked for.

They are those of `tapegrad.numpy`, which loads nearly everything; so a class of values first gets
stand-ins, and the first look at one of these puts the functions themselves in their places.
"""

from __future__ import annotations

from typing import Any

NAMES = (
    *("T", "all", "any", "argmax", "argmin", "argpartition", "argsort", "astype", "at", "choose"),
    *("clip", "compress", "conj", "conjugate", "copy", "cumprod", "cumsum", "diagonal", "dot"),
    *("fill", "flatten", "imag", "itemsize", "mT", "max", "mean", "min", "nonzero", "partition"),
    *("prod", "ptp", "put", "ravel", "real", "repeat", "reshape", "round", "searchsorted", "sort"),
    *("squeeze", "std", "strides", "sum", "swapaxes", "take", "to_device", "tobytes", "trace"),
    *("transpose", "var"),
)


class _StandIn:
    """What stands under a method's name until the methods are loaded."""

    __slots__ = ("_kind", "_name")

    def __init__(self, kind: type, name: str) -> None:
        self._kind = kind
        self._name = name

    def __get__(self, value: Any, kind: type) -> Any:
        _load(self._kind)
        return getattr(kind if value is None else value, self._name)


def _load(kind: Any) -> None:
    from tapegrad.numpy import methods  # loads nearly every module, so only when needed

    for name in NAMES:
        if isinstance(vars(kind).get(name), _StandIn):
            found = methods.METHODS.get(name)
            setattr(kind, name, property(methods.PROPERTIES[name]) if found is None else found)


def _array_namespace(self: Any, /, *, api_version: str | None = None) -> Any:
    """Return `tapegrad.numpy`, the Array API's functions for tensors."""
    from tapegrad import numpy as namespace

    return namespace.checked(api_version)


def bind_methods(kind: Any) -> None:
    """Give a class of values the methods of NumPy's arrays, except those that it has already."""
    kind.__array_namespace__ = _array_namespace
    for name in NAMES:
        if not any([name in vars(parent) for parent in kind.__mro__]):
            setattr(kind, name, _StandIn(kind, name))
