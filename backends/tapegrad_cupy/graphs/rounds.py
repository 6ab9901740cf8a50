"""Loops of many rounds: one kernel, or a CUDA graph of some of them, launched again and again.

All rounds of an elementwise body are one launch. Of other bodies, a loop of few rounds is part of
its program's graph, round by round. A graph of all rounds of a long one would take long to make.
Here one graph runs 64 rounds, and its launches read one part of the stacks after the other. If the
rounds contain loops, each of these is a graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any

import cupy

from tapegrad.core.backend.registry import by_name
from tapegrad_cupy.graphs.capture import Captured, capture
from tapegrad_cupy.kernels.loops.rounds import RoundsKernel, rounds_kernel
from tapegrad_cupy.runtime.device_to_host import check_not_capturing

Array = Any

MOST_IN_ONE_GRAPH = 512
"""The most rounds that are part of the graph around them."""

ROUNDS = 64
"""The rounds of one graph. The host needs as long for a launch as the device for about ten."""


MOST_WITH_INNER_ROUNDS = 4096
"""Likewise, of all rounds of a loop that contains loops."""

_is_inside: ContextVar[bool] = ContextVar("tapegrad_cupy_inner_loop", default=False)
"""Whether a loop is part of a round that is not part of a graph."""


def counted_loop(*operands: Array, body: Any, length: int, backwards: bool) -> tuple[Array, ...]:
    """Run a body `length` times; return the last carried values, then the stacks."""
    if body.rounds > 1:
        return _with_inner_loops(operands, body, length, backwards)
    kernel = _kernel(body, backwards)
    if kernel is not None:
        return kernel(operands, length)
    if length <= MOST_IN_ONE_GRAPH:
        if _is_inside.get():
            outputs, _ = _captured(body, length, backwards)(operands, [])
            return tuple(outputs)
        everything: tuple[Array, ...] = body.run_rounds(operands, length, backwards, _empty)
        return everything
    check_not_capturing("A loop of many rounds", operands[0])
    made = [_empty((length, *spec.shape), spec) for spec in body.specs]
    first, last = body.layout.carried, body.layout.carried + body.layout.entries
    carried: Sequence[Array] = operands[:first]
    stacks, shared = operands[first:last], operands[last:]
    for part in _parts(length, backwards):
        given = [*carried, *[stack[part] for stack in stacks], *shared]
        outputs = _run_part(body, given, part.stop - part.start, backwards)
        carried = outputs[:first]
        for stack, entries in zip(made, outputs[first:]):
            stack[part] = entries
        del given, outputs  # arrays that are still referenced could not be used by the next launch
    return (*carried, *made)


def _kernel(body: Any, backwards: bool) -> RoundsKernel | None:
    """Return the kernel of all rounds; None if there is none, or the body is not compiled yet."""
    key = ("kernel", backwards)
    if body.is_compiled and key not in body.prepared:
        body.prepared[key] = rounds_kernel(body.form, backwards)
    kernel: RoundsKernel | None = body.prepared.get(key)
    return kernel


def _with_inner_loops(
    operands: Sequence[Array], body: Any, length: int, backwards: bool
) -> tuple[Array, ...]:
    """Run rounds that contain loops."""
    everything: tuple[Array, ...]
    if length * body.rounds <= MOST_WITH_INNER_ROUNDS and not _is_inside.get():
        everything = body.run_rounds(operands, length, backwards, _empty)
        return everything
    check_not_capturing("A loop of many rounds", operands[0])
    token = _is_inside.set(True)
    try:
        everything = body.run_rounds(operands, length, backwards, _empty)
    finally:
        _is_inside.reset(token)
    return everything


def _parts(length: int, backwards: bool) -> list[slice]:
    """Return the rounds of each launch; what does not fill a graph comes last."""
    count = length // ROUNDS
    if backwards:
        starts = [length - ROUNDS * (k + 1) for k in range(count)]
        rest = slice(0, length - ROUNDS * count)
    else:
        starts = [ROUNDS * k for k in range(count)]
        rest = slice(ROUNDS * count, length)
    parts = [slice(start, start + ROUNDS) for start in starts]
    return parts if rest.stop == rest.start else [*parts, rest]


def _run_part(body: Any, given: Sequence[Array], length: int, backwards: bool) -> Sequence[Array]:
    outputs: Sequence[Array]
    if length < ROUNDS:
        outputs = body.run_rounds(given, length, backwards, _empty)
    else:
        outputs, _ = _captured(body, ROUNDS, backwards)(given, [])
    return outputs


def _empty(shape: tuple[int, ...], spec: Any) -> Array:
    return cupy.empty(shape, spec.dtype)


def _captured(body: Any, length: int, backwards: bool) -> Captured:
    """Return the run of some rounds as CUDA graphs, of the form of the body that runs now."""
    key = (length, backwards, id(body.form))
    if key not in body.prepared:

        def run(inputs: Sequence[Array], _: Sequence[Array]) -> tuple[tuple[Array, ...], tuple[()]]:
            return body.run_rounds(inputs, length, backwards, _empty), ()

        body.prepared[key] = capture(run, [], [])
    captured: Captured = body.prepared[key]
    return captured


KERNELS = by_name(counted_loop)
