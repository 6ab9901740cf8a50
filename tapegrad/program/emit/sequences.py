"""Arrange the steps of a program: those that need no Python run as sequences of one call each.

A call from Python costs more than a small loop takes. A backend that can run compiled loops,
products and copies one after the other (`SequenceCompiler`) gets them as sequences. Views of arrays
become addresses with offsets and strides; intermediate values lie in memory that a sequence keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tapegrad.core.backend.native_sequences import SequenceCompiler
from tapegrad.program.emit.late_gathers import is_gather
from tapegrad.program.emit.lowering import CompiledLoop, Run, Step, to_python
from tapegrad.program.emit.native_steps import Natives
from tapegrad.program.emit.placement import GroupArrays
from tapegrad.program.graph.graph import Graph, Value, is_wait

MOST = 4096
"""The most steps of a sequence; its places lie on the stack."""


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
    memory: int = 0
    """The bytes of the memory for intermediate values, which it keeps between its calls."""

    @property
    def reads(self) -> tuple[Value, ...]:
        return self.arguments

    def one_by_one(self, *arrays: Any) -> tuple[Any, ...]:
        """Run the steps from Python, for wrong indices and matrices; they raise the error.

        If arrays are not contiguous, copies of them are tried first.
        """
        found = self._with_copies(arrays)
        return self._steps_in_python(arrays, ())[0] if found is None else found

    def _with_copies(self, arrays: Sequence[Any]) -> tuple[Any, ...] | None:
        ordered = [np.asarray(array, order="C") for array in arrays]
        are_same = all(new is old for new, old in zip(ordered, arrays))
        if are_same or any(target is not None for target in self.targets):
            return None
        results = [
            np.empty(value.shape, value.dtype) if source is None else source()
            for value, source in zip(self.results, self.sources)
        ]
        return None if self.run(*ordered, *results) else tuple(results)

    @cached_property
    def _steps_in_python(self) -> Run:
        graph = Graph(self.arguments, {}, dict(self.constants), (), self.results)
        return to_python(graph, self.steps, self.kernels)


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
        natives = Natives(steps, kernels, compiler, held)
        if natives.found:
            found = _Arrangement(graph, steps, kernels, compiler, natives, overwriting).items()
    return [*range(len(steps))] if found is None else found


class _Arrangement:
    """Groups of native steps, and the order in which they and the other steps run."""

    def __init__(
        self,
        graph: Graph,
        steps: Sequence[Step],
        kernels: Mapping[int, Callable[..., Any]],
        compiler: SequenceCompiler,
        natives: Natives,
        overwriting: Collection[int],
    ) -> None:
        self._graph, self._steps, self._kernels = graph, steps, kernels
        self._compiler, self._natives, self._overwriting = compiler, natives, overwriting
        self._needed = self._needed_in_python()
        self._views = {v.number: p for p in natives.aliases for v in steps[p].results}
        """The positions of the steps that make views, by the numbers of these."""

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

        A step that needs no result of a group runs before it, so that groups are long. A gather
        of whole weights does not, because its result would fill memory while the group runs, nor
        does one that waits for a result.
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
                if depends or is_gather(step) or is_wait(step) or self._overwrites(position):
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
        arrays = GroupArrays(natives, steps, self._graph.constants, self._needed)
        placement = arrays.placement()
        plan = placement.plan(placement.instructions(natives, steps))
        run = self._compiler.sequence(plan)
        if run is None:
            return None
        positions = sorted([*group, *self._views_for(group)])
        return NativeSequence(
            arrays.arguments,
            tuple(arrays.results),
            tuple(arrays.targets),
            tuple(arrays.sources),
            run,
            tuple(self._steps[p] for p in positions),
            {k: self._kernels[p] for k, p in enumerate(positions) if p in self._kernels},
            arrays.constants,
            plan.memory,
        )

    def _views_for(self, group: Sequence[int]) -> list[int]:
        """The positions of steps that make views which the steps of a group read."""
        waiting = [value.number for p in group for value in self._steps[p].reads]
        found: set[int] = set()
        while waiting:
            position = self._views.get(waiting.pop())
            if position is not None and position not in found:
                found.add(position)
                waiting += [value.number for value in self._steps[position].reads]
        return [*found]
