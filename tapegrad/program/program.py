"""Programs: an optimised graph and the code that replays it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from types import FunctionType
from typing import Any

from tapegrad.core.backend.capabilities import (
    NO_CAPABILITIES,
    GraphRun,
    InPlaceKernels,
    LoopCompiler,
    ShapeSpecializer,
    SpecializableCall,
)
from tapegrad.core.backend.protocol import Backend
from tapegrad.core.backend.registry import capabilities_of, find_backend
from tapegrad.core.values.variable import Variable
from tapegrad.program.emit.buffer_reuse import overwriting_calls, reused_operands, written_in_place
from tapegrad.program.emit.graph_parts import (
    MAX_UNCAPTURED,
    PartitionedRun,
    is_uncaptured,
    part_numbers,
    partition,
    refused_step,
    uncaptured_first,
)
from tapegrad.program.emit.lowering import CompiledLoop, Run, Step, plain_steps, to_python
from tapegrad.program.fusion.fusion import CHEAP, Fused, fused
from tapegrad.program.fusion.hoisting import with_hoisted_scalars
from tapegrad.program.fusion.horizontal_fusion import HorizontallyFused, fuse_horizontally
from tapegrad.program.graph.dependence import unused_numbers
from tapegrad.program.graph.graph import Call, Graph, Value
from tapegrad.program.inspect.inspection import Inspectable
from tapegrad.program.passes.pipeline import optimized, tidied

DEARER = (4 * CHEAP, 64 * CHEAP)
"""Thresholds, tried in order, below which values are recomputed to meet a memory budget."""

ATTEMPTS = 3
"""How often fusion is tried if a backend cannot compile some of the loops."""


class Program(Inspectable):
    """A graph, the variables that it reads and writes, and the code that runs it.

    `recorded` is the graph before optimisation, `graph` the one after it.
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
        self._capabilities = (
            NO_CAPABILITIES if backend is None else capabilities_of(backend.array_types[0])
        )
        self._variables = variables
        self._written = written
        self._cheap = cheap
        self._prepare(frozenset())

    def _prepare(self, uncaptured: frozenset[str]) -> None:
        """Generate the code; the primitives in `uncaptured` run between CUDA graphs."""
        graph, capabilities = self.graph, self._capabilities
        count = sum(is_uncaptured(call, uncaptured) for call in graph.calls)
        self.steps, in_place = _steps(
            graph, capabilities.loops, self._cheap, uncaptured, count <= MAX_UNCAPTURED
        )
        kernels = _kernels_over(graph, self.steps, capabilities.in_place, uncaptured)
        self._uncaptured, self._over = uncaptured, frozenset(kernels)
        kernels = {**_specialized_kernels(self.steps, capabilities.specializer), **kernels}
        capture = self._capabilities.capture
        places = {number: place for place, number in enumerate(graph.variables)}
        writes = (
            [places[number] for number in graph.written],
            [places[number] for number in in_place],
        )
        if capture is None or count > MAX_UNCAPTURED:
            self._run: Any = to_python(graph, self.steps, kernels)
        elif count:
            parts = partition(graph, self.steps, uncaptured)
            self._run = PartitionedRun(graph, parts, capture.capture, writes, kernels)
        else:
            self._run = capture.capture(to_python(graph, self.steps, kernels), *writes)
        self._graph_run = self._run if isinstance(self._run, GraphRun) else None

    @property
    def plain_run(self) -> Run | None:
        """The generated function, if the program uses no variables and is not captured."""
        is_plain = not self._variables and isinstance(self._run, FunctionType)
        return self._run if is_plain else None

    def __call__(self, inputs: list[Any]) -> tuple[Any, ...]:
        """Run on the arrays of the inputs, assign the variables and return the output arrays."""
        run = self._run
        outputs, held = run(inputs, [variable.array for variable in self._variables])
        for variable, array in zip(self._written, held):
            variable.array = array
        if self._graph_run is not None and self._graph_run.reason:
            self._split(self._graph_run)
        return tuple(outputs)

    def _split(self, run: GraphRun) -> None:
        """Run the step that could not be captured between CUDA graphs from now on."""
        if isinstance(run, PartitionedRun):
            step = run.refused
        else:
            step = refused_step(run, self.graph, self.steps)
        if step is not None and step.primitive.name not in self._uncaptured:
            uncaptured = self._uncaptured | {step.primitive.name}
            if sum(is_uncaptured(call, uncaptured) for call in self.graph.calls) <= MAX_UNCAPTURED:
                self._prepare(uncaptured)


