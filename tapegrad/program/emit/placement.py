"""Places of the values of a sequence: arrays of its call, constants, and parts of its memory."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from tapegrad.core.backend.native_sequences import Instruction, NativeStep, Place, SequencePlan
from tapegrad.program.emit.lowering import CompiledLoop, Step
from tapegrad.program.emit.native_steps import Native
from tapegrad.program.graph.graph import Value


class Placement:
    """The instructions of steps, whose other values get parts of one block of memory.

    `place_of` has the places of values by number; those of constants are added here.
    """

    def __init__(
        self, arrays: Sequence[Place], constants: Mapping[int, Any], place_of: Mapping[int, int]
    ) -> None:
        self.arrays = tuple(arrays)
        self._constants = tuple(constants.values())
        self.place_of = dict(place_of)
        for k, number in enumerate(constants):
            self.place_of[number] = len(self.arrays) + k
        self._offsets: list[int] = []
        self._memory = _Memory()
        self._parts: dict[int, tuple[int, int]] = {}

    def new_place(self, offset: int = 0) -> int:
        """Return a new place at an offset of the memory."""
        self._offsets.append(offset)
        return len(self.arrays) + len(self._constants) + len(self._offsets) - 1

    def new_part(self, nbytes: int) -> int:
        """Return the place of a part of the memory that stays in use."""
        return self.new_place(self._memory.take(nbytes))

    def plan(self, instructions: Sequence[Instruction], rounds: Any = None) -> SequencePlan:
        """Return the plan of all places, with these instructions."""
        return SequencePlan(
            self.arrays,
            self._constants,
            tuple(self._offsets),
            self._memory.size,
            tuple(instructions),
            rounds,
        )

    def instructions(
        self, natives: Sequence[Native], steps: Sequence[Step], held: Collection[int] = ()
    ) -> list[Instruction]:
        """Return the instructions of steps in order.

        The memory of the values with the numbers `held` stays theirs to the end.
        """
        into = _overwritten(steps)
        found: list[Instruction] = []
        for native, step, ends in zip(natives, steps, _last_uses(natives, held)):
            for value in step.results:
                if value.number not in self.place_of:
                    self._keep(value, into.get(value.number))
            places = [(self.place_of[view.root.number], view.offset) for view in native.views]
            copied = []
            for k, copies in native.copies:
                layout = native.views[k].layout
                nbytes = layout.size * layout.dtype.itemsize
                start = self._memory.take(nbytes)
                source, places[k] = places[k], (self.new_place(start), 0)
                found += [placed(one, [source, places[k]]) for one in copies]
                copied.append((start, nbytes))
            found += [placed(one, places) for one in native.steps]
            for part in copied:
                self._memory.free(*part)
            for number in ends:
                part_of_value = self._parts.pop(number, None)
                if part_of_value is not None:
                    self._memory.free(*part_of_value)
        return found

    def _keep(self, value: Value, into: int | None) -> None:
        """Give a value a part of the memory, that of a value which it overwrites if possible."""
        if into is not None and into in self._parts:
            self.place_of[value.number] = self.place_of[into]
            self._parts[value.number] = self._parts.pop(into)
            return
        start = self._memory.take(value.nbytes)
        self.place_of[value.number] = self.new_place(start)
        self._parts[value.number] = (start, value.nbytes)


def placed(step: NativeStep, places: Sequence[tuple[int, int]]) -> Instruction:
    """Return a native step whose arrays lie at places with offsets."""
    arrays = tuple((places[k][0], places[k][1] + offset) for k, offset in step.arrays)
    return Instruction(step, arrays)


def _overwritten(steps: Sequence[Step]) -> dict[int, int]:
    """The values that loops overwrite, by the number of the result."""
    return {
        value.number: target.number
        for step in steps
        if isinstance(step, CompiledLoop)
        for value, target in zip(step.results, step.targets)
        if target is not None
    }


def _last_uses(natives: Sequence[Native], held: Collection[int]) -> list[list[int]]:
    """Per step, the numbers of the values whose memory nothing uses afterwards."""
    seen = {*held}
    ends: list[list[int]] = []
    for native in reversed(natives):
        roots = dict.fromkeys(view.root.number for view in native.views)
        ends.append([number for number in roots if number not in seen])
        seen.update(roots)
    return ends[::-1]


class GroupArrays:
    """The arrays of the call of a group of steps.

    `needed` are the numbers of values that are read outside of the group.
    """

    def __init__(
        self,
        natives: Sequence[Native],
        steps: Sequence[Step],
        constants: Mapping[int, Any],
        needed: Collection[int],
    ) -> None:
        made = {value.number for step in steps for value in step.results}
        roots = {view.root.number: view.root for native in natives for view in native.views}
        outside = [number for number in roots if number not in made]
        self.constants = {n: constants[n] for n in outside if n in constants}
        read = [roots[number] for number in outside if number not in constants]
        self.results: list[Value] = []
        self.targets: list[Value | None] = []
        """Per result, the argument whose array it is written to, or None for a new array."""
        self.sources: list[Any] = []
        for step in steps:
            for k, value in enumerate(step.results):
                target = _target(step, k)
                # A repeated run must find its operands as they were.
                if target is not None and (target.number in made or target.number in roots):
                    target = None
                if value.number in needed or target is not None:
                    own = step.sources if isinstance(step, CompiledLoop) else ()
                    self.results.append(value)
                    self.targets.append(target)
                    self.sources.append(own[k] if own else None)
        written = [target for target in self.targets if target is not None]
        self.arguments = (*read, *written)
        self._new = [v for v, target in zip(self.results, self.targets) if target is None]
        self._written = {value.number for value in (*written, *self._new)}

    def placement(self) -> Placement:
        """Return places for these arrays."""
        values = (*self.arguments, *self._new)
        arrays = [Place(v.dtype, v.shape, v.number in self._written) for v in values]
        place_of = {value.number: k for k, value in enumerate(values)}
        for value, target in zip(self.results, self.targets):
            if target is not None:
                place_of[value.number] = place_of[target.number]
        return Placement(arrays, self.constants, place_of)


def _target(step: Step, k: int) -> Value | None:
    return step.targets[k] if isinstance(step, CompiledLoop) else None


class _Memory:
    """Parts of one block of memory; parts that are free again are taken first."""

    LINE = 64

    def __init__(self) -> None:
        self.size = 0
        self._free: list[tuple[int, int]] = []
        """The lengths and starts of free parts, the shortest first."""
        self._ends: dict[int, int] = {}
        """Their ends by their starts."""
        self._starts: dict[int, int] = {}
        """Their starts by their ends."""

    def take(self, nbytes: int) -> int:
        """Return the start of a part: the shortest free one that is long enough."""
        need = self._rounded(nbytes)
        place = bisect_left(self._free, (need, 0))
        if place == len(self._free):
            self.size += need
            return self.size - need
        start = self._free[place][1]
        end = self._removed(start)
        if end > start + need:
            self._add(start + need, end)
        return start

    def free(self, start: int, nbytes: int) -> None:
        """Let others use a part, together with its free neighbours."""
        end = start + self._rounded(nbytes)
        if end in self._ends:
            end = self._removed(end)
        if start in self._starts:
            start = self._starts[start]
            self._removed(start)
        self._add(start, end)

    def _add(self, start: int, end: int) -> None:
        insort(self._free, (end - start, start))
        self._ends[start], self._starts[end] = end, start

    def _removed(self, start: int) -> int:
        """Remove a free part and return its end."""
        end = self._ends.pop(start)
        del self._starts[end]
        del self._free[bisect_left(self._free, (end - start, start))]
        return end

    def _rounded(self, nbytes: int) -> int:
        return max(-(-nbytes // self.LINE), 1) * self.LINE
