"""`keras.optimizers.legacy`: the names of older programs, for the optimizers of today."""

from tapegrad.keras.optimizers.adaptive import Adadelta, Adamax, Nadam
from tapegrad.keras.optimizers.base import Optimizer
from tapegrad.keras.optimizers.known import SGD, Adagrad, Adam, RMSprop
from tapegrad.keras.optimizers.linear import Ftrl

__all__ = [
    "SGD", "Adadelta", "Adagrad", "Adam", "Adamax", "Ftrl", "Nadam", "Optimizer", "RMSprop",
]  # fmt: skip
