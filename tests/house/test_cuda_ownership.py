"""Programs on CUDA count the arrays that they own; no device is needed for that."""

from __future__ import annotations

import gc
from types import SimpleNamespace
from typing import Any

import cupy
import pytest

from tapegrad.core.ownership import reference_counts
from tapegrad_cupy.graphs import ownership
from tapegrad_cupy.graphs.ownership import OwnedArrays
from tapegrad_cupy.runtime import array_references


def array(*shape: int) -> Any:
    """An array whose memory is never read or written."""
    memory = cupy.cuda.UnownedMemory(4096, 256, None, 0)
    return cupy.ndarray(shape, cupy.float32, cupy.cuda.MemoryPointer(memory, 0))


@pytest.fixture(autouse=True)
def _without_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Measure the counts of such an array, and let it count as the owner of its memory."""
    arrays = [array(1)]
    found = tuple(reference_counts(array_references.watched(arrays)))
    monkeypatch.setattr(array_references, "_counts_of_one", lambda: found)
    monkeypatch.setattr(ownership, "owns_memory", lambda array: True)


def enter(owned: OwnedArrays, variables: list[SimpleNamespace]) -> bool:
    """Let a program own the arrays of variables, which nothing else may hold."""
    return owned.enter([variable.array for variable in variables])


def counts(arrays: list[Any]) -> list[int]:
    return ownership._owners.counts(arrays)


def test_a_program_owns_the_arrays_of_its_last_run_only() -> None:
    variables = [SimpleNamespace(array=array(size)) for size in (2, 3)]
    owned = OwnedArrays([0, 1])
    before = len(ownership._owners)

    assert not enter(owned, variables)
    first = [variable.array for variable in variables]
    assert all(one is other for one, other in zip(owned.arrays, first, strict=True))
    assert counts(first) == [1, 1]

    # Arrays of other shapes cannot be copied into the old ones.
    for size, variable in enumerate(variables, 5):
        variable.array = array(size)
    assert not enter(owned, variables)
    second = [variable.array for variable in variables]
    assert (counts(first), counts(second)) == ([0, 0], [1, 1])
    assert len(ownership._owners) == before + 2

    owned.forget()
    assert (counts(second), owned.arrays) == ([0, 0], [])


def test_arrays_that_stay_are_recognized() -> None:
    variables = [SimpleNamespace(array=array(4))]
    owned = OwnedArrays([0])
    enter(owned, variables)

    assert enter(owned, variables)
    assert counts([variables[0].array]) == [1]


def test_a_program_that_is_gone_owns_nothing() -> None:
    variables = [SimpleNamespace(array=array(4))]
    owned, other = OwnedArrays([0]), OwnedArrays([0])
    enter(owned, variables)
    ownership._owners.take(other._ids, [variables[0].array])
    assert counts([variables[0].array]) == [2]

    del owned
    gc.collect()

    assert counts([variables[0].array]) == [1]
    other.forget()
