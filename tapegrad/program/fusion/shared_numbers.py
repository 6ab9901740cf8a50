"""Loops that differ by numbers become one loop that reads the numbers.

The rounds of an unrolled loop differ by a learning rate, a time or a weight of a schedule. Their
loops would be compiled one by one. Loops that are equal otherwise read such numbers as arrays of
one element, so that compile time follows the distinct code and not the number of rounds.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from tapegrad.core.exact_key import exact_key
from tapegrad.core.trace.expression import Expression, array_input
from tapegrad.core.trace.loop import Loop, LoopInput, LoopOutput
from tapegrad.program.fusion.equal_loops import EqualLoops
from tapegrad.program.fusion.loop_bodies import Fused
from tapegrad.program.graph.formulas import nodes_of
from tapegrad.program.graph.graph import Call, Value

Step = Call | Fused

FEWEST = 3
"""The fewest loops that differ by numbers only and become one."""

MOST = 8
"""The most numbers that a loop reads. More of them are the coefficients of different functions."""

_LARGEST = {
    **{name: float(np.finfo(name).max) for name in ("float32", "float64")},
    **{name: int(np.iinfo(name).max) for name in ("int32", "int64")},
}
"""The largest numbers, by the dtypes of which loops read some."""
_BY_NUMBER = frozenset({"floor_divide", "ldexp", "maximum", "minimum", "pow", "remainder"})
"""Operations that are faster, or only possible, if one of the operands is known."""


def with_shared_numbers(
    steps: Sequence[Step], numbers: Iterator[int]
) -> tuple[list[Step], dict[int, Any]]:
    """Return the steps and the constants that they read; `numbers` are those of new values."""
    # Equal parts of a program share loops, each of which is looked at once.
    loops = {
        id(step.loop): step.loop
        for step in steps
        if isinstance(step, Fused) and step.calls and step.calls[0].array_type is np.ndarray
    }
    groups: dict[Any, list[_Form]] = defaultdict(list)
    for form in map(_Form, loops.values()):
        if form.key is not None:
            groups[form.key].append(form)
    different, changed = EqualLoops(), dict[int, _Changed]()
    for group in groups.values():
        if len(group) >= FEWEST:
            changed.update(_changed(group, different))
    if not changed:
        return [*steps], {}
    constants = _Constants(numbers)
    found = [
        changed[id(step.loop)].of(step, constants)
        if isinstance(step, Fused) and id(step.loop) in changed
        else step
        for step in steps
    ]
    return found, constants.arrays


class _Constants:
    """The numbers that loops read, as constants of the program."""

    def __init__(self, numbers: Iterator[int]) -> None:
        self.arrays: dict[int, Any] = {}
        self._numbers = numbers
        self._known: dict[Any, Value] = {}

    def value(self, node: Expression) -> Value:
        """Return the constant of a number."""
        dtype = np.dtype(node.dtype)
        key = exact_key(node.value), dtype
        if key not in self._known:
            made = self._known[key] = Value(next(self._numbers), (), dtype)
            self.arrays[made.number] = np.array(node.value, dtype)
        return self._known[key]


class _Changed(NamedTuple):
    """A loop that reads numbers, and those of the loop that it replaces."""

    loop: Loop
    numbers: tuple[Expression, ...]

    def of(self, step: Fused, constants: _Constants) -> Fused:
        values = [constants.value(node) for node in self.numbers]
        return replace(step, loop=self.loop, reads=(*step.reads, *values))


class _Form:
    """A loop, the numbers in it that may become inputs, and a key of everything else."""

    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        outputs = (*loop.stages, *loop.outputs)
        nodes = nodes_of([output.expression for output in outputs])
        # What finishes a reduction reads no inputs, and indices are computed apart.
        fixed = {id(node) for node in nodes_of([*_finishes(outputs), *loop.indices])}
        for node in nodes:
            if node.name in _BY_NUMBER:
                fixed.update(id(operand) for operand in node.operands)
        self.numbers = [node for node in nodes if _is_number(node) and id(node) not in fixed]
        free = {id(node) for node in self.numbers}
        everything = nodes_of(
            [*[output.expression for output in outputs], *_finishes(outputs), *loop.indices]
        )
        places = {id(node): place for place, node in enumerate(everything)}
        described = [_described(node, places, id(node) in free) for node in everything]
        key = (
            loop.shape,
            loop.inputs,
            tuple(described),
            tuple([_output_key(output, places) for output in loop.stages]),
            tuple([_output_key(output, places) for output in loop.outputs]),
            tuple([places[id(index)] for index in loop.indices]),
        )
        self.key: Any = key if self.numbers and _is_hashable(key) else None

    def with_inputs(self, places: Mapping[int, int], dtypes: Sequence[Any]) -> Loop:
        """Return the loop with inputs instead of numbers; `places` are those of numbers."""
        loop, more = self.loop, len(dtypes)
        count = len(loop.inputs)
        new: dict[int, Expression] = {}
        replaced = {id(node): places[k] for k, node in enumerate(self.numbers) if k in places}

        def renewed(expression: Expression) -> Expression:
            for node in nodes_of([expression]):
                if id(node) not in new:
                    new[id(node)] = changed(node)
            return new[id(expression)]

        def changed(node: Expression) -> Expression:
            if id(node) in replaced:
                place = replaced[id(node)]
                return array_input(count + place, dtypes[place])
            if node.name == "input" and int(node.value) >= count:  # a stage
                return Expression("input", node.dtype, value=int(node.value) + more)
            operands = tuple([new[id(operand)] for operand in node.operands])
            if all(one is other for one, other in zip(operands, node.operands)):
                return node
            return Expression(node.name, node.dtype, operands, node.value, node.weak)

        inputs = [LoopInput((), (1,) * len(loop.shape), dtype) for dtype in dtypes]
        return replace(
            loop,
            inputs=(*loop.inputs, *inputs),
            stages=tuple([replace(x, expression=renewed(x.expression)) for x in loop.stages]),
            outputs=tuple([replace(x, expression=renewed(x.expression)) for x in loop.outputs]),
        )


def _changed(group: Sequence[_Form], different: EqualLoops) -> Iterator[tuple[int, _Changed]]:
    """Yield what becomes of loops that are equal up to numbers, by their ids."""
    inputs: dict[Any, int] = {}
    """Inputs by the numbers that all loops have for them."""
    places: dict[int, int] = {}
    firsts: list[int] = []
    for k, nodes in enumerate(zip(*[form.numbers for form in group], strict=True)):
        values = tuple([exact_key(node.value) for node in nodes])
        if len({*values}) == 1:
            continue
        key = values, nodes[0].dtype
        if key not in inputs:
            inputs[key] = len(firsts)
            firsts.append(k)
        places[k] = inputs[key]
    if not 0 < len(firsts) <= MOST:
        return
    for form in group:
        dtypes = [np.dtype(form.numbers[k].dtype) for k in firsts]
        loop = different.first_of(form.with_inputs(places, dtypes))
        yield id(form.loop), _Changed(loop, tuple([form.numbers[k] for k in firsts]))


def _finishes(outputs: Sequence[LoopOutput]) -> list[Expression]:
    return [output.finish for output in outputs if output.finish is not None]


def _is_number(node: Expression) -> bool:
    """Whether a node is a number that an array of its dtype can hold."""
    if node.name != "constant" or node.dtype is None or node.weak is not None:
        return False
    largest = _LARGEST.get(node.dtype.name)
    return type(node.value) in (int, float) and largest is not None and abs(node.value) <= largest


def _described(node: Expression, places: Mapping[int, int], is_free: bool) -> Any:
    operands = tuple([places[id(operand)] for operand in node.operands])
    value = None if is_free or node.value is None else exact_key(node.value)
    return node.name, node.dtype, node.weak, is_free, value, operands


def _output_key(output: LoopOutput, places: Mapping[int, int]) -> Any:
    finish = None if output.finish is None else places[id(output.finish)]
    place = places[id(output.expression)]
    return place, output.shape, output.combine, output.axes, finish, output.rows


def _is_hashable(key: Any) -> bool:
    try:
        hash(key)
    except TypeError:  # a number of a kind that has no key
        return False
    return True
