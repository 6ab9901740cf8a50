"""Lower steps to Python code: one line per kernel or loop, values freed after their last use."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import isfinite
from typing import Any

import numpy as np

from tapegrad.core.backend.native_sequences import LoopWriter
from tapegrad.program.fusion.horizontal_fusion import HorizontallyFused
from tapegrad.program.fusion.loop_bodies import Fused
from tapegrad.program.graph.graph import Call, Graph, Value, last_uses

Run = Callable[[Sequence[Any], Sequence[Any]], tuple[tuple[Any, ...], tuple[Any, ...]]]
"""Maps the arrays of inputs and variables to outputs and the new values of variables."""


@dataclass(frozen=True)
class CompiledLoop:
    """A compiled loop, called with its input arrays and optional output arrays."""

    run: Callable[..., Any]
    arguments: tuple[Value, ...]
    results: tuple[Value, ...]
    targets: tuple[Value | None, ...]
    """Per result, the value whose buffer it reuses, or None."""
    made_of: Fused | HorizontallyFused
    sources: tuple[Callable[[], Any] | None, ...] = ()
    """Per result, a function that returns its buffer, or None to allocate one."""
    source: Callable[[Callable[..., Any]], str | None] | None = None
    """Returns the source of `run`, if the compiler keeps it."""

    @property
    def reads(self) -> tuple[Value, ...]:
        return (*self.arguments, *[value for value in self.targets if value is not None])


Step = Call | CompiledLoop

MOST_NAMES = 500
"""How many values have separate names in the source of a program."""


def plain_steps(graph: Graph) -> list[Step]:
    """Return the calls of a graph as steps, without fusion."""
    return list(graph.calls)


def to_python(
    graph: Graph,
    steps: Sequence[Step],
    kernels: Mapping[int, Callable[..., Any]] | None = None,
    writers: Mapping[int, LoopWriter] | None = None,
    order: Sequence[Any] | None = None,
) -> Run:
    """Return the function that runs the steps; `kernels` replace those at their positions.

    The last steps, those with `writers`, are not run. Their calls are returned as a third item. If
    there are several, the fourth item has them with one more argument: they only check arrays.
    `order` has positions of steps and sequences of them; see `arranged` of sequences.py.
    """
    text, scope = python_text(graph, steps, writers, order)
    scope.update({f"k{place}": kernel for place, kernel in (kernels or {}).items()})
    exec(text, scope)
    run: Run = scope["run"]
    return run


def python_text(
    graph: Graph,
    steps: Sequence[Step],
    writers: Mapping[int, LoopWriter] | None = None,
    order: Sequence[Any] | None = None,
) -> tuple[str, dict[str, Any]]:
    """Return the source of the function `run`, and its global names.

    It is straight-line code, because an interpreter loop would cost as much as small kernels.
    """
    names: dict[str, Any] = {f"v{number}": array for number, array in graph.constants.items()}
    of = _LocalNames(graph, steps)
    kept = {value.number for value in graph.results}
    lines = ["def run(inputs, variables):"]
    lines += _unpack("inputs", graph.inputs, of)
    lines += _unpack("variables", tuple(graph.variables.values()), of)
    places = [*range(len(steps))] if order is None else order
    items = [steps[place] if isinstance(place, int) else place for place in places]
    ends = last_uses(items, kept | set(graph.constants))
    for place, step, dead in zip(places, items, ends):
        if not isinstance(place, int):
            lines += _sequence_lines(step, names, of)
        elif writers and place in writers:
            lines += _deferred_lines(step, place, names, of, writers[place])
            continue
        else:
            lines.append(_step_line(step, place, names, of))
        if dead:
            lines.append("    " + " = ".join(of.freed(number) for number in dead) + " = None")
    outputs = "".join(f"{of(value)}, " for value in graph.outputs)
    written = "".join(f"{of(value)}, " for value in graph.written.values())
    lines.append(f"    return ({outputs}), ({written}){_deferred_calls(writers)}")
    return "\n".join(lines), names


def _step_line(step: Any, position: int, names: dict[str, Any], of: _LocalNames) -> str:
    write = _call_line if isinstance(step, Call) else _loop_line
    targets = "".join(f"{of(value)}, " for value in step.results)
    line = f"    {targets.removesuffix(', ') or '_'}{write(step, position, names, of)}"
    return f"{line}  # {step.primitive.name if isinstance(step, Call) else 'loop'}"


class _LocalNames:
    """The names of values in the source; a long program gives those of dead values to others.

    Each name takes a place in the frame of the function. A large frame may fill CPython's current
    piece of stack exactly, and then each kernel that is called maps a new piece and frees it again.
    """

    def __init__(self, graph: Graph, steps: Sequence[Step]) -> None:
        self._names = {number: f"v{number}" for number in graph.constants}
        self._are_reused = sum(len(step.results) for step in steps) > MOST_NAMES
        self._free: list[str] = []
        self._count = 0

    def __call__(self, value: Value) -> str:
        """Return the name of a value, a new one when it is seen first."""
        found = self._names.get(value.number)
        if found is None:
            found = self._names[value.number] = self._new(value.number)
        return found

    def _new(self, number: int) -> str:
        if not self._are_reused:
            return f"v{number}"
        if self._free:
            return self._free.pop()
        self._count += 1
        return f"r{self._count}"

    def freed(self, number: int) -> str:
        """Return the name of a value that is dead from now on."""
        name = self._names.pop(number)
        self._free.append(name)
        return name


def position_at(graph: Graph, steps: Sequence[Step], line: int) -> int | None:
    """Return the position of the step on a line of the source; lines are counted from 1."""
    text = python_text(graph, steps)[0].split("\n")[line - 1]
    found = re.search(r"= k(\d+)\(", text)
    return None if found is None else int(found[1])


def _call_line(call: Any, position: int, names: dict[str, Any], of: _LocalNames) -> str:
    names[f"k{position}"] = call.primitive.kernel(call.array_type)
    given = [_operand(operand, names, of) for operand in call.operands]
    for name, value in call.params.items():
        given.append(f"{name}={_literal(value) or f'p{position}_{name}'}")
        if _literal(value) is None:
            names[f"p{position}_{name}"] = value
    comma = "," if call.primitive.many else ""
    return f"{comma} = k{position}({', '.join(given)})"


def _loop_line(loop: Any, position: int, names: dict[str, Any], of: _LocalNames) -> str:
    names[f"k{position}"] = loop.run
    arrays = "".join(f"{of(value)}, " for value in loop.arguments)
    targets = ["None" if value is None else of(value) for value in loop.targets]
    for k, source in enumerate(loop.sources):
        if source is not None:
            names[f"new{position}_{k}"] = source
            targets[k] = f"new{position}_{k}()"
    written = "".join(f"{target}, " for target in targets)
    return f", = k{position}(({arrays}), ({written}))"


def _sequence_lines(sequence: Any, names: dict[str, Any], of: _LocalNames) -> list[str]:
    """Lines that make the arrays of results, call a sequence, and run its steps if that fails."""
    key = f"q{len(names)}"
    names[key], names[f"{key}_one_by_one"] = sequence.run, sequence.one_by_one
    lines, new = [], []
    for k, (value, target) in enumerate(zip(sequence.results, sequence.targets)):
        if target is None:
            names[f"{key}_{k}"] = sequence.sources[k] or partial(np.empty, value.shape, value.dtype)
            new.append(of(value))
        lines.append(f"    {of(value)} = {of(target) if target is not None else f'{key}_{k}()'}")
    read = ", ".join(of(value) for value in sequence.arguments)
    made = "".join(f"{of(value)}, " for value in sequence.results)
    given = ", ".join([*([read] if read else []), *new])
    lines.append(f"    if {key}({given}):  # {len(sequence.steps)} steps")
    lines.append(f"        {made.removesuffix(' ')} = {key}_one_by_one({read})")
    return lines


def _deferred_lines(
    loop: Any, position: int, names: dict[str, Any], of: _LocalNames, writer: LoopWriter
) -> list[str]:
    """Lines that make the arrays of a loop's results and its call, which is made later."""
    names[f"w{position}"] = writer.call
    lines = []
    for k, (value, target) in enumerate(zip(loop.results, loop.targets)):
        if target is None:
            names[f"new{position}_{k}"] = loop.sources[k] or writer.new_results[k]
        source = f"new{position}_{k}()" if target is None else of(target)
        lines.append(f"    {of(value)} = {source}")
    given = "".join(f", {of(value)}" for value in (*loop.arguments, *loop.results))
    return [*lines, f"    c{position} = (w{position}{given})  # loop"]


def _deferred_calls(writers: Mapping[int, LoopWriter] | None) -> str:
    calls = [f"c{position}" for position in writers or ()]
    if not calls:
        return ""
    checks = [f"(*{call}, None), " for call in calls] if len(calls) > 1 else []
    return f", ({', '.join(calls)},), ({''.join(checks)})"


def _unpack(name: str, values: Sequence[Value], of: _LocalNames) -> list[str]:
    if not values:
        return []
    targets = "".join(f"{of(value)}, " for value in values)
    return [f"    {targets}= {name}"]


def _operand(operand: Any, names: dict[str, Any], of: _LocalNames) -> str:
    if isinstance(operand, Value):
        return of(operand)
    literal = _literal(operand)
    if literal is not None:
        return literal
    name = f"n{len(names)}"
    names[name] = operand
    return name


def _literal(value: Any) -> str | None:
    """Return a simple value as a Python literal, for readable source; None for others."""
    if type(value) is tuple:
        return None if None in map(_literal, value) else repr(value)
    is_plain = type(value) in (bool, int, str, type(None))
    return repr(value) if is_plain or (type(value) is float and isfinite(value)) else None
