"""Compiled functions as instructions of a sequence."""

from __future__ import annotations

from tapegrad.core.backend.native_sequences import NativeStep
from tapegrad_numpy.loops.compiled_parts import CompiledParts
from tapegrad_numpy.sequences.runtime import LOOP, ROWS, TABLE


def step_of(parts: CompiledParts) -> NativeStep:
    """Return the instruction that calls a compiled function."""
    arrays = tuple((k, 0) for k in parts.order or range(parts.arrays))
    head = [parts.numbers.ctypes.data, parts.team, parts.slots, parts.work, parts.close]
    kind = ROWS if parts.reports else LOOP
    if parts.table is not None:
        kind = TABLE
        head.append(parts.table.ctypes.data)
    return NativeStep(kind, arrays, tuple(head), (parts,), parts.elements)
