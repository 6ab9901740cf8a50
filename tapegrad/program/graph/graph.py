"""The graph of a recorded program: calls of primitives in execution order.

Values are numbered. Inputs, variables and constants are not made by a call. Passes return a new
graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from math import prod
from operator import is_
from typing import Any

import numpy as np

from tapegrad.core.exact_key import exact_key
from tapegrad.core.primitive.primitive import Primitive

Shape = tuple[int, ...]


# Long programs have many values and calls. A frozen dataclass sets each attribute by a call, which
# takes three times as long; nothing changes an attribute all the same.
@dataclass(slots=True, unsafe_hash=True)
class Value:
    """The shape and dtype of a value in the graph, which never change."""

    number: int
    shape: Shape
    dtype: np.dtype[Any]
    device: str = ""

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    def __str__(self) -> str:
        return f"%{self.number}:{self.dtype.name}{list(self.shape)}"


class InnerProgram:
    """A parameter of a call that is a program itself, such as the body of a loop."""

    def compile(self) -> None:
        """Compile it, if that has not been done."""

    @property
    def peak(self) -> int:
        """The bytes that it needs for intermediate values."""
        return 0

    def is_like(self, other: object) -> bool:
        """Whether another one computes the same for the same shapes."""
        return False

    def renewed(self) -> InnerProgram:
        """Return a program that computes the same, and has nothing that was prepared for calls."""
        raise NotImplementedError


@dataclass(slots=True, unsafe_hash=True)
class Call:
    """One call of a primitive, which never changes. Operands are values or constant numbers."""

    primitive: Primitive
    operands: tuple[Any, ...]
    params: dict[str, Any]
    results: tuple[Value, ...]
    array_type: type
    """The array type whose kernel runs."""
    aliases: bool = False
    """Whether a result shares memory with an operand."""
    region: int = 0
    """Not 0 for calls that are recomputed to save memory: see `recompute_grad`."""
    site: str = field(default="", compare=False)
    """The file and line of the user's code that led to the call."""
    function: str = field(default="", compare=False)
    """The name of the function that the user's code called there, if it is a public one."""
    is_backward: bool = field(default=False, compare=False)
    """Whether it belongs to a gradient, whose line is then `site`; known for checks of numbers."""
    reads: tuple[Value, ...] = field(init=False, repr=False, compare=False)
    """The operands that are values."""

    def __post_init__(self) -> None:
        self.reads = tuple([operand for operand in self.operands if type(operand) is Value])

    def __str__(self) -> str:
        given = ", ".join(str(operand) for operand in self.operands)
        params = "".join(f", {name}={value!r}" for name, value in self.params.items())
        made = ", ".join(map(str, self.results))
        return f"{made} = {self.primitive.name}({given}{params})"

    @property
    def effects(self) -> bool:
        """Whether the call has side effects, e.g. prints values."""
        return self.primitive.effects

    def with_values(
        self, operands: tuple[Any, ...], results: tuple[Value, ...] | None = None
    ) -> Call:
        """Return the call with other operands and results, itself if they are the same objects.

        Long programs have many calls, for which `dataclasses.replace` takes three times as long.
        """
        made = self.results if results is None else results
        is_same = operands is self.operands or all(map(is_, operands, self.operands))
        if is_same and (made is self.results or all(map(is_, made, self.results))):
            return self
        return Call(
            self.primitive,
            operands,
            self.params,
            made,
            self.array_type,
            self.aliases,
            self.region,
            self.site,
            self.function,
            self.is_backward,
        )


@dataclass(frozen=True)
class Graph:
    """Inputs, variables with their old and new values, constants, calls and outputs."""

    inputs: tuple[Value, ...]
    variables: dict[int, Value]
    constants: dict[int, Any]
    calls: tuple[Call, ...]
    outputs: tuple[Value, ...]
    written: dict[int, Value] = field(default_factory=dict)
    obstacle: str = ""
    """Why no program can replay the calls, "" if there is no reason."""

    def __str__(self) -> str:
        lines = [f"inputs: {', '.join(map(str, self.inputs)) or 'none'}"]
        lines += [f"variable {number}: {value}" for number, value in self.variables.items()]
        lines += [f"  {call}" for call in self.calls]
        lines += [f"variable {number} becomes {value}" for number, value in self.written.items()]
        lines.append(f"outputs: {', '.join(map(str, self.outputs)) or 'none'}")
        return "\n".join(lines)

    @property
    def results(self) -> tuple[Value, ...]:
        """The outputs and the new values of variables."""
        return (*self.outputs, *self.written.values())


def communicates(graph: Graph) -> bool:
    """Whether other processes take part in a call."""
    return any(call.primitive.communicates for call in graph.calls)


def inner_programs(graph: Graph) -> list[InnerProgram]:
    """Return the programs that are parameters of calls."""
    params = [value for call in graph.calls for value in call.params.values()]
    return [value for value in params if isinstance(value, InnerProgram)]


