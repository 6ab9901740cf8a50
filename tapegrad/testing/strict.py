"""A stand-in for a GPU in tests: array_api_strict arrays on a device that is not the host.

It refuses implicit host copies, mixed devices and everything beyond the Array API, so a test
suite that passes on it touches the host nowhere in rules or in the engine. Primitives run in their
generic form on the strict namespace; only those that have none borrow NumPy's kernel, as a GPU
library would bring its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import array_api_strict as strict
import numpy as np

from tapegrad.core.backend import ReadAtOnce, get_backend
from tapegrad.core.primitive import PRIMITIVES

DEVICE = strict.Device("device1")
Array: Any = type(strict.zeros(1))
_READS = ("__float__", "__int__", "__bool__", "__complex__", "__index__")


class StrictNamespace:
    """array_api_strict with NumPy dtypes accepted and the second device as default."""

    __name__ = "strict"

    def __getattr__(self, name: str) -> Any:
        function = getattr(strict, name)
        if not callable(function) or isinstance(function, type):
            return StrictNamespace._module(function) if name in ("linalg", "fft") else function
        vars(self)[name] = _accepting(function, name in _CREATORS)  # found there the next time
        return vars(self)[name]

    @staticmethod
    def _module(module: Any) -> Any:
        return _Submodule(module)


class _Submodule:
    def __init__(self, module: Any) -> None:
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return _accepting(getattr(self._module, name), name in ("fftfreq", "rfftfreq"))


_CREATORS = ("arange", "asarray", "empty", "eye", "full", "linspace", "ones", "zeros")


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


class _HostedKernels(Mapping[str, Callable[..., Any]]):
    """NumPy's kernels of primitives without a generic form, on unpacked strict arrays."""

    def __init__(self) -> None:
        self._kernels = get_backend("numpy").kernels

    def __getitem__(self, name: str) -> Callable[..., Any]:
        if PRIMITIVES[name].forward is not None or hasattr(strict, name):
            raise KeyError(name)
        kernel = self._kernels[name]

        def hosted(*arrays: Any, **params: Any) -> Any:
            return pack(kernel(*[unpack(array) for array in arrays], **params))

        return hosted

    def __iter__(self) -> Iterator[str]:
        return iter(self._kernels)

    def __len__(self) -> int:
        return len(self._kernels)


def unpack(array: Any) -> Any:
    """The NumPy array inside a strict one; numbers pass."""
    return array._array if isinstance(array, Array) else array


def pack(value: Any) -> Any:
    """A strict array on the device around a NumPy one; tuples element by element."""
    if isinstance(value, tuple | list):
        return tuple(pack(part) for part in value)
    return strict.asarray(np.asarray(value), device=DEVICE)


class StrictMemory:
    """Nobody counts the stand-in's memory; how often it was released is known."""

    description = "array_api_strict in place of a GPU"

    def __init__(self) -> None:
        self.released = 0

    def libraries(self) -> list[tuple[str, str]]:
        return []

    def read_later(self, array: Any) -> ReadAtOnce:
        return ReadAtOnce(np.array(array._array))

    def used(self) -> tuple[int | None, int | None]:
        return None, None

    def reset_peak(self) -> None:
        """There is no peak."""

    def release(self) -> None:
        self.released += 1


class StrictBackend:
    """The backend object: register it with `register_backend(StrictBackend())`."""

    name = "strict"
    xp = StrictNamespace()
    array_types = (Array,)

    def __init__(self) -> None:
        self.kernels = _HostedKernels()
        self._memory = StrictMemory()

    def devices(self) -> list[str]:
        return ["strict:0"]

    def device_of(self, array: Any) -> str:
        return "strict:0"

    def dtype_of(self, array: Any) -> np.dtype[Any]:
        dtype: np.dtype[Any] = array._array.dtype
        return dtype

    def from_host(self, value: np.ndarray, device: str) -> Any:
        return strict.asarray(np.array(value), device=DEVICE)

    def to_host(self, array: Any) -> np.ndarray:
        return np.array(array._array)

    def memory(self, device: str) -> StrictMemory:
        return self._memory


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
