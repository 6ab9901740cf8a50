"""Loops as instructions of a sequence: loops inside of loops, branches and programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tapegrad.core.backend.native_sequences import (
    Instruction,
    NativeStep,
    Place,
    SequenceCompiler,
    SequencePlan,
)
from tapegrad.program.emit.native_steps import register_loop_steps
from tapegrad.program.graph.graph import Value
from tapegrad.program.loops.body import Body
from tapegrad.program.loops.native_rounds import LoopKind, Stacks

MOST_ROUNDS = 10_000_000
"""The rounds after which a loop without `maximum_iterations` counts as endless."""


def while_kind(most: int | None, stacks: Stacks = Stacks.APART) -> LoopKind:
    """Return how the rounds of a loop with a condition run."""
    length = MOST_ROUNDS if most is None else most
    return LoopKind(length, False, True, most is None, stacks)


def _counted(params: Mapping[str, Any], compiler: SequenceCompiler) -> NativeStep | None:
    """Return the instruction of a loop of a known number of rounds."""
    body: Body = params["body"]
    layout = body.layout
    kind = LoopKind(params["length"], params["backwards"], stacks=Stacks.INSIDE)
    function = body.form.native(kind)
    if function is None:
        return None
    first = layout.carried + layout.entries + layout.shared
    middle = first + layout.carried
    # Carried values come before the stacks among the results, and last among the arrays.
    places = [*range(first), *range(middle, middle + layout.made), *range(first, middle)]
    return compiler.call(function, places)


def _conditional(params: Mapping[str, Any], compiler: SequenceCompiler) -> NativeStep | None:
    """Return the instruction of a loop that ends by a condition."""
    body: Body = params["body"]
    if body.layout.made or not _has_flag(body):
        return None
    function = body.form.native(while_kind(params["most"], Stacks.INSIDE))
    if function is None:
        return None
    return compiler.call(function, range(2 * body.layout.carried + body.layout.shared))


def _has_flag(body: Body) -> bool:
    return bool(body.form.carried_specs[0].dtype == np.bool_)


def _gradient(params: Mapping[str, Any], compiler: SequenceCompiler) -> NativeStep | None:
    """Return the instruction of the gradient of a loop that ends by a condition.

    Rounds write what their pullbacks read to a tape, whose length is not known before.
    """
    body, pullback = params["body"], params["pullback"]
    own, of_pullback = body.layout, pullback.layout
    if not _has_flag(body) or of_pullback.made or of_pullback.entries != own.made:
        return None
    forward = body.form.native(while_kind(params["most"], Stacks.WRITTEN_TAPE))
    # The number of its rounds is on the tape.
    backward = pullback.form.native(LoopKind(1, True, stacks=Stacks.READ_TAPE))
    if forward is None or backward is None:
        return None
    first = own.carried + own.shared
    last = first + 2 * of_pullback.carried + of_pullback.shared
    return compiler.taped_calls(
        (forward, [-1, *range(first)]), (backward, [-1, *range(first, last)])
    )


def gradient_function(body: Body, pullback: Body, most: int | None) -> Callable[..., int] | None:
    """Return the function of operands and results that runs such a gradient.

    None if a round needs Python.
    """
    form = body.form
    key = (pullback.form, most)
    if key not in form.gradients:
        form.gradients[key] = _gradient_alone(body, pullback, most)
    found: Callable[..., int] | None = form.gradients[key]
    return found


def _gradient_alone(body: Body, pullback: Body, most: int | None) -> Callable[..., int] | None:
    compiler = body.form.sequences
    if compiler is None:
        return None
    step = _gradient({"body": body, "pullback": pullback, "most": most}, compiler)
    if step is None:
        return None
    own, of_pullback = body.layout, pullback.layout
    given = [*body.form.graph.inputs, *pullback.form.graph.inputs[: of_pullback.carried]]
    given += pullback.form.graph.inputs[of_pullback.carried + of_pullback.entries :]
    arrays = [_place(value, False) for value in given]
    arrays += [_place(value, True) for value in pullback.form.carried_specs]
    assert not own.entries
    places = tuple((k, 0) for k in range(len(arrays)))
    return compiler.sequence(SequencePlan(tuple(arrays), (), (), 0, (Instruction(step, places),)))


def _place(value: Value, is_written: bool) -> Place:
    return Place(value.dtype, value.shape, is_written)


register_loop_steps({
    "counted_loop": _counted,
    "conditional_loop": _conditional,
    "conditional_loop_gradient": _gradient,
})  # fmt: skip
