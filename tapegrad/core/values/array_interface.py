"""Registration of the array interface: the NumPy functions behind methods of tensors.

`tapegrad.numpy` implements it. It lies above the core and imports nearly every module, so the
package root registers a function that imports it, and the first use calls that function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, Protocol

Function = Callable[..., Any]


class ArrayInterface(Protocol):
    """The functions that tensors, dtypes and the NumPy protocol need."""

    METHODS: Mapping[str, Function]
    """Array methods by name; the first argument is the array."""
    PROPERTIES: Mapping[str, Function]
    """Functions that compute the properties of arrays, such as `T`, by name."""
    SETTERS: Mapping[str, Function]
    """Functions that assign to properties, such as `flat`, by name."""

    def asarray(self, value: Any, /, *, dtype: Any) -> Any:
        """Return `value` as a tensor."""

    def array_namespace(self, api_version: str | None, /) -> Any:
        """Return the Array API namespace, or raise if it does not follow that version."""

    def find_ufunc_method(self, ufunc: Any, method: str, /) -> Function:
        """Return the function that replaces a method of a NumPy ufunc, or raise."""

    def find_function(self, function: Any, /) -> Function:
        """Return the function that replaces a NumPy function, or raise."""


_loaders: list[Callable[[], ArrayInterface]] = []


def register_array_interface(load: Callable[[], ArrayInterface]) -> None:
    """Register the function that imports and returns the array interface.

    The latest registration counts.
    """
    _loaders.append(load)
    array_interface.cache_clear()


@cache
def array_interface() -> ArrayInterface:
    """Return the array interface; the first call imports it."""
    return _loaders[-1]()
