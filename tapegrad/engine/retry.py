"""Retry an operation after memory ran out."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

from tapegrad.core.backend.protocol import Memory


def retry(memory: Memory, error: MemoryError, function: Callable[[], Any]) -> Any:
    """Free garbage and the device's caches, then call the function again."""
    forget_frames(error)
    gc.collect()
    memory.release()
    try:
        return function()
    except MemoryError as again:
        forget_frames(again)
        raise


def forget_frames(error: BaseException) -> None:
    """Drop the intermediate results that the frames of a failed call still hold."""
    import traceback  # slow to import, and memory seldom runs out

    cause: BaseException | None = error
    while cause is not None:
        traceback.clear_frames(cause.__traceback__)
        cause = cause.__context__
