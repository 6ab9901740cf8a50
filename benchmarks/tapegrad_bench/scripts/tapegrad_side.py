"""The process that runs the script, and computes and times its functions with tapegrad."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from typing import Any

from tapegrad.core.values import nest
from tapegrad.core.values.device import device as on_device
from tapegrad.core.values.tensor import wrap
from tapegrad.core.values.variable import Variable
from tapegrad.errors import ArgumentError
from tapegrad.program.graph.graph import Graph
from tapegrad.program.program import program_of
from tapegrad.program.record.arguments import flatten_call, key_of, take_shared
from tapegrad_bench.scripts.captured import Arrays, Captured, Part, pack, portable
from tapegrad_bench.scripts.clock import first_line, time_steps
from tapegrad_bench.scripts.recording import (
    Call,
    arguments_of,
    copied,
    output_arrays,
    record,
    tensors_of,
)
from tapegrad_bench.scripts.watching import SETS, Called, run_script

STEP, GRADIENT = "step", "gradient"


@dataclass(frozen=True)
class Found:
    """A function of the script: its name, the seconds of its first call, and its parts.

    Without parts, `reason` says why.
    """

    name: str
    first_seconds: float
    parts: tuple[str, ...] = ()
    reason: str = ""


class ScriptSession:
    """Answers the requests of the command."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._functions: list[_Function | None] = []

    def run(self, path: str, arguments: Sequence[str]) -> list[Found]:
        """Run the script and capture the functions that it has called."""
        with on_device(self._device):
            return [self._capture(called) for called in run_script(path, arguments)]

    def _capture(self, called: Called) -> Found:
        name, seconds = called.function._name, called.first_seconds
        try:
            function = _Function(called)
        except Exception as error:
            self._functions.append(None)
            return Found(name, seconds, reason=f"no program: {first_line(error)}")
        self._functions.append(function)
        return Found(name, seconds, tuple(function.captured.parts))

    def packed(self, index: int) -> bytes:
        """Return a captured function for the processes of peers."""
        return pack(self._function(index).captured)

    def time(self, index: int, part: str, seconds: float) -> list[float]:
        """Return the seconds of steps of a part."""
        with on_device(self._device):
            return self._function(index).time(part, seconds, self._device, self._synchronize)

    def _function(self, index: int) -> _Function:
        found = self._functions[index]
        if found is None:
            raise ArgumentError("The function has no program.")
        return found

    def _synchronize(self, result: Any) -> None:
        if self._device != "cpu":
            importlib.import_module("cupy").cuda.Device().synchronize()


class _Function:
    """A function of the script with its recording."""

    def __init__(self, called: Called) -> None:
        self._function = called.function
        self._owner = called.calls[-1][0][:1] if called.function._is_method else ()
        calls = [arguments_of(called.function, call) for call in reversed(called.calls)]
        self._calls = _alike(calls)
        self._recording = record(self._function, self._calls[0])
        self._variables = [*self._recording.variables.values()]
        inputs = tuple(_to_host(tensors_of(call)) for call in self._calls)
        parts = {STEP: self._step()}
        if self._recording.gradient is not None:
            parts[GRADIENT] = self._gradient(self._recording.gradient)
        self.captured = Captured(called.function._name, inputs, parts)

    def _run(self, call: Call) -> Any:
        return self._function(*self._owner, *call[0], **call[1])

    def _step(self) -> Part:
        graph, by_number = self._recording.step, self._recording.variables
        with _restored(self._variables):
            before = _values(graph, by_number)
            outputs = [wrap(array) for array in output_arrays(self._run(self._calls[0]))]
            new = [by_number[number].numpy().copy() for number in graph.written]
        return Part(portable(graph, _array_to_host), before, [*_to_host(outputs), *new])

    def _gradient(self, graph: Graph) -> Part:
        program = program_of(graph, self._recording.variables)
        arrays = program([tensor.array for tensor in tensors_of(self._calls[0])])
        return Part(
            portable(graph, _array_to_host),
            _values(graph, self._recording.variables),
            _to_host(map(wrap, arrays)),
            self._recording.gradients,
        )

    def time(
        self, part: str, seconds: float, device: str, synchronize: Callable[[Any], None]
    ) -> list[float]:
        last = self._calls[0]
        copies = [nest.map_structure(copied, last) for _ in range(SETS - len(self._calls))]
        calls = [*self._calls, *copies]
        if part == STEP:
            runs = [partial(self._run, call) for call in calls]
        else:
            assert self._recording.gradient is not None
            program = program_of(self._recording.gradient, self._recording.variables)
            runs = [partial(program, [t.array for t in tensors_of(call)]) for call in calls]
        turn = cycle(runs)
        with _restored(self._variables):
            return time_steps(lambda: next(turn)(), synchronize, seconds, device)


def _alike(calls: list[Call]) -> list[Call]:
    """Return the calls that run the program of the first one."""

    def key(call: Call) -> Any:
        leaves = flatten_call(*call)
        take_shared(leaves)
        return key_of(leaves, *call)

    return [call for call in calls if key(call) == key(calls[0])]


def _values(graph: Graph, variables: dict[int, Variable]) -> Arrays:
    return [variables[number].numpy().copy() for number in graph.variables]


def _to_host(tensors: Iterable[Any]) -> Arrays:
    return [tensor.numpy().copy() for tensor in tensors]


def _array_to_host(array: Any) -> Any:
    return wrap(array).numpy()


@contextmanager
def _restored(variables: Sequence[Variable]) -> Iterator[None]:
    """Give variables their values back, so that steps start from where the script ended."""
    before = [variable.numpy().copy() for variable in variables]
    try:
        yield
    finally:
        for variable, value in zip(variables, before, strict=True):
            variable.assign(value, read_value=False)
