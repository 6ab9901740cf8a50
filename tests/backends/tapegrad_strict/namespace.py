"""array_api_strict with NumPy dtypes accepted and the second device as default."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import array_api_strict as strict
import numpy as np

DEVICE = strict.Device("device1")
Array: Any = type(strict.zeros(1))

_CREATORS = ("arange", "asarray", "empty", "eye", "full", "linspace", "ones", "zeros")
_FREQUENCIES = ("fftfreq", "rfftfreq")
_READS = ("__float__", "__int__", "__bool__", "__complex__", "__index__")


class StrictNamespace:
    """The Array API namespace of the backend."""

    __name__ = "strict"

    def __getattr__(self, name: str) -> Any:
        function = getattr(strict, name)
        if name in ("linalg", "fft"):
            return _Submodule(function)
        if not callable(function) or isinstance(function, type):
            return function
        vars(self)[name] = _accepting(function, name in _CREATORS)  # found there the next time
        return vars(self)[name]


class _Submodule:
    def __init__(self, module: Any) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return _accepting(getattr(self._module, name), name in _FREQUENCIES)


def _accepting(function: Callable[..., Any], creates: bool) -> Callable[..., Any]:
    """Translate NumPy dtypes among the arguments, and place new arrays on the device."""

    def call(*args: Any, **kwargs: Any) -> Any:
        converted = [_strict_dtype(arg) if isinstance(arg, np.dtype) else arg for arg in args]
        if isinstance(kwargs.get("dtype"), np.dtype):
            kwargs["dtype"] = _strict_dtype(kwargs["dtype"])
        if creates:
            kwargs.setdefault("device", DEVICE)
        return function(*converted, **kwargs)

    return call


def _strict_dtype(dtype: np.dtype[Any]) -> Any:
    return getattr(strict, dtype.name)


def unpack(array: Any) -> Any:
    """Return the NumPy array inside a strict one; other values pass."""
    return array._array if isinstance(array, Array) else array


def pack(value: Any) -> Any:
    """Return a strict array on the device around a NumPy one; tuples element by element."""
    if isinstance(value, tuple | list):
        return tuple(pack(part) for part in value)
    return strict.asarray(np.asarray(value), device=DEVICE)


@contextmanager
def forbidding_reads() -> Iterator[None]:
    """Make float(), bool() and the like on device arrays raise, as a transfer guard does."""
    saved = {name: getattr(Array, name) for name in _READS}

    def refuse(self: Any, *_: Any) -> Any:
        raise RuntimeError("A device array was read on the host.")

    try:
        for name in _READS:
            setattr(Array, name, refuse)
        yield
    finally:
        for name, method in saved.items():
            setattr(Array, name, method)
