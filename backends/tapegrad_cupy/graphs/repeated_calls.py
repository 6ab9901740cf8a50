"""Calls of the host that belong to a CUDA graph: they happen at each launch.

A capture may be thrown away, and a graph is launched many times. What other processes are told
about a collective call must be told once for each time that it is made.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

_local = threading.local()


def at_each_launch(call: Callable[[], None]) -> None:
    """Call a function now; during a capture, at each launch of the graph instead.

    >>> with collected_calls() as calls:
    ...     at_each_launch(lambda: print("launched"))
    >>> repeat(calls)
    launched
    """
    calls: list[Callable[[], None]] | None = getattr(_local, "calls", None)
    if calls is None:
        call()
    else:
        calls.append(call)


@contextmanager
def collected_calls() -> Iterator[list[Callable[[], None]]]:
    """Collect the calls of a capture in this thread."""
    before = getattr(_local, "calls", None)
    found: list[Callable[[], None]] = []
    _local.calls = found
    try:
        yield found
    finally:
        _local.calls = before


def repeat(calls: Sequence[Callable[[], None]]) -> None:
    """Make the calls of a graph, before a launch."""
    for call in calls:
        call()
