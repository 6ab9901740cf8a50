"""NumPy array methods of tensors, loaded on first use.

The registered array interface implements them, and it imports nearly every module. Until a program
uses a method, each name holds a placeholder that loads all of them.
"""

from __future__ import annotations

from typing import Any

from tapegrad.core.values.array_interface import array_interface

NAMES = (
    *("T", "all", "any", "argmax", "argmin", "argpartition", "argsort", "astype", "at", "choose"),
    *("clip", "compress", "conj", "conjugate", "copy", "cumprod", "cumsum", "diagonal", "dot"),
    *(
        "fill",
        "flat",
        "flatten",
        "imag",
        "itemsize",
        "mT",
        "max",
        "mean",
        "min",
        "nonzero",
        "partition",
    ),
    *("prod", "ptp", "put", "ravel", "real", "repeat", "reshape", "round", "searchsorted", "sort"),
    *("squeeze", "std", "strides", "sum", "swapaxes", "take", "to_device", "tobytes", "trace"),
    *("transpose", "var", "view"),
)


class _Placeholder:
    """Descriptor that replaces itself, and all others of its class, by the loaded methods."""

    __slots__ = ("_name", "_owner")

    def __init__(self, owner: type, name: str) -> None:
        self._owner = owner
        self._name = name

    def __get__(self, value: Any, array_type: type) -> Any:
        _load_methods(self._owner)
        return getattr(array_type if value is None else value, self._name)

    def __set__(self, value: Any, new: Any) -> None:
        _load_methods(self._owner)
        setattr(value, self._name, new)


def _load_methods(array_type: Any) -> None:
    interface = array_interface()
    for name in NAMES:
        if isinstance(vars(array_type).get(name), _Placeholder):
            found: Any = interface.METHODS.get(name)
            if found is None:
                found = property(interface.PROPERTIES[name], interface.SETTERS.get(name))
            setattr(array_type, name, found)


def _array_namespace(self: Any, /, *, api_version: str | None = None) -> Any:
    """Return `tapegrad.numpy`, the Array API's functions for tensors."""
    return array_interface().array_namespace(api_version)


def bind_methods(array_type: Any) -> None:
    """Add NumPy's array methods to a class, except those that it defines itself."""
    array_type.__array_namespace__ = _array_namespace
    for name in NAMES:
        if not any([name in vars(parent) for parent in array_type.__mro__]):
            setattr(array_type, name, _Placeholder(array_type, name))
