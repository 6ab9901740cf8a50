"""The backend object: devices, kernels and copies to and from the host."""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np

from tapegrad.core.backend.capabilities import Capabilities
from tapegrad_cupy.capabilities import CAPABILITIES
from tapegrad_cupy.graphs.rounds import KERNELS as ROUNDS
from tapegrad_cupy.kernels.kernel_table import KernelTable
from tapegrad_cupy.kernels.table import KERNELS, REPLAYED
from tapegrad_cupy.libraries import libraries
from tapegrad_cupy.runtime.array_limits import check_dimensions
from tapegrad_cupy.runtime.device_to_host import copy_to_host
from tapegrad_cupy.runtime.host_to_device import copy_to_device
from tapegrad_cupy.runtime.memory import CudaMemory
from tapegrad_cupy.runtime.namespace import CupyNamespace


class CupyBackend:
    """Primitives on CuPy arrays, on the current stream of each device."""

    name = "cupy"
    xp = CupyNamespace()
    array_types = (cupy.ndarray,)
    kernels = KernelTable({**KERNELS, **ROUNDS}, REPLAYED, xp)

    def __init__(self, count: int) -> None:
        self._devices = [f"cuda:{number}" for number in range(count)]

    def capabilities(self) -> Capabilities:
        return CAPABILITIES

    def devices(self) -> list[str]:
        return self._devices

    def device_of(self, array: Any) -> str:
        number: int = array.device.id
        return self._devices[number]

    def dtype_of(self, array: Any) -> np.dtype[Any]:
        dtype: np.dtype[Any] = array.dtype
        return dtype

    def from_host(self, value: np.ndarray, device: str) -> Any:
        check_dimensions(value.shape)
        with cupy.cuda.Device(self._devices.index(device)):
            return copy_to_device(value)

    def to_host(self, array: Any) -> np.ndarray:
        return copy_to_host(array)

    def memory(self, device: str) -> CudaMemory:
        return CudaMemory(self._devices.index(device), libraries)
