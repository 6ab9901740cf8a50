"""The one place where values cross between host and device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tapegrad.core.backend import Array, backend_of
from tapegrad.core.device import backend_for, current_device, resolve_device
from tapegrad.core.recorder import Node, note_cut


def fetch(array: Array, node: Node | None, how: str) -> np.ndarray[Any, Any]:
    """Copy a device array to the host; `how` names the user's call.

    `node` is the value's node when the copy may feed further computation that no tape sees.
    """
    if node is not None:
        note_cut(f"left the tape through {how}", (node,))
    return backend_of(array).to_host(array)


def place(value: np.ndarray[Any, Any], device: str | None = None) -> Array:
    """Copy a host array to `device` (by default the current one)."""
    name = resolve_device(device) if device is not None else current_device()
    return backend_for(name).from_host(value, name)


def place_like(value: np.ndarray[Any, Any], array: Array) -> Array:
    """Copy a host array to the device that holds `array`."""
    backend = backend_of(array)
    return backend.from_host(value, backend.device_of(array))


def move(array: Array, device: str) -> Array:
    """Copy an array to another device, through the host where the backends differ."""
    backend = backend_of(array)
    target = backend_for(device)
    if target is backend and backend.device_of(array) == device:
        return array
    return target.from_host(backend.to_host(array), device)


def devices_of(arrays: Sequence[Array]) -> list[str]:
    """Names of the devices that hold the arrays, each once, in order."""
    return list(dict.fromkeys(backend_of(array).device_of(array) for array in arrays))
