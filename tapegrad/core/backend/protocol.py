"""The backend contract: what a backend provides to the engine.

A backend runs primitives on one type of array and knows nothing about derivatives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from tapegrad.core.backend.capabilities import Capabilities

Array = Any
"""A raw array of some backend."""


class Reading(Protocol):
    """A copy to the host that may still be under way."""

    def done(self) -> bool:
        """Whether `result` would return at once."""

    def result(self) -> np.ndarray:
        """Wait for the copy and return it."""


class ReadAtOnce:
    """A `Reading` of values that need no waiting for."""

    def __init__(self, value: np.ndarray) -> None:
        self._value = value

    def done(self) -> bool:
        return True

    def result(self) -> np.ndarray:
        return self._value


class Memory(Protocol):
    """The memory of one device, as far as a backend can tell."""

    @property
    def description(self) -> str:
        """The device in a few words for `tapegrad info`, e.g. its name and size; "" for none."""

    def libraries(self) -> Sequence[tuple[str, str]]:
        """Name and state of the libraries that speed this device up, for `tapegrad info`."""

    def read_later(self, array: Array) -> Reading:
        """Begin to copy the present values of an array to the host, and do not wait for it."""

    def used(self) -> tuple[int | None, int | None]:
        """Bytes in use now, and the most since `reset_peak`; None for what is not counted."""

    def reset_peak(self) -> None:
        """Count the peak from now on."""

    def release(self) -> None:
        """Give back what is cached but not in use, because an operation found no room."""

    def set_limit(self, most: int | None) -> bool:
        """Let arrays take at most this many bytes (None: all); return whether that is possible."""


class Backend(Protocol):
    """What every backend provides. `tapegrad.testing.check_backend` tests all of it."""

    name: str
    """The registry's name, also the prefix of its devices unless `devices()` says otherwise."""

    xp: Any
    """The Array API namespace; its dtype arguments accept NumPy dtypes."""

    array_types: tuple[type, ...]
    """The Python types of the arrays (and scalars) that this backend computes with."""

    kernels: Mapping[str, Callable[..., Any]]
    """Kernels that replace a primitive's generic one, by primitive name."""

    def capabilities(self) -> Capabilities:
        """The optional parts of the contract that this backend implements.

        The registry calls this once, when the backend is registered.
        """

    def devices(self) -> Sequence[str]:
        """Names of the devices that can be used now, best first."""

    def device_of(self, array: Array) -> str:
        """Name of the device that holds `array`."""

    def dtype_of(self, array: Array) -> np.dtype[Any]:
        """The NumPy dtype that describes `array`."""

    def from_host(self, value: np.ndarray, device: str) -> Array:
        """A new array on `device` with the host's values; later changes to `value` do not show."""

    def to_host(self, array: Array) -> np.ndarray:
        """A new NumPy array with the values of `array`."""

    def memory(self, device: str) -> Memory:
        """The memory of one of `devices()`."""
