"""Copies from a CUDA device to the host, synchronous or asynchronous."""

from __future__ import annotations

from collections import deque
from typing import Any

import cupy
import numpy as np

from tapegrad.errors import TransferError


def copy_to_host(array: Any) -> np.ndarray:
    """Return a copy of an array on the host; the host waits for it."""
    check_not_capturing("Reading", array)
    value: np.ndarray = cupy.asnumpy(array)
    return value


class PendingRead:
    """An asynchronous copy of an array to page-locked memory, on the current stream.

    The buffer and the array are kept until the copy is complete, even if the result is not used.
    """

    __slots__ = ("_buffer", "_dtype", "_event", "_nbytes", "_shape")

    def __init__(self, array: Any) -> None:
        check_not_capturing("Reading", array)
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


_pending: deque[tuple[Any, ...]] = deque()


def keep_until_copied(*needed: Any) -> Any:
    """Keep objects until the copy that was just started is complete; return its event."""
    release_finished_copies()
    event = cupy.cuda.get_current_stream().record(cupy.cuda.Event(disable_timing=True))
    _pending.append((event, *needed))
    return event


def release_finished_copies() -> None:
    """Release the objects that completed copies needed."""
    for _ in range(len(_pending)):
        try:
            entry = _pending.popleft()
        except IndexError:  # another thread removed the last one
            return
        if not entry[0].done:
            _pending.append(entry)


def check_not_capturing(doing: str, array: Any) -> None:
    """Raise TransferError if the current stream is capturing a CUDA graph.

    CuPy would raise an error too, but only after an allocation that may invalidate the capture.
    """
    stream = cupy.cuda.get_current_stream()
    if stream.ptr and stream.is_capturing():  # the default stream cannot be captured
        raise TransferError(
            f"{doing} {array.dtype}{list(array.shape)} cannot be part of the CUDA graph that is "
            "being captured on the current stream: a graph replays work on the device only. Make "
            "the tensors that it needs before the capture, and read its results after it."
        )
