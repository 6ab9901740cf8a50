"""Compile the loops of a program for the arrays that its calls are going to have.

Some compilers of loops need the strides of all arrays. The first call of a program would compile
one kernel after the other. Here the strides are predicted while the program is built.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tapegrad.core.backend.optional_parts import CompilesAtLaunch, LoopCall
from tapegrad.core.backend.registry import capabilities_of
from tapegrad.program.emit.lowering import CompiledLoop, Step
from tapegrad.program.emit.views import Views


def prepare_loops(compiler: Any, steps: Sequence[Step]) -> None:
    """Let a compiler that compiles loops at their first call do so now."""
    if isinstance(compiler, CompilesAtLaunch):
        compiler.prepare(loop_calls(steps))


def loop_calls(steps: Sequence[Step]) -> list[LoopCall]:
    """Return the calls of loops whose arrays lie at known places.

    Inputs, variables and results of kernels are taken to be contiguous. If one is not, its loops
    are compiled when they are called. NumPy's kernels make the views.
    """
    sequences = capabilities_of(np.ndarray).sequences
    assert sequences is not None
    views = Views(sequences, np.ndarray)
    found = []
    for step in steps:
        if isinstance(step, CompiledLoop):
            call = _loop_call(step, views)
            if call is not None:
                found.append(call)
        elif step.aliases and not views.follow(step):
            views.forget(step)
    return found


def _loop_call(step: CompiledLoop, views: Views) -> LoopCall | None:
    places = [views.of(value) for value in step.arguments]
    known = [place for place in places if place is not None]
    if len(known) < len(places):
        return None
    numbers = [value.number for value in step.arguments]
    overwritten = [
        None if target is None or target.number not in numbers else numbers.index(target.number)
        for target in step.targets
    ]
    strides = [place.layout.strides for place in known]
    return LoopCall(step.run, strides, [place.offset for place in known], overwritten)
