"""One call of a function that was recorded outside of tapes, and what follows from it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from tapegrad.core.values import nest
from tapegrad.core.values.sizes import SizeNotes
from tapegrad.core.values.variable import Variable
from tapegrad.program.argument_writes import (
    NotesWrites,
    WithWrites,
    check_writable,
    store_writes,
)
from tapegrad.program.building import Building
from tapegrad.program.forward_backward import has_committed, recorded_arrays, recording_call
from tapegrad.program.graph.graph import Graph
from tapegrad.program.graph.initial_draws import (
    draws_only_once,
    skipped_draws,
    without_initial_draws,
)
from tapegrad.program.record.arguments import Args, Kwargs
from tapegrad.program.record.guards import Guards
from tapegrad.program.record.history import followed
from tapegrad.program.result_structure import Entry, arrays_of, plain_leaf, rebuilt, without_arrays
from tapegrad.program.unfused import pruned


class Outcome(NamedTuple):
    """What a recorded call has beside its graph, without arrays."""

    variables: Mapping[int, Variable]
    structure: Any
    """The structure of the result, with None for the leaves."""
    leaves: Sequence[Any]
    size_notes: SizeNotes

    @property
    def writes_arguments(self) -> bool:
        return type(self.structure) is WithWrites


class RecordedCall:
    """The graph and the result of a recorded call; nothing is assigned yet."""

    def __init__(
        self,
        python_function: Callable[..., Any],
        leaves: list[Any],
        args: Args,
        kwargs: Kwargs,
        guards: Guards | None = None,
        made_from: str = "",
    ) -> None:
        start = perf_counter()
        self._guards = guards
        self.made_from = made_from
        """From which recordings it was made, "" if it was recorded."""
        with recording_call(leaves) as (recording, inside):
            new_args, new_kwargs = nest.pack_sequence_as((args, kwargs), inside)
            result = NotesWrites(followed(python_function))(*new_args, **new_kwargs)
            flat = [plain_leaf(leaf) for leaf in nest.flatten(result)]
            outputs = [array for leaf in flat for array in arrays_of(leaf)]
        read, written = recording.finish()
        self._recording = recording
        self._leaves, self._call = leaves, (args, kwargs)
        self._result, self._flat, self._outputs = result, flat, outputs
        self.graph: Graph = recording.graph(outputs, read, written)
        self.is_special = draws_only_once(self.graph, recording.initial, recording.made)
        """Whether later calls may draw otherwise."""
        initial = () if self.is_special else recording.initial
        self.later = without_initial_draws(self.graph, initial)
        """The graph of later calls, which do not draw the initial values of variables again."""
        self._needed: Graph | None = None
        self.seconds = perf_counter() - start

    @property
    def needed(self) -> Graph:
        """The graph of later calls without dead calls."""
        return pruned(self.later) if self._needed is None else self._needed

    def guards(self) -> Guards:
        """Return what the program assumes: what was read here, or by an earlier recording."""
        if self._guards is None:
            self._guards = Guards(self._recording)
        return self._guards

    def outcome(self) -> Outcome:
        """Return what recordings for other sizes are compared with."""
        leaves = [without_arrays(leaf) for leaf in self._flat]
        structure = nest.pack_sequence_as(self._result, [None] * len(leaves))
        return Outcome(self._recording.variables, structure, leaves, self._recording.size_notes)

    def entry(self, graph: Graph, guards: Guards, name: str, budget: int | None) -> Entry:
        """Return the entry of a program, which is not built yet."""
        building = Building(graph, self.variables, name, budget)
        if graph is self.later:
            self._needed = building.recorded
        return self.entry_of(building, guards)

    def entry_of(self, building: Building, guards: Guards, numbers: Sequence[Any] = ()) -> Entry:
        """Return the entry of a program whose last inputs are numbers of this recording."""
        return Entry(building, self._result, self._flat, self.variables, guards, numbers)

    @property
    def variables(self) -> dict[int, Variable]:
        """The variables of the recording by their numbers."""
        return self._recording.variables

    def finish(self, is_forced: bool) -> tuple[bool, Any]:
        """Assign what the recording computed; return whether that was done, and the result.

        It is done if it `is_forced`, or no other thread has assigned to the variables meanwhile.
        """
        real = iter(recorded_arrays(self.graph, self._outputs))
        leaves = [rebuilt(leaf, real) for leaf in self._flat]
        outcome = nest.pack_sequence_as(self._result, leaves)
        if type(outcome) is WithWrites:
            check_writable(tuple(outcome.written), nest.flatten(self._call), self._leaves)
        if not has_committed(self._recording, is_forced):
            return False, None
        if type(outcome) is WithWrites:
            outcome = store_writes(outcome, self._leaves)
        return True, outcome

    def commit_initial_draws(self) -> None:
        """Advance random generators by the draws for the initial values of variables."""
        skipped = skipped_draws(self.graph, self._recording.initial)
        for number, counts in skipped.items():
            state = self._recording.variables[number]
            state.assign_add(np.array([0, sum(counts)], np.uint64), read_value=False)

    def let_go(self) -> None:
        """Drop the arrays of the recording."""
        self._recording.let_go()
        self._result, self._call = None, ((), {})
        self._flat, self._outputs, self._leaves = [], [], []
