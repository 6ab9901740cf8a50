"""The backend object, and the memory of its one device."""

from __future__ import annotations

from typing import Any

import numpy as np

from tapegrad.core.backend.capabilities import NO_CAPABILITIES, Capabilities
from tapegrad.core.backend.protocol import ReadAtOnce
from tapegrad_strict.capture import CopyingCapture
from tapegrad_strict.derivatives import Casts, InPlaceKernels, RulePullbacks
from tapegrad_strict.kernels import HostedKernels
from tapegrad_strict.loops import PythonLoopCompiler
from tapegrad_strict.namespace import Array, StrictNamespace, pack
from tapegrad_strict.training import Rows

NAME = "strict:0"


class StrictMemory:
    """Memory that is not counted; `released` counts calls of `release`, `limit` is only kept."""

    description = "array_api_strict in place of a GPU"

    def __init__(self) -> None:
        self.released = 0
        self.limit: int | None = None

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

    def set_limit(self, most: int | None) -> bool:
        self.limit = most
        return True


class StrictBackend:
    """Register it with `register_backend(StrictBackend())`.

    Without `accelerated` it implements no optional part: all derivative rules and generic kernels
    then run in their plain form.
    """

    name = "strict"
    xp = StrictNamespace()
    array_types = (Array,)

    def __init__(self, accelerated: bool = False) -> None:
        self.kernels = HostedKernels()
        self._accelerated = accelerated
        self._memory = StrictMemory()

    def capabilities(self) -> Capabilities:
        if not self._accelerated:
            return NO_CAPABILITIES
        return Capabilities(
            pullbacks=RulePullbacks(),
            in_place=InPlaceKernels(),
            loops=PythonLoopCompiler(),
            capture=CopyingCapture(),
            casts=Casts(),
            rows=Rows(),
        )

    def devices(self) -> list[str]:
        return [NAME]

    def device_of(self, array: Any) -> str:
        return NAME

    def dtype_of(self, array: Any) -> np.dtype[Any]:
        dtype: np.dtype[Any] = array._array.dtype
        return dtype

    def from_host(self, value: np.ndarray, device: str) -> Any:
        return pack(np.array(value))

    def to_host(self, array: Any) -> np.ndarray:
        return np.array(array._array)

    def memory(self, device: str) -> StrictMemory:
        return self._memory


def load() -> StrictBackend:
    """Return the backend with all its optional parts."""
    return StrictBackend(accelerated=True)
