"""The CUDA backend: primitives on CuPy arrays. CuPy is imported when the backend is loaded."""

from __future__ import annotations

import importlib
from typing import Any

from tapegrad.errors import BackendUnavailableError

__all__ = ["load"]


def load() -> Any:
    """Return the backend, or say what it needs."""
    try:
        cupy = importlib.import_module("cupy")
    except ImportError as error:
        raise BackendUnavailableError(
            "Backend 'cupy' needs CuPy, which is not installed. "
            "Run: pip install 'tapegrad[cuda13]' (or [cuda12])."
        ) from error
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except Exception as error:  # CuPy raises its own classes, and ImportError for a lost driver
        raise BackendUnavailableError(
            f"Backend 'cupy' needs a CUDA driver and device. CuPy says: {error}."
        ) from error
    if count == 0:
        raise BackendUnavailableError("Backend 'cupy' found no CUDA device.")
    return importlib.import_module("tapegrad_cupy.backend").CupyBackend(count)
