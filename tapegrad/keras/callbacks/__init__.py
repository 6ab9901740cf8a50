"""Callbacks, under Keras' names."""

from typing import TYPE_CHECKING, Any as _Any

from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.keras.absent import absent_name as _absent_name
from tapegrad.keras.callbacks.averages import SwapEMAWeights
from tapegrad.keras.callbacks.backup import BackupAndRestore
from tapegrad.keras.callbacks.callback import Callback
from tapegrad.keras.callbacks.callback_list import CallbackList
from tapegrad.keras.callbacks.checkpoints import ModelCheckpoint
from tapegrad.keras.callbacks.functions import CSVLogger, LambdaCallback
from tapegrad.keras.callbacks.history import History
from tapegrad.keras.callbacks.progress import ProgbarLogger
from tapegrad.keras.callbacks.stopping import (
    EarlyStopping,
    LearningRateScheduler,
    ReduceLROnPlateau,
    TerminateOnNaN,
)
from tapegrad.keras.callbacks.tensorboard import TensorBoard

__all__ = [
    "BackupAndRestore",
    "CSVLogger",
    "Callback",
    "CallbackList",
    "EarlyStopping",
    "History",
    "LambdaCallback",
    "LearningRateScheduler",
    "ModelCheckpoint",
    "ProgbarLogger",
    "ReduceLROnPlateau",
    "SwapEMAWeights",
    "TensorBoard",
    "TerminateOnNaN",
]

_check_calls(globals(), __all__, ("__init__",))


if not TYPE_CHECKING:  # type checkers report names that do not exist

    def __getattr__(name: str) -> _Any:
        raise _absent_name("keras.callbacks", name, __all__)
