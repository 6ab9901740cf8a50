"""What happens when a device has no room for a result: free what can be freed, try once more.

If that fails too, a sentence says what did not fit, what is in use and what can be done. Nothing
was changed by then, so variables and the process can be used as before.
"""

from __future__ import annotations

import gc
import math
import traceback
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from tapegrad.core.backend import Array, Backend, backend_of, find_backend
from tapegrad.core.recorder import Node
from tapegrad.errors import OutOfMemoryError

_REMEDY = (
    "Use smaller batches, wrap parts of the model in tapegrad.recompute_grad, or drop tapes and "
    "tensors that are no longer needed (del tape)."
)


def run_again(
    what: str,
    values: Sequence[Any],
    attempt: Callable[[], Any],
    error: MemoryError,
    nodes: Iterable[Node | None] = (),
) -> Any:
    """Repeat an attempt at computing with `values` that ended in `error`, with more room.

    `nodes` lead to what the tape keeps. Values that are no arrays are passed over.
    """
    for array in values:
        backend = find_backend(type(array))
        if backend is not None:
            return run_again_on(backend, backend.device_of(array), what, attempt, error, nodes)
    raise error


def run_again_on(
    backend: Backend,
    device: str,
    what: str,
    attempt: Callable[[], Any],
    error: MemoryError,
    nodes: Iterable[Node | None] = (),
) -> Any:
    """The same for a device that is known by name."""
    if isinstance(error, OutOfMemoryError):
        raise error  # an operation inside has tried again already
    memory = backend.memory(device)
    _forget(error)
    gc.collect()
    memory.release()
    try:
        return attempt()
    except MemoryError as again:
        _forget(again)
        kept = kept_bytes(nodes)
        used, _ = memory.used()
        parts = [
            f"{what} ran out of memory on {device}: {str(again).rstrip('.') or 'no room is left'}.",
            "" if used is None else f"{readable(used)} are in use there.",
            f"The tape keeps {readable(kept)} for the gradient." if kept else "",
            _REMEDY,
        ]
        raise OutOfMemoryError(" ".join(part for part in parts if part)) from again


def _forget(error: BaseException) -> None:
    """Let go of the intermediate results that the frames of a failed attempt still hold."""
    cause: BaseException | None = error
    while cause is not None:
        traceback.clear_frames(cause.__traceback__)
        cause = cause.__context__


def kept_bytes(nodes: Iterable[Node | None]) -> int:
    """Bytes of the arrays that the history of these nodes keeps, each array once."""
    sizes: dict[int, int] = {}
    seen: set[Node] = set()
    waiting = [node for node in nodes if node is not None]
    while waiting:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        for array in _arrays_in(node.saved):
            itemsize = backend_of(array).dtype_of(array).itemsize
            sizes[id(array)] = math.prod(array.shape) * itemsize
        waiting.extend(source for source in node.inputs if source is not None)
    return sum(sizes.values())


def _arrays_in(saved: Any) -> list[Array]:
    if isinstance(saved, tuple | list):
        return [array for part in saved for array in _arrays_in(part)]
    return [saved] if find_backend(type(saved)) is not None else []


def readable(nbytes: int) -> str:
    """A number of bytes in words.

    >>> readable(512), readable(3 * 2**20), readable(1_500_000_000_000)
    ('512 bytes', '3.0 MiB', '1.4 TiB')
    """
    size, unit = float(nbytes), "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if size < 1024:
            break
        size, unit = size / 1024, larger
    return f"{nbytes} bytes" if unit == "bytes" else f"{size:.1f} {unit}"
