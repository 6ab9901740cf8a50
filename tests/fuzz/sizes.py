"""Random programs on arrays of changing lengths: one function serves them all, as eager code does.

    python -m tests.fuzz.sizes --seconds 600 --seed 1

A function that has seen a few lengths makes programs for others without running its Python code.
The values, and in half of the programs the gradients, are those of eager code at every length.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

os.environ.setdefault("TAPEGRAD_WAIT", "1")
os.environ.setdefault("TAPEGRAD_CFLAGS", "-O0")

import tapegrad as tf
from tapegrad.errors import TapegradError
from tests.fuzz import block_steps, elementwise_steps, index_steps, thresholds
from tests.fuzz.command import FaultError, main
from tests.fuzz.comparison import difference, host
from tests.fuzz.drawing import program_of
from tests.fuzz.programs import Case, fault_of, smallest, value_and_gradients

DRAWERS = (
    *elementwise_steps.DRAWERS, *elementwise_steps.DRAWERS, index_steps.transpose,
    index_steps.index, index_steps.index, index_steps.gather, index_steps.pad, index_steps.join,
    block_steps.product, block_steps.loop, block_steps.branch, block_steps.derivative,
)  # fmt: skip


def arrays_of(rng: np.random.Generator, length: int) -> list[np.ndarray]:
    """Return inputs; the first axis of most has this length."""
    shapes = ((length, 4), (4,), (length,), (length, 1), (2, length))
    return [rng.normal(size=shape) for shape in shapes]


def case_of(seed: int) -> Case:
    """Draw a program at one length, and inputs of several."""
    rng = np.random.default_rng([seed, 0])
    lengths = [6, *[int(n) for n in rng.permutation([1, 2, 3, 4, 5, 7, 8, 9, 12, 16])[:6]]]
    calls = [arrays_of(rng, length) for length in lengths]
    inputs = [tf.constant(x) for x in calls[0]]
    program = program_of(seed, inputs, [], DRAWERS, int(rng.integers(2, 12)))
    return Case(program, calls, [])


def at_all_lengths(case: Case) -> str | None:
    """Compare values at all lengths."""
    return _compared(case, lambda *inputs: case.program.run(inputs, []))


def gradients_at_all_lengths(case: Case) -> str | None:
    """Compare gradients at all lengths."""
    return _compared(case, value_and_gradients(case.program, []))


def _compared(case: Case, eager: Callable[..., Any]) -> str | None:
    function = tf.function(eager)
    for call in range(len(case.inputs)):
        try:
            wanted = [host(one) for one in eager(*case.tensors(call))]
        except TapegradError:
            continue  # the program does not fit this length
        text = difference([host(one) for one in function(*case.tensors(call))], wanted)
        if text:
            return f"length {len(case.inputs[call][0])}: {text}"
    return None


def check(seed: int) -> Counter[str]:
    """Compare one program at several lengths."""
    with thresholds.lowered(frozenset(thresholds.SMALLEST) if seed % 3 else frozenset()):
        case = case_of(seed)
        one = gradients_at_all_lengths if seed % 2 else at_all_lengths
        text = fault_of(one, case)
        if text:
            small = smallest(one, case)
            raise FaultError(
                f"{one.__name__}: {text}\nsmallest ({fault_of(one, small)}):\n"
                f"{small.program.text()}"
            )
    lengths = len(case.inputs)
    return Counter(programs=1, steps=len(case.program.steps), lengths=lengths)


if __name__ == "__main__":
    sys.exit(main(check, __doc__.partition("\n")[0]))
