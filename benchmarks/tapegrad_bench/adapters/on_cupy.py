"""Hand-written CuPy: the same steps as on NumPy, operation by operation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cupy
import numpy as np

from tapegrad_bench.adapters import cuda_events
from tapegrad_bench.adapters.library import (
    Prepared,
    Stopwatch,
    Uncounted,
    UnsupportedError,
    fetching,
    numpy_bfloat16,
)
from tapegrad_bench.adapters.on_numpy import prepare
from tapegrad_bench.precision import is_half
from tapegrad_bench.workload import Kind, Problem


class Cupy(Uncounted):
    """The steps of handwritten.py on CuPy arrays."""

    version: str = cupy.__version__

    def prepare(self, mode: str, problem: Problem) -> Prepared:
        if is_half(problem.dtype) and problem.workload.kind is Kind.TRAINING:
            raise UnsupportedError("There is no hand-written step in mixed precision.")
        return prepare(cupy, problem, _bring, fetching(cupy.asnumpy))

    def release(self) -> None:
        """Nothing is kept."""

    def synchronize(self, result: Any) -> None:
        cuda_events.synchronize()

    def stopwatch(self) -> Stopwatch | None:
        return cuda_events.CupyStopwatch()

    def allocated(self) -> int | None:
        return cuda_events.allocated()

    def peak_of(self, run: Callable[[], Any]) -> int | None:
        return cuda_events.peak_of(run)


def _bring(array: np.ndarray, dtype: str) -> Any:
    value = cupy.asarray(array)
    return value.astype(_dtype(dtype)) if array.dtype.kind == "f" else value


def _dtype(name: str) -> Any:
    return numpy_bfloat16() if name == "bfloat16" else name


def load(device: str) -> Cupy:
    """Return the library."""
    return Cupy()
