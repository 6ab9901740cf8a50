"""Data on tapes for a report: times of sweeps, held memory, losses and lost gradients."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from time import perf_counter_ns
from typing import Any

from tapegrad.core.backend.registry import capabilities_of
from tapegrad.core.call_site import call_site
from tapegrad.core.event_log import LOGS, EventLog
from tapegrad.core.memory_holders import bytes_of
from tapegrad.core.memory_trace import owner_of, site_of
from tapegrad.core.out_of_memory import arrays_in
from tapegrad.core.recorder import Node
from tapegrad.core.values.tensor import Tensor
from tapegrad.core.values.variable import Variable

MOST_NODES = 100_000
"""A longer tape is not looked through."""


def reported_sweep(nodes: Sequence[Node], run: Callable[[], Any]) -> Any:
    """Return the result of a sweep, whose time is noted, and what its tape holds before it."""
    log, site = LOGS[-1], call_site()
    count = log.sweeps[site] = log.sweeps.get(site, 0) + 1
    if not count & (count - 1) and len(nodes) <= MOST_NODES:  # the first, second, fourth, ...
        _note_held(log, site, nodes)
    start = perf_counter_ns()
    try:
        return run()
    finally:
        log.add("sweep", "backward pass", site, start, perf_counter_ns())


def _note_held(log: EventLog, site: str, nodes: Iterable[Node]) -> None:
    """Note the arrays that the nodes keep, if they are more than those of earlier sweeps."""
    held: dict[str, tuple[int, int]] = {}
    seen: set[int] = set()
    for node in nodes:
        for array in arrays_in(node.saved):
            owner = owner_of(array)
            if id(owner) in seen or capabilities_of(type(array)).adoption is not None:
                continue
            seen.add(id(owner))
            where = site_of(array) or "variables and values from before the report"
            arrays, size = held.get(where, (0, 0))
            held[where] = (arrays + 1, size + bytes_of(owner, array))
    before = sum(size for _, size in log.tapes.get(site, {}).values())
    if held and sum(size for _, size in held.values()) > before:
        log.tapes[site] = held


def note_losses(targets: Iterable[Any]) -> None:
    """Note the values of scalar targets, unless they are being recorded."""
    for target in targets:
        if is_scalar(target):
            LOGS[-1].add_value("target of tape.gradient", call_site(), target.array)


def is_scalar(value: Any) -> bool:
    """Return whether a value is a real tensor of one element that can be read later."""
    return (
        type(value) is Tensor
        and math.prod(value.shape) == 1
        and value.dtype.is_floating
        and capabilities_of(type(value.array)).adoption is None
    )


def note_lost(explain: Callable[[Any], str], sources: Iterable[Any]) -> None:
    """Note the sources without gradient, and why."""
    site = call_site()
    for source in sources:
        is_named = isinstance(source, Variable)
        name = f"variable {source.name!r}" if is_named else f"a tensor of shape {source.shape}"
        LOGS[-1].add_lost(name, site, explain(source))
