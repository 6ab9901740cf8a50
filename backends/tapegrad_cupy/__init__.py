"""The CUDA backend: primitives on CuPy arrays. CuPy is imported when the backend is loaded."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from tapegrad.core.files.private_cache import home_folder, make_private_folder, process_folder
from tapegrad.errors import BackendBrokenError, BackendUnavailableError

__all__ = ["load"]

_INSUFFICIENT_DRIVER, _NO_DEVICE = 35, 100
"""Errors of the CUDA runtime."""

OLDEST = (7, 0)
"""The lowest supported compute capability: Volta."""


def load() -> Any:
    """Return the backend, or raise BackendUnavailableError with the missing requirement."""
    try:
        _provide_cache_folder()
        cupy = importlib.import_module("cupy")
    except Exception as error:  # besides ImportError, whatever CuPy's own files raise
        is_absent = isinstance(error, ImportError) and importlib.util.find_spec("cupy") is None
        if not is_absent:
            raise BackendBrokenError(
                f"Backend 'cupy' found CuPy, but cannot import it: {error}. Repair or remove it."
            ) from error
        raise BackendUnavailableError(
            "Backend 'cupy' needs CuPy, which is not installed. "
            "In a checkout of tapegrad, run: pip install '.[cuda13]' (or '.[cuda12]')."
        ) from error
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except Exception as error:  # CuPy raises its own classes, and ImportError for a lost driver
        raise _kind_of(error, cupy)(
            f"Backend 'cupy' needs a CUDA device and its driver. CuPy says: {error}. "
            "Run nvidia-smi to see whether they are there, or use the device 'cpu'."
        ) from error
    if count == 0:
        raise BackendUnavailableError(
            "Backend 'cupy' found no CUDA device, although its driver is there. "
            "Look at CUDA_VISIBLE_DEVICES, or use the device 'cpu'."
        )
    refuse_old([cupy.cuda.runtime.getDeviceProperties(number) for number in range(count)])
    # Imports CuPy.
    return importlib.import_module("tapegrad_cupy.backend").CupyBackend(count)


def _provide_cache_folder() -> None:
    """Name a folder of this process for CuPy's compiled kernels if the usual one is unusable.

    CuPy creates its folder when it is imported, and cannot be imported where that fails: without a
    home folder, or in one that cannot be written to.
    """
    if "cupy" in sys.modules or importlib.util.find_spec("cupy") is None:
        return
    chosen, home = os.environ.get("CUPY_CACHE_DIR"), home_folder()
    folder = Path(chosen).absolute() if chosen else home and home / ".cupy" / "kernel_cache"
    if folder is not None:
        with suppress(OSError):
            make_private_folder(folder)
            if os.access(folder, os.W_OK | os.X_OK):
                return
    os.environ["CUPY_CACHE_DIR"] = str(process_folder("tapegrad-cupy"))


def _kind_of(error: Exception, cupy: Any) -> type[BackendUnavailableError]:
    """Tell a machine without a GPU, which is common, from a driver that does not work."""
    status = getattr(error, "status", None)
    if status == _INSUFFICIENT_DRIVER and cupy.cuda.runtime.driverGetVersion() > 0:
        return BackendBrokenError  # a driver is installed, and it is too old
    is_absent = status in (None, _INSUFFICIENT_DRIVER, _NO_DEVICE)
    return BackendUnavailableError if is_absent else BackendBrokenError


def refuse_old(devices: Sequence[Mapping[str, Any]]) -> None:
    """Raise an error if a device, given by its properties, is too old for the kernels."""
    for number, device in enumerate(devices):
        if (device["major"], device["minor"]) < OLDEST:
            raise BackendBrokenError(
                f"Backend 'cupy' needs devices of compute capability {OLDEST[0]}.{OLDEST[1]} or "
                f"more. Device {number} is a {device['name'].decode()} of {device['major']}."
                f"{device['minor']}; list the others in CUDA_VISIBLE_DEVICES, or use "
                "TAPEGRAD_DEVICE=cpu."
            )
