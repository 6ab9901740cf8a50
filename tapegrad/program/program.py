"""Programs: an optimised graph and the code that replays it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from types import FunctionType
from typing import Any

from tapegrad.core.backend.capabilities import NO_CAPABILITIES, Capabilities
from tapegrad.core.backend.native_sequences import LoopWriter
from tapegrad.core.backend.optional_parts import (
    CallsInC,
    DefersWrites,
    GraphRun,
    InPlaceKernels,
    LoopCompiler,
    ShapeSpecializer,
    SpecializableCall,
)
from tapegrad.core.backend.protocol import Backend
from tapegrad.core.backend.registry import capabilities_of, find_backend
from tapegrad.core.background import checkpoint, is_background
from tapegrad.core.gc_pause import gc_paused
from tapegrad.core.trace.expression import kind_of_dtype
from tapegrad.core.values.variable import Variable
from tapegrad.errors import RecordingError
from tapegrad.program.emit.buffer_reuse import (
    overwriting_calls,
    reused_operands,
    updating_calls,
    writes_last,
    written_in_place,
)
from tapegrad.program.emit.graph_parts import (
    MAX_UNCAPTURED,
    PartitionedRun,
    is_uncaptured,
    part_numbers,
    partition,
    refused_step,
    uncaptured_first,
)
from tapegrad.program.emit.late_gathers import with_late_gathers
from tapegrad.program.emit.late_waits import with_late_waits
from tapegrad.program.emit.loop_calls import prepare_loops
from tapegrad.program.emit.lowering import CompiledLoop, Run, Step, plain_steps, to_python
from tapegrad.program.emit.sequences import Arranged, arranged
from tapegrad.program.failed_replay import explained
from tapegrad.program.fusion.hoisting import with_hoisted_scalars
from tapegrad.program.fusion.horizontal_fusion import HorizontallyFused, fuse_horizontally
from tapegrad.program.fusion.loop_bodies import Fused
from tapegrad.program.fusion.recomputation import CHEAP
from tapegrad.program.fusion.repeated_parts import fused_in_parts
from tapegrad.program.fusion.shared_numbers import with_shared_numbers
from tapegrad.program.graph.dependence import unused_numbers
from tapegrad.program.graph.graph import Call, Graph, Value, inner_programs
from tapegrad.program.graph.number_flags import FlaggedGraph
from tapegrad.program.inspect.inspection import Inspectable
from tapegrad.program.not_finite import CheckedRun, NotFinite
from tapegrad.program.passes.pipeline import optimized, tidied
from tapegrad.program.replay import Launching, Reading, Replay, UnfitError

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
        checked: FlaggedGraph | None = None,
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
        self._checked = checked
        self._moved: frozenset[int] = frozenset()
        """New values of variables that are not written over the old ones."""
        capture = self._capabilities.capture
        is_captured = capture is not None and capture.launches_graphs
        # Elsewhere collective calls start as early as possible, like steps that are not captured.
        self._prepare(frozenset() if is_captured else _communicating(graph))

    def _prepare(self, uncaptured: frozenset[str]) -> None:
        """Generate the code; the primitives in `uncaptured` run between CUDA graphs."""
        capabilities = self._capabilities
        graph = self.graph
        count = sum(is_uncaptured(call, uncaptured) for call in graph.calls)
        capture: Any = capabilities.capture
        defers = isinstance(capture, DefersWrites) and isinstance(capabilities.loops, CallsInC)
        writes = defers or count <= MAX_UNCAPTURED
        self.steps, in_place, deferred, numbers = _steps(
            graph, capabilities, self._cheap, uncaptured, writes, defers, self._moved
        )
        prepare_loops(capabilities.loops, self.steps)
        if numbers:
            graph = self.graph = replace(graph, constants={**graph.constants, **numbers})
        writers = _writers(self.steps, deferred, capabilities.loops)
        part_of = [0] * len(self.steps) if defers else part_numbers(self.steps, uncaptured)
        kernels = _kernels_over(graph, self.steps, capabilities.in_place, part_of, in_place)
        self._uncaptured, self._over = uncaptured, frozenset(kernels)
        kernels = {**specialized_kernels(self.steps, capabilities.specializer), **kernels}
        places = {number: place for place, number in enumerate(graph.variables)}
        positions = (
            [places[number] for number in graph.written],
            [places[number] for number in in_place],
        )
        self._deferred = [*writers]
        self.order: Arranged = [*range(len(self.steps))]
        """The order of execution: positions of steps, and sequences of them."""
        if defers:
            # The variables that are overwritten come last; see `Replay`.
            ordered = sorted(graph.written.items(), key=lambda item: item[0] in in_place)
            whole = replace(graph, written=dict(ordered))
            self.order = arranged(
                whole, self.steps, kernels, capabilities.sequences, writers, self._over
            )
            self._run: Any = to_python(whole, self.steps, kernels, writers, self.order)
            if writers:
                self._run = capture.defer(self._run, positions[1])
        elif capture is None or count > MAX_UNCAPTURED:
            self._run = to_python(graph, self.steps, kernels)
        elif count:
            parts = partition(graph, self.steps, uncaptured)
            self._run = PartitionedRun(graph, parts, capture.capture, positions, kernels)
        else:
            self._run = capture.capture(to_python(graph, self.steps, kernels), *positions)
        self._graph_run = self._run if isinstance(self._run, GraphRun) else None
        self._replay = self._make_replay(in_place)

    def _make_replay(self, in_place: Collection[int]) -> Replay | Reading | Launching:
        """Return the way to run and to commit; `in_place` are the overwritten variables."""
        if self._checked is not None:
            run = CheckedRun(self._run, self._checked, {v.number: v for v in self._written})
            if self._written:
                return Replay(run, self._variables, self._written, len(self._written), False)
            return Reading(run, self._variables)
        if not self._written:
            return Reading(self._run, self._variables)
        if self._graph_run is not None or (in_place and not self._deferred):
            return Launching(self._run, self._variables, self._written)
        written = sorted(self._written, key=lambda variable: variable.number in in_place)
        replaced = len(written) - len(in_place) if self._deferred else len(written)
        return Replay(self._run, self._variables, written, replaced, bool(self._deferred))

    @property
    def run(self) -> Any:
        """What runs the steps; see `ProgramCapture` for that of a device."""
        return self._run

    @property
    def plain_run(self) -> Run | None:
        """The generated function, if the program uses no variables and is not captured."""
        is_plain = not self._variables and isinstance(self._run, FunctionType)
        is_plain = is_plain and self._checked is None
        return self._run if is_plain else None

    def __call__(self, inputs: list[Any]) -> tuple[Any, ...]:
        """Run on the arrays of the inputs, assign the variables and return the output arrays."""
        try:
            outputs = self._replay(inputs)
        except UnfitError as error:
            self._move(error.position)
            return self(inputs)
        except Exception as error:
            raise self.explained(error, inputs) from None
        if self._graph_run is not None and self._graph_run.reason:
            self._split(self._graph_run)
        return tuple(outputs)

    def explained(self, error: Exception, inputs: Sequence[Any]) -> Exception:
        """Return an error of a run as one that names the user's operation and line."""
        if isinstance(error, NotFinite):
            return error.located(inputs, self._variables)
        arrays = [variable.array for variable in self._variables]
        by_number = {v.number: array for v, array in zip(self._variables, arrays)}
        read = [by_number.get(number) for number in self.recorded.variables]
        return explained(error, self.recorded, inputs, read)

    def _move(self, position: int) -> None:
        """Let a loop overwrite no variable from now on, because its arrays are not in order."""
        step = self.steps[self._deferred[position]]
        self._moved |= {value.number for value in step.results}
        self._prepare(self._uncaptured)

    def _split(self, run: GraphRun) -> None:
        """Run the step that could not be captured between CUDA graphs from now on."""
        if isinstance(run, PartitionedRun):
            step = run.refused
        else:
            step = refused_step(run, self.graph, self.steps)
        primitive = None if step is None else step.primitive.part_of or step.primitive
        if primitive is not None and primitive.name not in self._uncaptured:
            uncaptured = self._uncaptured | {primitive.name}
            if sum(is_uncaptured(call, uncaptured) for call in self.graph.calls) <= MAX_UNCAPTURED:
                self._prepare(uncaptured)


