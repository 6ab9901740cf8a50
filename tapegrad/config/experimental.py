"""TensorFlow's `tf.config.experimental`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any as _Any

from tapegrad.absent import absence as _absence
from tapegrad.config.devices import (
    device_description as get_device_details,
    get_visible_devices,
    list_logical_devices,
    list_physical_devices,
    set_visible_devices,
)
from tapegrad.config.memory import (
    LogicalDeviceConfiguration as VirtualDeviceConfiguration,
    get_logical_device_configuration as get_virtual_device_configuration,
    get_memory_growth,
    get_memory_info,
    get_memory_usage,
    reset_memory_stats,
    set_logical_device_configuration as set_virtual_device_configuration,
    set_memory_growth,
)
from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.core.determinism import (
    disable_op_determinism,
    enable_op_determinism,
    is_op_determinism_enabled,
)
from tapegrad.core.precision import (
    enable_tensor_float_32_execution,
    tensor_float_32_execution_enabled,
)

__all__ = [
    "VirtualDeviceConfiguration",
    "disable_op_determinism",
    "enable_op_determinism",
    "enable_tensor_float_32_execution",
    "get_device_details",
    "get_memory_growth",
    "get_memory_info",
    "get_memory_usage",
    "get_virtual_device_configuration",
    "get_visible_devices",
    "is_op_determinism_enabled",
    "list_logical_devices",
    "list_physical_devices",
    "reset_memory_stats",
    "set_memory_growth",
    "set_virtual_device_configuration",
    "set_visible_devices",
    "tensor_float_32_execution_enabled",
]


if not TYPE_CHECKING:  # type checkers report names that do not exist

    def __getattr__(name: str) -> _Any:
        raise _absence("config.experimental", name)


_check_calls(globals(), __all__)
