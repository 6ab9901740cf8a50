"""When a device has no memory for a result: free what can be freed and try again, or explain.

The error says what did not fit, how much memory is in use and what to do. Nothing has changed by
then, so variables and the process can be used as before.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from tapegrad.core.backend.protocol import Array, Backend, Memory
from tapegrad.core.backend.registry import backend_of, find_backend
from tapegrad.core.recorder import Node
from tapegrad.errors import OutOfMemoryError

_REMEDY = (
    "Use smaller batches, wrap parts of the model in tapegrad.recompute_grad, or drop tapes and "
    "tensors that are no longer needed (del tape)."
)

Retry = Callable[[Memory, MemoryError, Callable[[], Any]], Any]
_retry: Retry | None = None


def set_retry(retry: Retry | None) -> Retry | None:
    """Set the function that frees memory and calls again after an error; return the old one."""
    global _retry
    old, _retry = _retry, retry
    return old


_report: Callable[[str], str] | None = None


def set_report(report: Callable[[str], str]) -> None:
    """Set the function that returns a sentence about what holds the memory of a device."""
    global _report
    _report = report


def attempt(
    what: str,
    function: Callable[..., Any],
    *args: Any,
    on: Any = None,
    nodes: Iterable[Node | None] = (),
) -> Any:
    """Return `function(*args)`; if memory runs out, `recover`.

    `on` is an array on the device in question, by default one of the arguments.
    """
    try:
        return function(*args)
    except MemoryError as error:
        values = args if on is None else (on,)
        return recover(what, values, partial(function, *args), error, nodes)


def recover(
    what: str,
    values: Sequence[Any],
    function: Callable[[], Any],
    error: MemoryError,
    nodes: Iterable[Node | None] = (),
) -> Any:
    """Repeat a call that ended in `error` with more room, or raise an error that explains.

    The first array among `values`, or in a dict among them, says on which device. `nodes` lead to
    what the tape keeps.
    """
    for array in [part for v in values for part in (v.values() if type(v) is dict else (v,))]:
        backend = find_backend(type(array))
        if backend is not None:
            return recover_on(backend, backend.device_of(array), what, function, error, nodes)
    raise error


def recover_on(
    backend: Backend,
    device: str,
    what: str,
    function: Callable[[], Any],
    error: MemoryError,
    nodes: Iterable[Node | None] = (),
) -> Any:
    """Do the same on a device that is known by name."""
    if isinstance(error, OutOfMemoryError):
        raise error  # an operation inside has recovered already
    memory = backend.memory(device)
    try:
        if _retry is None:
            raise error
        return _retry(memory, error, function)
    except MemoryError as last:
        kept = kept_bytes(nodes)
        used, _ = memory.used()
        parts = [
            f"{what} ran out of memory on {device}: {str(last).rstrip('.') or 'no room is left'}.",
            "" if used is None else f"{readable(used)} are in use there.",
            f"The tape keeps {readable(kept)} for the gradient." if kept else "",
            _largest_holders(device),
            _REMEDY,
        ]
        raise OutOfMemoryError(" ".join(part for part in parts if part)) from last


def _largest_holders(device: str) -> str:
    try:
        return "" if _report is None else _report(device)
    except MemoryError:  # there is no room on the host, either
        return ""


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
        for array in arrays_in(node.saved):
            itemsize = backend_of(array).dtype_of(array).itemsize
            sizes[id(array)] = math.prod(array.shape) * itemsize
        waiting.extend(source for source in node.inputs if source is not None)
    return sum(sizes.values())


def arrays_in(saved: Any) -> list[Array]:
    """Return the arrays in what a node has saved."""
    if isinstance(saved, tuple | list):
        return [array for part in saved for array in arrays_in(part)]
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
