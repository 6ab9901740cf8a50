"""Optimizers with TensorFlow's interface: apply_gradients, minimize, clipping, schedules."""

from importlib import import_module as _import_module
from typing import Any as _Any

from tapegrad.absent import absence as _absence
from tapegrad.core.checked_calls import check_calls as _check_calls
from tapegrad.optimizers.base import Optimizer
from tapegrad.optimizers.rules import SGD, Adagrad, Adam, AdamW, RMSprop

__all__ = ["SGD", "Adagrad", "Adam", "AdamW", "Optimizer", "RMSprop"]

_check_calls(globals(), __all__, ("__init__", "apply", "build", "minimize"))


def __getattr__(name: str) -> _Any:
    """Return what only Keras' module has, such as `schedules` and `Nadam`."""
    others = _import_module("tapegrad.keras.optimizers")
    if name in others.__all__:
        return getattr(others, name)
    raise _absence("optimizers", name)
