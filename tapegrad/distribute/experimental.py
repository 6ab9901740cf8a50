"""TensorFlow's `tf.distribute.experimental`, for one device."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tapegrad.absent import absence
from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.distribute.communication import (
    CommunicationImplementation,
    CommunicationImplementation as CollectiveCommunication,
    CommunicationOptions,
    CommunicationOptions as CollectiveHints,
)
from tapegrad.distribute.strategy import CentralStorageStrategy, MultiWorkerMirroredStrategy

__all__ = [
    "CentralStorageStrategy",
    "CollectiveCommunication",
    "CollectiveHints",
    "CommunicationImplementation",
    "CommunicationOptions",
    "MultiWorkerMirroredStrategy",
]


if not TYPE_CHECKING:  # type checkers report names that do not exist

    def __getattr__(name: str) -> Any:
        raise absence("distribute.experimental", name)


_check_calls(globals(), __all__)
