"""Training on several devices, as in `keras.distribution`: one process per device.

DataParallel divides batches. ModelParallel divides weights as well, by a LayoutMap.
"""

from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.keras.distribution.distributions import (
    DataParallel,
    Distribution,
    ModelParallel,
    distribution,
    initialize,
    set_distribution,
)
from tapegrad.keras.distribution.layout_map import LayoutMap
from tapegrad.keras.distribution.mesh import DeviceMesh, TensorLayout, list_devices

__all__ = [
    "DataParallel",
    "DeviceMesh",
    "Distribution",
    "LayoutMap",
    "ModelParallel",
    "TensorLayout",
    "distribution",
    "initialize",
    "list_devices",
    "set_distribution",
]

_check_calls(globals(), __all__)
