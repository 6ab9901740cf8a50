"""The device of new tensors: `device(...)`, the default device and device names.

`tf.config` can hide devices, and replace a missing GPU by another device.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
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
_hidden: set[str] = set()
_logical: dict[str, int] = {}
"""How many logical devices a device is divided into: further names for the same device."""
_SETTINGS = {"soft": True}
_PREFIX = r"/?(?:job:\w+/replica:\d+/task:\d+/)?(?:physical_device:|device:)?"
"""What TensorFlow writes before the kind of a device."""


@contextmanager
def device(device_name: str | None) -> Iterator[None]:
    """Place the tensors created in this block on the named device.

    TensorFlow's names ("/GPU:0", "CPU:0") are accepted; None changes nothing. With soft placement,
    which is the default, "/GPU:0" is the best other device where there is no such GPU, with one
    warning; "cuda:0" always means this device. See `config.set_soft_device_placement`.

    >>> with device("cpu"):
    ...     current_device()
    'cpu'
    """
    chosen = _placement.get() if device_name is None else _placed(device_name)
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
        found = resolve_device(wanted, among_hidden=True) if wanted else _best_device()
        _default.append(_best_device() if found in _hidden else found)
    return _default[0]


def reset_default_device() -> None:
    """Determine the default device again at the next use, e.g. after TAPEGRAD_DEVICE changed."""
    _default.clear()


def list_devices() -> list[str]:
    """Return the names of all usable devices, best first.

    Devices that `config.set_visible_devices` hides are not among them.

    >>> "cpu" in list_devices()
    True
    """
    return [name for name in all_devices() if name not in _hidden]


def all_devices() -> list[str]:
    """Return the names of the devices of this machine, best first, with those that are hidden."""
    names: list[str] = []
    for backend in backend_names():
        try:
            names.extend(get_backend(backend).devices())
        except BackendUnavailableError:
            continue
    return sorted(names, key=lambda name: name == "cpu")


def hide_devices(names: Iterable[str]) -> None:
    """Let no new tensor be placed on these devices, and on all others again."""
    hidden = set(names)
    if hidden.issuperset(all_devices()):
        raise DeviceError("At least one device must stay visible. Got none.")
    _hidden.clear()
    _hidden.update(hidden)
    reset_default_device()


def divide_device(name: str, count: int) -> None:
    """Let so many logical devices stand for one device."""
    _logical[name] = count


def logical_count(name: str) -> int:
    """Return how many logical devices stand for a device."""
    return _logical.get(name, 1)


def set_soft_placement(is_soft: bool) -> None:
    """Set whether `device("/GPU:0")` takes another device where there is no such GPU."""
    _SETTINGS["soft"] = is_soft


def is_placement_soft() -> bool:
    """Return whether `device("/GPU:0")` takes another device where there is no such GPU."""
    return _SETTINGS["soft"]


def _placed(name: str) -> str:
    """Return the device that a `device` block names, or the one that replaces a missing GPU."""
    try:
        return resolve_device(name)
    except (DeviceError, BackendUnavailableError):
        is_gpu = re.fullmatch(rf"{_PREFIX}GPU(:\d+)?", str(name), re.IGNORECASE)
        if not is_gpu or not is_placement_soft():
            raise
        found = default_device()
        warn_once(
            f"There is no device {name!r} here, so {found!r} is used. To get an error instead, "
            "call tapegrad.config.set_soft_device_placement(False)."
        )
        return found


def resolve_device(name: str, among_hidden: bool = False) -> str:
    """Return the canonical name of a usable device, or raise an error that lists them."""
    if not isinstance(name, str):
        raise DeviceError(f"A device is named by a string like 'cpu' or 'cuda:0'. Got {name!r}.")
    match = re.fullmatch(rf"{_PREFIX}([a-zA-Z_]+)(?::(\d+))?", name)
    if match is None:
        raise DeviceError(f"{name!r} is not a device name. Use one of: {_known()}.")
    kind = {"gpu": "cuda"}.get(match[1].lower(), match[1].lower())
    if kind in IN_TREE or not is_backend(_BACKEND_OF_KIND.get(kind, kind)):
        raise DeviceError(f"There is no device {name!r}. Use one of: {_known()}.")
    backend = backend_for(kind)
    wanted = kind if match[2] is None else f"{kind}:{match[2]}"
    fitting = [
        usable
        for usable in backend.devices()
        if wanted in (usable, usable.partition(":")[0])
        or wanted in [f"{usable}:{number}" for number in range(logical_count(usable))]
    ]
    for usable in fitting:
        if among_hidden or usable not in _hidden:
            return usable
    if fitting:
        raise DeviceError(
            f"config.set_visible_devices hides the device {name!r}. Use one of: {_known()}."
        )
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
            visible = [found for found in get_backend(name).devices() if found not in _hidden]
            if visible:
                return visible[0]
        except BackendBrokenError as error:
            warn_once(f"CUDA is not used, so tensors are placed on the CPU. {error}")
        except BackendUnavailableError:
            continue
    if _hidden:
        return list_devices()[0]
    raise BackendUnavailableError("No backend can run here, not even NumPy's. Reinstall tapegrad.")
