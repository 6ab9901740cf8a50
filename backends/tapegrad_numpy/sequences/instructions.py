"""Steps of programs as instructions of a sequence; runtime.py explains their integers."""

from __future__ import annotations

from collections.abc import Sequence

from tapegrad.core.backend.native_sequences import Layout
from tapegrad_numpy.loops.compiled_parts import CompiledParts
from tapegrad_numpy.sequences.convolution import WRITERS as CONVOLUTION
from tapegrad_numpy.sequences.copies import WRITERS as COPIES
from tapegrad_numpy.sequences.functions import Made, Writer, are_contiguous
from tapegrad_numpy.sequences.indexing import WRITERS as INDEXING
from tapegrad_numpy.sequences.linear_algebra import WRITERS as LINEAR_ALGEBRA
from tapegrad_numpy.sequences.loop_steps import step_of
from tapegrad_numpy.sequences.pooling import WRITERS as POOLING
from tapegrad_numpy.sequences.products import WRITERS as PRODUCTS
from tapegrad_numpy.sequences.random_draws import WRITERS as RANDOM_DRAWS
from tapegrad_numpy.sequences.reductions import WRITERS as REDUCTIONS
from tapegrad_numpy.sequences.scans import WRITERS as SCANS
from tapegrad_numpy.sequences.segments import WRITERS as SEGMENTS
from tapegrad_numpy.sequences.sorting import WRITERS as SORTING


def steps_of_parts(calls: Sequence[CompiledParts], operands: Sequence[Layout]) -> Made:
    """Return the instructions of a compiled function, which reads contiguous arrays."""
    return [step_of(parts) for parts in calls] if are_contiguous(operands) else None


WRITERS: dict[str, Writer] = {
    **CONVOLUTION,
    **COPIES,
    **INDEXING,
    **LINEAR_ALGEBRA,
    **POOLING,
    **PRODUCTS,
    **RANDOM_DRAWS,
    **REDUCTIONS,
    **SCANS,
    **SEGMENTS,
    **SORTING,
}
"""Primitives that are instructions without a separate compiled function."""
