"""Context of a layer call that its sublayers inherit: the training flag and the forward pass."""

from __future__ import annotations

from contextvars import ContextVar

from tapegrad.keras.layers.moving_averages import MovingAverages

training_flag: ContextVar[bool | None] = ContextVar("tapegrad_keras_training", default=None)
"""The default of the `training` argument inside a call."""

current_pass: ContextVar[MovingAverages | None] = ContextVar("tapegrad_keras_pass", default=None)
"""The forward pass: the outermost call and all calls inside it.

It is represented by the moving averages to update at its end. `Layer.losses` covers one pass.
"""
