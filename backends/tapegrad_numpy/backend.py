"""The backend object that tapegrad's registry loads."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad_numpy.kernels import KERNELS


class NumpyBackend:
    """Primitives on NumPy arrays. Scalars (`np.generic`) stand for 0-d arrays."""

    name = "numpy"
    xp = np
    array_types = (np.ndarray, np.generic)
    kernels = KERNELS

    def devices(self) -> list[str]:
        return ["cpu"]

    def device_of(self, array: Any) -> str:
        return "cpu"

    def dtype_of(self, array: Any) -> np.dtype[Any]:
        dtype: np.dtype[Any] = array.dtype
        return dtype

    def from_host(self, value: np.ndarray[Any, Any], device: str) -> np.ndarray[Any, Any]:
        return np.array(value)

    def to_host(self, array: Any) -> np.ndarray[Any, Any]:
        return np.array(array)


def load() -> NumpyBackend:
    """Return the backend."""
    return NumpyBackend()
