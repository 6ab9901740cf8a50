"""Run single primitives as sequences, and count the sequences of programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tapegrad.core.backend.native_sequences import (
    Instruction,
    Layout,
    Place,
    SequencePlan,
    contiguous,
)
from tapegrad.program.emit.sequences import NativeSequence, arranged
from tapegrad.program.program import specialized_kernels
from tapegrad_numpy.sequences.entry_point import CSequences

Described = tuple[tuple[int, ...], Any]
"""The shape and the dtype of a result."""


def run_native(
    name: str,
    arrays: Sequence[np.ndarray],
    params: dict[str, Any],
    results: Sequence[Described],
    code: int = 0,
) -> list[np.ndarray] | None:
    """Run one primitive as a sequence on views of arrays; None if it is no instruction.

    The sequence has to return `code`.
    """
    compiler = CSequences()
    described = [(shape, np.dtype(dtype)) for shape, dtype in results]
    operands = [Layout(array.shape, array.strides, array.dtype) for array in arrays]
    made = [contiguous(shape, dtype) for shape, dtype in described]
    steps = compiler.steps(name, None, operands, made, params)
    if steps is None:
        return None
    roots: list[Any] = [array if array.base is None else array.base for array in arrays]
    offsets = [array.ctypes.data - root.ctypes.data for array, root in zip(arrays, roots)]
    places = [*enumerate(offsets), *[(len(arrays) + k, 0) for k in range(len(made))]]
    instructions = [
        Instruction(step, tuple((places[k][0], places[k][1] + more) for k, more in step.arrays))
        for step in steps
    ]
    given = [Place(root.dtype, root.shape, False) for root in roots]
    written = [Place(dtype, shape, True) for shape, dtype in described]
    function = compiler.sequence(SequencePlan((*given, *written), (), (), 64, tuple(instructions)))
    assert function is not None
    found = [np.full(shape, 7, dtype) for shape, dtype in described]
    assert function(*roots, *found) == code
    return found


def run_alone(
    name: str, arrays: list[np.ndarray], params: dict[str, Any], shape: tuple[int, ...]
) -> np.ndarray | None:
    """Run a primitive with one result, which has the dtype of the first array."""
    found = run_native(name, arrays, params, [(shape, arrays[0].dtype)])
    return None if found is None else found[0]


def check_native(name: str, arrays: Sequence[Any], params: dict[str, Any], *expected: Any) -> None:
    """Compare the results of an instruction with arrays, bit by bit."""
    wanted = [np.asarray(one) for one in expected]
    found = run_native(name, arrays, params, [(one.shape, one.dtype) for one in wanted])
    assert found is not None, f"{name} is no instruction for these arrays"
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(one, other, err_msg=f"{name} {params}")


def sequences_of(function: Any, *args: Any) -> list[NativeSequence]:
    """Return the sequences of the program of a function."""
    return [item for item in items_of(function, *args) if isinstance(item, NativeSequence)]


def items_of(function: Any, *args: Any) -> Sequence[Any]:
    """Return the sequences and the steps of a program in order; steps are positions."""
    program = function.program(*args)
    specializer, compiler = program._capabilities.specializer, program._capabilities.sequences
    kernels = specialized_kernels(program.steps, specializer)
    return arranged(program.graph, program.steps, kernels, compiler)
