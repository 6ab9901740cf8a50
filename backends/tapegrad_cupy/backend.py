"""The backend object: devices, placement and the way to and from the host."""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np

from tapegrad_cupy.kernel_table import KernelTable
from tapegrad_cupy.kernels import KERNELS, PLANNED
from tapegrad_cupy.memory import CudaMemory, copy_to_device
from tapegrad_cupy.namespace import CupyNamespace
from tapegrad_cupy.reading import copy_to_host


class CupyBackend:
    """Primitives on CuPy arrays, on the current stream of each device."""

    name = "cupy"
    xp = CupyNamespace()
    array_types = (cupy.ndarray,)
    kernels = KernelTable(KERNELS, PLANNED, xp)

    def __init__(self, count: int) -> None:
        self._devices = [f"cuda:{number}" for number in range(count)]

    def devices(self) -> list[str]:
        return self._devices

    def device_of(self, array: Any) -> str:
        number: int = array.device.id
        return self._devices[number]

    def dtype_of(self, array: Any) -> np.dtype[Any]:
        dtype: np.dtype[Any] = array.dtype
        return dtype

    def from_host(self, value: np.ndarray, device: str) -> Any:
        with cupy.cuda.Device(self._devices.index(device)):
            return copy_to_device(value)

    def to_host(self, array: Any) -> np.ndarray:
        return copy_to_host(array)

    def memory(self, device: str) -> CudaMemory:
        return CudaMemory(self._devices.index(device))
