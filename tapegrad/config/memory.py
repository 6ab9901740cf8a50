"""Memory of devices under TensorFlow's names: growth, limits and counters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from tapegrad.config.devices import PhysicalDevice, device_name
from tapegrad.core.values.device import backend_for, divide_device
from tapegrad.debug.memory_use import memory_info, reset_peak_memory
from tapegrad.errors import ArgumentError, ArgumentTypeError

_MEGABYTE = 2**20
_configurations: dict[str, list[LogicalDeviceConfiguration]] = {}


class LogicalDeviceConfiguration(NamedTuple):
    """A limit for `set_logical_device_configuration`, in megabytes; None for none.

    The other fields of TensorFlow's class have no meaning here.

    >>> LogicalDeviceConfiguration(memory_limit=1024).memory_limit
    1024
    """

    memory_limit: float | None = None
    experimental_priority: int | None = None
    experimental_device_ordinal: int | None = None


def set_logical_device_configuration(
    device: PhysicalDevice, logical_devices: Sequence[LogicalDeviceConfiguration] | None
) -> None:
    """Limit the memory that arrays on a GPU take; None, or no memory_limit, removes the limit.

    Beyond the limit of CuPy's memory pool, operations raise `errors.ResourceExhaustedError`. One
    GPU is one device: it cannot be divided into several. The CPU has no limit, so a configuration
    for it must not name one. With several configurations, "CPU:1" and so on are further names of
    the CPU.

    >>> import tapegrad as tf
    >>> cpu = tf.config.list_physical_devices("CPU")[0]
    >>> set_logical_device_configuration(cpu, [LogicalDeviceConfiguration()])
    >>> get_logical_device_configuration(cpu)[0].memory_limit is None
    True
    """
    name = device_name(device, "set_logical_device_configuration")
    wanted = _checked(device, logical_devices)
    limit = wanted[0].memory_limit if wanted else None
    most = None if limit is None else int(limit * _MEGABYTE)
    if not backend_for(name).memory(name).set_limit(most) and most is not None:
        raise ArgumentError(
            f"The memory of {device.name} cannot be limited by tapegrad: the operating system "
            "gives it out. Limit the process instead, e.g. by resource.setrlimit, and give no "
            "memory_limit."
        )
    divide_device(name, max(1, len(wanted)))
    if logical_devices is None:
        _configurations.pop(name, None)
    else:
        _configurations[name] = wanted


def _checked(device: PhysicalDevice, given: Any) -> list[LogicalDeviceConfiguration]:
    wanted = [] if given is None else list(given)
    for one in wanted:
        if not isinstance(one, LogicalDeviceConfiguration):
            raise ArgumentTypeError(
                "set_logical_device_configuration takes a list with a LogicalDeviceConfiguration. "
                f"It holds {type(one).__name__}."
            )
        if one.memory_limit is not None and not one.memory_limit > 0:
            raise ArgumentError(
                f"memory_limit is a number of megabytes above 0. Got {one.memory_limit!r}."
            )
    if len(wanted) > 1 and device.device_type != "CPU":
        raise ArgumentError(
            f"{device.name} cannot be divided into {len(wanted)} logical devices. Give one "
            "LogicalDeviceConfiguration; only the CPU can have several."
        )
    return wanted


def get_logical_device_configuration(
    device: PhysicalDevice,
) -> list[LogicalDeviceConfiguration] | None:
    """Return what `set_logical_device_configuration` has set, or None.

    >>> import tapegrad as tf
    >>> set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], None)
    >>> get_logical_device_configuration(tf.config.list_physical_devices("CPU")[0]) is None
    True
    """
    return _configurations.get(device_name(device, "get_logical_device_configuration"))


# Growth


def set_memory_growth(device: PhysicalDevice, enable: bool) -> None:
    """Accept TensorFlow's switch and change nothing: memory always grows as it is needed.

    CuPy's memory pool takes memory when arrays need it. To limit it, use
    `set_logical_device_configuration`.

    >>> import tapegrad as tf
    >>> for gpu in tf.config.list_physical_devices("GPU"):
    ...     tf.config.experimental.set_memory_growth(gpu, True)
    """
    _refuse_cpu(device, "set_memory_growth")


def get_memory_growth(device: PhysicalDevice) -> bool:
    """Return whether the memory that a GPU uses grows as it is needed, which is always true.

    >>> import tapegrad as tf
    >>> all(get_memory_growth(gpu) for gpu in tf.config.list_physical_devices("GPU"))
    True
    """
    _refuse_cpu(device, "get_memory_growth")
    return True


def _refuse_cpu(device: PhysicalDevice, function: str) -> None:
    if device_name(device, function) == "cpu":
        raise ArgumentError(f"{function} is for GPUs. Got {device.name!r}.")


# Counters


def get_memory_info(device: str) -> dict[str, int]:
    """Return the bytes in use ("current") and their maximum ("peak") on a device.

    Counting starts with the first call, because it slows down allocations. On the CPU it needs
    `tracemalloc.start()`. See also `tapegrad.memory_info`.

    >>> import tracemalloc
    >>> tracemalloc.start()
    >>> info = get_memory_info("CPU:0")
    >>> tracemalloc.stop()
    >>> info["current"] <= info["peak"]
    True
    """
    if memory_info(device)["peak"] is None:
        reset_peak_memory(device)
    info = memory_info(device)
    current, peak = info["current"], info["peak"]
    if current is None or peak is None:
        raise ArgumentError(
            f"The memory of {device!r} is not counted. On the CPU, call tracemalloc.start() first."
        )
    return {"current": current, "peak": peak}


def reset_memory_stats(device: str) -> None:
    """Let the peak of a device begin at the memory in use now.

    >>> reset_memory_stats("CPU:0")
    """
    reset_peak_memory(device)


def get_memory_usage(device: str) -> int:
    """Return the bytes in use on a device.

    >>> import tracemalloc
    >>> tracemalloc.start()
    >>> usage = get_memory_usage("CPU:0")
    >>> tracemalloc.stop()
    >>> usage > 0
    True
    """
    return get_memory_info(device)["current"]
