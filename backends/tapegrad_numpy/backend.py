"""The backend object of NumPy, which the registry loads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np

import tapegrad_numpy.eager.random_numbers  # noqa: F401  # registers draws in C
from tapegrad.core.backend.capabilities import Capabilities
from tapegrad.core.backend.protocol import ReadAtOnce
from tapegrad.core.values.dtypes import when_bfloat16_is_met
from tapegrad_numpy.eager.table import EagerKernels
from tapegrad_numpy.kernels.bfloat16 import adapt_kernels
from tapegrad_numpy.kernels.table import KERNELS
from tapegrad_numpy.loops.entry_points import CLoopCompiler, CShapeSpecializer
from tapegrad_numpy.mpi import Mpi
from tapegrad_numpy.ownership import OwnedArrays
from tapegrad_numpy.sequences.entry_point import CSequences


class TracedMemory:
    """Host memory as counted by Python's tracemalloc, if it is running."""

    description = ""

    def libraries(self) -> list[tuple[str, str]]:
        from tapegrad_numpy.self_checks import libraries  # imports the C generator

        return libraries()

    def read_later(self, array: Any) -> ReadAtOnce:
        return ReadAtOnce(np.array(array))

    def used(self) -> tuple[int | None, int | None]:
        import tracemalloc  # few programs need it, and it is slow to import

        return tracemalloc.get_traced_memory() if tracemalloc.is_tracing() else (None, None)

    def reset_peak(self) -> None:
        import tracemalloc

        if tracemalloc.is_tracing():
            tracemalloc.reset_peak()

    def release(self) -> None:
        """Do nothing: NumPy caches no memory."""

    def set_limit(self, most: int | None) -> bool:
        """NumPy takes memory from the system, which limits a process by its own means."""
        return False


class NumpyBackend:
    """Primitives on NumPy arrays. NumPy scalars (`np.generic`) are treated as 0-d arrays."""

    name = "numpy"
    xp = np
    array_types = (np.ndarray, np.generic)
    kernels: Mapping[str, Callable[..., Any]] = EagerKernels(KERNELS)

    def capabilities(self) -> Capabilities:
        return Capabilities(
            loops=CLoopCompiler(),
            specializer=CShapeSpecializer(),
            sequences=CSequences(),
            capture=OwnedArrays(),
            communication=Mpi(),
        )

    def devices(self) -> list[str]:
        return ["cpu"]

    def device_of(self, array: Any) -> str:
        return "cpu"

    def dtype_of(self, array: Any) -> np.dtype[Any]:
        dtype: np.dtype[Any] = array.dtype
        return dtype

    def from_host(self, value: np.ndarray, device: str) -> np.ndarray:
        return np.array(value)

    def to_host(self, array: Any) -> np.ndarray:
        return np.array(array)

    def memory(self, device: str) -> TracedMemory:
        return TracedMemory()


@cache  # once, however often the backend is loaded
def _meet_bfloat16() -> None:
    adapt_kernels(KERNELS)


def load() -> NumpyBackend:
    """Return the backend."""
    when_bfloat16_is_met(_meet_bfloat16)
    return NumpyBackend()
