"""TensorFlow's `tf.config`: devices, memory limits, threads, and switches of the whole library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any as _Any

from tapegrad.absent import absence as _absence
from tapegrad.config import experimental, optimizer, threading
from tapegrad.config.devices import (
    LogicalDevice,
    PhysicalDevice,
    get_soft_device_placement,
    get_visible_devices,
    list_logical_devices,
    list_physical_devices,
    set_soft_device_placement,
    set_visible_devices,
)
from tapegrad.config.memory import (
    LogicalDeviceConfiguration,
    get_logical_device_configuration,
    set_logical_device_configuration,
)
from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.program.eager_mode import (
    functions_run_eagerly,
    functions_run_eagerly as experimental_functions_run_eagerly,
    run_functions_eagerly,
    run_functions_eagerly as experimental_run_functions_eagerly,
)

__all__ = [
    "LogicalDevice",
    "LogicalDeviceConfiguration",
    "PhysicalDevice",
    "experimental",
    "experimental_functions_run_eagerly",
    "experimental_run_functions_eagerly",
    "functions_run_eagerly",
    "get_logical_device_configuration",
    "get_soft_device_placement",
    "get_visible_devices",
    "list_logical_devices",
    "list_physical_devices",
    "optimizer",
    "run_functions_eagerly",
    "set_logical_device_configuration",
    "set_soft_device_placement",
    "set_visible_devices",
    "threading",
]

_check_calls(globals(), __all__)


if not TYPE_CHECKING:  # type checkers report names that do not exist

    def __getattr__(name: str) -> _Any:
        raise _absence("config", name)
