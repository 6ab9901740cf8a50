"""Copies from a CUDA device to the host: at once, or later while both go on working."""

from __future__ import annotations

from collections import deque
from typing import Any

import cupy
import numpy as np

from tapegrad.errors import TransferError


def copy_to_host(array: Any) -> np.ndarray:
    """Return a copy of an array on the host, which waits for it."""
    refuse_capture("Reading", array)
    value: np.ndarray = cupy.asnumpy(array)
    return value


class CudaReading:
    """A copy of an array into page-locked memory, made when its turn on the current stream comes.

    Until then the buffer and the array are kept, even if nobody waits for the result any more.
    """

    __slots__ = ("_buffer", "_dtype", "_event", "_nbytes", "_shape")

    def __init__(self, array: Any) -> None:
        refuse_capture("Reading", array)
        source = cupy.ascontiguousarray(array)
        stream = cupy.cuda.get_current_stream()
        self._shape, self._dtype, self._nbytes = array.shape, array.dtype, array.nbytes
        self._buffer = cupy.cuda.alloc_pinned_memory(max(self._nbytes, 1))
        if self._nbytes:
            source.data.copy_to_host_async(self._buffer.ptr, self._nbytes, stream)
        self._event = keep_until_copied(self._buffer, source)

    def done(self) -> bool:
        return bool(self._event.done)

    def result(self) -> np.ndarray:
        self._event.synchronize()
        raw = np.frombuffer(self._buffer, np.uint8, self._nbytes).copy()
        value: np.ndarray = raw.view(self._dtype).reshape(self._shape)
        return value


_under_way: deque[tuple[Any, ...]] = deque()


def keep_until_copied(*needed: Any) -> Any:
    """Keep what a copy needs that was just begun; return the event after it."""
    forget_arrived()
    event = cupy.cuda.get_current_stream().record(cupy.cuda.Event(disable_timing=True))
    _under_way.append((event, *needed))
    return event


def forget_arrived() -> None:
    """Let go of what finished copies needed."""
    for _ in range(len(_under_way)):
        try:
            entry = _under_way.popleft()
        except IndexError:  # another thread took the last one
            return
        if not entry[0].done:
            _under_way.append(entry)


def refuse_capture(doing: str, array: Any) -> None:
    """Raise a sentence if the current stream is capturing a CUDA graph.

    CuPy would refuse the copy too, but by then it may have allocated and so spoilt the capture.
    """
    stream = cupy.cuda.get_current_stream()
    if stream.ptr and stream.is_capturing():  # the default stream cannot be captured
        raise TransferError(
            f"{doing} {array.dtype}{list(array.shape)} cannot be part of the CUDA graph that is "
            "being captured on the current stream: a graph replays work on the device only. Make "
            "the tensors that it needs before the capture, and read its results after it."
        )
