"""C source of inputs that are read by index: positions along some axes are values of the loop.

The position is computed where an element is loaded, from separate loads. An element whose index
is out of range is zero. The index `NOWHERE` was out of range when it was computed; it is reported.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from math import prod

from tapegrad.core.primitive.index_check import NOWHERE
from tapegrad.core.trace.expression import Expression
from tapegrad.core.trace.loop import INDEXED, Loop
from tapegrad_numpy.loops.layout import Space

_NAME = re.compile(r"\b([vx]\d+)\b")
_FEW = 2**31
"""Positions below this number are computed in 32 bits, which are twice as many per vector."""


class Gathers:
    """The inputs of a loop that are read by index."""

    def __init__(self, loop: Loop, space: Space, number: Callable[[int], str]) -> None:
        """Take what stores an integer and returns how C reads it."""
        self._loop, self._number = loop, number
        self._read = [_inputs_of(index) for index in loop.indices]
        self.inputs = {
            k: [(place, one) for place, one in enumerate(read.window or ()) if one.mode == INDEXED]
            for k, read in enumerate(loop.inputs)
        }
        self.inputs = {k: found for k, found in self.inputs.items() if found}
        """The axes of an array that are read by index."""
        self.for_indices = set[int]().union(*self._read)
        """The inputs from which indices are computed."""
        self.moves = [self._moves(k, space) for k in range(len(loop.inputs))]
        """Per input and axis of the space, whether the position changes along it."""
        self.varied = [k for k in self.inputs if any(space.steps[i][-1] for i in self._all_read(k))]
        """The inputs with an index for each element of a row."""

    def in_order(self, inputs: Sequence[int]) -> list[int]:
        """Inputs in an order in which those of indices come before what is read by them."""
        return sorted(inputs, key=lambda k: len(self._all_read(k)))

    def lines(
        self,
        k: int,
        write: Callable[[Expression], tuple[list[str], str]],
        load: Callable[[int], str],
    ) -> list[str]:
        """Statements that compute the distance `at` of an element, and whether it is `there`.

        `write` returns the statements and the value of an expression, `load` the load of an input.
        """
        shape = self._loop.inputs[k].shape
        kind = "int" if prod(shape) < _FEW else "int64_t"
        found, places, tests = [], [], []
        for order, (place, one) in enumerate(self.inputs[k]):
            prefix = f"g{k}_{order}_"
            lines, value = write(self._loop.indices[one.index])
            loads = [load(i) for i in sorted(self._read[one.index])]
            *texts, value = [_NAME.sub(rf"{prefix}\1", text) for text in (*loads, *lines, value)]
            index, test = f"{prefix}index", f"{prefix}test"
            step = one.step * prod(shape[place + 1 :])
            found += [
                *texts,
                f"const int64_t {index} = {value};",
                f"const int {test} = (uint64_t){index} < (uint64_t){self._number(one.size)};",
            ]
            tests.append(test)
            times = "" if step == 1 else f" * ({kind}){self._number(step)}"
            places.append(f"(({kind}){index} & -({kind}){test}){times}")
        return [
            *found,
            f"const int there{k} = {' & '.join(tests)};",
            f"const {kind} at{k} = {' + '.join(places)};",
        ]

    def note(self, k: int) -> list[str]:
        """Statements that let `least` be the least index of an input as well."""
        names = [f"g{k}_{order}_index" for order in range(len(self.inputs[k]))]
        return [f"least = {name} < least ? {name} : least;" for name in names]

    def report(self) -> str:
        """The statement that reports a wrong index: one that was out of range before."""
        arrays = len(self._loop.inputs) + len(self._loop.outputs)
        return f"if (least < {NOWHERE // 2}LL) *(int64_t *)data[{arrays}] = 1;"

    def _all_read(self, k: int) -> set[int]:
        """The inputs from which the place of an element of an input is computed."""
        found: set[int] = set()
        for _, one in self.inputs.get(k, ()):
            for i in self._read[one.index]:
                found |= {i, *self._all_read(i)}
        return found

    def _moves(self, k: int, space: Space) -> list[bool]:
        every = [space.steps[i] for i in (k, *self._all_read(k))]
        return [any(steps) for steps in zip(*every)]


def _inputs_of(index: Expression) -> set[int]:
    found, waiting = set[int](), [index]
    while waiting:
        node = waiting.pop()
        waiting += node.operands
        if node.name == "input":
            found.add(node.value)
    return found
