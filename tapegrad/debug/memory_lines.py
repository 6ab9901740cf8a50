"""`memory`: which lines of the user's code hold the memory of a device."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tapegrad.core.eager_hooks import switch_hook
from tapegrad.core.memory_holders import Holder, holders
from tapegrad.core.out_of_memory import readable
from tapegrad.core.values.device import current_device, resolve_device


class MemoryReport:
    """What holds the memory of a device; printing it shows the largest holders.

    >>> MemoryReport("cpu", [], 5)
    0 bytes are held on cpu
    """

    def __init__(self, device: str, found: Sequence[Holder], most: int) -> None:
        self.device = device
        self.holders = tuple(found)
        """All holders, the largest first; each has `where`, `what`, `bytes` and `count`."""
        self._most = most

    @property
    def total(self) -> int:
        """The bytes of all holders together."""
        return sum(holder.bytes for holder in self.holders)

    def __repr__(self) -> str:
        lines = [f"{readable(self.total)} are held on {self.device}"]
        lines += [f"  {holder}" for holder in self.holders[: self._most]]
        rest = self.holders[self._most :]
        if rest:
            lines.append(f"  {readable(sum(holder.bytes for holder in rest))} by others")
        return "\n".join(lines)


def memory(device: str | None = None, most: int = 5) -> MemoryReport:
    """Return which lines hold the memory of a device (by default the current one).

    Variables, tensors, what tapes keep for gradients, and the intermediate values of compiled
    programs are counted, each array once. Printing the report shows the `most` largest holders.
    Values of programs always have the line that computes them. Arrays of eager code have one if
    `trace_memory` was on when they were made; variables otherwise have their name. Arrays that
    only NumPy or Python objects hold are not counted.

    >>> import tapegrad
    >>> with trace_memory():
    ...     x = tapegrad.ones([256, 256]) * 2.0
    ...     report = memory("cpu")
    >>> report.total >= 256 * 256 * 4
    True
    """
    name = current_device() if device is None else resolve_device(device)
    return MemoryReport(name, holders(name), most)


@contextmanager
def trace_memory() -> Iterator[None]:
    """Note the line of each array that eager code makes in the block, for `memory`.

    The lines are known as long as the arrays live, also after the block. An error that says that
    memory ran out names them, too.

    >>> with trace_memory():
    ...     pass
    """
    switch_hook("memory", True)
    try:
        yield
    finally:
        switch_hook("memory", False)