def program_of(
    graph: Graph,
    variables: Mapping[int, Variable],
    budget: int | None = None,
    checked: FlaggedGraph | None = None,
) -> Program:
    """Return the program of a graph; `variables` are all live variables by number.

    If the intermediate values need more bytes than `budget`, more of them are recomputed. If the
    graph returns flags, `checked` describes it.
    """
    # The background thread leaves the collector alone: other threads make garbage meanwhile. A
    # thread that waits for it pauses the collector.
    with nullcontext() if is_background() else gc_paused:
        return _program_of(graph, variables, budget, checked)


def check_recorded(graph: Graph) -> None:
    """Raise if no program can replay the calls of a graph, which has no dead calls."""
    if graph.obstacle:
        raise RecordingError(graph.obstacle)
    varying = next((c.primitive.name for c in graph.calls if c.primitive.shapes_vary), None)
    if varying is not None:
        raise RecordingError(
            f"the length of a result of {varying} depends on values, e.g. on how many elements a "
            "mask selects. tapegrad.where(mask, x, 0) keeps the shape."
        )


def common_backend(graph: Graph) -> Backend | None:
    """Return the backend of all calls, None if there are several or none."""
    # A backend may have several array types, e.g. NumPy's scalars.
    backends = {id(found): found for found in (find_backend(c.array_type) for c in graph.calls)}
    return next(iter(backends.values())) if len(backends) == 1 else None


