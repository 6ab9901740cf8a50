"""Hoist costly scalar expressions out of loops.

A loop would compute them for every element. Adam's bias correction, for example, is two powers in
double precision.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import prod
from typing import Any

import numpy as np

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
    plain: set[int] = set()
    """Loops without such an expression, by their ids: equal parts of a program share loops."""
    different = EqualLoops()
    found: list[Step] = []
    for step in steps:
        if isinstance(step, Fused) and _may_have_any(step) and id(step.loop) not in plain:
            before, split = _Hoisting(step, known, numbers).split()
            if split is step:
                plain.add(id(step.loop))
            else:
                split = replace(split, loop=different.first_of(split.loop))
            found.extend(before)
            step = split
        found.append(step)
    return found


def _may_have_any(step: Fused) -> bool:
    """Whether to look at a loop. One with stages computes such expressions once per row."""
    return prod(step.loop.shape) > 1 and not step.loop.stages


class _Hoisting:
    """One loop and the expressions that are hoisted out of it."""

    def __init__(self, step: Fused, known: dict[Any, Value], numbers: Iterator[int]) -> None:
        self._step = step
        self._known = known
        self._numbers = numbers
        self._before: list[Fused] = []
        self._inputs = list(step.loop.inputs)
        self._reads = list(step.reads)
        self._new: dict[int, Expression] = {}

    def split(self) -> tuple[list[Fused], Fused]:
        """Return the scalar loops, and the loop that reads their results."""
        loop = self._step.loop
        roots = [output.expression for output in loop.outputs]
        nodes = nodes_of(roots)
        single, costly = self._kinds(nodes)
        wanted = {
            id(operand)
            for node in nodes
            if not single[id(node)]
            for operand in node.operands
            if single[id(operand)] and costly[id(operand)] and operand.dtype is not None
        }
        if not wanted:
            return [], self._step
        for node in nodes:
            self._new[id(node)] = self._moved(node) if id(node) in wanted else self._kept(node)
        outputs = tuple(
            replace(output, expression=self._new[id(output.expression)]) for output in loop.outputs
        )
        inputs, reads, outputs, indices = _without_unread(
            self._inputs, self._reads, outputs, loop.indices
        )
        changed = replace(loop, inputs=inputs, outputs=outputs, indices=indices)
        return self._before, replace(self._step, loop=changed, reads=reads)

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
        """Replace an expression by an input; add a loop for it unless there is one."""
        key = self._key(node)
        value = self._known.get(key) if key is not None else None
        if value is None:
            assert node.dtype is not None
            value = Value(next(self._numbers), (), np.dtype(node.dtype))
            if key is not None:
                self._known[key] = value
            self._before.append(self._loop_of(node, value))
        self._inputs.append(LoopInput((), (1,) * len(self._step.loop.shape), value.dtype))
        self._reads.append(value)
        return array_input(len(self._inputs) - 1, value.dtype)

    def _loop_of(self, node: Expression, value: Value) -> Fused:
        alone = [replace(single, seen=()) for single in self._inputs]
        inputs, reads, outputs, _ = _without_unread(alone, self._reads, (LoopOutput(node, ()),))
        return Fused(Loop((), inputs, outputs), reads, (value,), self._step.calls)

    def _key(self, node: Expression) -> Any:
        names = [f"value{value.number}" for value in self._reads]
        try:
            lines, results = statements([node], names)
        except UntraceableError:
            return None
        return (*lines, *results, node.dtype)


def _without_unread(
    inputs: Sequence[LoopInput],
    reads: Sequence[Value],
    outputs: Sequence[LoopOutput],
    indices: Sequence[Expression] = (),
) -> tuple[
    tuple[LoopInput, ...], tuple[Value, ...], tuple[LoopOutput, ...], tuple[Expression, ...]
]:
    """Remove inputs that no expression reads, and renumber the others."""
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
        tuple(reads[k] for k in used),
        tuple(replace(output, expression=new[id(output.expression)]) for output in outputs),
        tuple(new[id(index)] for index in indices),
    )
