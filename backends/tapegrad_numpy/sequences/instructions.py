"""Steps of programs as instructions of a sequence; runtime.py says what their integers mean."""

from __future__ import annotations

from collections.abc import Sequence

from tapegrad.core.backend.capabilities import Layout, NativeStep
from tapegrad_numpy.loops.compiled_parts import CompiledParts
from tapegrad_numpy.sequences.copies import WRITERS as COPIES
from tapegrad_numpy.sequences.functions import Made, Writer
from tapegrad_numpy.sequences.indexing import WRITERS as INDEXING
from tapegrad_numpy.sequences.linear_algebra import WRITERS as LINEAR_ALGEBRA
from tapegrad_numpy.sequences.products import WRITERS as PRODUCTS
from tapegrad_numpy.sequences.reductions import WRITERS as REDUCTIONS
from tapegrad_numpy.sequences.runtime import LOOP, ROWS
from tapegrad_numpy.sequences.scans import WRITERS as SCANS
from tapegrad_numpy.sequences.sorting import WRITERS as SORTING


def step_of_parts(parts: CompiledParts, operands: Sequence[Layout]) -> Made:
    """Return the instruction of a compiled function, which reads contiguous arrays."""
    if not all(layout.is_contiguous for layout in operands):
        return None
    arrays = tuple((k, 0) for k in range(parts.arrays))
    head = (parts.numbers.ctypes.data, parts.threads, parts.slots, parts.work, parts.close)
    kind = ROWS if parts.reports else LOOP
    return [NativeStep(kind, arrays, head, (parts,), parts.elements)]


WRITERS: dict[str, Writer] = {
    **COPIES,
    **INDEXING,
    **LINEAR_ALGEBRA,
    **PRODUCTS,
    **REDUCTIONS,
    **SCANS,
    **SORTING,
}
"""Primitives that are instructions without a compiled function of their own."""
