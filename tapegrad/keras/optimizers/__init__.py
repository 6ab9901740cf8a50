"""Optimizers with the names, arguments and defaults of Keras 3."""

from typing import TYPE_CHECKING, Any as _Any

from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.keras.absent import absent_name as _absent_name
from tapegrad.keras.optimizers import legacy, schedules
from tapegrad.keras.optimizers.adaptive import Adadelta, Adamax, Nadam
from tapegrad.keras.optimizers.base import Optimizer
from tapegrad.keras.optimizers.known import SGD, Adagrad, Adam, AdamW, RMSprop
from tapegrad.keras.optimizers.layerwise import Adafactor, Lamb
from tapegrad.keras.optimizers.linear import Ftrl, Lion
from tapegrad.keras.optimizers.loss_scale import LossScaleOptimizer
from tapegrad.keras.optimizers.muon import Muon
from tapegrad.keras.optimizers.table import deserialize, get, serialize

__all__ = [
    "SGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Ftrl",
    "Lamb",
    "Lion",
    "LossScaleOptimizer",
    "Muon",
    "Nadam",
    "Optimizer",
    "RMSprop",
    "deserialize",
    "get",
    "legacy",
    "schedules",
    "serialize",
]

# Not the methods that each step of these optimizers calls.
_METHODS = """
    __init__ add_optimizer_variables add_variable add_variable_from_reference apply assign
    assign_add assign_sub build exclude_from_weight_decay finalize_variable_values from_config
    minimize scale_loss set_weights
"""
_check_calls(globals(), __all__, _METHODS.split())


if not TYPE_CHECKING:  # type checkers report names that do not exist

    def __getattr__(name: str) -> _Any:
        raise _absent_name("keras.optimizers", name, __all__)
