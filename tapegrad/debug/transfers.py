"""`transfers`: forbid or count copies from a device to the host."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tapegrad.core.call_site import call_site
from tapegrad.core.out_of_memory import readable
from tapegrad.core.values import host
from tapegrad.errors import ArgumentError, TransferError

MOST_PLACES = 20


class Transfers:
    """The copies that `transfers` recorded: count, bytes, and the source lines of the first ones.

    >>> with transfers("count") as seen:
    ...     pass
    >>> seen, seen.where
    (<tapegrad.debug.Transfers: count=0, 0 bytes>, [])
    """

    def __init__(self, mode: str) -> None:
        self.mode = mode
        self.count = 0
        self.bytes = 0
        self.where: list[str] = []

    def __repr__(self) -> str:
        places = "".join(f"\n  {place}" for place in self.where)
        return f"<tapegrad.debug.Transfers: count={self.count}, {readable(self.bytes)}>{places}"

    def note(self, transfer: host.Transfer, innermost: bool) -> None:
        """Count a copy, or raise if the innermost block forbids copies."""
        place = call_site()
        if self.mode == "raise" and innermost and transfer.waits:
            raise TransferError(
                f"{transfer.how} copies {transfer.value} ({readable(transfer.nbytes)}) from "
                f"{transfer.device} to the host at {place}, which debug.transfers('raise') "
                "forbids. Keep the value on the device, read it after the block, or allow it "
                "with an inner debug.transfers('count')."
            )
        self.count += 1
        self.bytes += transfer.nbytes
        line = f"{place}: {transfer.how} of {transfer.value}"
        if line not in self.where and len(self.where) < MOST_PLACES:
            self.where.append(line)


@contextmanager
def transfers(mode: str = "count") -> Iterator[Transfers]:
    """Forbid ("raise") or count ("count") the copies of this thread from devices to the host.

    A copy waits for all earlier work on the device, so a training step should make none. Copies are
    made by `numpy()`, `float()`, `bool()` (also in an `if`), printing, and operations whose result
    has a shape that depends on values (`x[mask]`, `where(condition)`, `unique`). Blocks can be
    nested: the innermost decides what is allowed, and all of them count. The CPU is the host
    itself. `numpy_later()` does not wait for the device, so it is counted but never forbidden.

    >>> import tapegrad
    >>> with tapegrad.device("cpu"), transfers("raise") as seen:
    ...     total = float(tapegrad.reduce_sum([1.0, 2.0]))
    >>> total, seen.count, seen.bytes
    (3.0, 0, 0)
    """
    if mode not in ("raise", "count"):
        raise ArgumentError(f"transfers takes 'raise' or 'count'. Got {mode!r}.")
    seen = Transfers(mode)
    with host.guarded_by(seen):
        yield seen
