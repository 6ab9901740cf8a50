"""The CUDA backend: primitives on CuPy arrays. CuPy is imported when the backend is loaded."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

from tapegrad.errors import BackendUnavailableError

__all__ = ["load"]

OLDEST = (7, 0)
"""The lowest compute capability that the kernels are written for: Volta."""


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
            f"Backend 'cupy' needs a CUDA device and its driver. CuPy says: {error}. "
            "Run nvidia-smi to see whether they are there, or use the device 'cpu'."
        ) from error
    if count == 0:
        raise BackendUnavailableError(
            "Backend 'cupy' found no CUDA device, although its driver is there. "
            "Look at CUDA_VISIBLE_DEVICES, or use the device 'cpu'."
        )
    refuse_old([cupy.cuda.runtime.getDeviceProperties(number) for number in range(count)])
    return importlib.import_module("tapegrad_cupy.backend").CupyBackend(count)


def refuse_old(devices: Sequence[Mapping[str, Any]]) -> None:
    """Raise a sentence if a device, given by its properties, is too old for the kernels."""
    for number, device in enumerate(devices):
        if (device["major"], device["minor"]) < OLDEST:
            raise BackendUnavailableError(
                f"Backend 'cupy' needs devices of compute capability {OLDEST[0]}.{OLDEST[1]} or "
                f"more. Device {number} is a {device['name'].decode()} of {device['major']}."
                f"{device['minor']}; list the others in CUDA_VISIBLE_DEVICES, or use "
                "TAPEGRAD_DEVICE=cpu."
            )
