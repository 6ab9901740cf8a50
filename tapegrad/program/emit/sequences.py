"""Arrange the steps of a program: those that need no Python run as sequences of one call each.

A call from Python costs more than a small loop takes. A backend that can run compiled loops,
products and copies one after the other (`SequenceCompiler`) gets them as sequences. Views of arrays
become addresses with offsets and strides; intermediate values lie in memory that the sequence keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from tapegrad.core.backend.capabilities import (
    Instruction,
    Layout,
    NativeStep,
    Place,
    SequenceCompiler,
    SequencePlan,
    contiguous,
)
from tapegrad.program.emit.lowering import CompiledLoop, Run, Step, to_python
from tapegrad.program.graph.graph import Call, Graph, Value

MOST = 4096
"""The most steps of a sequence; its places lie on the stack."""


@dataclass(frozen=True)
class View:
    """Where a value lies: in the array of another value or in its own."""

    root: Value
    offset: int
    layout: Layout


@dataclass(frozen=True)
class Native:
    """The instructions of a step, and the views of its operands and results."""

    steps: tuple[NativeStep, ...]
    views: tuple[View, ...]
    copies: tuple[tuple[int, tuple[NativeStep, ...]], ...] = ()
    """Operands, by position, that are first copied to contiguous memory, and how."""


@dataclass(frozen=True)
class NativeSequence:
    """Steps that run in one call."""

    arguments: tuple[Value, ...]
    """Values whose arrays are read, and those into whose arrays results are written."""
    results: tuple[Value, ...]
    targets: tuple[Value | None, ...]
    """Per result, the argument whose array it is written to, or None for a new array."""
    sources: tuple[Callable[[], Any] | None, ...]
    """Per result, a function that returns its array, or None."""
    run: Callable[..., int]
    steps: tuple[Step, ...]
    kernels: Mapping[int, Callable[..., Any]]
    """Kernels of some steps, by their position among `steps`."""
    constants: Mapping[int, Any]

    @property
    def reads(self) -> tuple[Value, ...]:
        return self.arguments

    @cached_property
    def one_by_one(self) -> Callable[..., tuple[Any, ...]]:
        """The same steps in Python, for arrays that are not contiguous and wrong indices."""
        graph = Graph(self.arguments, {}, dict(self.constants), (), self.results)
        run: Run = to_python(graph, self.steps, self.kernels)
        return lambda *arrays: run(arrays, ())[0]


Arranged = list[int | NativeSequence]
"""The order of execution: positions of steps that run from Python, and sequences."""


def arranged(
    graph: Graph,
    steps: Sequence[Step],
    kernels: Mapping[int, Callable[..., Any]],
    compiler: SequenceCompiler | None,
    held: Collection[int] = (),
    overwriting: Collection[int] = (),
) -> Arranged:
    """Return the steps in order, with sequences where the compiler can run them.

    The steps at the positions `held` stay as they are. Those at `overwriting` destroy operands.
    """
    found: Arranged | None = None
    if compiler is not None:
        natives = _Natives(graph, steps, kernels, compiler, held)
        if natives.found:
            found = _Arrangement(graph, steps, kernels, compiler, natives, overwriting).items()
    return [*range(len(steps))] if found is None else found


class _Natives:
    """Which steps can be instructions, and where their operands lie."""

    def __init__(
        self,
        graph: Graph,
        steps: Sequence[Step],
        kernels: Mapping[int, Callable[..., Any]],
        compiler: SequenceCompiler,
        held: Collection[int],
    ) -> None:
        self._compiler, self._kernels = compiler, kernels
        self._views: dict[int, View | None] = {}
        self.found: dict[int, Native] = {}
        """Instructions by the position of the step."""
        self.aliases: set[int] = set()
        """The positions of steps that only make views, whose layout is known."""
        for position, step in enumerate(steps):
            if position in held:
                continue
            if isinstance(step, Call) and step.aliases:
                if step.effects:
                    self._views.update({value.number: None for value in step.results})
                else:
                    self._add_views(position, step)
            else:
                native = self._native(position, step)
                if native is not None:
                    self.found[position] = native

    def view(self, value: Value) -> View | None:
        """Return where a value lies; None if that is not known."""
        if value.number not in self._views:
            layout = contiguous(value.shape, value.dtype)
            self._views[value.number] = View(value, 0, layout)
        return self._views[value.number]

    def _add_views(self, position: int, call: Call) -> None:
        before = self.view(call.reads[0]) if len(call.reads) == 1 else None
        if before is not None and len(call.operands) == 1:
            kernel = call.primitive.kernel(call.array_type)
            made = self._compiler.views(kernel, before.layout, call.params)
            shapes = [value.shape for value in call.results]
            if made is not None and [layout.shape for _, layout in made] == shapes:
                for value, (offset, layout) in zip(call.results, made):
                    self._views[value.number] = View(before.root, before.offset + offset, layout)
                self.aliases.add(position)
                return
        for value in call.results:
            self._views[value.number] = None

    def _native(self, position: int, step: Step) -> Native | None:
        operands: Sequence[Any] = step.operands if isinstance(step, Call) else step.arguments
        if not all(isinstance(operand, Value) for operand in operands):
            return None
        found = [self.view(value) for value in (*operands, *step.results)]
        views = [view for view in found if view is not None]
        if len(views) < len(found):
            return None
        name, kernel, params = "", self._kernels.get(position), {}
        if isinstance(step, Call):
            if step.effects or step.primitive.shapes_vary:
                return None
            name, params = step.primitive.name, step.params
        else:
            kernel = step.run
        layouts = [view.layout for view in views]
        count = len(operands)
        made = self._compiler.steps(name, kernel, layouts[:count], layouts[count:], params)
        if made is not None:
            return Native(tuple(made), tuple(views))
        return self._with_copies(name, kernel, views, count, params)

    def _with_copies(
        self, name: str, kernel: Any, views: Sequence[View], count: int, params: Mapping[str, Any]
    ) -> Native | None:
        """The instructions of a step whose operands are copied first, if that helps."""
        copies = []
        layouts = [view.layout for view in views]
        for k, layout in enumerate(layouts[:count]):
            if not layout.is_contiguous:
                copy = self._compiler.copy(layout)
                if copy is None:
                    return None
                copies.append((k, tuple(copy)))
                layouts[k] = contiguous(layout.shape, layout.dtype)
        if not copies:
            return None
        made = self._compiler.steps(name, kernel, layouts[:count], layouts[count:], params)
        return None if made is None else Native(tuple(made), tuple(views), tuple(copies))


class _Arrangement:
    """Groups of native steps, and the order in which they and the other steps run."""

    def __init__(
        self,
        graph: Graph,
        steps: Sequence[Step],
        kernels: Mapping[int, Callable[..., Any]],
        compiler: SequenceCompiler,
        natives: _Natives,
        overwriting: Collection[int],
    ) -> None:
        self._graph, self._steps, self._kernels = graph, steps, kernels
        self._compiler, self._natives, self._overwriting = compiler, natives, overwriting
        self._needed = self._needed_in_python()

    def _needed_in_python(self) -> set[int]:
        """The numbers of values that some step in Python, or the caller, reads."""
        needed = {value.number for value in self._graph.results}
        for position in range(len(self._steps) - 1, -1, -1):
            step = self._steps[position]
            if position in self._natives.found:
                continue
            is_view = position in self._natives.aliases
            if not is_view or any(value.number in needed for value in step.results):
                needed.update(value.number for value in step.reads)
        return needed

    def items(self) -> Arranged | None:
        """Return the steps and sequences in order; None if the compiler makes no sequence."""
        order = self._grouped()
        self._add_shared_values([group for group in order if not isinstance(group, int)])
        found: Arranged = []
        for item in order:
            if isinstance(item, int):
                found.append(item)
                continue
            made = self._joined(item)
            if made is None:
                return None
            found.append(made)
        return found

    def _grouped(self) -> list[int | list[int]]:
        """The steps in order, with groups of native ones.

        A step that needs no result of a group runs before it, so that groups are long.
        """
        found: list[int | list[int]] = []
        group: list[int] = []
        after: list[int] = []
        made: set[int] = set()

        def end_group() -> None:
            found.extend([group.copy()] if group else [])
            found.extend(after)
            for kept in (group, after, made):
                kept.clear()

        for position, step in enumerate(self._steps):
            depends = any(value.number in made for value in step.reads)
            if position in self._natives.found:
                if len(group) == MOST:
                    end_group()
                group.append(position)
                made.update(value.number for value in step.results)
            elif position in self._natives.aliases:
                made.update(value.number for value in step.results if depends)
                if any(value.number in self._needed for value in step.results):
                    (after if depends else found).append(position)
            else:
                if depends or self._overwrites(position):
                    end_group()
                found.append(position)
        end_group()
        return found

    def _overwrites(self, position: int) -> bool:
        """Whether a step in Python destroys values that a group before it may read."""
        step = self._steps[position]
        targets = step.targets if isinstance(step, CompiledLoop) else ()
        return position in self._overwriting or any(value is not None for value in targets)

    def _add_shared_values(self, groups: Sequence[Sequence[int]]) -> None:
        """Count values that one group makes and another reads as needed."""
        for group in groups:
            made = {value.number for p in group for value in self._steps[p].results}
            for position in group:
                count = len(self._steps[position].results)
                views = self._natives.found[position].views
                for view in views[: len(views) - count]:
                    if view.root.number not in made:
                        self._needed.add(view.root.number)

    def _joined(self, group: Sequence[int]) -> NativeSequence | None:
        steps = [self._steps[p] for p in group]
        natives = [self._natives.found[p] for p in group]
        plan = GroupPlan(natives, steps, self._graph.constants, self._needed)
        run = self._compiler.sequence(plan.plan())
        if run is None:
            return None
        positions = sorted([*group, *self._views_for(group)])
        return NativeSequence(
            plan.arguments,
            plan.results,
            plan.targets,
            plan.sources,
            run,
            tuple(self._steps[p] for p in positions),
            {k: self._kernels[p] for k, p in enumerate(positions) if p in self._kernels},
            {number: self._graph.constants[number] for number in plan.constants},
        )

    def _views_for(self, group: Sequence[int]) -> list[int]:
        """The positions of steps that make views which the steps of a group read."""
        read = {value.number for p in group for value in self._steps[p].reads}
        found = []
        for position in range(group[-1], -1, -1):
            if position in self._natives.aliases:
                step = self._steps[position]
                if any(value.number in read for value in step.results):
                    read.update(value.number for value in step.reads)
                    found.append(position)
        return found


class GroupPlan:
    """The places of the values of a group of steps."""

    def __init__(
        self,
        natives: Sequence[Native],
        steps: Sequence[Step],
        constants: Mapping[int, Any],
        needed: Collection[int],
        given: Mapping[int, int] | None = None,
    ) -> None:
        self._natives, self._steps = natives, steps
        self._made = {value.number: value for step in steps for value in step.results}
        self._roots = {v.root.number: v.root for native in natives for v in native.views}
        read = {
            view.root.number
            for native, step in zip(natives, steps)
            for view in native.views[: len(native.views) - len(step.results)]
        }
        outside = [n for n in self._roots if n not in self._made]
        self.constants = [number for number in outside if number in constants]
        self._arrays_of_constants = tuple(constants[number] for number in self.constants)
        arguments = [self._roots[n] for n in outside if n not in constants]
        results, targets, sources, into = [], [], [], {}
        for step in steps:
            for k, value in enumerate(step.results):
                target = step.targets[k] if isinstance(step, CompiledLoop) else None
                if target is not None and target.number in self._made:
                    into[value.number] = target.number
                    target = None
                elif target is not None and target.number in read:
                    # A repeated run must find the operand as it was.
                    target = None
                if value.number in needed or target is not None:
                    own = step.sources if isinstance(step, CompiledLoop) else ()
                    results.append(value)
                    targets.append(target)
                    sources.append(own[k] if own else None)
        self._into = {a: b for a, b in into.items() if a not in {v.number for v in results}}
        self.results = tuple(results)
        self.targets = tuple(targets)
        self.sources = tuple(sources)
        slots = [target for target in targets if target is not None]
        self.arguments = (*arguments, *slots)
        self._place_of: dict[int, int] = {v.number: k for k, v in enumerate(self.arguments)}
        new = [v for v, target in zip(results, targets) if target is None]
        for value, target in zip(results, targets):
            if target is not None:
                self._place_of[value.number] = self._place_of[target.number]
        for k, value in enumerate(new):
            self._place_of[value.number] = len(self.arguments) + k
        written = {value.number for value in (*slots, *new)}
        self.arrays = tuple(
            Place(v.dtype, v.shape, v.number in written) for v in (*self.arguments, *new)
        )
        for number in self.constants:
            self._place_of[number] = len(self._place_of_arrays) + self.constants.index(number)
        self._offsets: list[int] = []
        self._memory = _Memory()

    @property
    def _place_of_arrays(self) -> tuple[Place, ...]:
        return self.arrays

    def plan(self) -> SequencePlan:
        """Return the instructions with their places."""
        instructions = self.instructions()
        return SequencePlan(
            self.arrays,
            self._arrays_of_constants,
            tuple(self._offsets),
            self._memory.size,
            tuple(instructions),
        )

    def instructions(self) -> list[Instruction]:
        """Return the instructions; intermediate values get parts of the memory."""
        last = self._last_uses()
        found: list[Instruction] = []
        for position, (native, step) in enumerate(zip(self._natives, self._steps)):
            for value in step.results:
                if value.number not in self._place_of:
                    self._keep(value.number, value.nbytes)
            places = [(self._place_of[v.root.number], v.offset) for v in native.views]
            copied = []
            for k, steps in native.copies:
                part, start = self._new_part(native.views[k].layout)
                found += [_placed(one, [places[k], (part, 0)]) for one in steps]
                places[k] = (part, 0)
                copied.append((start, native.views[k].layout))
            found += [_placed(one, places) for one in native.steps]
            for start, layout in copied:
                self._memory.free(start, layout.size * layout.dtype.itemsize)
            for number in last[position]:
                self._release(number)
        return found

    def _keep(self, number: int, nbytes: int) -> None:
        into = self._into.get(number)
        if into is not None and into in self._parts:
            self._place_of[number] = self._place_of[into]
            self._parts[number] = self._parts.pop(into)
            return
        start = self._memory.take(nbytes)
        self._place_of[number] = self._new_place(start)
        self._parts[number] = (start, nbytes)

    @cached_property
    def _parts(self) -> dict[int, tuple[int, int]]:
        return {}

    def _new_part(self, layout: Layout) -> tuple[int, int]:
        start = self._memory.take(layout.size * layout.dtype.itemsize)
        return self._new_place(start), start

    def _new_place(self, offset: int) -> int:
        self._offsets.append(offset)
        return len(self.arrays) + len(self.constants) + len(self._offsets) - 1

    def _release(self, number: int) -> None:
        part = self._parts.pop(number, None)
        if part is not None:
            self._memory.free(*part)

    def _last_uses(self) -> list[list[int]]:
        """Per step, the numbers of the values whose memory nothing uses afterwards."""
        seen: set[int] = set()
        ends: list[list[int]] = []
        for native in reversed(self._natives):
            ends.append([])
            for view in native.views:
                if view.root.number not in seen:
                    seen.add(view.root.number)
                    ends[-1].append(view.root.number)
        return ends[::-1]


def _placed(step: NativeStep, places: Sequence[tuple[int, int]]) -> Instruction:
    return Instruction(
        step, tuple((places[k][0], places[k][1] + offset) for k, offset in step.arrays)
    )


class _Memory:
    """Parts of one block of memory; parts that are free again are taken first."""

    LINE = 64

    def __init__(self) -> None:
        self.size = 0
        self._free: list[tuple[int, int]] = []

    def take(self, nbytes: int) -> int:
        """Return the start of a part."""
        need = self._rounded(nbytes)
        fitting = [part for part in self._free if part[1] >= need]
        if fitting:
            start, length = min(fitting, key=lambda part: part[1])
            self._free.remove((start, length))
            if length > need:
                self._free.append((start + need, length - need))
            return start
        start = self.size
        self.size += need
        return start

    def free(self, start: int, nbytes: int) -> None:
        """Let others use a part."""
        end = start + self._rounded(nbytes)
        for part in [p for p in self._free if p[0] == end or sum(p) == start]:
            self._free.remove(part)
            start, end = min(start, part[0]), max(end, sum(part))
        self._free.append((start, end - start))

    def _rounded(self, nbytes: int) -> int:
        return max(-(-nbytes // self.LINE), 1) * self.LINE
