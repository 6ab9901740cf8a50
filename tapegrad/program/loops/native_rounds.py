"""All rounds of a loop in one call, for backends that run sequences of steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np

from tapegrad.core.backend.native_sequences import (
    Carried,
    Entry,
    Instruction,
    Place,
    Rounds,
    SequenceCompiler,
    Tape,
)
from tapegrad.program.emit.native_steps import Natives
from tapegrad.program.emit.placement import Placement, placed
from tapegrad.program.graph.graph import Value
from tapegrad.program.loops.rows_in_place import Changes


class Stacks(Enum):
    """Where a loop has the stacks that it makes and those that it reads."""

    APART = "apart"
    """In arrays; one that starts with the first carried value has one entry more."""
    INSIDE = "inside"
    """In arrays of one entry per round, since the loop is a step of another sequence."""
    WRITTEN_TAPE = "written tape"
    """Those that it makes are on a tape."""
    READ_TAPE = "read tape"
    """Those that it reads are on a tape."""


@dataclass(frozen=True)
class LoopKind:
    """How often and how rounds run."""

    length: int
    backwards: bool = False
    has_condition: bool = False
    must_end: bool = False
    stacks: Stacks = Stacks.APART


def native_rounds(
    one: Any, compiler: SequenceCompiler, kind: LoopKind
) -> Callable[..., int] | None:
    """Return a function that runs all rounds; None if a round needs Python.

    `one` is the code of a round. The function takes the operands of the loop, then the arrays that
    it writes: stacks of carried values with one more entry, the other stacks, and the last carried
    values. A tape comes first and replaces stacks. It returns 0, or another number if the rounds
    have to run one by one.
    """
    natives = Natives(one.steps, one.kernels or {}, compiler, ())
    if len(natives.found) + len(natives.aliases) < len(one.steps):
        return None
    return _RoundsPlan(one, natives, compiler, kind).function()


TAPE = Place(np.dtype(np.int64), (3,), True)
"""The tape among the arrays of a plan."""
ALIGNED = 16
"""What offsets on a tape are multiples of: the bytes of the longest element."""


class _RoundsPlan:
    """The places of a loop: operands, stacks, what is carried, and intermediate values."""

    def __init__(
        self, one: Any, natives: Natives, compiler: SequenceCompiler, kind: LoopKind
    ) -> None:
        self._one, self._natives, self._compiler, self._kind = one, natives, compiler, kind
        self._graph, self._layout = one.graph, one.layout
        self._entries: list[Entry] = []
        self._taped: list[tuple[int, int]] = []
        self._bytes_per_round = 0
        # An entry of a stack in an array of another sequence is a copy of the carried value.
        self._shared_entries = one.places.before if kind.stacks is Stacks.APART else {}
        alone = one.places.alone if kind.stacks is Stacks.APART else range(one.layout.made)
        self._alone: list[int] = [*alone]
        rest = [k for k in range(one.layout.carried) if k not in self._shared_entries.values()]
        self._changes = Changes(one.graph, one.steps, natives, rest)

    def function(self) -> Callable[..., int] | None:
        layout, graph, kind = self._layout, self._graph, self._kind
        stacks = self._stacks(kind.length)
        place_of = {
            value.number: self._first_shared + k
            for k, value in enumerate(graph.inputs[layout.carried + layout.entries :])
        }
        used = {v.root.number for native in self._natives.found.values() for v in native.views}
        used |= {value.number for value in graph.outputs}
        constants = {n: array for n, array in graph.constants.items() if n in used}
        self._placement = Placement(stacks, constants, place_of)
        self._add_operands()
        written = self._written_places()
        copies = self._direct_results(written)
        positions = self._changes.order
        steps = [self._one.steps[p] for p in positions]
        natives = [self._natives.found[p] for p in positions]
        views = [self._natives.view(graph.outputs[position]) for position, _ in copies]
        copied = {view.root.number for view in views if view is not None}
        found = self._placement.instructions(natives, steps, copied)
        for position, place in copies:
            more = self._copy_of(graph.outputs[position], place)
            if more is None:
                return None
            found += more
        tape = Tape(0, self._bytes_per_round, tuple(self._taped)) if self._has_tape else None
        rounds = Rounds(
            kind.length,
            kind.backwards,
            tuple(self._carried),
            tuple(self._entries),
            kind.has_condition,
            kind.must_end,
            tape,
        )
        return self._compiler.sequence(self._placement.plan(found, rounds))

    def _stacks(self, length: int) -> list[Place]:
        """The arrays of the call: operands, stacks that are written, the last carried values."""
        layout, graph, one = self._layout, self._graph, self._one
        first, last = layout.carried, layout.carried + layout.entries
        found = [TAPE] if self._has_tape else []
        self._first_carried = len(found)
        found += [_array(value) for value in graph.inputs[:first]]
        if self._kind.stacks is not Stacks.READ_TAPE:
            found += [_array(value, length) for value in graph.inputs[first:last]]
        self._first_shared = len(found)
        found += [_array(value) for value in graph.inputs[last:]]
        self._first_held = len(found)
        found += [_array(one.specs[k], length + 1, True) for k in self._shared_entries]
        if self._kind.stacks is not Stacks.WRITTEN_TAPE:
            found += [_array(one.specs[k], length, True) for k in self._alone]
        self._first_last = len(found)
        if not self._has_last:
            return found
        return found + [_array(one.carried_specs[k], None, True) for k in range(first)]

    @property
    def _has_tape(self) -> bool:
        return self._kind.stacks in (Stacks.WRITTEN_TAPE, Stacks.READ_TAPE)

    @property
    def _has_last(self) -> bool:
        """Whether the last carried values are results; a tape is written for its gradient only."""
        return self._kind.stacks is not Stacks.WRITTEN_TAPE

    def _put_on_tape(self, place: int, value: Value) -> None:
        self._taped.append((place, self._bytes_per_round))
        self._bytes_per_round += -(-value.nbytes // ALIGNED) * ALIGNED

    def _add_operands(self) -> None:
        """Give carried values and entries of stacks the places where a round finds them."""
        layout, graph, placement = self._layout, self._graph, self._placement
        self._read = [
            self._home(k) if k in self._changes.values else placement.new_place()
            for k in range(layout.carried)
        ]
        for value, place in zip(graph.inputs[: layout.carried], self._read):
            placement.place_of[value.number] = place
        for k in range(layout.carried, layout.carried + layout.entries):
            value, place = graph.inputs[k], placement.new_place()
            placement.place_of[value.number] = place
            if self._kind.stacks is Stacks.READ_TAPE:
                self._put_on_tape(place, value)
            else:
                self._entries.append(Entry(place, self._first_carried + k, value.nbytes, 0))

    def _home(self, k: int) -> int:
        """Return the place of a carried value that rounds change, that of the last one if any."""
        if self._has_last:
            home = self._first_last + k
        else:
            home = self._placement.new_part(self._one.carried_specs[k].nbytes)
        for number in self._changes.values[k]:
            self._placement.place_of[number] = home
        return home

    def _written_places(self) -> dict[int, int]:
        """The places where a round writes its results, by their position among its outputs."""
        layout, one, placement = self._layout, self._one, self._placement
        found: dict[int, int] = {}
        parts: dict[int, tuple[int, int]] = {}
        shifted = [*self._shared_entries.values()]
        for k, position in enumerate(shifted):
            found[position] = placement.new_place()
            nbytes = one.carried_specs[position].nbytes
            shift = 0 if self._kind.backwards else 1
            self._entries.append(Entry(found[position], self._first_held + k, nbytes, shift))
        for k, position in enumerate(self._alone):
            place = found[layout.carried + position] = placement.new_place()
            if self._kind.stacks is Stacks.WRITTEN_TAPE:
                self._put_on_tape(place, one.specs[position])
                continue
            stack = self._first_held + len(shifted) + k
            self._entries.append(Entry(place, stack, one.specs[position].nbytes, 0))
        for k in range(layout.carried):
            if k in self._changes.values:
                found[k] = self._read[k]
            elif k not in found:
                found[k] = placement.new_place()
                nbytes = one.carried_specs[k].nbytes
                parts[k] = (placement.new_part(nbytes), placement.new_part(nbytes))
        self._carried = [
            Carried(
                self._read[k],
                found[k],
                self._first_carried + k,
                parts.get(k, (-1, -1)),
                self._first_last + k if self._has_last else -1,
                one.carried_specs[k].nbytes,
            )
            for k in range(layout.carried)
        ]
        return found

    def _direct_results(self, written: dict[int, int]) -> list[tuple[int, int]]:
        """Let steps write results where they belong; return those that have to be copied."""
        made = {value.number for p in self._natives.found for value in self._one.steps[p].results}
        copies = []
        for position, place in written.items():
            if position in self._changes.values:
                continue
            number = self._graph.outputs[position].number
            if number in made and number not in self._placement.place_of:
                self._placement.place_of[number] = place
            else:
                copies.append((position, place))
        return copies

    def _copy_of(self, value: Value, place: int) -> list[Instruction] | None:
        view = self._natives.view(value)
        copies = None if view is None else self._compiler.copy(view.layout)
        if view is None or copies is None:
            return None
        source = self._placement.place_of.get(view.root.number)
        if source is None:
            return None
        return [placed(one, [(source, view.offset), (place, 0)]) for one in copies]


def _array(value: Value, length: int | None = None, is_written: bool = False) -> Place:
    shape = value.shape if length is None else (length, *value.shape)
    return Place(value.dtype, shape, is_written)
