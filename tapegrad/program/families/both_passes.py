"""Families of calls under tapes: the forward and the backward pass come from one template."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from typing import Any, NamedTuple

from tapegrad.core.recorder import EMPTY, using_stack
from tapegrad.core.values import nest
from tapegrad.core.values.tensor import Tensor
from tapegrad.program.families.template import Instance
from tapegrad.program.forward_backward import (
    FirstCall,
    ForwardBackward,
    Pulled,
    RecordedBoth,
    programs_of,
    recording_call,
)
from tapegrad.program.graph.graph import Graph
from tapegrad.program.recorded_call import Outcome
from tapegrad.program.result_structure import arrays_of, without_arrays
from tapegrad.program.unfused import pruned


class _Rest(NamedTuple):
    """What recordings have in common beside their graphs."""

    results: int
    """The number of leaves of the result; those of the gradients follow."""
    cut: int
    """The number of calls before the backward pass."""
    seeded: tuple[int, ...] | None
    variables: tuple[int, ...]


def parts_of_both(both: RecordedBoth, whole: Graph) -> tuple[Graph, _Rest, Outcome]:
    """Return the calls that are needed, and what recordings for other sizes are compared with."""
    graph = pruned(whole)
    needed = {id(call) for call in graph.calls}
    cut = sum(id(call) in needed for call in whole.calls[: both.cut])
    pulled = both.pulled
    leaves = [without_arrays(leaf) for leaf in (*both.flat, *(pulled.grads if pulled else ()))]
    rest = _Rest(
        len(both.flat),
        cut,
        None if pulled is None else tuple(pulled.seeded),
        () if pulled is None else tuple(pulled.variables),
    )
    structure = nest.pack_sequence_as(both.result, [None] * len(both.flat))
    recording = both.recording
    return graph, rest, Outcome(recording.variables, structure, leaves, recording.size_notes)


def repeat_both(
    instance: Instance, call: Any, leaves: list[Any], flags: Sequence[bool], name: str
) -> tuple[ForwardBackward, FirstCall]:
    """Repeat a call with its backward pass for other sizes; return its programs."""
    start = perf_counter()
    template, rest = instance.template, instance.template.rest
    with using_stack(EMPTY), recording_call(leaves) as (recording, inside):
        recording.kept = {}
        arrays = [leaf.array for leaf in inside if type(leaf) is Tensor]
        seeds = template.seeds(len(arrays), instance.values)
        arrays += [recording.take_input(seed) for seed in seeds]
        made = template.repeat(arrays, instance.values)
        kept, recording.kept = recording.kept, None
        flat, grads = made[: rest.results], made[rest.results :]
        outputs = [array for leaf in flat for array in arrays_of(leaf)]
    pulled = None
    if rest.seeded is not None:
        pulled = Pulled(grads, list(rest.seeded), list(rest.variables))
    both = RecordedBoth(recording, instance.packed(flat), flat, outputs, kept, rest.cut, pulled)
    programs, first = programs_of(both, call, leaves, flags, name, start, template.guards)
    if programs.backward is not None:  # a size that occurs only once needs no compiled program
        programs.backward.building.calls_before_start = 1
    return programs, first
