"""The capability of the NumPy backend to run sequences of steps in C."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tapegrad.core.backend.native_sequences import Layout, NativeStep, SequencePlan, contiguous
from tapegrad_numpy import switches


class CSequences:
    """Runs compiled loops, products and copies that follow each other in one call."""

    def steps(
        self,
        primitive: str,
        kernel: Callable[..., Any] | None,
        operands: Sequence[Layout],
        results: Sequence[Layout],
        params: Mapping[str, Any],
    ) -> list[NativeStep] | None:
        from tapegrad_numpy.loops.compiled_parts import parts_of  # with the first program
        from tapegrad_numpy.sequences.instructions import WRITERS, steps_of_parts  # likewise

        if not switches.SEQUENCES:
            return None
        parts = parts_of(kernel)
        made = None if parts is None else steps_of_parts(parts, operands)
        if made is None and primitive in WRITERS:
            made = WRITERS[primitive](operands, results, params)
        return made

    def views(
        self, kernel: Callable[..., Any], operand: Layout, params: Mapping[str, Any]
    ) -> list[tuple[int, Layout]] | None:
        from tapegrad_numpy.sequences.views import views_of  # likewise

        return views_of(kernel, operand, params)

    def copy(self, source: Layout) -> list[NativeStep] | None:
        from tapegrad_numpy.sequences.copies import copies  # likewise

        return copies(source, contiguous(source.shape, source.dtype), (0, 1))

    def call(self, function: Callable[..., int], arrays: Sequence[int]) -> NativeStep:
        from tapegrad_numpy.sequences.calls import call_of  # likewise

        return call_of(function, arrays)

    def taped_calls(
        self,
        first: tuple[Callable[..., int], Sequence[int]],
        second: tuple[Callable[..., int], Sequence[int]],
    ) -> NativeStep:
        from tapegrad_numpy.sequences.calls import taped_calls  # likewise

        return taped_calls(first, second)

    def sequence(self, plan: SequencePlan) -> Callable[..., int] | None:
        from tapegrad_numpy.sequences.calls import sequence_function  # likewise

        return sequence_function(plan)
