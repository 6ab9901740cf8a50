"""Optimizers with TensorFlow's interface: apply_gradients, minimize, clipping, schedules."""

from tapegrad.optimizers.base import Optimizer
from tapegrad.optimizers.rules import SGD, Adagrad, Adam, AdamW, RMSprop

__all__ = ["SGD", "Adagrad", "Adam", "AdamW", "Optimizer", "RMSprop"]