def _program_of(
    graph: Graph,
    variables: Mapping[int, Variable],
    budget: int | None,
    checked: FlaggedGraph | None,
) -> Program:
    backend = common_backend(graph)
    recorded = tidied(graph)
    check_recorded(replace(recorded, obstacle=graph.obstacle))
    checkpoint()
    graph = optimized(recorded, backend)
    checkpoint()
    for inner in inner_programs(graph):
        inner.compile()
        checkpoint()
    read = [variables[number] for number in graph.variables]
    source = graph if checked is None else checked.source
    written = [variables[number] for number in source.written]
    best = Program(recorded, graph, backend, read, written, checked=checked)
    for cheap in DEARER if budget is not None else ():
        if best.memory().peak <= (budget or 0):
            break
        other = Program(recorded, graph, backend, read, written, cheap, checked)
        best = min(best, other, key=lambda program: program.memory().peak)
    return best


def _steps(
    graph: Graph,
    capabilities: Capabilities,
    cheap: int,
    uncaptured: frozenset[str],
    writes: bool,
    defers: bool,
    moved: Collection[int],
) -> tuple[list[Step], list[int], int, dict[int, Any]]:
    """Return the steps, and the variables that are overwritten in place if `writes` allows it.

    With `defers` the steps that overwrite variables come last, and only those that the compiler
    can call in C; their number is the third item. The loops that make the values in `moved`
    overwrite no variable. The last item are further constants, which steps read.
    """
    compiler, kernels = capabilities.loops, capabilities.in_place
    refused: set[str] = set()
    deferred = 0
    for _ in range(ATTEMPTS):
        if compiler is None:
            break
        steps, numbers = _fused(graph, compiler, refused | uncaptured, cheap)
        ordered = with_late_gathers(uncaptured_first(steps, uncaptured))
        ordered = with_late_waits(graph, ordered, numbers, frozenset() if defers else uncaptured)
        loops = [step for step in ordered if not isinstance(step, Call)]
        runs = _compiled_once(compiler, loops)
        failed = [step for step, run in zip(loops, runs) if run is None]
        if not failed:
            parts = part_numbers(ordered, uncaptured)
            in_place = (
                written_in_place(
                    graph, ordered, parts, lambda call: _kernel_over(call, kernels) is not None
                )
                if writes
                else {}
            )
            run_of = {id(step): run for step, run in zip(loops, runs)}
            if defers:
                deferrable = [
                    place
                    for place, step in enumerate(ordered)
                    if id(step) in run_of and _writer(compiler, run_of[id(step)])
                    if not any(value.number in moved for value in step.results)
                ]
                ordered, in_place, deferred = writes_last(ordered, in_place, deferrable)
                parts = part_numbers(ordered, uncaptured)
            targets = {**in_place, **reused_operands(graph, ordered, in_place, parts)}
            lowered = [
                step
                if isinstance(step, Call)
                else _compiled(graph, compiler, step, run_of[id(step)], targets)
                for step in ordered
            ]
            changed = [number for number, new in graph.written.items() if new.number in in_place]
            checkpoint()
            return lowered, changed, deferred, numbers
        refused |= {call.primitive.name for step in failed for call in step.calls}
    return uncaptured_first(plain_steps(graph), uncaptured), [], 0, {}


