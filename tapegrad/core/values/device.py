"""The device of new tensors: `device(...)`, the default device and device names."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from tapegrad.core.backend.protocol import Backend
from tapegrad.core.backend.registry import IN_TREE, backend_names, get_backend, is_backend
from tapegrad.core.warn_once import warn_once
from tapegrad.errors import BackendBrokenError, BackendUnavailableError, DeviceError

_PREFERENCE = ("cupy", "numpy")
_BACKEND_OF_KIND = {"cpu": "numpy", "cuda": "cupy"}
_placement: ContextVar[str | None] = ContextVar("tapegrad_device", default=None)
_default: list[str] = []


@contextmanager
def device(device_name: str | None) -> Iterator[None]:
    """Place the tensors created in this block on the named device.

    TensorFlow's names ("/GPU:0", "CPU:0") are accepted; None changes nothing.

    >>> with device("cpu"):
    ...     current_device()
    'cpu'
    """
    chosen = _placement.get() if device_name is None else resolve_device(device_name)
    token = _placement.set(chosen)
    try:
        yield
    finally:
        _placement.reset(token)


def current_device() -> str:
    """Return the name of the device on which new tensors are placed."""
    return _placement.get() or default_device()


def chosen_device() -> str | None:
    """Return the name of the innermost `device(...)` block's device, None outside of any."""
    return _placement.get()


def default_device() -> str:
    """Return the device outside `device(...)` blocks: TAPEGRAD_DEVICE, or else the best one."""
    if not _default:
        wanted = os.environ.get("TAPEGRAD_DEVICE")
        _default.append(resolve_device(wanted) if wanted else _best_device())
    return _default[0]


def reset_default_device() -> None:
    """Determine the default device again at the next use, e.g. after TAPEGRAD_DEVICE changed."""
    _default.clear()


def list_devices() -> list[str]:
    """Return the names of all usable devices, best first.

    >>> "cpu" in list_devices()
    True
    """
    names: list[str] = []
    for backend in backend_names():
        try:
            names.extend(get_backend(backend).devices())
        except BackendUnavailableError:
            continue
    return sorted(names, key=lambda name: name == "cpu")


def resolve_device(name: str) -> str:
    """Return the canonical name of a usable device, or raise an error that lists them."""
    if not isinstance(name, str):
        raise DeviceError(f"A device is named by a string like 'cpu' or 'cuda:0'. Got {name!r}.")
    match = re.fullmatch(r"/?(?:device:)?([a-zA-Z_]+)(?::(\d+))?", name)
    if match is None:
        raise DeviceError(f"{name!r} is not a device name. Use one of: {_known()}.")
    kind = {"gpu": "cuda"}.get(match[1].lower(), match[1].lower())
    if kind in IN_TREE or not is_backend(_BACKEND_OF_KIND.get(kind, kind)):
        raise DeviceError(f"There is no device {name!r}. Use one of: {_known()}.")
    backend = backend_for(kind)
    wanted = kind if match[2] is None else f"{kind}:{match[2]}"
    for usable in backend.devices():
        if wanted in (usable, usable.partition(":")[0], f"{usable}:0"):
            return usable
    raise DeviceError(f"There is no device {name!r} here. Use one of: {_known()}.")


def backend_for(device_name: str) -> Backend:
    """Return the backend that serves devices like "cpu" or "cuda:1"."""
    kind = device_name.partition(":")[0]
    return get_backend(_BACKEND_OF_KIND.get(kind, kind))


def _known() -> str:
    return ", ".join(list_devices())


def _best_device() -> str:
    for name in _PREFERENCE:
        try:
            return get_backend(name).devices()[0]
        except BackendBrokenError as error:
            warn_once(f"CUDA is not used, so tensors are placed on the CPU. {error}")
        except BackendUnavailableError:
            continue
    raise BackendUnavailableError("No backend can run here, not even NumPy's. Reinstall tapegrad.")
