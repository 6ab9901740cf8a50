"""What a call of a layer passes on to the layers that it calls: whether this is training."""

from __future__ import annotations

from contextvars import ContextVar

from tapegrad.keras.layers.moving_averages import MovingAverages

training_flag: ContextVar[bool | None] = ContextVar("tapegrad_keras_training", default=None)
"""What layers take for their `training` where they are told nothing."""

current_pass: ContextVar[MovingAverages | None] = ContextVar("tapegrad_keras_pass", default=None)
"""The outermost call of a layer and all calls inside, by what is left to do at its end.

Losses are those of one pass.
"""
