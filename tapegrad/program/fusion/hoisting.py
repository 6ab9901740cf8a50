"""Hoist costly scalar expressions out of loops.

A loop would compute them for every element. Adam's bias correction, for example, is two powers in
double precision.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod
from typing import Any, NamedTuple

import numpy as np

from tapegrad.core.background import with_checkpoints
from tapegrad.core.trace.c_source import statements
from tapegrad.core.trace.expression import Expression, UntraceableError, array_input
from tapegrad.core.trace.loop import INDEXED, Loop, LoopInput, LoopOutput
from tapegrad.program.fusion.equal_loops import EqualLoops
from tapegrad.program.fusion.loop_bodies import Fused
from tapegrad.program.graph.formulas import is_heavy, nodes_of
from tapegrad.program.graph.graph import Call, Value

Step = Call | Fused


def with_hoisted_scalars(steps: Sequence[Step], numbers: Iterator[int]) -> list[Step]:
    """Move costly scalar expressions into loops of one element; `numbers` are unused ones."""
    known: dict[Any, Value] = {}
    splits: dict[int, tuple[Loop, _Split | None]] = {}
    """What becomes of loops, by their ids: equal parts of a program share loops."""
    different = EqualLoops()
    found: list[Step] = []
    for step in with_checkpoints(steps):
        if isinstance(step, Fused) and _may_have_any(step):
            if id(step.loop) not in splits:
                splits[id(step.loop)] = step.loop, _Hoisting(step.loop).split(different)
            split = splits[id(step.loop)][1]
            if split is not None:
                before, step = split.of(step, known, numbers)
                found.extend(before)
        found.append(step)
    return found


class _Scalar(NamedTuple):
    """A scalar expression as a loop of one element, and the inputs of the loop around it."""

    key: Any
    """Equal for equal expressions of equal inputs, None if there is no key."""
    loop: Loop
    places: tuple[int, ...]
    """The inputs of `loop` among those of the loop that it was hoisted out of."""


class _Split(NamedTuple):
    """What becomes of a loop: its scalars, and the loop that reads them."""

    scalars: list[_Scalar]
    loop: Loop
    places: tuple[int, ...]
    """The inputs of `loop` among the inputs of the loop before, which the scalars follow."""

    def of(
        self, step: Fused, known: dict[Any, Value], numbers: Iterator[int]
    ) -> tuple[list[Fused], Fused]:
        """Return the scalar loops of a step that are not known yet, and what is left of it."""
        before: list[Fused] = []
        values = [*step.reads]
        for scalar in self.scalars:
            reads = tuple([step.reads[place] for place in scalar.places])
            key = scalar.key and (scalar.key, *[value.number for value in reads])
            value = known.get(key) if key else None
            if value is None:
                dtype = scalar.loop.outputs[0].expression.dtype
                value = Value(next(numbers), (), np.dtype(dtype))
                before.append(Fused(scalar.loop, reads, (value,), step.calls))
                if key:
                    known[key] = value
            values.append(value)
        reads = tuple([values[place] for place in self.places])
        return before, replace(step, loop=self.loop, reads=reads)


def _may_have_any(step: Fused) -> bool:
    """Whether to look at a loop. One with stages computes such expressions once per row."""
    return prod(step.loop.shape) > 1 and not step.loop.stages


class _Hoisting:
    """One loop and the expressions that are hoisted out of it."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._inputs = list(loop.inputs)
        self._scalars: list[_Scalar] = []
        self._new: dict[int, Expression] = {}

    def split(self, different: EqualLoops) -> _Split | None:
        """Return the scalar loops, and the loop that reads their results; None without any."""
        loop = self._loop
        nodes = nodes_of([output.expression for output in loop.outputs])
        single, costly = self._kinds(nodes)
        wanted = {
            id(operand)
            for node in nodes
            if not single[id(node)]
            for operand in node.operands
            if single[id(operand)] and costly[id(operand)] and operand.dtype is not None
        }
        if not wanted:
            return None
        for node in nodes:
            self._new[id(node)] = self._moved(node) if id(node) in wanted else self._kept(node)
        outputs = tuple(
            replace(output, expression=self._new[id(output.expression)]) for output in loop.outputs
        )
        inputs, places, outputs, indices = _without_unread(self._inputs, outputs, loop.indices)
        changed = replace(loop, inputs=inputs, outputs=outputs, indices=indices)
        return _Split(self._scalars, different.first_of(changed), places)

    def _kinds(self, nodes: list[Expression]) -> tuple[dict[int, bool], dict[int, bool]]:
        """For each node, whether it is a scalar, and whether it is costly."""
        single: dict[int, bool] = {}
        costly: dict[int, bool] = {}
        given: dict[int, bool] = {}  # without constants, which compilers fold
        for node in nodes:
            if node.name == "input":
                read = self._inputs[int(node.value)]
                # What is read through an index of this loop stays in it.
                is_gathered = any(one.mode == INDEXED for one in read.window or ())
                single[id(node)] = all(size == 1 for size in read.seen) and not is_gathered
            else:
                single[id(node)] = all(single[id(operand)] for operand in node.operands)
            varies = node.name == "input" or any(given[id(o)] for o in node.operands)
            given[id(node)] = varies
            costly[id(node)] = varies and (
                is_heavy(node) or any(costly[id(o)] for o in node.operands)
            )
        return single, costly

    def _kept(self, node: Expression) -> Expression:
        operands = tuple(self._new[id(operand)] for operand in node.operands)
        if all(new is old for new, old in zip(operands, node.operands)):
            return node
        return Expression(node.name, node.dtype, operands, node.value, node.weak)

    def _moved(self, node: Expression) -> Expression:
        """Replace an expression by an input, and make it a loop of one element."""
        alone = [replace(single, seen=()) for single in self._loop.inputs]
        inputs, places, outputs, _ = _without_unread(alone, (LoopOutput(node, ()),))
        key = _key(outputs[0].expression, len(inputs))
        self._scalars.append(_Scalar(key, Loop((), inputs, outputs), places))
        assert node.dtype is not None
        dtype = np.dtype(node.dtype)
        self._inputs.append(LoopInput((), (1,) * len(self._loop.shape), dtype))
        return array_input(len(self._inputs) - 1, dtype)


def _key(node: Expression, count: int) -> Any:
    try:
        lines, results = statements([node], [f"input{place}" for place in range(count)])
    except UntraceableError:
        return None
    return (*lines, *results, node.dtype)


def _without_unread(
    inputs: Sequence[LoopInput], outputs: Sequence[LoopOutput], indices: Sequence[Expression] = ()
) -> tuple[tuple[LoopInput, ...], tuple[int, ...], tuple[LoopOutput, ...], tuple[Expression, ...]]:
    """Remove inputs that no expression reads; return the places of those that are left."""
    nodes = nodes_of([*[output.expression for output in outputs], *indices])
    used = sorted({int(node.value) for node in nodes if node.name == "input"})
    places = {old: new for new, old in enumerate(used)}
    new: dict[int, Expression] = {}
    for node in nodes:
        if node.name == "input":
            new[id(node)] = Expression("input", node.dtype, value=places[int(node.value)])
        else:
            operands = tuple(new[id(operand)] for operand in node.operands)
            new[id(node)] = Expression(node.name, node.dtype, operands, node.value, node.weak)
    return (
        tuple(inputs[k] for k in used),
        tuple(used),
        tuple(replace(output, expression=new[id(output.expression)]) for output in outputs),
        tuple(new[id(index)] for index in indices),
    )
