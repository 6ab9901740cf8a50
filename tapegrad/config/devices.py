"""Devices under TensorFlow's names: which ones are here, and which ones a program may use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tapegrad.core.values.device import (
    all_devices,
    backend_for,
    hide_devices,
    is_placement_soft,
    list_devices,
    logical_count,
    set_soft_placement,
)
from tapegrad.errors import ArgumentError, ArgumentTypeError

_TYPES = {"cpu": "CPU", "cuda": "GPU"}
"""TensorFlow's type of a device, by the first part of tapegrad's name; others are capitalised."""


class PhysicalDevice(NamedTuple):
    """A device of this machine, as `list_physical_devices` returns it.

    >>> PhysicalDevice("/physical_device:CPU:0", "CPU").device_type
    'CPU'
    """

    name: str
    device_type: str


class LogicalDevice(NamedTuple):
    """A device that the program may use, as `list_logical_devices` returns it.

    >>> LogicalDevice("/device:CPU:0", "CPU").name
    '/device:CPU:0'
    """

    name: str
    device_type: str


def list_physical_devices(device_type: str | None = None) -> list[PhysicalDevice]:
    """Return the devices of this machine, hidden ones included, perhaps those of one type only.

    GPUs are listed if CuPy can use them.

    >>> list_physical_devices("CPU")
    [PhysicalDevice(name='/physical_device:CPU:0', device_type='CPU')]
    """
    return [device for device, _ in _physical() if device_type in (None, device.device_type)]


def list_logical_devices(device_type: str | None = None) -> list[LogicalDevice]:
    """Return the visible devices, perhaps those of one type only; `device` takes their names.

    >>> list_logical_devices("CPU")
    [LogicalDevice(name='/device:CPU:0', device_type='CPU')]
    """
    return [
        LogicalDevice(f"/device:{device.name.split(':', 1)[1]}", device.device_type)
        if logical_count(name) == 1
        else LogicalDevice(f"/device:{device.device_type}:{number}", device.device_type)
        for device, name in _visible(device_type)
        for number in range(logical_count(name))
    ]


def get_visible_devices(device_type: str | None = None) -> list[PhysicalDevice]:
    """Return the devices that the program may use, perhaps those of one type only.

    >>> [device.device_type for device in get_visible_devices("CPU")]
    ['CPU']
    """
    return [device for device, _ in _visible(device_type)]


def _visible(device_type: str | None) -> list[tuple[PhysicalDevice, str]]:
    visible = set(list_devices())
    return [
        (device, name)
        for device, name in _physical()
        if name in visible and device_type in (None, device.device_type)
    ]


def set_visible_devices(
    devices: PhysicalDevice | Sequence[PhysicalDevice], device_type: str | None = None
) -> None:
    """Let the program use only the given devices, of one type or of all types.

    `set_visible_devices([], "GPU")` hides all GPUs, so that new tensors are placed on the CPU. It
    can be called at any time; tensors that exist stay where they are.

    >>> set_visible_devices(list_physical_devices())
    """
    given = [devices] if isinstance(devices, PhysicalDevice) else list(devices)
    chosen = {device_name(device, "set_visible_devices") for device in given}
    wrong = [device for device in given if device_type not in (None, device.device_type)]
    if wrong:
        raise ArgumentError(
            f"set_visible_devices with device_type={device_type!r} takes devices of this type. "
            f"Got {wrong[0].name!r}."
        )
    visible = set(list_devices())
    hide_devices(
        name
        for device, name in _physical()
        if name not in (chosen if device_type in (None, device.device_type) else visible)
    )


def set_soft_device_placement(enabled: bool) -> None:
    """Set whether `device("/GPU:0")` takes another device where there is no such GPU.

    It is on by default, as in TensorFlow, and warns once. The names "cuda:0" and "cpu" are exact in
    any case.

    >>> set_soft_device_placement(True)
    """
    set_soft_placement(bool(enabled))


def get_soft_device_placement() -> bool:
    """Return whether `device("/GPU:0")` takes another device where there is no such GPU.

    >>> get_soft_device_placement()
    True
    """
    return is_placement_soft()


def device_name(device: Any, function: str) -> str:
    """Return tapegrad's name of a physical device, or raise an error that names the function."""
    if not isinstance(device, PhysicalDevice):
        raise ArgumentTypeError(
            f"{function} takes devices that list_physical_devices() returned. "
            f"Got {type(device).__name__}: {device!r}."
        )
    names = dict(_physical())
    if device not in names:
        raise ArgumentError(f"{function} got {device.name!r}, which is not a device here.")
    return names[device]


def device_description(device: Any) -> dict[str, str]:
    """Return what is known of a physical device: its name, if the driver tells one.

    >>> device_description(list_physical_devices("CPU")[0])
    {}
    """
    name = device_name(device, "get_device_details")
    words = backend_for(name).memory(name).description
    return {"device_name": words.partition(",")[0]} if words else {}


def _physical() -> list[tuple[PhysicalDevice, str]]:
    """Return the devices in TensorFlow's order, the CPU first, each with tapegrad's name."""
    found = []
    for name in sorted(all_devices(), key=lambda name: name != "cpu"):
        kind, _, number = name.partition(":")
        device_type = _TYPES.get(kind, kind.upper())
        physical = PhysicalDevice(f"/physical_device:{device_type}:{number or 0}", device_type)
        found.append((physical, name))
    return found
