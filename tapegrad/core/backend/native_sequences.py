"""Steps of a program that run one after the other without Python: the parts of `SequenceCompiler`.

Only programs import this module, so that `import tapegrad` need not make these classes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, NamedTuple, Protocol

import numpy as np

Array = Any
"""A raw array of some backend."""

DType = np.dtype[Any]
Shape = tuple[int, ...]
Kernel = Callable[..., Any]


class LoopWriter(NamedTuple):
    """A loop as one function in C, whose call no interrupt and no other thread can divide."""

    call: Callable[..., int]
    """Takes the inputs and an array per result; returns 0, or a number if an array does not fit.

    It runs no Python code and keeps the interpreter's lock. With one more argument, of any value,
    it only checks the arrays.
    """

    new_results: tuple[Callable[[], Array], ...]
    """Per result, a function that makes an array for it."""


class Layout(NamedTuple):
    """How an array lies in memory: its shape, its strides in bytes, and its dtype."""

    shape: Shape
    strides: Shape
    dtype: DType

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def is_contiguous(self) -> bool:
        """Whether the elements follow each other in the order of their indices."""
        expected = self.dtype.itemsize
        for size, stride in zip(reversed(self.shape), reversed(self.strides)):
            if size != 1 and stride != expected:
                return not self.size
            expected *= size
        return True


def contiguous(shape: Shape, dtype: DType) -> Layout:
    """Return the layout of an array whose elements follow each other."""
    strides, step = [], dtype.itemsize
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return Layout(shape, tuple(reversed(strides)), dtype)


class NativeStep(NamedTuple):
    """One instruction of a sequence."""

    kind: int
    arrays: tuple[tuple[int, int], ...]
    """The arrays that it uses: positions among operands and results of its step, and offsets."""
    numbers: tuple[int, ...]
    """Further integers, whose meaning depends on the kind."""
    keeps: tuple[Any, ...]
    """Objects that must live as long as the instruction."""
    work: int
    """About how many elements it processes."""


class Place(NamedTuple):
    """An array of a call of a sequence."""

    dtype: DType
    shape: Shape
    is_written: bool


class Instruction(NamedTuple):
    """A native step with the places of its arrays."""

    step: NativeStep
    places: tuple[tuple[int, int], ...]
    """Per array a place and an offset in bytes.

    Places are numbered: first the arrays of a call, then constants, then parts of the memory.
    """


class Carried(NamedTuple):
    """The places of a value that rounds of a loop carry on."""

    read: int
    """The place where a round finds the value."""
    written: int
    """The place where a round writes the new value; `read` if it changes the value there."""
    first: int
    """The place of the value before the first round."""
    parts: tuple[int, int]
    """Two places that are written in turns; (-1, -1) if an entry of a stack, or `read`, is."""
    last: int
    """The place to which the value after the last round is copied, -1 if nothing needs it."""
    nbytes: int


class Entry(NamedTuple):
    """An entry of a stack in the rounds of a loop."""

    place: int
    """The place where a round finds or writes its entry."""
    stack: int
    """The place of the stack."""
    nbytes: int
    """The bytes of an entry."""
    shift: int
    """By how many entries the entry of a round lies behind the one with its number."""


class Tape(NamedTuple):
    """Values that each round of a loop keeps, or finds as an earlier loop has kept them.

    A loop with a condition writes the tape, and one without reads it, for as many rounds.
    """

    place: int
    """The place of the tape, which the instruction that runs both loops owns."""
    nbytes: int
    """The bytes that one round keeps."""
    kept: tuple[tuple[int, int], ...]
    """Per value its place in a round, and its offset in what the round keeps."""


class Rounds(NamedTuple):
    """How the instructions of a sequence are repeated as the rounds of a loop."""

    length: int
    backwards: bool
    carried: tuple[Carried, ...]
    entries: tuple[Entry, ...]
    has_condition: bool = False
    """Whether the loop ends before a round for which the first carried value is false."""
    must_end: bool = False
    """Whether a condition that is still true after the last round is an error."""
    tape: Tape | None = None
    """Where the rounds keep values whose number is not known before."""


class SequencePlan(NamedTuple):
    """Instructions, and the places that they use."""

    arrays: tuple[Place, ...]
    constants: tuple[Array, ...]
    offsets: Shape
    """The offset of each part of the memory."""
    memory: int
    """The bytes of the memory."""
    instructions: tuple[Instruction, ...]
    rounds: Rounds | None = None


DOES_NOT_FIT = 1
"""The result of a sequence with an array that has another dtype or size, or is not contiguous."""

ENDLESS = 4
"""The result of a sequence whose loop did not end by its condition."""


class SequenceCompiler(Protocol):
    """Runs sequences of steps without Python code between them."""

    def steps(
        self,
        primitive: str,
        kernel: Kernel | None,
        operands: Sequence[Layout],
        results: Sequence[Layout],
        params: Mapping[str, Any],
    ) -> list[NativeStep] | None:
        """Return the instructions of a call, or None if it needs Python or other layouts.

        For a compiled loop `primitive` is "". `kernel` is its function, or that of a kernel which
        was compiled for the call, or None.
        """

    def views(
        self, kernel: Kernel, operand: Layout, params: Mapping[str, Any]
    ) -> list[tuple[int, Layout]] | None:
        """Return offsets in bytes and layouts of the views that a kernel makes of an array.

        None if the results are not all views, or the kernel needs more than its params.
        """

    def copy(self, source: Layout) -> list[NativeStep] | None:
        """Return the instructions that copy an array to a contiguous one."""

    def call(self, function: Callable[..., int], arrays: Sequence[int]) -> NativeStep:
        """Return the instruction that runs another sequence.

        `arrays` are those of its plan, by their positions among operands and results of the step.
        """

    def taped_calls(
        self,
        first: tuple[Callable[..., int], Sequence[int]],
        second: tuple[Callable[..., int], Sequence[int]],
    ) -> NativeStep:
        """Return the instruction that runs two other sequences, which share a tape.

        Each comes with its arrays as for `call`, where -1 is the tape.
        """

    def sequence(self, plan: SequencePlan) -> Callable[..., int] | None:
        """Return a function of the arrays of a plan, or None if sequences are not available.

        It returns 0, or another number if an array does not fit, there is no memory or an index is
        out of range. Then results may be incomplete, and the steps have to run one by one. It
        returns `ENDLESS` if the condition of a loop was still true after the last round.
        """
