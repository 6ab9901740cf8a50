"""The body of a loop as a program: one round, from arrays to arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from tapegrad.core.backend.native_sequences import SequenceCompiler
from tapegrad.core.backend.protocol import Backend
from tapegrad.core.backend.registry import capabilities_of
from tapegrad.core.background import Job, is_background
from tapegrad.program import building
from tapegrad.program.emit.lowering import CompiledLoop, Run, Step, plain_steps, to_python
from tapegrad.program.emit.sequences import arranged
from tapegrad.program.graph.graph import Call, Graph, InnerProgram, Value, inner_programs
from tapegrad.program.loops.like_bodies import are_like
from tapegrad.program.loops.native_rounds import LoopKind, native_rounds
from tapegrad.program.loops.rounds import Empty, run_rounds
from tapegrad.program.loops.rows_in_place import with_added_rows
from tapegrad.program.passes.pipeline import optimized, tidied
from tapegrad.program.passes.recurrences import register_bodies
from tapegrad.program.program import Program, common_backend, specialized_kernels

MOST_PLAIN_CALLS = 10_000
"""How many calls of a body run unfused before its compiled form is built without delay."""

PATIENCE = 1.0
"""How many seconds rounds wait for a compiled form that is built early."""

SECONDS_PER_CALL = 5e-6
"""About how long a call of the unfused form takes."""


@dataclass(frozen=True)
class Layout:
    """How many values of each kind a body takes and returns.

    A body takes carried values, one entry of each stack, and values that are the same in all
    rounds. It returns the new carried values, and one entry of each stack that the loop makes.
    """

    carried: int
    entries: int
    shared: int
    made: int


@dataclass(frozen=True)
class Places:
    """Where results of a round are written, so that stacks need few copies.

    A stack of a carried value before each round has one more entry: the value after a round is
    written where the next round finds it. A stack of the values after each round is then the same
    memory, one entry further.
    """

    before: dict[int, int]
    """Stacks that the loop makes, by position, of the carried value at a position."""
    after: dict[int, int]
    """Likewise, of the new carried value, which lies in the memory of one of `before`."""
    alone: tuple[int, ...]
    """The other stacks."""


class Body(InnerProgram):
    """One round of a loop.

    It runs unfused until `compile` was called: while a function is recorded, few rounds may run,
    and its program may be built later. After many rounds it is compiled alone.
    """

    def __init__(self, graph: Graph, layout: Layout) -> None:
        self.layout = layout
        self.recorded = tidied(graph)
        self._compiled: _Round | None = None
        self._plain_calls = 0
        self._early_build: Job[None] | None = None
        self.prepared: dict[Any, Any] = {}
        """What a backend keeps with the body, such as graphs of its rounds."""

    def __repr__(self) -> str:
        return f"<body of {len(self.recorded.calls)} calls>"

    @property
    def specs(self) -> tuple[Value, ...]:
        """Shapes and dtypes of the entries of the stacks that the loop makes."""
        return self.recorded.outputs[self.layout.carried :]

    @cached_property
    def _plain(self) -> _Round:
        return _Round(self.recorded, plain_steps(self.recorded), self.layout)

    @cached_property
    def program(self) -> _OneRound:
        """The compiled program of one round, which is built on first use."""
        backend = common_backend(self.recorded)
        graph = optimized(self.recorded, backend)
        if _runs_natively(backend):
            graph = with_added_rows(graph, self.layout.carried)
        # Loops inside are steps of the round, whose code they have to have.
        for inner in inner_programs(graph):
            inner.compile()
        return _OneRound(self.recorded, graph, backend, [], [])

    def compile(self) -> None:
        """Run the compiled program from now on; loops inside the body do so, too."""
        if self._compiled is None:
            program = self.program
            self._compiled = _Round(
                program.graph, program.steps, self.layout, program.kernels, program.sequences
            )

    def is_ready_for(self, rounds: int, seconds: float = 0.0) -> bool:
        """Whether the compiled form runs now; if not, so many more rounds are going to run unfused.

        After many rounds it is built at once, and the caller waits for that, at most for a while.
        """
        if self._compiled is not None:
            return True
        self._plain_calls += rounds * (1 + len(self.recorded.calls))
        if self._plain_calls < MOST_PLAIN_CALLS or is_background():
            return False
        if self._early_build is None:
            self._early_build = Job(self._build_early)
            self._early_build.start()
            self._early_build.wait(max(seconds, PATIENCE))
        return self._compiled is not None

    def _build_early(self) -> None:
        if _runs_natively(common_backend(self.recorded)):
            with building.one_at_a_time:  # a forked process has another lock
                self.compile()

    @cached_property
    def rounds(self) -> int:
        """How many rounds the loops inside one round have, at least 1."""
        loops = [call.params for call in self.recorded.calls if "length" in call.params]
        inside: list[int] = [p["length"] * p["body"].rounds for p in loops if "body" in p]
        return max(sum(inside), 1)

    @property
    def peak(self) -> int:
        """The bytes that one round needs, with its results that are copied to stacks."""
        memory = self.program.memory()
        return memory.peak + memory.outputs

    def is_like(self, other: object) -> bool:
        """Whether the rounds of another body make the same calls with the same shapes."""
        if not isinstance(other, Body) or other.layout != self.layout:
            return False
        return are_like(self.recorded, other.recorded)

    def renewed(self) -> Body:
        """Return a body with the same calls."""
        return Body(self.recorded, self.layout)

    @property
    def is_compiled(self) -> bool:
        """Whether the compiled form runs."""
        return self._compiled is not None

    @property
    def form(self) -> _Round:
        """The form that runs now: unfused or compiled."""
        return self._compiled or self._plain

    def run_rounds(
        self, operands: Sequence[Any], length: int, backwards: bool, empty: Empty
    ) -> tuple[Any, ...]:
        """Run `length` rounds; return the last carried values, then the stacks."""
        calls = length * len(self.recorded.calls)
        self.is_ready_for(length, calls * SECONDS_PER_CALL)
        return run_rounds(self.form, operands, length, backwards, empty)

    def __call__(self, arrays: Sequence[Any]) -> Sequence[Any]:
        """Run one round: carried values, entries of stacks, shared values."""
        results: Sequence[Any] = self.form.run_alone(arrays)
        return results


def _runs_natively(backend: Backend | None) -> bool:
    """Whether all rounds may run in one call."""
    types = () if backend is None else backend.array_types
    return bool(types) and capabilities_of(types[0]).sequences is not None


class _Round:
    """The code of one round, which writes most results where the loop wants them."""

    def __init__(
        self,
        graph: Graph,
        steps: Sequence[Step],
        layout: Layout,
        kernels: Any = None,
        sequences: SequenceCompiler | None = None,
    ) -> None:
        self.graph, self.steps, self.kernels = graph, steps, kernels
        self.sequences = sequences
        self._native: dict[Any, Any] = {}
        self.gradients: dict[Any, Any] = {}
        """Functions that run the rounds and the pullbacks of a loop with a condition."""
        self.layout, self.specs = layout, graph.outputs[layout.carried :]
        self.carried_specs = graph.outputs[: layout.carried]
        self.places = _places(graph, layout)
        targets = [*self.places.before.values(), *[layout.carried + k for k in self.places.alone]]
        self.targets = targets
        """The positions of the results that get an array to be written to."""
        numbers: dict[int, int] = {}
        for place, position in enumerate(targets):
            numbers.setdefault(graph.outputs[position].number, place)
        first = 1 + max(
            [value.number for step in steps for value in (*step.reads, *step.results)]
            + [value.number for value in (*graph.inputs, *graph.outputs)]
            + [*graph.constants, 0]
        )
        slots = [replace(graph.outputs[p], number=first + k) for k, p in enumerate(targets)]
        written = [_written_to(step, numbers, slots) for step in steps]
        made = {v.number for step in written for v in getattr(step, "targets", ()) if v is not None}
        self.copied = [place for place, slot in enumerate(slots) if slot.number not in made]
        """The places, among `targets`, whose arrays the caller has to fill."""
        self.borrowed = _borrowed(graph, steps, layout)
        """The carried values that may share memory with what the loop is given."""
        whole = replace(graph, inputs=(*graph.inputs, *slots))
        order = arranged(whole, written, kernels or {}, sequences)
        self.run: Run = to_python(whole, written, kernels, None, order)

    @cached_property
    def run_alone(self) -> Any:
        order = arranged(self.graph, self.steps, self.kernels or {}, self.sequences)
        run = to_python(self.graph, self.steps, self.kernels, None, order)
        return lambda arrays: run(arrays, ())[0]

    def native(self, kind: LoopKind) -> Any:
        """Return the function that runs all rounds in one call, None if there is none."""
        if self.sequences is None or not kind.length:
            return None
        if kind not in self._native:
            self._native[kind] = native_rounds(self, self.sequences, kind)
        return self._native[kind]


def _borrowed(graph: Graph, steps: Sequence[Step], layout: Layout) -> list[int]:
    """Return the positions of new carried values that are inputs or constants, or views of them."""
    given = {value.number for value in graph.inputs} | set(graph.constants)
    for step in steps:
        if isinstance(step, Call) and step.aliases and any(v.number in given for v in step.reads):
            given.update(value.number for value in step.results)
    return [k for k in range(layout.carried) if graph.outputs[k].number in given]


def _written_to(step: Step, numbers: dict[int, int], slots: Sequence[Value]) -> Step:
    """Let a compiled loop write to the arrays for its results."""
    if not isinstance(step, CompiledLoop):
        return step
    places = [numbers.get(value.number) for value in step.results]
    if all(place is None for place in places):
        return step
    sources = step.sources or (None,) * len(step.results)
    return replace(
        step,
        targets=tuple(
            old if place is None else slots[place] for old, place in zip(step.targets, places)
        ),
        sources=tuple(
            old if place is None else None for old, place in zip(sources, places, strict=True)
        ),
    )


def _places(graph: Graph, layout: Layout) -> Places:
    count = layout.carried
    inputs = {value.number: k for k, value in enumerate(graph.inputs[:count])}
    before: dict[int, int] = {}
    for k, value in enumerate(graph.outputs[count:]):
        place = inputs.get(value.number)
        if place is not None and place not in before.values():
            before[k] = place
    news = {graph.outputs[place].number: place for place in before.values()}
    after: dict[int, int] = {}
    for k, value in enumerate(graph.outputs[count:]):
        if k not in before and value.number in news:
            after[k] = news[value.number]
    alone = [k for k in range(layout.made) if k not in before and k not in after]
    return Places(before, after, tuple(alone))


class _OneRound(Program):
    """A program that is never a CUDA graph by itself, because that of the loop contains it."""

    def _prepare(self, uncaptured: frozenset[str]) -> None:
        self._capabilities = self._capabilities._replace(capture=None)
        super()._prepare(uncaptured)

    @property
    def sequences(self) -> SequenceCompiler | None:
        """The part of the backend that runs sequences of steps."""
        return self._capabilities.sequences

    @property
    def kernels(self) -> Any:
        """Kernels compiled for the shapes of their calls, by the position of their step."""
        return specialized_kernels(self.steps, self._capabilities.specializer)


register_bodies(lambda graph, *counts: Body(graph, Layout(*counts)))
