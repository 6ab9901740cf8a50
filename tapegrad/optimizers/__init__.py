"""Optimizers with TensorFlow's interface: apply_gradients, minimize, clipping, schedules."""

from typing import Any as _Any

from tapegrad.absent import absence as _absence
from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.optimizers.base import Optimizer
from tapegrad.optimizers.rules import SGD, Adagrad, Adam, AdamW, RMSprop

__all__ = ["SGD", "Adagrad", "Adam", "AdamW", "Optimizer", "RMSprop"]

_check_calls(globals(), __all__, ("__init__", "apply", "build", "minimize"))


def __getattr__(name: str) -> _Any:
    raise _absence("optimizers", name)
