"""Make the function in C of a sequence from its plan."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tapegrad.core.backend.native_sequences import (
    Instruction,
    NativeStep,
    Rounds,
    SequencePlan,
    Tape,
)
from tapegrad_numpy.loops.compile import LibraryFunction
from tapegrad_numpy.loops.direct_calls import builtin, python_functions
from tapegrad_numpy.loops.layout import TASK_ELEMENTS
from tapegrad_numpy.sequences.free_memory import return_free_memory
from tapegrad_numpy.sequences.runtime import FIXED, ROUNDS, SEQUENCE, TAPED, sequence_text

MOST_KEPT = 1 << 28
"""The most bytes of memory for intermediate values that a sequence keeps between its calls."""

MUCH = 1 << 26
"""From so many bytes on, memory that the recorded call has freed is returned first."""

_READ = 0x1 | 0x100
"""NumPy's flags of an array that is contiguous and aligned."""
_WRITTEN = _READ | 0x400


_RUNNER = LibraryFunction(sequence_text, "run_sequence")


def sequence_function(plan: SequencePlan) -> Callable[..., int] | None:
    """Return the function of the arrays of a plan; None if there is no compiler."""
    runner = _RUNNER.address()
    if runner is None:
        return None
    constants = [np.ascontiguousarray(array) for array in plan.constants]
    words: list[int] = []
    for instruction in plan.instructions:
        words += _words(instruction)
    if plan.rounds is not None:
        words = _repeated(plan.rounds, words)
    work = sum(instruction.step.work for instruction in plan.instructions)
    rounds = plan.rounds
    if rounds is not None:
        # The number of rounds is not known before if a condition or a tape has it.
        is_open = rounds.has_condition or rounds.tape is not None
        work = TASK_ELEMENTS if is_open else work * rounds.length
    if plan.memory >= MUCH:
        return_free_memory()
    memory = np.empty(plan.memory + 64, np.uint8) if plan.memory <= MOST_KEPT else None
    start = 0 if memory is None else -(-memory.ctypes.data // 64) * 64
    integer, save, restore = python_functions()
    numbers = [
        id(np.ndarray), integer, save, restore,
        len(plan.arrays), len(constants), len(plan.offsets), len(words),
        start, plan.memory, 0, int(work >= TASK_ELEMENTS),
    ]  # fmt: skip
    assert len(numbers) == FIXED
    for place in plan.arrays:
        dtype = np.dtype(place.dtype)
        flags = _WRITTEN if place.is_written else _READ
        numbers += [id(dtype), math.prod(place.shape), id(dtype.type), flags]
    numbers += [array.ctypes.data for array in constants]
    numbers += [*plan.offsets, *words]
    function = builtin(runner, numbers)
    kept: Any = function.__self__  # type: ignore[attr-defined]
    kept.kept = (memory, constants, [step.step.keeps for step in plan.instructions])
    kept.work = work
    return function


def call_of(function: Callable[..., int], arrays: Sequence[int]) -> NativeStep:
    """Return the instruction that runs a sequence; `arrays` are positions in its step."""
    numbers: Any = function.__self__  # type: ignore[attr-defined]
    places = tuple((k, 0) for k in arrays)
    return NativeStep(SEQUENCE, places, (numbers.ctypes.data,), (function,), numbers.work)


def taped_calls(*calls: tuple[Callable[..., int], Sequence[int]]) -> NativeStep:
    """Return the instruction that runs sequences that share a tape, which is their array -1."""
    words: list[int] = []
    for function, arrays in calls:
        numbers: Any = function.__self__  # type: ignore[attr-defined]
        words += [numbers.ctypes.data, len(arrays), *arrays]
    most = max(k for _, arrays in calls for k in arrays)
    places = tuple((k, 0) for k in range(most + 1))
    kept = tuple(function for function, _ in calls)
    return NativeStep(TAPED, places, tuple(words), kept, TASK_ELEMENTS)


def _words(instruction: Instruction) -> list[int]:
    step, places = instruction
    arrays = [number for place in places for number in place]
    words = [step.kind, len(places), *arrays, *step.numbers]
    return [1 + len(words), *words]


def _repeated(rounds: Rounds, words: list[int]) -> list[int]:
    """The one instruction that runs others as the rounds of a loop."""
    tables: list[int] = []
    for one in rounds.carried:
        tables += [one.read, one.written, one.first, *one.parts, one.last, one.nbytes]
    for entry in rounds.entries:
        tables += entry
    tape = rounds.tape or Tape(-1, 0, ())
    for pair in tape.kept:
        tables += pair
    kind = (int(rounds.backwards), int(rounds.has_condition), int(rounds.must_end))
    counts = (len(rounds.carried), len(rounds.entries), len(tape.kept))
    head = [ROUNDS, 0, rounds.length, *kind, tape.place, tape.nbytes, *counts, *tables, *words]
    return [1 + len(head), *head]
