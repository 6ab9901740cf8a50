"""The memory that compiled programs keep, by the lines that compute their values."""

from __future__ import annotations

import gc
from collections.abc import Iterator

from tapegrad.core.memory_holders import SOURCES, UNKNOWN, Held
from tapegrad.program.emit.sequences import NativeSequence
from tapegrad.program.program import Program


def _blocks(device: str) -> Iterator[Held]:
    """Yield the values that are live at the peak of programs that keep memory between calls."""
    for program in [x for x in gc.get_objects() if issubclass(type(x), Program)]:
        is_built = hasattr(program, "_replay")  # others are being compiled in the background
        if not is_built or not _kept_bytes(program):
            continue
        sites = {v.number: call.site for call in program.graph.calls for v in call.results}
        plan = program.memory()
        at_peak = plan.live.index(plan.peak) if plan.live else 0
        for held in plan.held:
            is_there = held.first <= at_peak <= held.last
            if is_there and held.value.device == device:
                where = sites.get(held.value.number) or UNKNOWN
                yield where, "intermediate values of programs", held.value.nbytes


def _kept_bytes(program: Program) -> int:
    """Return the bytes that a program keeps between its calls for intermediate values."""
    blocks = [item.memory for item in program.order if isinstance(item, NativeSequence)]
    return sum(blocks) + int(getattr(program.run, "memory", 0))


SOURCES.append(_blocks)
