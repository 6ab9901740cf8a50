"""Training on several devices, as in `keras.distribution`: one process per device.

DataParallel divides batches. ModelParallel divides weights as well, by a LayoutMap.
"""

from typing import TYPE_CHECKING, Any

from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.keras.absent import absent_name as _absent_name
from tapegrad.keras.distribution.distributions import (
    DataParallel,
    Distribution,
    ModelParallel,
    distribution,
    initialize,
    set_distribution,
)
from tapegrad.keras.distribution.layout_map import LayoutMap
from tapegrad.keras.distribution.mesh import (
    DeviceMesh,
    TensorLayout,
    get_device_count,
    list_devices,
)

__all__ = [
    "DataParallel",
    "DeviceMesh",
    "Distribution",
    "LayoutMap",
    "ModelParallel",
    "TensorLayout",
    "distribution",
    "get_device_count",
    "initialize",
    "list_devices",
    "set_distribution",
]

if not TYPE_CHECKING:  # a checker shall see which names there are

    def __getattr__(name: str) -> Any:
        raise _absent_name("keras.distribution", name, __all__)


_check_calls(globals(), __all__)
