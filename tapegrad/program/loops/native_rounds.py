"""All rounds of a loop in one call, for backends that run sequences of steps."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tapegrad.core.backend.native_sequences import (
    Carried,
    Entry,
    Instruction,
    Place,
    Rounds,
    SequenceCompiler,
)
from tapegrad.program.emit.native_steps import Natives
from tapegrad.program.emit.placement import Placement, placed
from tapegrad.program.graph.graph import Value


def native_rounds(
    one: Any,
    compiler: SequenceCompiler,
    length: int,
    backwards: bool,
    has_condition: bool = False,
) -> Callable[..., int] | None:
    """Return a function that runs all rounds; None if a round needs Python.

    `one` is the code of a round. The function takes the operands of the loop, then the arrays that
    it writes: stacks of carried values with one more entry, the other stacks, and the last carried
    values. It returns 0, or another number if the rounds have to run one by one.
    """
    natives = Natives(one.steps, one.kernels or {}, compiler, ())
    if len(natives.found) + len(natives.aliases) < len(one.steps):
        return None
    return _RoundsPlan(one, natives, compiler).function(length, backwards, has_condition)


class _RoundsPlan:
    """The places of a loop: operands, stacks, what is carried, and intermediate values."""

    def __init__(self, one: Any, natives: Natives, compiler: SequenceCompiler) -> None:
        self._one, self._natives, self._compiler = one, natives, compiler
        self._graph, self._layout = one.graph, one.layout
        self._entries: list[Entry] = []

    def function(
        self, length: int, backwards: bool, has_condition: bool
    ) -> Callable[..., int] | None:
        layout, graph = self._layout, self._graph
        stacks = self._stacks(length)
        place_of = {
            value.number: layout.carried + layout.entries + k
            for k, value in enumerate(graph.inputs[layout.carried + layout.entries :])
        }
        used = {v.root.number for native in self._natives.found.values() for v in native.views}
        used |= {value.number for value in graph.outputs}
        constants = {n: array for n, array in graph.constants.items() if n in used}
        self._placement = Placement(stacks, constants, place_of)
        self._add_operands()
        written = self._written_places(backwards)
        copies = self._direct_results(written)
        positions = [*self._natives.found]
        steps = [self._one.steps[p] for p in positions]
        found = self._placement.instructions([self._natives.found[p] for p in positions], steps)
        for position, place in copies:
            more = self._copy_of(graph.outputs[position], place)
            if more is None:
                return None
            found += more
        rounds = Rounds(
            length, backwards, tuple(self._carried), tuple(self._entries), has_condition
        )
        return self._compiler.sequence(self._placement.plan(found, rounds))

    def _stacks(self, length: int) -> list[Place]:
        """The arrays of the call: operands, stacks that are written, the last carried values."""
        layout, graph, one = self._layout, self._graph, self._one
        first, last = layout.carried, layout.carried + layout.entries
        found = [_array(value) for value in graph.inputs[:first]]
        found += [_array(value, length) for value in graph.inputs[first:last]]
        found += [_array(value) for value in graph.inputs[last:]]
        self._first_held = len(found)
        found += [_array(one.specs[k], length + 1, True) for k in one.places.before]
        found += [_array(one.specs[k], length, True) for k in one.places.alone]
        self._first_last = len(found)
        return found + [_array(one.carried_specs[k], None, True) for k in range(first)]

    def _add_operands(self) -> None:
        """Give carried values and entries of stacks the places where a round finds them."""
        layout, graph, placement = self._layout, self._graph, self._placement
        self._read = [placement.new_place() for _ in range(layout.carried)]
        for value, place in zip(graph.inputs[: layout.carried], self._read):
            placement.place_of[value.number] = place
        for k in range(layout.carried, layout.carried + layout.entries):
            value, place = graph.inputs[k], placement.new_place()
            placement.place_of[value.number] = place
            self._entries.append(Entry(place, k, value.nbytes, 0))

    def _written_places(self, backwards: bool) -> dict[int, int]:
        """The places where a round writes its results, by their position among its outputs."""
        layout, one, placement = self._layout, self._one, self._placement
        found: dict[int, int] = {}
        parts: dict[int, tuple[int, int]] = {}
        shifted = [*one.places.before.values()]
        for k, position in enumerate(shifted):
            found[position] = placement.new_place()
            nbytes = one.carried_specs[position].nbytes
            shift = 0 if backwards else 1
            self._entries.append(Entry(found[position], self._first_held + k, nbytes, shift))
        for k, position in enumerate(one.places.alone):
            place = found[layout.carried + position] = placement.new_place()
            stack = self._first_held + len(shifted) + k
            self._entries.append(Entry(place, stack, one.specs[position].nbytes, 0))
        for k in range(layout.carried):
            if k not in found:
                found[k] = placement.new_place()
                nbytes = one.carried_specs[k].nbytes
                parts[k] = (placement.new_part(nbytes), placement.new_part(nbytes))
        self._carried = [
            Carried(
                self._read[k],
                found[k],
                k,
                parts.get(k, (-1, -1)),
                self._first_last + k,
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
