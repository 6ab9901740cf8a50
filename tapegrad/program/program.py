"""One recorded call: what it computes, and how it is done again."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from types import FunctionType
from typing import Any

from tapegrad.core.backend import Backend, find_backend
from tapegrad.core.variable import Variable
from tapegrad.program.dependence import unused_numbers
from tapegrad.program.fusion import CHEAP, Fused, fused
from tapegrad.program.graph import Call, Graph, Value
from tapegrad.program.hoisting import with_single_numbers_first
from tapegrad.program.inspection import Inspectable
from tapegrad.program.joining import Joined, joined
from tapegrad.program.lowering import CompiledLoop, Run, Step, plain_steps, to_python
from tapegrad.program.passes import optimized, tidied
from tapegrad.program.placing import taking_memory, written_in_place, written_over
from tapegrad.program.splitting import (
    MOST_APART,
    InParts,
    early,
    is_apart,
    numbered,
    parts_of,
    refused_step,
)

DEARER = (4 * CHEAP, 64 * CHEAP)
"""Weights up to which values are computed again to keep a budget of memory."""

ATTEMPTS = 3
"""How often calls are fused anew, when a target has no code for some of the loops."""


class Program(Inspectable):
    """A graph, the variables that it reads and changes, and the code that runs it.

    `recorded` is the graph as it was recorded, `graph` what is left to do of it.
    """

    def __init__(
        self,
        recorded: Graph,
        graph: Graph,
        backend: Backend | None,
        variables: list[Variable],
        written: list[Variable],
        cheap: int = CHEAP,
    ) -> None:
        self.recorded = recorded
        self.graph = graph
        self._backend = backend
        self._variables = variables
        self._written = written
        self._cheap = cheap
        self._prepare(frozenset())

    def _prepare(self, apart: frozenset[str]) -> None:
        """Make the code that runs, with the primitives in `apart` between CUDA graphs."""
        graph, backend = self.graph, self._backend
        count = sum(is_apart(call, apart) for call in graph.calls)
        self.steps, in_place = _steps(graph, backend, self._cheap, apart, count <= MOST_APART)
        kernels = _kernels_over(graph, self.steps, backend, apart)
        self._apart, self._over = apart, frozenset(kernels)
        kernels = {**_fixed_kernels(self.steps, backend), **kernels}
        capture = None if backend is None else backend.kernels.get("capture")
        places = {number: place for place, number in enumerate(graph.variables)}
        writes = (
            [places[number] for number in graph.written],
            [places[number] for number in in_place],
        )
        if capture is None or count > MOST_APART:
            self._run: Any = to_python(graph, self.steps, kernels)
        elif count:
            parts = parts_of(graph, self.steps, apart)
            self._run = InParts(graph, parts, capture, writes, kernels)
        else:
            self._run = capture(to_python(graph, self.steps, kernels), *writes)

    @property
    def plain_run(self) -> Run | None:
        """What runs, if it has nothing to do with variables and is not captured."""
        is_plain = not self._variables and isinstance(self._run, FunctionType)
        return self._run if is_plain else None

    def __call__(self, inputs: list[Any]) -> tuple[Any, ...]:
        """Run on the inputs' arrays; change the variables and return the outputs' arrays."""
        run = self._run
        outputs, held = run(inputs, [variable.array for variable in self._variables])
        for variable, array in zip(self._written, held):
            variable.array = array
        if getattr(run, "reason", ""):
            self._split(run)
        return tuple(outputs)

    def _split(self, run: Any) -> None:
        """Let what was refused by a capture run by itself from now on."""
        if isinstance(run, InParts):
            step = run.refused
        else:
            step = refused_step(run, self.graph, self.steps)
        if step is not None and step.primitive.name not in self._apart:
            apart = self._apart | {step.primitive.name}
            if sum(is_apart(call, apart) for call in self.graph.calls) <= MOST_APART:
                self._prepare(apart)


def program_of(
    graph: Graph, variables: Mapping[int, Variable], budget: int | None = None
) -> Program:
    """Return the program of a graph; `variables` are all that it could have used, by number.

    With a budget of bytes for what is made on the way, more is computed again until it is kept.
    """
    # NumPy has several types of arrays: its scalars.
    backends = {id(found): found for found in (find_backend(c.kind) for c in graph.calls)}
    backend = next(iter(backends.values())) if len(backends) == 1 else None
    recorded = tidied(graph)
    graph = optimized(recorded, backend)
    read = [variables[number] for number in graph.variables]
    written = [variables[number] for number in graph.written]
    best = Program(recorded, graph, backend, read, written)
    for cheap in DEARER if budget is not None else ():
        if best.memory().peak <= (budget or 0):
            break
        other = Program(recorded, graph, backend, read, written, cheap)
        best = min(best, other, key=lambda program: program.memory().peak)
    return best


def _steps(
    graph: Graph, backend: Backend | None, cheap: int, apart: frozenset[str], writes: bool
) -> tuple[list[Step], list[int]]:
    """What is run, and which variables are written over while it runs, if any may be."""
    make = None if backend is None else backend.kernels.get("loops")
    refused: set[str] = set()
    for _ in range(ATTEMPTS if make is not None else 0):
        ordered = early(_fused(graph, make, refused | apart, cheap), apart)
        loops = [step for step in ordered if not isinstance(step, Call)]
        runs = make([step.loop for step in loops])  # type: ignore[misc]
        failed = [step for step, run in zip(loops, runs) if run is None]
        if not failed:
            parts = numbered(ordered, apart)
            in_place = written_in_place(graph, ordered, parts) if writes else {}
            targets = {**in_place, **taking_memory(graph, ordered, in_place, parts)}
            compiled = iter([
                _compiled(graph, make, step, run, targets) for step, run in zip(loops, runs)
            ])  # fmt: skip
            lowered = [step if isinstance(step, Call) else next(compiled) for step in ordered]
            changed = [number for number, new in graph.written.items() if new.number in in_place]
            return lowered, changed
        refused |= {call.primitive.name for step in failed for call in step.calls}
    return early(plain_steps(graph), apart), []


def _kernels_over(
    graph: Graph, steps: Sequence[Step], backend: Backend | None, apart: frozenset[str]
) -> dict[int, Callable[..., Any]]:
    """Kernels that write over an operand, by position, where there is one and nobody can see it."""
    found: dict[int, Callable[..., Any]] = {}
    parts = numbered(steps, apart)
    for place in written_over(graph, steps, parts) if backend is not None else ():
        step = steps[place]
        name = f"{step.primitive.name}.over" if isinstance(step, Call) else ""
        kernel = backend.kernels.get(name) if backend is not None else None
        if kernel is not None:
            found[place] = kernel
    return found


def _fixed_kernels(steps: Sequence[Step], backend: Backend | None) -> dict[int, Callable[..., Any]]:
    """Kernels made for the shapes at hand, by position, where the backend gains by knowing them."""
    make = None if backend is None else backend.kernels.get("fixed")
    names: Collection[str] = getattr(make, "names", ())
    calls = {
        place: step
        for place, step in enumerate(steps)
        if isinstance(step, Call) and step.primitive.name in names
    }
    if make is None or not calls:
        return {}
    made = make([
        (call.primitive.name, [(value.shape, value.dtype) for value in call.reads], call.params)
        for call in calls.values()
    ])  # fmt: skip
    return {place: kernel for place, kernel in zip(calls, made) if kernel is not None}


def _fused(
    graph: Graph, make: Any, refused: Collection[str], cheap: int
) -> Sequence[Call | Fused | Joined]:
    """Calls and loops in order; the primitives in `refused` stay calls."""
    dtypes = getattr(make, "dtypes", None)
    # NumPy puts the name of a dtype together anew each time it is asked.
    is_known = functools.cache(lambda dtype: dtypes is None or dtype.name in dtypes)

    def takes(call: Call) -> bool:
        known = all(is_known(value.dtype) for value in (*call.reads, *call.results))
        return known and call.primitive.name not in refused

    steps = with_single_numbers_first(fused(graph, takes, cheap), unused_numbers(graph))
    return joined(steps) if hasattr(make, "joins") else steps


def _compiled(
    graph: Graph, make: Any, step: Fused | Joined, run: Any, taken: Mapping[int, Value]
) -> CompiledLoop:
    targets = tuple(taken.get(value.number) for value in step.results)
    recycled = getattr(make, "recycled", None)
    outputs = {value.number for value in graph.outputs}
    sources = () if recycled is None else tuple(
        recycled(value.shape, value.dtype) if value.number in outputs else None
        for value in step.results
    )  # fmt: skip
    return CompiledLoop(run, step.reads, step.results, targets, step, sources)