def without_dead_calls(graph: Graph) -> Graph:
    """Remove calls whose results are not used."""
    needed = {value.number for value in graph.results}
    kept: list[Call] = []
    for call in reversed(graph.calls):  # without lists, since every first call does this
        for value in call.results:
            if value.number in needed:
                break
        else:
            if not call.primitive.effects:
                continue
        kept.append(call)
        for value in call.reads:
            needed.add(value.number)
    kept.reverse()
    return replace(graph, calls=tuple(kept))


def without_unused_values(graph: Graph) -> Graph:
    """Remove the variables that nothing reads or writes, and the constants that nothing reads."""
    used = {value.number for call in graph.calls for value in call.reads}
    used |= {value.number for value in graph.results}
    kept = {
        number: value
        for number, value in graph.variables.items()
        if value.number in used or number in graph.written
    }
    constants = {number: a for number, a in graph.constants.items() if number in used}
    return replace(graph, variables=kept, constants=constants)


def without_repeated_calls(graph: Graph) -> Graph:
    """Merge equal calls (common subexpression elimination)."""
    same: dict[int, Value] = {}
    seen: dict[Any, tuple[Value, ...]] = {}
    kept: list[Call] = []
    for call in graph.calls:
        operands = call.operands
        if same:
            operands = tuple([_now(operand, same) for operand in operands])
        key = None if call.primitive.effects else _key(call, operands)
        if key is not None and key in seen:
            for result, earlier in zip(call.results, seen[key]):
                same[result.number] = earlier
            continue
        if key is not None:
            seen[key] = call.results
        kept.append(call.with_values(operands))
    return replace(
        graph,
        calls=tuple(kept),
        outputs=tuple(_now(value, same) for value in graph.outputs),
        written={number: _now(value, same) for number, value in graph.written.items()},
    )


def with_early_constants(graph: Graph) -> Graph:
    """Make filled arrays and positions independent of values that are computed by the program.

    A recorded backward pass begins with `ones_like(loss)`, which would otherwise depend on the
    loss.
    """
    there = {value.device: value for value in (*graph.inputs, *graph.variables.values())}
    calls = []
    for call in graph.calls:
        is_constant = call.primitive.name in ("full_like", "positions_like")
        first = there.get(call.results[0].device) if is_constant else None
        calls.append(call if first is None else replace(call, operands=(first,)))
    return replace(graph, calls=tuple(calls))


def renumbered(graph: Graph) -> Graph:
    """Renumber the values 1, 2, 3, ... in order of appearance."""
    new: dict[int, Value] = {}
    for value in (*graph.inputs, *graph.variables.values()):
        if value.number not in new:
            new[value.number] = _with_number(value, len(new) + 1)
    values = {v.number: v for call in graph.calls for v in call.reads + call.results}
    values.update({value.number: value for value in graph.results})
    for number in sorted(values):
        if number not in new:
            new[number] = _with_number(values[number], len(new) + 1)
    return Graph(
        tuple(new[value.number] for value in graph.inputs),
        {number: new[value.number] for number, value in graph.variables.items()},
        {new[number].number: array for number, array in graph.constants.items()},
        tuple([_renumbered_call(call, new) for call in graph.calls]),
        tuple(new[value.number] for value in graph.outputs),
        {number: new[value.number] for number, value in graph.written.items()},
    )


def _renumbered_call(call: Call, new: dict[int, Value]) -> Call:
    operands = tuple([_now(operand, new) for operand in call.operands])
    return call.with_values(operands, tuple([new[value.number] for value in call.results]))


def _with_number(value: Value, number: int) -> Value:
    if value.number == number:
        return value
    return Value(number, value.shape, value.dtype, value.device)


def _now(operand: Any, same: dict[int, Value]) -> Any:
    return same.get(operand.number, operand) if type(operand) is Value else operand


def _key(call: Call, operands: Sequence[Any]) -> Any:
    """A key that is equal for equal calls; None if the params are not hashable."""
    # Keys of numbers are tuples, those of values are not.
    known = tuple([x.number if type(x) is Value else exact_key(x) for x in operands])
    params: Any = call.params
    if params:
        params = tuple([(name, exact_key(params[name])) for name in sorted(params)])
        try:
            hash(params)
        except TypeError:
            return None
    else:
        params = ()
    return (call.primitive, call.region, known, params)


def last_uses(calls: Sequence[Any], kept: set[int]) -> list[list[int]]:
    """Return, for each call, the numbers of the values that die after it, except those in `kept`.

    `calls` are anything with `reads` and `results`.
    """
    ends: list[list[int]] = [[] for _ in calls]
    seen = set(kept)
    for position in range(len(calls) - 1, -1, -1):
        call = calls[position]
        for value in (*call.reads, *call.results):
            if value.number not in seen:
                seen.add(value.number)
                ends[position].append(value.number)
    return ends


def is_wait(step: Any) -> bool:
    """Return whether a step waits for a result that another one has started."""
    primitive = getattr(step, "primitive", None)
    return primitive is not None and primitive.name == "wait"