def _communicating(graph: Graph) -> frozenset[str]:
    """Return the names of the primitives in which other processes take part."""
    found = {call.primitive.name: call.primitive for call in graph.calls}
    whole = [primitive for primitive in found.values() if primitive.communicates]
    started = [primitive.parts[0] for primitive in whole if primitive.parts is not None]
    return frozenset(primitive.name for primitive in (*whole, *started))


def _compiled_once(compiler: LoopCompiler, steps: Sequence[Fused | HorizontallyFused]) -> list[Any]:
    """Return a function per loop, None where it cannot be compiled; equal parts share loops."""
    loops = [step.loop for step in steps]
    different = {id(loop): loop for loop in loops}
    runs = dict(zip(different, compiler.compile([*different.values()])))
    return [runs[id(loop)] for loop in loops]


def _writers(
    steps: Sequence[Step], count: int, compiler: LoopCompiler | None
) -> dict[int, LoopWriter]:
    """The functions in C of the last steps, by their positions."""
    found: dict[int, LoopWriter] = {}
    for place in range(len(steps) - count, len(steps)):
        step = steps[place]
        assert compiler is not None
        assert isinstance(step, CompiledLoop)
        writer = _writer(compiler, step.run)
        assert writer is not None
        found[place] = writer
    return found


def _writer(compiler: LoopCompiler, run: Any) -> LoopWriter | None:
    return compiler.writer(run) if isinstance(compiler, CallsInC) else None


def _kernels_over(
    graph: Graph,
    steps: Sequence[Step],
    kernels: InPlaceKernels | None,
    parts: Sequence[int],
    changed: Collection[int],
) -> dict[int, Callable[..., Any]]:
    """Kernels that overwrite operands, by the position of their step.

    No later step reads the operands. `parts` has the part of each step; each of them is captured
    alone. `changed` are the variables that are overwritten.
    """
    found: dict[int, Callable[..., Any]] = {}
    places = overwriting_calls(graph, steps, parts)
    for place in places | updating_calls(graph, steps, changed):
        step = steps[place]
        assert isinstance(step, Call)
        kernel = _kernel_over(step, kernels)
        if kernel is not None:
            found[place] = kernel
    return found


def _kernel_over(call: Call, kernels: InPlaceKernels | None) -> Callable[..., Any] | None:
    """The kernel of a call that overwrites operands, or None."""
    kernel = None if kernels is None else kernels.overwrite(call.primitive.name)
    backend = find_backend(call.array_type)
    if kernel is None and call.primitive.overwriting is not None and backend is not None:
        kernel = functools.partial(call.primitive.overwriting, backend.xp)
    return kernel


def specialized_kernels(
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
    given = [
        SpecializableCall(
            call.primitive.name, [(value.shape, value.dtype) for value in call.reads], call.params
        )
        for call in calls.values()
    ]
    made = specializer.specialize(given)
    return {place: kernel for place, kernel in zip(calls, made) if kernel is not None}


def _fused(
    graph: Graph, compiler: LoopCompiler, refused: Collection[str], cheap: int
) -> tuple[Sequence[Call | Fused | HorizontallyFused], dict[int, Any]]:
    """Return calls and loops in order, and constants that loops read.

    The primitives in `refused` are not fused.
    """
    dtypes = compiler.dtypes
    # NumPy builds the name of a dtype on each access, which is slow.
    is_known = functools.cache(lambda dtype: dtypes is None or dtype.name in dtypes)
    is_complex = functools.cache(lambda dtype: kind_of_dtype(dtype) == "c")

    def takes(call: Call) -> bool:
        values, name = (*call.reads, *call.results), call.primitive.name
        if name in refused or not all([is_known(value.dtype) for value in values]):
            return False
        others = compiler.complex_primitives
        return others is None or name in others or not any([is_complex(v.dtype) for v in values])

    in_parts = fused_in_parts(
        graph,
        takes,
        cheap,
        compiler.windows,
        compiler.takes_stages,
        compiler.recomputes,
        compiler.adds_rows,
        compiler.gathers,
    )
    unused = unused_numbers(graph)
    steps, numbers = with_shared_numbers(with_hoisted_scalars(in_parts, unused), unused)
    return (fuse_horizontally(steps) if compiler.joins else steps), numbers


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