def program_of(
    graph: Graph, variables: Mapping[int, Variable], budget: int | None = None
) -> Program:
    """Return the program of a graph; `variables` are all live variables by number.

    If the intermediate values need more bytes than `budget`, more of them are recomputed.
    """
    # A backend may have several array types, e.g. NumPy's scalars.
    backends = {id(found): found for found in (find_backend(c.array_type) for c in graph.calls)}
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
    graph: Graph,
    compiler: LoopCompiler | None,
    cheap: int,
    uncaptured: frozenset[str],
    writes: bool,
) -> tuple[list[Step], list[int]]:
    """Return the steps, and the variables that are overwritten in place if `writes` allows it."""
    refused: set[str] = set()
    for _ in range(ATTEMPTS):
        if compiler is None:
            break
        ordered = uncaptured_first(_fused(graph, compiler, refused | uncaptured, cheap), uncaptured)
        loops = [step for step in ordered if not isinstance(step, Call)]
        runs = compiler.compile([step.loop for step in loops])
        failed = [step for step, run in zip(loops, runs) if run is None]
        if not failed:
            parts = part_numbers(ordered, uncaptured)
            in_place = written_in_place(graph, ordered, parts) if writes else {}
            targets = {**in_place, **reused_operands(graph, ordered, in_place, parts)}
            compiled = iter([
                _compiled(graph, compiler, step, run, targets) for step, run in zip(loops, runs)
            ])  # fmt: skip
            lowered = [step if isinstance(step, Call) else next(compiled) for step in ordered]
            changed = [number for number, new in graph.written.items() if new.number in in_place]
            return lowered, changed
        refused |= {call.primitive.name for step in failed for call in step.calls}
    return uncaptured_first(plain_steps(graph), uncaptured), []


def _kernels_over(
    graph: Graph, steps: Sequence[Step], kernels: InPlaceKernels | None, uncaptured: frozenset[str]
) -> dict[int, Callable[..., Any]]:
    """Kernels that overwrite an operand that no later step reads, by the position of their step."""
    if kernels is None:
        return {}
    found: dict[int, Callable[..., Any]] = {}
    for place in overwriting_calls(graph, steps, part_numbers(steps, uncaptured)):
        step = steps[place]
        kernel = kernels.overwrite(step.primitive.name) if isinstance(step, Call) else None
        if kernel is not None:
            found[place] = kernel
    return found


def _specialized_kernels(
    steps: Sequence[Step], specializer: ShapeSpecializer | None
) -> dict[int, Callable[..., Any]]:
    """Kernels compiled for the shapes of their calls, by the position of their step."""
    if specializer is None:
        return {}
    calls = {
        place: step
        for place, step in enumerate(steps)
        if isinstance(step, Call) and step.primitive.name in specializer.primitives
    }
    if not calls:
        return {}
    made = specializer.specialize([
        SpecializableCall(
            call.primitive.name, [(value.shape, value.dtype) for value in call.reads], call.params
        )
        for call in calls.values()
    ])  # fmt: skip
    return {place: kernel for place, kernel in zip(calls, made) if kernel is not None}


def _fused(
    graph: Graph, compiler: LoopCompiler, refused: Collection[str], cheap: int
) -> Sequence[Call | Fused | HorizontallyFused]:
    """Return calls and loops in order; the primitives in `refused` are not fused."""
    dtypes = compiler.dtypes
    # NumPy builds the name of a dtype on each access, which is slow.
    is_known = functools.cache(lambda dtype: dtypes is None or dtype.name in dtypes)

    def takes(call: Call) -> bool:
        known = all(is_known(value.dtype) for value in (*call.reads, *call.results))
        return known and call.primitive.name not in refused

    steps = with_hoisted_scalars(fused(graph, takes, cheap), unused_numbers(graph))
    return fuse_horizontally(steps) if compiler.joins else steps


def _compiled(
    graph: Graph,
    compiler: LoopCompiler,
    step: Fused | HorizontallyFused,
    run: Any,
    taken: Mapping[int, Value],
) -> CompiledLoop:
    targets = tuple(taken.get(value.number) for value in step.results)
    outputs = {value.number for value in graph.outputs}
    sources = tuple(
        compiler.result_buffer(value.shape, value.dtype) if value.number in outputs else None
        for value in step.results
    )
    return CompiledLoop(run, step.reads, step.results, targets, step, sources, compiler.source)
