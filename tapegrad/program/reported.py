"""What a report learns of functions: the time of their calls, and where their programs spend it."""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from time import perf_counter_ns
from typing import Any

import numpy as np

from tapegrad.autodiff.reported import is_scalar
from tapegrad.core.backend.registry import backend_of
from tapegrad.core.call_site import call_site
from tapegrad.core.event_log import LOGS, EventLog
from tapegrad.core.values import nest
from tapegrad.core.values.tensor import Tensor
from tapegrad.program.emit.lowering import CompiledLoop, Step, to_python
from tapegrad.program.emit.sequences import NativeSequence
from tapegrad.program.graph.graph import Call, Graph, communicates, inner_programs
from tapegrad.program.inspect.costs import kernel_of
from tapegrad.program.program import Program
from tapegrad.program.record.arguments import arrays_in
from tapegrad.program.record.recording import current_recording

PASSES = 2
"""How often the steps of a program run to be timed; the last time counts."""

MOST_PROGRAMS = 100
"""How many programs of one function are timed step by step."""


@dataclass
class StepTime:
    """The time of one step of a program."""

    name: str
    what: str
    sites: tuple[str, ...]
    nanoseconds: int


@dataclass
class ReportedProgram:
    """A program that was called, the memory that it keeps and the times of its steps."""

    kept: int
    """The bytes that it keeps between calls for intermediate values."""
    peak: int
    steps: list[StepTime]
    since: int
    """When it was first seen, in nanoseconds of `perf_counter_ns`."""


@dataclass
class ReportedFunction:
    """What a report keeps of one function."""

    name: str
    function: weakref.ref[Any]
    history: Any
    programs: list[ReportedProgram] = field(default_factory=list)
    seen: weakref.WeakSet[Program] = field(default_factory=weakref.WeakSet)


def reported(call: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate the method of `Function` that makes a call, so that a report notes it.

    Calls of other functions that are being recorded are part of their programs.
    """

    @functools.wraps(call)
    def outermost(function: Any, args: Any, kwargs: Any) -> Any:
        if not LOGS or current_recording() is not None:
            return call(function, args, kwargs)
        return _noted(LOGS[-1], call, function, args, kwargs)

    return outermost


def _noted(log: EventLog, call: Callable[..., Any], function: Any, args: Any, kwargs: Any) -> Any:
    known = _known(log, function)
    recorded, eager = known.history.recorded_calls, known.history.eager_calls
    site, start = call_site(), perf_counter_ns()
    try:
        result = call(function, args, kwargs)
    finally:
        end = perf_counter_ns()
        kind = "program"
        if known.history.recorded_calls > recorded:
            kind = "record"
        elif known.history.eager_calls > eager:
            kind = "call"
        log.add(kind, known.name, site, start, end)
    _note_result(log, known.name, site, result)
    if kind == "program":
        _note_program(known, function, args, kwargs)
    return result


def _known(log: EventLog, function: Any) -> ReportedFunction:
    found = log.functions.get(id(function))
    if found is None or found.function() is not function:
        found = ReportedFunction(function._name, weakref.ref(function), function._history)
        log.functions[id(function)] = found
    return found


def _note_result(log: EventLog, name: str, site: str, result: Any) -> None:
    """Note a scalar result, which usually is a loss, and the memory of the others."""
    leaves = nest.flatten(result)
    for leaf in leaves:
        if type(leaf) is Tensor:
            for note in log.on_arrays:
                note((), leaf.array, site)
    first = next((leaf for leaf in leaves if leaf is not None), None)
    if first is not None and is_scalar(first):
        log.add_value(f"result of function {name!r}", site, first.array)


def _note_program(known: ReportedFunction, function: Any, args: Any, kwargs: Any) -> None:
    """Time the steps of the program that a call has run, if it has not been timed."""
    if len(known.seen) == len(function._entries) or len(known.programs) >= MOST_PROGRAMS:
        return
    key, leaves, *_ = function._key_of_call(args, kwargs)
    entry = function._entries.find(key)
    if entry is None or not entry.building.is_done or entry.building.error is not None:
        return
    program = entry.program
    if program in known.seen:
        return
    known.seen.add(program)
    times = timed_steps(program, arrays_in(leaves))
    blocks = [item.memory for item in program.order if isinstance(item, NativeSequence)]
    kept = sum(blocks) + int(getattr(program.run, "memory", 0))
    peak = program.memory().peak
    known.programs.append(ReportedProgram(kept, peak, times, perf_counter_ns()))


def timed_steps(program: Program, inputs: Sequence[Any]) -> list[StepTime]:
    """Return the times of the steps of a program on the CPU, which run on copies of all arrays.

    There are none for programs that talk to other processes, that call back into Python, or whose
    kernels are queued by a GPU.
    """
    backends = {backend_of(array).name for array in inputs}
    variables = [variable.array for variable in program._variables]
    backends |= {backend_of(array).name for array in variables}
    if backends != {"numpy"} or communicates(program.graph) or _calls_python(program.graph):
        return []
    spent = [0] * len(program.steps)
    kernels = {
        place: _stopwatch(_kernel_of(step), spent, place)
        for place, step in enumerate(program.steps)
    }
    run = to_python(program.graph, program.steps, kernels)
    try:
        for _ in range(PASSES):
            spent[:] = [0] * len(spent)
            run([*map(np.array, inputs)], [*map(np.array, variables)])
    except Exception:  # the program itself has run; a report without these times is still one
        return []
    return [_described(step, time) for step, time in zip(program.steps, spent)]


def _kernel_of(step: Step) -> Callable[..., Any]:
    if isinstance(step, Call):
        kernel: Callable[..., Any] = step.primitive.kernel(step.array_type)
        return kernel
    return step.run


def _stopwatch(kernel: Callable[..., Any], spent: list[int], place: int) -> Callable[..., Any]:
    def measured(*args: Any, **kwargs: Any) -> Any:
        start = perf_counter_ns()
        result = kernel(*args, **kwargs)
        spent[place] += perf_counter_ns() - start
        # A later step may write into a result, and NumPy's scalars cannot be written to.
        return np.asarray(result) if isinstance(result, np.generic) else result

    return measured


def _calls_python(graph: Graph) -> bool:
    inner = [body.graph for body in inner_programs(graph) if hasattr(body, "graph")]
    names = {call.primitive.name for call in graph.calls}
    return "host_call" in names or any(map(_calls_python, inner))


def _described(step: Step, time: int) -> StepTime:
    cost = kernel_of(step)
    calls = (step,) if isinstance(step, Call) else _calls_of(step)
    sites = dict.fromkeys(call.site for call in calls if call.site)
    return StepTime(cost.name, cost.what, tuple(sites), time)


def _calls_of(loop: CompiledLoop) -> Sequence[Call]:
    return loop.made_of.calls


def steps_by_line(programs: Sequence[ReportedProgram]) -> Mapping[str, float]:
    """Return the share of each line in the measured time of programs; a loop's lines share it.

    >>> step = StepTime("loop", "", ("a.py:1", "a.py:2"), 10)
    >>> steps_by_line([ReportedProgram(0, 0, [step], 0)])
    {'a.py:1': 0.5, 'a.py:2': 0.5}
    """
    lines: dict[str, float] = {}
    total = sum(step.nanoseconds for program in programs for step in program.steps) or 1
    for program in programs:
        for step in program.steps:
            for site in step.sites:
                share = step.nanoseconds / len(step.sites) / total
                lines[site] = lines.get(site, 0.0) + share
    return lines
