"""From a graph to Python: one line per kernel call, values freed after their last use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tapegrad.program.graph import Graph, Value, last_uses

Run = Callable[[Sequence[Any], Sequence[Any]], tuple[tuple[Any, ...], tuple[Any, ...]]]
"""Takes the inputs' and the variables' arrays; returns outputs and what variables hold then."""


@dataclass(frozen=True)
class Step:
    """One kernel call on values and numbers."""

    name: str
    kernel: Callable[..., Any]
    operands: tuple[Any, ...]
    params: dict[str, Any]
    results: tuple[Value, ...]
    many: bool

    @property
    def reads(self) -> tuple[Value, ...]:
        return tuple(operand for operand in self.operands if isinstance(operand, Value))


def plain_steps(graph: Graph) -> list[Step]:
    """Each call of a primitive by itself."""
    return [
        Step(
            call.primitive.name,
            call.primitive.kernel(call.kind),
            call.operands,
            call.params,
            call.results,
            call.primitive.many,
        )
        for call in graph.calls
    ]


def to_python(graph: Graph, steps: Sequence[Step]) -> Run:
    """Return the function that runs the steps.

    Straight-line code, because a loop with a table of values would cost as much as small kernels.
    """
    names: dict[str, Any] = {}
    kept = {value.number for value in graph.results}
    lines = ["def run(inputs, variables):"]
    lines += _unpack("inputs", graph.inputs)
    lines += _unpack("variables", tuple(graph.variables.values()))
    for number, array in graph.constants.items():
        names[f"v{number}"] = array
    ends = last_uses(steps, kept | set(graph.constants))
    for position, (step, dead) in enumerate(zip(steps, ends)):
        names[f"k{position}"] = step.kernel
        given = [_operand(operand, names) for operand in step.operands]
        for name, value in step.params.items():
            names[f"p{position}_{name}"] = value
            given.append(f"{name}=p{position}_{name}")
        targets = ", ".join(f"v{value.number}" for value in step.results)
        comma = "," if step.many else ""
        lines.append(f"    {targets}{comma} = k{position}({', '.join(given)})")
        if dead:
            lines.append("    " + " = ".join(f"v{number}" for number in dead) + " = None")
    outputs = "".join(f"v{value.number}, " for value in graph.outputs)
    written = "".join(f"v{value.number}, " for value in graph.written.values())
    lines.append(f"    return ({outputs}), ({written})")
    scope: dict[str, Any] = dict(names)
    exec("\n".join(lines), scope)
    run: Run = scope["run"]
    return run


def _unpack(name: str, values: Sequence[Value]) -> list[str]:
    if not values:
        return []
    targets = "".join(f"v{value.number}, " for value in values)
    return [f"    {targets}= {name}"]


def _operand(operand: Any, names: dict[str, Any]) -> str:
    if isinstance(operand, Value):
        return f"v{operand.number}"
    name = f"n{len(names)}"
    names[name] = operand
    return name
