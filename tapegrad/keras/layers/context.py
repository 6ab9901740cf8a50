"""What a call of a layer passes on to the layers that it calls: whether this is training."""

from __future__ import annotations

from contextvars import ContextVar

training_flag: ContextVar[bool | None] = ContextVar("tapegrad_keras_training", default=None)
"""What layers take for their `training` where they are told nothing."""

current_pass: ContextVar[object | None] = ContextVar("tapegrad_keras_pass", default=None)
"""Stands for the outermost call of a layer and all calls inside: losses are those of one pass."""
