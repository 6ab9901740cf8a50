"""What a call of a layer passes on to the layers that it calls: whether this is training."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

training_flag: ContextVar[bool | None] = ContextVar("tapegrad_keras_training", default=None)


@contextmanager
def training_scope(training: bool | None) -> Iterator[None]:
    """Let layers inside the block take this for their `training` where they are told nothing."""
    token = training_flag.set(training)
    try:
        yield
    finally:
        training_flag.reset(token)
